// The CPU's caching allocator. Fresh pages are the largest hidden cost of large pointwise ops,
// so freed blocks are kept in bins by size class and handed out again.
//
// Size classes: multiples of 64 bytes up to 4 KiB, then eight per doubling (at most 12.5 % waste).
// Blocks are aligned to 64 bytes; from 2 MiB on they are aligned to, and advised for, huge pages.
// All of it runs under Note [The GIL guards handles].
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/device.h"

namespace tapegrad {

struct MemoryStats {
  int64_t live_bytes = 0;          // handed out and not returned, rounded to size classes
  int64_t peak_bytes = 0;          // the largest live_bytes since start or reset
  int64_t cached_bytes = 0;        // kept in bins for reuse
  int64_t allocations = 0;         // calls of allocate since start
  int64_t system_allocations = 0;  // those that had to ask the system
  int64_t live_allocations = 0;
  int64_t allocated_bytes = 0;  // handed out since start
};

// Throws OutOfMemoryError naming the size asked for and the live bytes. Zero bytes give nullptr.
void* allocate(size_t nbytes);
void deallocate(void* data, size_t nbytes) noexcept;

// Returns the cached blocks to the system. Blocks of up to 1 KiB share slabs of 64 KiB, and a slab
// goes back when none of its blocks is in use.
void empty_cache() noexcept;

// Set by the binding layer: what an out-of-memory error says about who holds the memory of a device.
inline std::string (*explain_memory)(Device device) = nullptr;

const MemoryStats& memory_stats();
void reset_peak_memory_stats();

}  // namespace tapegrad
