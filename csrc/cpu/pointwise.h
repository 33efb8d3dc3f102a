// The kernels of the pointwise table, compiled once per instruction set.
#pragma once

#include "cpu/isa.h"
#include "spec/pointwise.h"

namespace tapegrad::cpu {

struct PointwiseTable {
  PointwiseKernels kernels[kPointwiseCount];
};
TAPEGRAD_ISA_TABLE(PointwiseTable, pointwise_table)

}  // namespace tapegrad::cpu
