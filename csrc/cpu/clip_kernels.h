// The inner loops of norms over many tensors and of their scaling, compiled once per instruction set.
#pragma once

#include <cstdint>

#include "cpu/isa.h"

namespace tapegrad::cpu {

struct ClipKernels {
  // The part that n elements have in a norm: a sum of magnitudes or squares, or the largest magnitude.
  double (*part[3])(const void* x, int64_t n);
  void (*scale)(void* x, int64_t n, double factor);
  // The same, and whether all elements were finite before.
  bool (*unscale)(void* x, int64_t n, float factor);
};

struct ClipTable {
  ClipKernels kernels[2];                                     // float, double
  bool (*unscale_half[2])(void* x, int64_t n, float factor);  // float16, bfloat16
};
TAPEGRAD_ISA_TABLE(ClipTable, clip_table)

}  // namespace tapegrad::cpu
