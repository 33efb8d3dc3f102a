// The kernels of the pointwise table for complex dtypes, null for lines that have none.
#pragma once

#include "spec/pointwise.h"

namespace tapegrad::cpu {

// Of complex64, then of complex128.
struct ComplexKernels {
  TileKernel value[2];
  TileKernel grad[kMaxArity][2];
};
const ComplexKernels& complex_kernels(PointwiseId id);

}  // namespace tapegrad::cpu
