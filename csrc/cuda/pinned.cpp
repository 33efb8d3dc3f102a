// Page-locked memory of the host. Locking pages takes a millisecond for a few of them, so blocks are kept, by
// size: powers of two up to 1 MiB, then eight sizes for each doubling. A block that streams copy from or to
// is handed out again when they are done with it.
#include <algorithm>
#include <bit>
#include <deque>
#include <map>

#include "core/error.h"
#include "cuda/allocator.h"
#include "cuda/capturing.h"
#include "cuda/context.h"
#include "cuda/stream.h"

namespace tapegrad::cuda {

namespace {

constexpr unsigned kPortable = 1;    // CU_MEMHOSTALLOC_PORTABLE: for all devices
constexpr int kMemoryType = 2;       // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr unsigned kHostMemory = 1;  // CU_MEMORYTYPE_HOST
constexpr size_t kSmallest = 512;
constexpr size_t kLargestPower = size_t{1} << 20;

constexpr size_t round_size(size_t nbytes) {
  const size_t power = std::bit_ceil(std::max(nbytes, kSmallest));
  if (power <= kLargestPower) return power;
  const size_t step = power / 16;
  return (nbytes + step - 1) / step * step;
}

struct User {
  int device;
  StreamHandle stream;
  friend bool operator==(const User&, const User&) = default;
};

struct PinnedBlock {
  char* data;
  size_t size;
  std::vector<User> users;
  uint32_t waits = 0;              // for so many events, after it was freed
  std::vector<uint64_t> captures;  // of graphs that copy from or to it
};

struct Waiting {
  EventHandle event;
  PinnedBlock* block;
};
// Events of a stream pass in order.
struct WaitingFor {
  User user;
  std::deque<Waiting> queue;
};

class PinnedMemory {
 public:
  void* allocate(size_t nbytes, const User* user);
  void deallocate(void* data) noexcept;
  // The block that holds an address, or null.
  PinnedBlock* find(const void* data);
  void release_cached();
  // A graph is gone.
  void release_capture(uint64_t capture);

  PinnedStatistics statistics;

 private:
  PinnedBlock* find_free(size_t size, const User* user);
  PinnedBlock* fetch(size_t size);
  void collect_events();
  void retire(PinnedBlock* block);
  void let_wait(const User& user, PinnedBlock* block);
  std::deque<Waiting>& waiting_for(const User& user);

  std::map<const char*, PinnedBlock*> live_;
  std::map<size_t, std::vector<PinnedBlock*>> free_;  // by size
  std::vector<WaitingFor> waiting_;
  std::vector<PinnedBlock*> kept_;  // freed, but graphs use them
};

// Never destroyed: storages may outlive static objects. Under Note [The GIL guards handles].
auto& pinned = *new PinnedMemory();

void* PinnedMemory::allocate(size_t nbytes, const User* user) {
  if (nbytes == 0) return nullptr;
  TAPEGRAD_CHECK_AS(OutOfMemoryError, nbytes <= size_t{1} << 62, "pin_memory: could not get ",
                    nbytes, " bytes of page-locked memory");
  const size_t size = round_size(nbytes);
  if (!capture_underway) collect_events();
  PinnedBlock* block = find_free(size, user);
  if (!block) block = fetch(size);
  live_.emplace(block->data, block);
  statistics.live_bytes += static_cast<int64_t>(size);
  return block->data;
}

// Of those that nobody uses; for a stream, also of those that streams use before it will.
PinnedBlock* PinnedMemory::find_free(size_t size, const User* user) {
  std::vector<PinnedBlock*>& free = free_[size];
  PinnedBlock* block = nullptr;
  if (!free.empty()) {
    block = free.back();
    free.pop_back();
  }
  for (auto it = waiting_.begin(); user && !capture_underway && !block && it != waiting_.end();
       ++it)
    for (const Waiting& waiting : it->queue)
      if (waiting.block->size == size) {
        block = waiting.block;
        let_wait(*user, block);
        break;
      }
  if (block) statistics.cached_bytes -= static_cast<int64_t>(size);
  return block;
}

// A stream waits for all that others still do with a block.
void PinnedMemory::let_wait(const User& user, PinnedBlock* block) {
  const DeviceGuard guard(user.device);
  for (WaitingFor& other : waiting_)
    std::erase_if(other.queue, [&](const Waiting& waiting) {
      if (waiting.block != block) return false;
      check(driver().make_stream_wait(user.stream, waiting.event, 0), "cuda: waiting for an event");
      return_pooled_event(other.user.device, waiting.event);
      return true;
    });
  block->waits = 0;
}

PinnedBlock* PinnedMemory::fetch(size_t size) {
  const DeviceGuard guard(current_device());
  const RelaxedCapture relaxed;
  void* data = nullptr;
  Result result = driver().allocate_host(&data, size, kPortable);
  if (result == kOutOfMemory && !capture_underway) {
    note_wait();  // freeing does
    release_cached();
    result = driver().allocate_host(&data, size, kPortable);
  }
  TAPEGRAD_CHECK_AS(OutOfMemoryError, result != kOutOfMemory, "pin_memory: could not get ", size,
                    " bytes of page-locked memory; ", statistics.live_bytes,
                    " bytes of it are live in tensors");
  check(result, "cuda: allocating page-locked memory");
  ++statistics.system_allocations;
  return new PinnedBlock{static_cast<char*>(data), size, {}};
}

std::deque<Waiting>& PinnedMemory::waiting_for(const User& user) {
  for (WaitingFor& known : waiting_)
    if (known.user == user) return known.queue;
  return waiting_.emplace_back(WaitingFor{user, {}}).queue;
}

void PinnedMemory::deallocate(void* data) noexcept {
  auto found = live_.find(static_cast<const char*>(data));
  if (found == live_.end()) return;
  PinnedBlock* block = found->second;
  live_.erase(found);
  statistics.live_bytes -= static_cast<int64_t>(block->size);
  statistics.cached_bytes += static_cast<int64_t>(block->size);
  if (block->captures.empty()) retire(block);
  else kept_.push_back(block);
}

// Is handed out again when its streams are done.
void PinnedMemory::retire(PinnedBlock* block) {
  for (const User& user : block->users)
    if (EventHandle event = record_pooled_event(user.device, user.stream)) {
      waiting_for(user).push_back({event, block});
      ++block->waits;
    }
  block->users.clear();
  if (block->waits == 0) free_[block->size].push_back(block);
}

PinnedBlock* PinnedMemory::find(const void* data) {
  const auto* address = static_cast<const char*>(data);
  auto after = live_.upper_bound(address);
  if (after == live_.begin()) return nullptr;
  PinnedBlock* block = std::prev(after)->second;
  return address < block->data + block->size ? block : nullptr;
}

void PinnedMemory::collect_events() {
  for (auto& [user, queue] : waiting_)
    while (!queue.empty() && has_passed(user.device, queue.front().event)) {
      const Waiting waiting = queue.front();
      queue.pop_front();
      return_pooled_event(user.device, waiting.event);
      if (--waiting.block->waits == 0) free_[waiting.block->size].push_back(waiting.block);
    }
}

void PinnedMemory::release_capture(uint64_t capture) {
  for (auto& [address, block] : live_) std::erase(block->captures, capture);
  std::erase_if(kept_, [&](PinnedBlock* block) {
    std::erase(block->captures, capture);
    if (!block->captures.empty()) return false;
    retire(block);
    return true;
  });
}

void PinnedMemory::release_cached() {
  if (capture_underway) return;
  collect_events();
  if (statistics.cached_bytes == 0) return;
  const DeviceGuard guard(current_device());
  for (auto& [size, list] : free_) {
    for (PinnedBlock* block : list) {
      driver().free_host(block->data);
      statistics.cached_bytes -= static_cast<int64_t>(block->size);
      delete block;
    }
    list.clear();
  }
}

}  // namespace

void* allocate_pinned(size_t nbytes) { return pinned.allocate(nbytes, nullptr); }
void* allocate_pinned_for(size_t nbytes, int device, StreamHandle stream) {
  const User user{device, stream};
  return pinned.allocate(nbytes, &user);
}
void free_pinned(void* data) noexcept { pinned.deallocate(data); }

void record_pinned(const void* data, int device, StreamHandle stream) {
  PinnedBlock* block = pinned.find(data);
  if (!block) return;
  const User user{device, stream};
  for (const User& known : block->users)
    if (known == user) return;
  block->users.push_back(user);
}

void keep_pinned(const void* data, uint64_t capture) {
  PinnedBlock* block = pinned.find(data);
  if (!block || std::count(block->captures.begin(), block->captures.end(), capture)) return;
  block->captures.push_back(capture);
}
void release_pinned(uint64_t capture) noexcept { pinned.release_capture(capture); }

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
