// The inner loops of pooling, compiled once per instruction set. The driver is pooling.cpp.
#pragma once

#include <cstdint>

#include "cpu/isa.h"

namespace tapegrad::cpu {

// One spatial dimension. Window o covers begin[o], begin[o] + step, ... below end[o], cut at the edges
// of the input.
struct PoolDim {
  int64_t in = 1, out = 1;
  int64_t kernel = 1, stride = 1, padding = 0, step = 1;
  const int64_t *begin, *end;
  const double* extent;  // what window o counts for in the divisor of an average
};

// Depth, height, width; those that an op does not have are of size 1.
struct PoolPlane {
  PoolDim dim[3];
  // Whether windows start at o * stride - padding, all of one size. Otherwise only begin and end
  // are right.
  bool regular;
  double divisor;  // of an average; 0: the product of the extents
};

// How far the windows of a row reach, from the padding on the left.
inline int64_t padded_width(const PoolDim& w) {
  return (w.out - 1) * w.stride + (w.kernel - 1) * w.step + 1;
}

struct PoolKernels {
  // Of one plane; `indices` are places in the plane, null if nobody asks.
  // `room` is for the plane with padded rows (padded_width), where windows reach over edges.
  void (*max)(const PoolPlane& plane, const void* x, void* y, void* indices, void* room);
  // `room` is for one row of the input and one of the output.
  void (*avg)(const PoolPlane& plane, const void* x, void* y, void* room);
  // Adds to grad_x.
  void (*avg_backward)(const PoolPlane& plane, const void* grad, void* grad_x, void* room);

  // The same of an image whose channels lie last, one row (oz, oy) of its outputs at a time; all pointers
  // are to the image. Loops run along the channels. `room` is for the channels of one place.
  void (*max_last)(const PoolPlane& plane, int64_t channels, int64_t oz, int64_t oy, const void* x,
                   void* y, void* indices);
  void (*avg_last)(const PoolPlane& plane, int64_t channels, int64_t oz, int64_t oy, const void* x,
                   void* y, void* room);
  void (*avg_backward_last)(const PoolPlane& plane, int64_t channels, int64_t oz, int64_t oy,
                            const void* grad, void* grad_x, void* room);
};

struct PoolTable {
  PoolKernels kernels[3][2];  // [float, double, int64][indices of 32 bits, of 64]
};
TAPEGRAD_ISA_TABLE(PoolTable, pool_table)

}  // namespace tapegrad::cpu
