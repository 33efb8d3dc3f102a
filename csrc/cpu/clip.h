// Kernels over lists of tensors, for the clipping of gradients.
#pragma once

#include "core/op.h"

namespace tapegrad::cpu {

void total_norm(const OpCall& call);  // TotalNorm; contiguous inputs of the output's dtype
void scale_tensors(
    const OpCall& call);  // the first input is the factor, the others are outputs, too

}  // namespace tapegrad::cpu
