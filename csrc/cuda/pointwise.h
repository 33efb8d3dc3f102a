// Pointwise ops together with what is done with their results (cuda/merge.cpp).
#pragma once

#include "core/op.h"

namespace tapegrad::cuda {

// Runs a call of a pointwise op, which writes a matrix of contiguous rows of so many columns, and returns a matrix of float32
// with the sums of some rows each. Undefined, and nothing is done, where operands do not lie like the result.
Tensor run_with_column_parts(const OpCall& call, int64_t columns);
// The sums of its columns.
void add_up_parts(const Tensor& parts, const TensorImpl& sums);

}  // namespace tapegrad::cuda
