// How work is shared out: into blocks, and rows that kernels hold in registers (tapegrad/cuda/kernels/rows.cuh) to
// threads.
#pragma once

#include <algorithm>

#include "core/tensor.h"

namespace tapegrad::cuda {

inline constexpr int64_t kEnoughBlocks = 1056;  // to fill a large device, a few times over

inline int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Elements that are moved at a time: 16 bytes, where rows of this length all begin at a multiple of that.
inline int row_width(int64_t length, DType dtype, std::initializer_list<const void*> pointers) {
  const auto item = static_cast<int64_t>(itemsize(dtype));
  if (length * item % 16) return 1;
  for (const void* pointer : pointers)
    if (reinterpret_cast<uintptr_t>(pointer) % 16) return 1;
  return static_cast<int>(16 / item);
}

struct RowShape {
  static constexpr int kWarp = 32, kWarpThreads = 128, kMostThreads = 512;

  bool by_warp = false;
  int width = 1;
  int items = 0;  // pieces of `width` elements that a thread holds; 0 where the row does not fit
  int threads = kMostThreads;

  // `most` is how many elements a thread has registers for; single ones take more, for their addresses. Of a block
  // each thread holds at least `least`.
  static RowShape of(int64_t length, int width, int most, int most_threads = kMostThreads,
                     int least = 16) {
    RowShape shape;
    shape.width = width;
    if (width == 1) most /= 2;
    for (const int elements : {4, 8, 16, 32, 64, 128}) {
      if (elements > most) break;
      if (elements < width) continue;
      shape.by_warp = length <= elements * kWarp;
      // Threads of a block that hold few elements wait for each other more than they read.
      const bool by_block = elements >= std::min(least, most) && length <= elements * most_threads;
      if (!shape.by_warp && !by_block) continue;
      int held = elements;
      // Half of them where that leaves no lane without any.
      if (!shape.by_warp && held >= 16 && held / 2 >= width && length % (held * kWarp) != 0 &&
          length % (held / 2 * kWarp) == 0 && length <= held / 2 * most_threads)
        held /= 2;
      shape.items = held / width;
      shape.threads =
          shape.by_warp ? kWarpThreads : static_cast<int>(divide_up(length, held * kWarp)) * kWarp;
      return shape;
    }
    return shape;
  }
  bool fits() const { return items > 0; }
  int64_t blocks(int64_t rows) const {
    return by_warp ? divide_up(rows, kWarpThreads / kWarp) : rows;
  }
};

}  // namespace tapegrad::cuda
