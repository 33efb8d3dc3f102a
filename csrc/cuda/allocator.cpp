#include "cuda/allocator.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/fresh_memory.h"
#include "core/pool.h"
#include "cuda/blocks.h"
#include "cuda/capturing.h"
#include "cuda/context.h"
#include "cuda/foreign.h"
#include "cuda/held_calls.h"
#include "cuda/stream.h"

namespace tapegrad::cuda {

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kSmallLimit = kMiB;  // larger blocks come from the large pool
constexpr size_t kSmallSegment = 2 * kMiB;
constexpr size_t kOwnSegment = 10 * kMiB;  // from here on a block gets a segment of its size
constexpr size_t kLargeSegment = 20 * kMiB;
constexpr size_t kSegmentStep = 2 * kMiB;
constexpr size_t kMostBytes = size_t{1} << 62;

constexpr size_t round_up(size_t size, size_t step) { return (size + step - 1) / step * step; }

constexpr PoolKind pool_for(size_t size) {
  return size <= kSmallLimit ? PoolKind::Small : PoolKind::Large;
}

// TAPEGRAD_CUDA_CACHE=0: each tensor has a segment of its own and of its exact size, which goes back to the
// driver when it is freed, so that compute-sanitizer sees accesses beside it.
bool cache_from_environment() {
  const char* text = std::getenv("TAPEGRAD_CUDA_CACHE");
  return !text || std::string_view(text) != "0";
}
const bool is_caching = cache_from_environment();
const int byte_of_fresh_memory = fresh_byte();

size_t segment_for(size_t size) {
  if (!is_caching) return size;
  if (size <= kSmallLimit) return kSmallSegment;
  return size < kOwnSegment ? kLargeSegment : round_up(size, kSegmentStep);
}
// Without a cache nothing is used again; blocks of a graph that were freed are still there.
Block* find_free(StreamBlocks& own, PoolKind pool, size_t size) {
  return is_caching ? own.of(pool).find(size) : nullptr;
}
// Whether what is left of a block is worth keeping as a block.
constexpr bool is_worth_splitting(PoolKind pool, size_t rest) {
  return pool == PoolKind::Small ? rest >= kUnit : rest > kSmallLimit;
}

// "20.00 MiB"
std::string readable(size_t nbytes) {
  static constexpr const char* kNames[] = {"bytes", "KiB", "MiB", "GiB"};
  if (nbytes < 1024) return concat(nbytes, " bytes");
  double number = static_cast<double>(nbytes);
  int name = 0;
  for (; number >= 1024 && name < 3; ++name) number /= 1024;
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, number, std::chars_format::fixed, 2).ptr;
  return concat(std::string_view(text, static_cast<size_t>(end - text)), " ", kNames[name]);
}

class DeviceMemory {
 public:
  explicit DeviceMemory(int device) : device_(device) {}

  void* allocate(size_t nbytes);
  void deallocate(void* data) noexcept;
  void record_stream(const void* data, StreamHandle stream);
  void erase_stream(const void* data, StreamHandle stream);
  void limit_waiting(StreamHandle stream, size_t most_bytes);
  void mark_recorded(const void* data);
  bool is_recorded(const void* data) const;
  void release_cached();
  void begin_pool(PoolId id);
  void end_pool();
  void release_pool(PoolId id) noexcept;
  void set_limit(double fraction);
  void append_snapshot(std::vector<SegmentSnapshot>& segments) const;
  // Puts back the block that was freed last: before anybody looks.
  void settle();

  AllocatorStatistics statistics;
  double fraction = 1;

 private:
  struct Waiting {
    EventHandle event;
    Block* block;
  };

  template <class Change>
  void count(PoolKind pool, Change&& change) {
    change(statistics.all);
    change(statistics.pools[static_cast<int>(pool)]);
  }

  StreamBlocks& blocks_of(StreamHandle stream);
  StreamBlocks& blocks_in(PrivatePool& pool, StreamHandle stream);
  void add_free(Block* block);
  void remove_free(Block* block);
  void keep_rest(Block* block, size_t size);
  void fill(const Block* block) const;
  Block* find_or_fetch(StreamBlocks& own, PoolKind pool, size_t size, size_t nbytes);
  Block* fetch_segment(StreamBlocks& own, PoolKind pool, size_t size);
  Block* join(Block* left, Block* right);
  void release(Block* block);
  void put_back(Block* block);
  void give_back() noexcept;
  void wait_for_users(Block* block);
  bool is_used_by_capture(const Block* block) const;
  bool is_unused(const Block* first) const;
  void forget_unused_pools();
  void end_first_wait(std::deque<Waiting>& queue);
  void collect_events();
  void wait_for_events();
  [[noreturn]] void fail_out_of_memory(size_t nbytes);

  const int device_;
  size_t limit_ = std::numeric_limits<size_t>::max();
  Block* kept_ = nullptr;         // the small block that was freed last
  StreamBlocks* last_ = nullptr;  // the stream of the last request: mostly that of the next
  std::unordered_map<StreamHandle, std::unique_ptr<StreamBlocks>> streams_;
  BlockTable live_;
  std::map<char*, Block*> segments_;  // their first blocks
  std::unordered_map<Block*, std::vector<StreamHandle>>
      users_;  // the other streams of shared blocks
  std::unordered_map<StreamHandle, std::deque<Waiting>> waiting_;
  size_t waits_ = 0;
  std::map<PoolId, PrivatePool> pools_;  // of captured work
  PrivatePool* capturing_ = nullptr;     // the one that captured streams are served from now
  std::vector<Block*> deferred_;         // freed while captured streams used them
};

StreamBlocks& DeviceMemory::blocks_of(StreamHandle stream) {
  if (capturing_ && is_capturing(device_, stream)) [[unlikely]]
    return blocks_in(*capturing_, stream);
  if (last_ && last_->stream == stream) [[likely]]
    return *last_;
  auto& found = streams_[stream];
  if (!found) {
    found = std::make_unique<StreamBlocks>();
    found->stream = stream;
  }
  last_ = found.get();
  return *last_;
}

StreamBlocks& DeviceMemory::blocks_in(PrivatePool& pool, StreamHandle stream) {
  auto& found = pool.streams[stream];
  if (!found) {
    found = std::make_unique<StreamBlocks>();
    found->stream = stream;
    found->owner = &pool;
  }
  return *found;
}

void DeviceMemory::add_free(Block* block) {
  block->owner->of(block->pool).add(block);
  if (block->is_whole_segment()) return;
  count(block->pool, [&](PoolStatistics& all) {
    all.inactive_split.increase(1);
    all.inactive_split_bytes.increase(static_cast<int64_t>(block->size));
  });
}

void DeviceMemory::remove_free(Block* block) {
  block->owner->of(block->pool).remove(block);
  if (block->is_whole_segment()) return;
  count(block->pool, [&](PoolStatistics& all) {
    all.inactive_split.decrease(1);
    all.inactive_split_bytes.decrease(static_cast<int64_t>(block->size));
  });
}

void* DeviceMemory::allocate(size_t nbytes) {
  if (nbytes == 0) return nullptr;
  if (nbytes > kMostBytes) fail_out_of_memory(nbytes);
  if (waits_ && !capture_underway) [[unlikely]]
    collect_events();
  const size_t size = is_caching ? round_up(nbytes, kUnit) : nbytes;
  const PoolKind pool = pool_for(size);
  StreamBlocks& own = blocks_of(current_stream(device_));
  Block* block;
  if (kept_ && kept_->size == size && kept_->owner == &own) {
    block = std::exchange(kept_, nullptr);
    block->is_kept = false;
  } else {
    block = find_free(own, pool, size);
    if (!block) [[unlikely]]
      block = find_or_fetch(own, pool, size, nbytes);
    remove_free(block);
    if (is_worth_splitting(pool, block->size - size)) keep_rest(block, size);
  }
  block->is_live = true;
  block->requested = nbytes;
  live_.add(block);
  const auto taken = static_cast<int64_t>(block->size);
  count(pool, [&](PoolStatistics& all) {
    all.allocation.increase(1);
    all.active.increase(1);
    all.allocated_bytes.increase(taken);
    all.active_bytes.increase(taken);
    all.requested_bytes.increase(static_cast<int64_t>(nbytes));
  });
  if (byte_of_fresh_memory >= 0) [[unlikely]]
    fill(block);
  return block->address;
}

void DeviceMemory::fill(const Block* block) const {
  const DeviceGuard guard(device_);
  check(driver().fill_bytes(reinterpret_cast<DevicePointer>(block->address),
                            static_cast<unsigned char>(byte_of_fresh_memory), block->size,
                            block->owner->stream),
        "cuda: filling fresh memory");
}

// Makes a free block of what is behind the first `size` bytes of a block.
void DeviceMemory::keep_rest(Block* block, size_t size) {
  auto* rest = new (pool_allocate(sizeof(Block))) Block{.address = block->address + size,
                                                        .size = block->size - size,
                                                        .owner = block->owner,
                                                        .pool = block->pool,
                                                        .before = block,
                                                        .after = block->after};
  if (rest->after) rest->after->before = rest;
  block->after = rest;
  block->size = size;
  add_free(rest);
}

// Calls that are held keep their inputs.
void run_keepers() {
  try {
    run_held_calls();
  } catch (const OutOfMemoryError&) {  // of theirs; they stay held
  }
}

// A free block where there is none yet: from the driver, or by waiting for those that were used on other streams.
Block* DeviceMemory::find_or_fetch(StreamBlocks& own, PoolKind pool, size_t size, size_t nbytes) {
  settle();
  if (Block* block = find_free(own, pool, size)) return block;
  if (Block* block = fetch_segment(own, pool, size)) return block;
  if (HeldCalls::any()) {
    run_keepers();
    settle();
    if (Block* block = find_free(own, pool, size)) return block;
  }
  if (capture_underway) fail_out_of_memory(nbytes);  // the host cannot wait
  ++statistics.retries;
  wait_for_events();
  if (Block* block = find_free(own, pool, size)) return block;
  release_cached();
  if (Block* block = fetch_segment(own, pool, size)) return block;
  fail_out_of_memory(nbytes);
}

// Null where the driver has not enough memory.
Block* DeviceMemory::fetch_segment(StreamBlocks& own, PoolKind pool, size_t size) {
  const size_t segment = segment_for(size);
  if (static_cast<size_t>(statistics.all.reserved_bytes.current) + segment > limit_) return nullptr;
  const DeviceGuard guard(device_);
  const RelaxedCapture relaxed;
  DevicePointer data = 0;
  const Result result = driver().allocate(&data, segment);
  if (result == kOutOfMemory) return nullptr;
  check(result, "cuda: allocating memory");
  ++statistics.device_allocations;
  count(pool, [&](PoolStatistics& all) {
    all.segment.increase(1);
    all.reserved_bytes.increase(static_cast<int64_t>(segment));
  });
  auto* block = new (pool_allocate(sizeof(Block))) Block{.address = reinterpret_cast<char*>(data),
                                                         .size = segment,
                                                         .owner = &own,
                                                         .pool = pool,
                                                         .before = nullptr,
                                                         .after = nullptr};
  segments_.emplace(block->address, block);
  add_free(block);
  return block;
}

void DeviceMemory::deallocate(void* data) noexcept {
  if (!data) return;
  Block* block = live_.take(data);
  if (!block) return;
  const auto taken = static_cast<int64_t>(block->size);
  count(block->pool, [&](PoolStatistics& all) {
    all.allocation.decrease(1);
    all.allocated_bytes.decrease(taken);
    all.requested_bytes.decrease(static_cast<int64_t>(block->requested));
  });
  block->is_live = false;
  block->is_recorded = false;
  block->requested = 0;
  if (block->is_shared) [[unlikely]]
    wait_for_users(block);
  if (block->waits == 0) release(block);
}

// The left one stays.
Block* DeviceMemory::join(Block* left, Block* right) {
  left->size += right->size;
  left->after = right->after;
  if (left->after) left->after->before = left;
  pool_free(right, sizeof(Block));
  return left;
}

// Nothing uses the block any more: it can be handed out again. A small one is kept as it is until the next is freed: the next
// request often has its size.
void DeviceMemory::release(Block* block) {
  const auto taken = static_cast<int64_t>(block->size);
  count(block->pool, [&](PoolStatistics& all) {
    all.active.decrease(1);
    all.active_bytes.decrease(taken);
  });
  if (is_caching && block->pool == PoolKind::Small) {
    block->is_kept = true;
    block = std::exchange(kept_, block);
    if (!block) return;
    block->is_kept = false;
  }
  put_back(block);
}

void DeviceMemory::settle() {
  if (!kept_) return;
  kept_->is_kept = false;
  put_back(std::exchange(kept_, nullptr));
}

// Among the free blocks, as one with free neighbours.
void DeviceMemory::put_back(Block* block) {
  if (Block* left = block->before; left && left->is_free()) {
    remove_free(left);
    block = join(left, block);
  }
  if (Block* right = block->after; right && right->is_free()) {
    remove_free(right);
    join(block, right);
  }
  add_free(block);
  if (!is_caching) give_back();
}

void DeviceMemory::give_back() noexcept {
  if (capture_underway) return;
  const AskedWait asked;
  try {
    release_cached();
  } catch (...) {  // the device has failed, or the process ends
  }
}

void DeviceMemory::record_stream(const void* data, StreamHandle stream) {
  Block* block = live_.find(data);
  if (!block || block->owner->stream == stream) return;
  std::vector<StreamHandle>& users = users_[block];
  for (StreamHandle known : users)
    if (known == stream) return;
  users.push_back(stream);
  block->is_shared = true;
}

void DeviceMemory::erase_stream(const void* data, StreamHandle stream) {
  Block* block = live_.find(data);
  if (!block || !block->is_shared) return;
  auto found = users_.find(block);
  std::erase(found->second, stream);
  if (!found->second.empty()) return;
  users_.erase(found);
  block->is_shared = block->is_recorded = false;
}

void DeviceMemory::limit_waiting(StreamHandle stream, size_t most_bytes) {
  if (capture_underway) return;  // its streams cannot wait for what is not captured
  auto found = waiting_.find(stream);
  if (found == waiting_.end()) return;
  std::deque<Waiting>& queue = found->second;
  size_t bytes = 0;
  for (const Waiting& waiting : queue) bytes += waiting.block->size;
  const DeviceGuard guard(device_);
  while (!queue.empty() && bytes > most_bytes) {
    const Waiting& oldest = queue.front();
    check(driver().make_stream_wait(oldest.block->owner->stream, oldest.event, 0),
          "cuda: waiting for an event");
    bytes -= oldest.block->size;
    end_first_wait(queue);
  }
}

void DeviceMemory::mark_recorded(const void* data) {
  if (Block* block = live_.find(data)) block->is_recorded = block->is_shared;
}

bool DeviceMemory::is_recorded(const void* data) const {
  const Block* block = live_.find(data);
  return block && block->is_recorded;
}

bool DeviceMemory::is_used_by_capture(const Block* block) const {
  const auto& users = users_.find(const_cast<Block*>(block))->second;
  return std::any_of(users.begin(), users.end(),
                     [&](StreamHandle stream) { return is_capturing(device_, stream); });
}

void DeviceMemory::wait_for_users(Block* block) {
  if (capture_underway && is_used_by_capture(block)) [[unlikely]] {
    deferred_.push_back(block);
    ++block->waits;  // for the end of the capture
    return;
  }
  auto found = users_.extract(block);
  block->is_shared = false;
  for (StreamHandle stream : found.mapped())
    if (EventHandle event = record_pooled_event(device_, stream)) {
      waiting_[stream].push_back({event, block});
      ++block->waits;
      ++waits_;
    }
}

void DeviceMemory::end_first_wait(std::deque<Waiting>& queue) {
  const Waiting waiting = queue.front();
  queue.pop_front();
  return_pooled_event(device_, waiting.event);
  --waits_;
  if (--waiting.block->waits == 0) release(waiting.block);
}

// Events of a stream pass in order.
void DeviceMemory::collect_events() {
  for (auto& [stream, queue] : waiting_)
    while (!queue.empty() && has_passed(device_, queue.front().event)) {
      end_first_wait(queue);
    }
}

void DeviceMemory::wait_for_events() {
  if (waits_ == 0) return;
  const DeviceGuard guard(device_);
  const NoBlockingSection keeps_lock;  // the queues must not change
  wait_by([&] {
    for (auto& [stream, queue] : waiting_)
      while (!queue.empty()) {
        const Result result = driver().synchronize_event(queue.front().event);
        if (result != kSuccess) return result;
        end_first_wait(queue);
      }
    return kSuccess;
  }, "cuda: waiting for an event");
}

// Of a segment, by its first block.
bool DeviceMemory::is_unused(const Block* first) const {
  const PrivatePool* pool = first->owner->owner;
  return first->is_free() && first->is_whole_segment() && (!pool || pool->users == 0);
}

void DeviceMemory::release_cached() {
  if (capture_underway) return;
  collect_events();
  settle();
  if (std::none_of(segments_.begin(), segments_.end(),
                   [&](const auto& segment) { return is_unused(segment.second); }))
    return forget_unused_pools();
  const DeviceGuard guard(device_);
  const NoBlockingSection keeps_lock;  // segments must not change
  // Kernels that were launched before blocks were freed may still use them.
  wait_by([] { return driver().synchronize_context(); }, "cuda: waiting for a device");
  for (auto it = segments_.begin(); it != segments_.end();) {
    Block* block = it->second;
    if (!is_unused(block)) {
      ++it;
      continue;
    }
    check(driver().free(reinterpret_cast<DevicePointer>(block->address)), "cuda: freeing memory");
    ++statistics.device_frees;
    remove_free(block);
    count(block->pool, [&](PoolStatistics& all) {
      all.segment.decrease(1);
      all.reserved_bytes.decrease(static_cast<int64_t>(block->size));
    });
    pool_free(block, sizeof(Block));
    it = segments_.erase(it);
  }
  forget_unused_pools();
}

// ---- captured work

void DeviceMemory::begin_pool(PoolId id) {
  settle();
  PrivatePool& pool = pools_[id];
  pool.id = id;
  ++pool.users;
  capturing_ = &pool;
}

void DeviceMemory::end_pool() {
  settle();
  capturing_ = nullptr;
  for (Block* block : std::exchange(deferred_, {})) {
    wait_for_users(block);
    if (--block->waits == 0) release(block);
  }
}

void DeviceMemory::release_pool(PoolId id) noexcept {
  auto found = pools_.find(id);
  if (found != pools_.end()) --found->second.users;
}

// Those that no graph uses any more, and that have no segment.
void DeviceMemory::forget_unused_pools() {
  std::erase_if(pools_, [&](const auto& each) {
    const PrivatePool& pool = each.second;
    return pool.users == 0 && std::none_of(segments_.begin(), segments_.end(), [&](const auto& of) {
      return of.second->owner->owner == &pool;
    });
  });
}

void DeviceMemory::set_limit(double part) {
  fraction = part;
  limit_ = static_cast<size_t>(part * static_cast<double>(device_properties(device_).total_memory));
}

void DeviceMemory::fail_out_of_memory(size_t nbytes) {
  ++statistics.out_of_memory;
  const MemoryInfo info = memory_info(device_);
  const auto live = static_cast<size_t>(statistics.all.allocated_bytes.current);
  const auto reserved = static_cast<size_t>(statistics.all.reserved_bytes.current);
  const std::string allowed =
      fraction < 1 ? concat(" ", readable(limit_), " may be used by this process.") : "";
  fail<OutOfMemoryError>(
      "CUDA out of memory. Tried to allocate ", readable(nbytes), ". GPU ", device_,
      " has a total capacity of ", readable(info.total), " of which ", readable(info.free),
      " is free.", allowed, " Of the allocated memory ", readable(live),
      " is allocated by tapegrad, and ", readable(reserved - live),
      " is reserved by tapegrad but unallocated",
      capture_underway
          ? ". What is kept for reuse cannot go back to the driver while a CUDA graph is captured; "
            "call torch.cuda.empty_cache() before"
          : "",
      explain_memory ? explain_memory({DeviceType::CUDA, static_cast<uint8_t>(device_)}) : "");
}

void DeviceMemory::append_snapshot(std::vector<SegmentSnapshot>& segments) const {
  for (const auto& [address, first] : segments_) {
    SegmentSnapshot segment{
        device_, reinterpret_cast<uintptr_t>(address), 0, first->owner->stream, first->pool, {},
        {}};
    if (const PrivatePool* pool = first->owner->owner) segment.owner = pool->id;
    for (const Block* block = first; block; block = block->after) {
      const char* state = block->is_live     ? "active_allocated"
                          : block->is_free() ? "inactive"
                                             : "active_pending_free";
      segment.size += block->size;
      segment.blocks.push_back(
          {reinterpret_cast<uintptr_t>(block->address), block->size, block->requested, state});
    }
    segments.push_back(std::move(segment));
  }
}

// Never destroyed: storages may outlive static objects.
DeviceMemory* memories[kMostDevices] = {};

DeviceMemory& memory_of(int device) {
  if (device < 0 || device >= kMostDevices || !memories[device]) [[unlikely]] {
    check_device(device);
    memories[device] = new DeviceMemory(device);
  }
  return *memories[device];
}

[[maybe_unused]] const bool is_listed = [] {
  device_allocators[static_cast<int>(DeviceType::CUDA)] = {[](Device device, size_t nbytes) {
    return allocate(device.index, nbytes);
  }, [](Device device, void* data, size_t) noexcept { deallocate(device.index, data); }};
  return true;
}();

template <class Change>
void change_statistics(AllocatorStatistics& statistics, Change&& change) {
  static constexpr Statistic PoolStatistics::* kAll[] = {
      &PoolStatistics::allocation,      &PoolStatistics::segment,
      &PoolStatistics::active,          &PoolStatistics::inactive_split,
      &PoolStatistics::allocated_bytes, &PoolStatistics::reserved_bytes,
      &PoolStatistics::active_bytes,    &PoolStatistics::inactive_split_bytes,
      &PoolStatistics::requested_bytes};
  for (auto member : kAll) {
    change(statistics.all.*member);
    for (PoolStatistics& pool : statistics.pools) change(pool.*member);
  }
}

}  // namespace

void* allocate(int device, size_t nbytes) { return memory_of(device).allocate(nbytes); }

void deallocate(int device, void* data) noexcept {
  if (DeviceMemory* memory = memories[device]) memory->deallocate(data);
}

void note_use(const Storage& storage, StreamHandle stream) {
  if (storage.is_borrowed() && record_foreign(storage, stream)) return;
  memory_of(storage.device().index).record_stream(storage.data(), stream);
}

void record_stream(const Storage& storage, StreamHandle stream) {
  note_use(storage, stream);
  memory_of(storage.device().index).mark_recorded(storage.data());
}

bool is_recorded(const Storage& storage) {
  return memory_of(storage.device().index).is_recorded(storage.data());
}

void erase_stream(const Storage& storage, StreamHandle stream) {
  memory_of(storage.device().index).erase_stream(storage.data(), stream);
}

void limit_waiting(int device, StreamHandle stream, size_t most_bytes) {
  memory_of(device).limit_waiting(stream, most_bytes);
}

void begin_pool(int device, PoolId pool) { memory_of(device).begin_pool(pool); }
void end_pool(int device) { memory_of(device).end_pool(); }
void release_pool(int device, PoolId pool) noexcept {
  if (DeviceMemory* memory = memories[device]) memory->release_pool(pool);
}

void empty_cache() {
  if (capture_underway) return;
  collect_foreign();
  for (DeviceMemory* memory : memories)
    if (memory) memory->release_cached();
  empty_pinned_cache();
}

void set_memory_fraction(int device, double fraction) {
  TAPEGRAD_CHECK_AS(ValueError, fraction >= 0 && fraction <= 1,
                    "set_per_process_memory_fraction: Invalid fraction value: ", fraction,
                    ". Allowed range: 0~1");
  memory_of(device).set_limit(fraction);
}
double memory_fraction(int device) { return memory_of(device).fraction; }

const AllocatorStatistics& statistics(int device) {
  DeviceMemory& memory = memory_of(device);
  memory.settle();
  return memory.statistics;
}

void reset_peaks(int device) {
  memory_of(device).settle();
  change_statistics(memory_of(device).statistics,
                    [](Statistic& each) { each.peak = each.current; });
}

void reset_sums(int device) {
  memory_of(device).settle();
  AllocatorStatistics& all = memory_of(device).statistics;
  change_statistics(all, [](Statistic& each) { each.allocated = each.freed = 0; });
  all.retries = all.out_of_memory = all.device_allocations = all.device_frees = 0;
}

std::vector<SegmentSnapshot> snapshot() {
  std::vector<SegmentSnapshot> segments;
  for (DeviceMemory* memory : memories) {
    if (!memory) continue;
    memory->settle();
    memory->append_snapshot(segments);
  }
  return segments;
}

}  // namespace tapegrad::cuda
