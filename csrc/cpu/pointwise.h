// The driver of all pointwise kernels, see pointwise.cpp.
#pragma once

#include "core/pointwise.h"
#include "cpu/isa.h"

namespace tapegrad::cpu {

struct PointwiseTable {
  PointwiseKernels kernels[kPointwiseCount];
};
TAPEGRAD_ISA_TABLE(PointwiseTable, pointwise_table)

void pointwise(const OpCall& call);

}  // namespace tapegrad::cpu
