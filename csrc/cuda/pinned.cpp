// Page-locked memory of the host. Locking pages takes a millisecond for a few of them, so blocks are kept, by
// powers of two. A block that streams copy from or to is handed out again when they are done with it.
#include <algorithm>
#include <bit>
#include <map>

#include "core/error.h"
#include "cuda/allocator.h"
#include "cuda/context.h"
#include "cuda/stream.h"

namespace tapegrad::cuda {

namespace {

constexpr unsigned kPortable = 1;    // CU_MEMHOSTALLOC_PORTABLE: for all devices
constexpr int kMemoryType = 2;       // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr unsigned kHostMemory = 1;  // CU_MEMORYTYPE_HOST
constexpr size_t kSmallest = 512;

struct User {
  int device;
  StreamHandle stream;
  friend bool operator==(const User&, const User&) = default;
};

struct PinnedBlock {
  char* data;
  size_t size;
  std::vector<User> users;
  uint32_t waits = 0;  // for so many events, after it was freed
};

struct Waiting {
  int device;
  EventHandle event;
  PinnedBlock* block;
};

class PinnedMemory {
 public:
  void* allocate(size_t nbytes);
  void deallocate(void* data) noexcept;
  // The block that holds an address, or null.
  PinnedBlock* find(const void* data);
  void release_cached();

  PinnedStatistics statistics;

 private:
  std::vector<PinnedBlock*>& free_of(size_t size) {
    return free_[static_cast<size_t>(std::countr_zero(size))];
  }
  void collect_events();

  std::map<const char*, PinnedBlock*> live_;
  std::vector<PinnedBlock*> free_[64];  // by the logarithm of the size
  std::vector<Waiting> waiting_;
};

// Never destroyed: storages may outlive static objects. Under Note [The GIL guards handles].
auto& pinned = *new PinnedMemory();

void* PinnedMemory::allocate(size_t nbytes) {
  if (nbytes == 0) return nullptr;
  TAPEGRAD_CHECK_AS(OutOfMemoryError, nbytes <= size_t{1} << 62, "pin_memory: could not get ",
                    nbytes, " bytes of page-locked memory");
  const size_t size = std::bit_ceil(std::max(nbytes, kSmallest));
  collect_events();
  std::vector<PinnedBlock*>& free = free_of(size);
  PinnedBlock* block = nullptr;
  if (!free.empty()) {
    block = free.back();
    free.pop_back();
    statistics.cached_bytes -= static_cast<int64_t>(size);
  } else {
    const DeviceGuard guard(current_device());
    void* data = nullptr;
    Result result = driver().allocate_host(&data, size, kPortable);
    if (result == kOutOfMemory) {
      note_wait();  // freeing does
      release_cached();
      result = driver().allocate_host(&data, size, kPortable);
    }
    TAPEGRAD_CHECK_AS(OutOfMemoryError, result != kOutOfMemory, "pin_memory: could not get ", size,
                      " bytes of page-locked memory; ", statistics.live_bytes,
                      " bytes of it are live in tensors");
    check(result, "cuda: allocating page-locked memory");
    ++statistics.system_allocations;
    block = new PinnedBlock{static_cast<char*>(data), size, {}};
  }
  live_.emplace(block->data, block);
  statistics.live_bytes += static_cast<int64_t>(size);
  return block->data;
}

void PinnedMemory::deallocate(void* data) noexcept {
  auto found = live_.find(static_cast<const char*>(data));
  if (found == live_.end()) return;
  PinnedBlock* block = found->second;
  live_.erase(found);
  statistics.live_bytes -= static_cast<int64_t>(block->size);
  statistics.cached_bytes += static_cast<int64_t>(block->size);
  for (const User& user : block->users)
    if (EventHandle event = record_pooled_event(user.device, user.stream)) {
      waiting_.push_back({user.device, event, block});
      ++block->waits;
    }
  block->users.clear();
  if (block->waits == 0) free_of(block->size).push_back(block);
}

PinnedBlock* PinnedMemory::find(const void* data) {
  const auto* address = static_cast<const char*>(data);
  auto after = live_.upper_bound(address);
  if (after == live_.begin()) return nullptr;
  PinnedBlock* block = std::prev(after)->second;
  return address < block->data + block->size ? block : nullptr;
}

void PinnedMemory::collect_events() {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (!has_passed(waiting.device, waiting.event)) return false;
    return_pooled_event(waiting.device, waiting.event);
    if (--waiting.block->waits == 0) free_of(waiting.block->size).push_back(waiting.block);
    return true;
  });
}

void PinnedMemory::release_cached() {
  collect_events();
  if (statistics.cached_bytes == 0) return;
  const DeviceGuard guard(current_device());
  for (std::vector<PinnedBlock*>& list : free_) {
    for (PinnedBlock* block : list) {
      driver().free_host(block->data);
      statistics.cached_bytes -= static_cast<int64_t>(block->size);
      delete block;
    }
    list.clear();
  }
}

}  // namespace

void* allocate_pinned(size_t nbytes) { return pinned.allocate(nbytes); }
void free_pinned(void* data) noexcept { pinned.deallocate(data); }

void record_pinned(const void* data, int device, StreamHandle stream) {
  PinnedBlock* block = pinned.find(data);
  if (!block) return;
  const User user{device, stream};
  for (const User& known : block->users)
    if (known == user) return;
  block->users.push_back(user);
}

bool is_pinned(const void* data) {
  if (!data || !is_initialized() || !is_available()) return false;
  if (pinned.find(data)) return true;
  try {
    const DeviceGuard guard(current_device());
    unsigned type = 0;
    return driver().get_pointer_attribute(&type, kMemoryType,
                                          reinterpret_cast<DevicePointer>(data)) == kSuccess &&
           type == kHostMemory;
  } catch (const Error&) {  // in a forked process, of which the driver knows nothing
    return false;
  }
}

const PinnedStatistics& pinned_statistics() { return pinned.statistics; }
void empty_pinned_cache() { pinned.release_cached(); }

}  // namespace tapegrad::cuda
