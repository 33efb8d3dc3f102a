#include "core/allocator.h"

#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "core/error.h"
#include "core/fresh_memory.h"
#include "core/pool.h"

namespace tapegrad {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallLimit = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr int kSmallClasses = kSmallLimit / kAlignment + 1;
constexpr int kStepBits = 3;  // eight classes per doubling
constexpr int kClasses = kSmallClasses + (64 - 12) * (1 << kStepBits);

struct FreeBlock {
  FreeBlock* next;
};

struct SizeClass {
  int index;
  size_t nbytes;
};

SizeClass size_class(size_t nbytes) {
  if (nbytes <= kSmallLimit) {
    size_t units = (nbytes + kAlignment - 1) / kAlignment;
    return {static_cast<int>(units), units * kAlignment};
  }
  int exponent = std::bit_width(nbytes - 1) - 1;  // 2^exponent < nbytes <= 2^(exponent + 1)
  size_t step = size_t{1} << (exponent - kStepBits);
  size_t units = (nbytes + step - 1) / step;  // in (8, 16]
  size_t rounded = units * step;
  int index = kSmallClasses + (exponent - 12) * (1 << kStepBits) + static_cast<int>(units) - 9;
  return {index, rounded};
}

FreeBlock* bins[kClasses];
MemoryStats stats;

// Small blocks are carved from slabs: asked for one by one, each would cost the system's own header
// and, for its alignment, as much again.
constexpr size_t kSlabLimit = 1024;
constexpr size_t kSlab = size_t{64} << 10;

// A block of a small class; the rest of its slab goes to the bin.
void* carve_slab(SizeClass size) {
  void* slab = nullptr;
  if (posix_memalign(&slab, kSlab, kSlab) != 0) return nullptr;
  auto* begin = static_cast<char*>(slab);
  for (size_t at = kSlab / size.nbytes * size.nbytes; at > size.nbytes; at -= size.nbytes) {
    auto* block = reinterpret_cast<FreeBlock*>(begin + at - size.nbytes);
    block->next = bins[size.index];
    bins[size.index] = block;
    stats.cached_bytes += static_cast<int64_t>(size.nbytes);
  }
  return begin;
}

// Returns the slabs of a small class of which every block is free. The others stay in the bin.
void free_slabs(int index) {
  size_t nbytes = static_cast<size_t>(index) * kAlignment;
  auto slab_of = [](FreeBlock* block) { return reinterpret_cast<uintptr_t>(block) & ~(kSlab - 1); };
  std::unordered_map<uintptr_t, size_t> free_blocks;
  for (FreeBlock* block = bins[index]; block; block = block->next) ++free_blocks[slab_of(block)];
  FreeBlock* kept = nullptr;
  for (FreeBlock *block = bins[index], *next; block; block = next) {
    next = block->next;
    if (free_blocks[slab_of(block)] == kSlab / nbytes) continue;
    block->next = kept;
    kept = block;
  }
  bins[index] = kept;
  for (auto [slab, count] : free_blocks)
    if (count == kSlab / nbytes) std::free(reinterpret_cast<void*>(slab));
}

void* system_allocate(SizeClass size) {
  size_t nbytes = size.nbytes;
  if (kPoolEnabled && nbytes <= kSlabLimit) return carve_slab(size);
  size_t alignment = nbytes >= kHugePage ? kHugePage : kAlignment;
  void* data = nullptr;
  if (posix_memalign(&data, alignment, nbytes) != 0) return nullptr;
  if (nbytes >= kHugePage) madvise(data, nbytes & ~(kHugePage - 1), MADV_HUGEPAGE);
  return data;
}

[[noreturn]] void fail_out_of_memory(size_t nbytes) {
  fail<OutOfMemoryError>("allocate: could not get ", nbytes, " bytes of CPU memory; ",
                         stats.live_bytes,
                         " bytes are live in tensors; free tensors that are no longer needed "
                         "or use smaller ones",
                         explain_memory ? explain_memory(Device()) : "");
}

const int byte_of_fresh_memory = fresh_byte();
// Larger requests take the rare way, which in a program that fills its memory is the way of all.
constexpr size_t kLargest = size_t{1} << 62;
const size_t plain_limit = byte_of_fresh_memory < 0 ? kLargest : 0;

[[gnu::always_inline]] inline void* take_block(size_t nbytes) {
  SizeClass size = size_class(nbytes);
  void* data = bins[size.index];
  if (data) {
    bins[size.index] = bins[size.index]->next;
    stats.cached_bytes -= static_cast<int64_t>(size.nbytes);
  } else {
    data = system_allocate(size);
    if (!data) {
      empty_cache();
      data = system_allocate(size);
    }
    if (!data) fail_out_of_memory(nbytes);
    ++stats.system_allocations;
  }
  ++stats.allocations;
  ++stats.live_allocations;
  stats.live_bytes += static_cast<int64_t>(size.nbytes);
  stats.allocated_bytes += static_cast<int64_t>(size.nbytes);
  if (stats.live_bytes > stats.peak_bytes) stats.peak_bytes = stats.live_bytes;
  return data;
}

[[gnu::noinline]] void* allocate_rarely(size_t nbytes) {
  if (nbytes > kLargest) fail_out_of_memory(nbytes);
  return std::memset(take_block(nbytes), byte_of_fresh_memory, nbytes);
}

}  // namespace

void* allocate(size_t nbytes) {
  if (nbytes == 0) return nullptr;
  if (nbytes > plain_limit) [[unlikely]]
    return allocate_rarely(nbytes);
  return take_block(nbytes);
}

void deallocate(void* data, size_t nbytes) noexcept {
  if (!data) return;
  SizeClass size = size_class(nbytes);
  --stats.live_allocations;
  stats.live_bytes -= static_cast<int64_t>(size.nbytes);
  if (!kPoolEnabled) return std::free(data);
  auto* block = static_cast<FreeBlock*>(data);
  block->next = bins[size.index];
  bins[size.index] = block;
  stats.cached_bytes += static_cast<int64_t>(size.nbytes);
}

void empty_cache() noexcept {
  constexpr int kSlabClasses = kSlabLimit / kAlignment + 1;
  for (int index = 1; index < kSlabClasses; ++index) free_slabs(index);
  int64_t in_slabs = 0;
  for (int index = 1; index < kSlabClasses; ++index)
    for (FreeBlock* block = bins[index]; block; block = block->next)
      in_slabs += static_cast<int64_t>(static_cast<size_t>(index) * kAlignment);
  for (int index = kSlabClasses; index < kClasses; ++index)
    while (FreeBlock* block = bins[index]) {
      bins[index] = block->next;
      std::free(block);
    }
  stats.cached_bytes = in_slabs;
}

int fresh_byte() {
  static const char* const text = std::getenv("TAPEGRAD_FILL_FRESH");
  return text && *text ? static_cast<int>(std::strtol(text, nullptr, 0) & 0xff) : -1;
}

const MemoryStats& memory_stats() { return stats; }
void reset_peak_memory_stats() { stats.peak_bytes = stats.live_bytes; }

void* pool_refill(size_t bytes) {
  constexpr size_t kChunk = 16 * 1024;
  size_t count = kChunk / bytes;
  char* chunk = static_cast<char*>(::operator new(count * bytes));
  for (size_t i = 1; i < count; ++i) pool_free(chunk + i * bytes, bytes);
  return chunk;
}

}  // namespace tapegrad
