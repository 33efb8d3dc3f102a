#include "core/allocator.h"

#include <sys/mman.h>

#include <bit>
#include <cstdlib>

#include "core/error.h"
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

void* system_allocate(size_t nbytes) {
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
                         "or use smaller ones");
}

}  // namespace

void* allocate(size_t nbytes) {
  if (nbytes == 0) return nullptr;
  if (nbytes > (size_t{1} << 62)) fail_out_of_memory(nbytes);
  SizeClass size = size_class(nbytes);
  void* data = bins[size.index];
  if (data) {
    bins[size.index] = bins[size.index]->next;
    stats.cached_bytes -= static_cast<int64_t>(size.nbytes);
  } else {
    data = system_allocate(size.nbytes);
    if (!data) {
      empty_cache();
      data = system_allocate(size.nbytes);
    }
    if (!data) fail_out_of_memory(nbytes);
    ++stats.system_allocations;
  }
  ++stats.allocations;
  ++stats.live_allocations;
  stats.live_bytes += static_cast<int64_t>(size.nbytes);
  if (stats.live_bytes > stats.peak_bytes) stats.peak_bytes = stats.live_bytes;
  return data;
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
  for (FreeBlock*& bin : bins) {
    while (bin) {
      FreeBlock* next = bin->next;
      std::free(bin);
      bin = next;
    }
  }
  stats.cached_bytes = 0;
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
