// Memory of devices and pinned memory of the host.
//
// An allocation lies between red zones, whose bytes are looked at after work, and pages that nobody
// may touch; it begins as garbage. The host reaches it only while work runs. What is freed stays
// unreachable for a long time.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "emulator.h"

namespace tapegrad::cuda {

namespace {

constexpr size_t kAlignment = 512, kRedZone = 512;
constexpr unsigned char kFresh = 0xA5, kRed = 0xFD;
// More than this is not filled with garbage: it would be real memory of the host.
constexpr size_t kFilled = size_t{1} << 26;
// Addresses around an allocation that nobody may touch; they cost no memory.
constexpr size_t kGuard = size_t{1} << 24;
constexpr size_t kFreedLimit = 8192;
constexpr size_t kFewAllocations = 256;

size_t page_size() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}
size_t round_to_pages(size_t nbytes) {
  return (nbytes + page_size() - 1) / page_size() * page_size();
}

struct Allocation {
  unsigned char* mapping;
  size_t mapped;
  unsigned char* data;
  size_t nbytes;
  ContextTag* context;

  unsigned char* first() const { return data - kRedZone; }
  unsigned char* end() const { return data + nbytes; }
  size_t inside() const { return round_to_pages(kRedZone + nbytes + kRedZone); }
  size_t charged() const { return (nbytes + kAlignment - 1) / kAlignment * kAlignment; }
};

bool is_open = false;

struct Range {
  uintptr_t start;
  size_t nbytes;
};

// By the address of the data.
std::map<uintptr_t, Allocation>& allocations() {
  static auto& all = *new std::map<uintptr_t, Allocation>;
  return all;
}
std::map<uintptr_t, size_t>& pinned() {
  static auto& all = *new std::map<uintptr_t, size_t>;
  return all;
}
std::deque<Range>& freed() {
  static auto& all = *new std::deque<Range>;
  return all;
}

const Allocation* find_allocation(uintptr_t address) {
  auto after = allocations().upper_bound(address);
  if (after == allocations().begin()) return nullptr;
  const Allocation& found = std::prev(after)->second;
  return address < reinterpret_cast<uintptr_t>(found.end()) ? &found : nullptr;
}

// The start of the pinned range that an address is in, or null.
const std::pair<const uintptr_t, size_t>* find_pinned(uintptr_t address) {
  auto after = pinned().upper_bound(address);
  if (after == pinned().begin()) return nullptr;
  const auto& found = *std::prev(after);
  return address < found.first + found.second ? &found : nullptr;
}

bool is_freed(uintptr_t address) {
  for (const Range& range : freed())
    if (address >= range.start && address < range.start + range.nbytes) return true;
  return false;
}

// Maps an allocation between pages that nobody may touch; returns whether the host has the memory.
bool map(Allocation& result) {
  const size_t inside = result.inside();
  result.mapped = inside + 2 * kGuard;
  void* mapping =
      mmap(nullptr, result.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return false;
  result.mapping = static_cast<unsigned char*>(mapping);
  unsigned char* first = result.mapping + kGuard;
  if (mprotect(first, inside, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping, result.mapped);
    return false;
  }
  result.data = first + kRedZone;
  std::memset(first, kRed, kRedZone);
  std::memset(result.data, kFresh, std::min(result.nbytes, kFilled));
  std::memset(result.end(), kRed, static_cast<size_t>(first + inside - result.end()));
  if (!is_open) mprotect(first, inside, PROT_NONE);
  return true;
}

void set_open(bool open) {
  if (std::exchange(is_open, open) == open) return;
  for (const auto& [address, each] : allocations())
    mprotect(each.first(), each.inside(), open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

// Makes what was freed unreachable, and forgets what was freed long ago.
void retire(const Allocation& old) {
  mprotect(old.mapping, old.mapped, PROT_NONE);
  madvise(old.mapping, old.mapped, MADV_DONTNEED);
  freed().push_back({reinterpret_cast<uintptr_t>(old.mapping), old.mapped});
  if (freed().size() <= kFreedLimit) return;
  munmap(reinterpret_cast<void*>(freed().front().start), freed().front().nbytes);
  freed().pop_front();
}

// Where the first byte of a red zone was written to, or null; makes it whole again.
const unsigned char* find_damage(unsigned char* zone) {
  const unsigned char* found = nullptr;
  for (size_t i = 0; i < kRedZone && !found; i += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, zone + i, sizeof word);
    if (word == kRed * 0x0101010101010101ull) continue;
    while (zone[i] == kRed) ++i;
    found = zone + i;
  }
  if (found) std::memset(zone, kRed, kRedZone);
  return found;
}

std::string describe(const Allocation& of, const void* address) {
  const auto distance = static_cast<const unsigned char*>(address) - of.data;
  char text[160];
  std::snprintf(text, sizeof text, "byte %td of an allocation of %zu bytes of device %d", distance,
                of.nbytes, of.context->index);
  return text;
}

}  // namespace

void open_memory() { set_open(true); }
void close_memory() { set_open(false); }

bool classify(DevicePointer data, size_t nbytes, Memory* memory) {
  *memory = Memory::kPageable;
  if (const Allocation* found = find_allocation(data)) {
    *memory = Memory::kDevice;
    return data + nbytes <= reinterpret_cast<uintptr_t>(found->end());
  }
  if (const auto* found = find_pinned(data)) {
    if (data + nbytes <= found->first + found->second) *memory = Memory::kPinned;
  } else if (is_freed(data)) {
    *memory = Memory::kFreed;
  }
  return data != 0;
}

bool has_few_allocations() { return allocations().size() <= kFewAllocations; }

void check_bounds(const std::string& culprit) {
  open_memory();
  for (const auto& [address, each] : allocations()) {
    const unsigned char* before = find_damage(each.data - kRedZone);
    const unsigned char* after = find_damage(each.end());
    if (!before && !after) continue;
    const std::string who = culprit.empty() ? "a kernel or a copy" : culprit;
    report(*each.context, kIllegalAddress,
           who + " wrote out of bounds: to " + describe(each, before ? before : after));
  }
}

std::string describe_address(const void* address) {
  const auto number = reinterpret_cast<uintptr_t>(address);
  char text[64];
  std::snprintf(text, sizeof text, "address %p", address);
  for (const auto& [start, each] : allocations()) {
    const auto first = reinterpret_cast<uintptr_t>(each.mapping);
    if (number >= first && number < first + each.mapped)
      return text + (", " + describe(each, address));
  }
  if (is_freed(number)) return text + std::string(", in memory that was freed");
  return text + std::string(", which is no memory of a device");
}

tapegrad_emulator::Range find_memory(const void* address, const ContextTag& context) {
  const auto number = reinterpret_cast<uintptr_t>(address);
  if (const Allocation* found = find_allocation(number); found && found->context == &context)
    return {reinterpret_cast<uintptr_t>(found->data), found->nbytes};
  if (const auto* found = find_pinned(number)) return {found->first, found->second};
  return {};
}

extern "C" {

Result cuMemGetInfo_v2(size_t* free, size_t* total) {
  const Inside inside;
  if (!current()) return kInvalidContext;
  *free = current()->total - current()->used;
  *total = current()->total;
  return kSuccess;
}

Result cuMemAlloc_v2(DevicePointer* data, size_t nbytes) {
  const Inside inside;
  if (!current()) return kInvalidContext;
  if (const Result result = check_unsafe()) return result;
  if (nbytes == 0) return kInvalidValue;
  Allocation made{nullptr, 0, nullptr, nbytes, current()};
  const size_t left = current()->total - current()->used;
  if (nbytes > left || made.charged() > left || !map(made)) return kOutOfMemory;
  current()->used += made.charged();
  allocations()[reinterpret_cast<uintptr_t>(made.data)] = made;
  *data = reinterpret_cast<uintptr_t>(made.data);
  return kSuccess;
}

Result cuMemFree_v2(DevicePointer data) {
  const Inside inside;
  if (!current()) return kInvalidContext;
  if (const Result result = check_unsafe()) return result;
  if (data == 0) return kSuccess;
  auto found = allocations().find(data);
  if (found == allocations().end()) return kInvalidValue;
  // The driver waits, too, for what may use the memory.
  count_wait();
  run_all();
  check_bounds({});
  const Allocation old = found->second;
  allocations().erase(found);
  old.context->used -= old.charged();
  retire(old);
  return kSuccess;
}

Result cuMemHostAlloc(void** data, size_t nbytes, unsigned) {
  const Inside inside;
  if (!current()) return kInvalidContext;
  if (const Result result = check_unsafe()) return result;
  if (nbytes == 0) return kInvalidValue;
  void* mapping = mmap(nullptr, round_to_pages(nbytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return kOutOfMemory;
  std::memset(mapping, kFresh, std::min(nbytes, kFilled));
  pinned()[reinterpret_cast<uintptr_t>(mapping)] = nbytes;
  *data = mapping;
  return kSuccess;
}

Result cuMemFreeHost(void* data) {
  const Inside inside;
  if (!current()) return kInvalidContext;
  if (const Result result = check_unsafe()) return result;
  auto found = pinned().find(reinterpret_cast<uintptr_t>(data));
  if (found == pinned().end()) return kInvalidValue;
  count_wait();
  run_all();
  munmap(data, round_to_pages(found->second));
  pinned().erase(found);
  return kSuccess;
}

Result cuMemHostRegister_v2(void* data, size_t nbytes, unsigned) {
  const Inside inside;
  if (!current()) return kInvalidContext;
  if (const Result result = check_unsafe()) return result;
  const auto start = reinterpret_cast<uintptr_t>(data);
  if (!data || nbytes == 0) return kInvalidValue;
  if (find_pinned(start) || find_pinned(start + nbytes - 1)) return kAlreadyRegistered;
  pinned()[start] = nbytes;
  return kSuccess;
}

Result cuMemHostUnregister(void* data) {
  const Inside inside;
  if (!current()) return kInvalidContext;
  if (const Result result = check_unsafe()) return result;
  auto found = pinned().find(reinterpret_cast<uintptr_t>(data));
  if (found == pinned().end()) return kNotRegistered;
  run_all();
  pinned().erase(found);
  return kSuccess;
}

Result cuPointerGetAttribute(void* value, int attribute, DevicePointer p) {
  enum {
    kContext = 1,
    kType,
    kDevicePointer,
    kHostPointer,
    kManaged = 8,
    kOrdinal,
    kStart = 11,
    kNbytes
  };
  constexpr unsigned kHostMemory = 1, kDeviceMemory = 2;
  const Inside inside;
  if (!current()) return kInvalidContext;
  const Allocation* device = find_allocation(p);
  const auto* host = find_pinned(p);
  if (!device && !host) return kInvalidValue;
  ContextTag* context = device ? device->context : current();
  switch (attribute) {
    case kContext:
      *static_cast<ContextHandle*>(value) = context;
      break;
    case kType:
      *static_cast<unsigned*>(value) = device ? kDeviceMemory : kHostMemory;
      break;
    case kDevicePointer:
      *static_cast<DevicePointer*>(value) = p;
      break;
    case kHostPointer:
      if (device) return kInvalidValue;
      *static_cast<DevicePointer*>(value) = p;
      break;
    case kManaged:
      *static_cast<unsigned*>(value) = 0;
      break;
    case kOrdinal:
      *static_cast<int*>(value) = context->index;
      break;
    case kStart:
      *static_cast<DevicePointer*>(value) =
          device ? reinterpret_cast<uintptr_t>(device->data) : host->first;
      break;
    case kNbytes:
      *static_cast<size_t*>(value) = device ? device->nbytes : host->second;
      break;
    default:
      return kInvalidValue;
  }
  return kSuccess;
}

}  // extern "C"

}  // namespace tapegrad::cuda
