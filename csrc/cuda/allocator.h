// The caching allocator of CUDA's memory, and that of page-locked memory of the host.
//
// Note [Memory belongs to a stream]
// Asking the driver for memory takes as long as many kernels, and giving it back waits for the device. So
// memory is taken in segments, cut into blocks, and freed blocks are handed out again. A block belongs to the
// stream that was current when it was allocated. It may be freed while kernels that use it are still to run: who gets
// it next on the same stream uses it behind them. On any other stream it is not handed out. Where a tensor is
// used on other streams than its own, record_stream() must be told; its block is then handed out again
// when events have passed that are recorded on those streams when it is freed.
//
// Blocks are multiples of 512 bytes. Those of up to 1 MiB come from segments of 2 MiB (the small pool), larger ones from
// segments of 20 MiB, or of their own size from 10 MiB on (the large pool). The smallest free block that is large
// enough is taken, the rest of it becomes a free block, and a freed block is joined with free neighbours; but the small
// block that was freed last stays as it is, since the next request often has its size.
// When the driver has no memory left, segments without a live block go back to it.
//
// Note [Memory of captured work]
// What a captured graph uses has to stay its own for as long as it lives, although the program frees it: it is used again
// each time the graph runs. So requests of streams that are captured are served from a pool with segments of its own.
// Blocks that are freed there are handed out again within the capture, in the order of their stream as ever, and to later
// captures into the same pool, whose graphs must run in the order in which they were captured; never to
// others. When the last graph of a pool is gone its free segments go back to the driver with all others.
// While there is a capture nothing goes back, since that waits for the device; events of blocks that captured streams
// use are recorded when it is over.
//
// All of it runs under Note [The GIL guards handles], freeing included: storages are handles.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/storage.h"
#include "cuda/driver.h"

namespace tapegrad::cuda {

// A number that goes up and down, and what became of it. Peaks and sums can be started again.
struct Statistic {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;

  void increase(int64_t amount) {
    current += amount;
    allocated += amount;
    if (current > peak) peak = current;
  }
  void decrease(int64_t amount) {
    current -= amount;
    freed += amount;
  }
};

// Named as in torch.cuda.memory_stats(). Active is what cannot be handed out: allocated, or waiting for
// events. Inactive splits are free blocks in segments that others are live in.
struct PoolStatistics {
  Statistic allocation, segment, active, inactive_split;
  Statistic allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;
};

enum class PoolKind : uint8_t { Small, Large };
inline constexpr int kPoolKinds = 2;

// A pool of captured work, by two numbers as PyTorch has them.
struct PoolId {
  uint64_t first = 0, second = 0;
  friend auto operator<=>(const PoolId&, const PoolId&) = default;
};

struct AllocatorStatistics {
  PoolStatistics all;
  PoolStatistics pools[kPoolKinds];
  int64_t retries = 0;        // how often cached segments had to go back to the driver
  int64_t out_of_memory = 0;  // how often that did not help
  int64_t device_allocations = 0, device_frees = 0;  // calls of the driver
};

struct BlockSnapshot {
  uintptr_t address;
  size_t size, requested;  // requested is zero in a free block
  const char* state;       // "active_allocated", "active_pending_free" or "inactive"
};
struct SegmentSnapshot {
  int device;
  uintptr_t address;
  size_t size;
  StreamHandle stream;
  PoolKind pool;
  PoolId owner;  // of captured work; zeros otherwise
  std::vector<BlockSnapshot> blocks;
};

// Memory for the current stream. Zero bytes give nullptr. Throws OutOfMemoryError.
void* allocate(int device, size_t nbytes);
void deallocate(int device, void* data) noexcept;

// The bytes of a storage are used on a stream that is not their own.
void note_use(const Storage& storage, StreamHandle stream);
// The same, said by the program.
void record_stream(const Storage& storage, StreamHandle stream);
bool is_recorded(const Storage& storage);
// They are not any more: the caller has made their own stream wait for that.
void erase_stream(const Storage& storage, StreamHandle stream);

// Of the freed blocks that wait for a stream, the oldest are handed out again where more than so many bytes wait: what
// uses them next waits on the device. So a host that runs ahead does not take memory for every
// block that waits.
void limit_waiting(int device, StreamHandle stream, size_t most_bytes);

// See Note [Memory of captured work]. A pool is made when it is first used, and is used once more by each begin;
// release_pool() is to be called as often, when a graph is gone.
void begin_pool(int device, PoolId pool);
void end_pool(int device);
void release_pool(int device, PoolId pool) noexcept;

// Gives segments without a live block back to the driver, and page-locked memory that nobody uses.
// Does nothing while a graph is captured.
void empty_cache();

// At most this part of the device's memory is taken from the driver.
void set_memory_fraction(int device, double fraction);
double memory_fraction(int device);

const AllocatorStatistics& statistics(int device);
void reset_peaks(int device);
void reset_sums(int device);
// By device and address.
std::vector<SegmentSnapshot> snapshot();

// ---- page-locked memory, which the device copies from and to by itself

struct PinnedStatistics {
  int64_t live_bytes = 0;    // handed out and not returned
  int64_t cached_bytes = 0;  // kept for reuse
  int64_t system_allocations = 0;
};

// Sizes are rounded up, by an eighth at most where they are large. Zero bytes give nullptr.
void* allocate_pinned(size_t nbytes);
// To be written by a stream before anybody else uses it. That may be memory that streams still use: this one
// waits for them then, and not the host.
void* allocate_pinned_for(size_t nbytes, int device, StreamHandle stream);
void free_pinned(void* data) noexcept;
// A stream copies from or to these bytes; nothing happens if they are not of allocate_pinned().
void record_pinned(const void* data, int device, StreamHandle stream);
// Whether bytes are page-locked, by whomever. Does not start CUDA.
bool is_pinned(const void* data);
// What a graph copies from or to, by the number of its capture, is not handed out again while the graph lives.
void keep_pinned(const void* data, uint64_t capture);
void release_pinned(uint64_t capture) noexcept;
const PinnedStatistics& pinned_statistics();
void empty_pinned_cache();

}  // namespace tapegrad::cuda
