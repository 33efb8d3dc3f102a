// For kernels that take contiguous operands in the usual order, of float32, float64 or integers, alone.
#pragma once

#include "core/op.h"

namespace tapegrad::cuda {

// Runs a kernel, with copies of the operands that it does not take; the result is copied back. Of at most three
// inputs and one output.
void run_plain(Kernel kernel, const OpCall& call);

}  // namespace tapegrad::cuda
