// Pointwise ops together with what is done with their results (cuda/merge.cpp).
#pragma once

#include "core/op.h"

namespace tapegrad::cuda {

// Runs a call of a pointwise op, which writes a matrix of contiguous rows of so many columns as there are sums, and adds
// up the columns. False, and nothing is done, where operands do not lie like the result.
bool run_with_column_sums(const OpCall& call, const TensorImpl& sums);

}  // namespace tapegrad::cuda
