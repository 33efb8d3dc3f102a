// Codings of saved values: which are coded, how, and back again (graph/coding.h says what they are).
#pragma once

#include "core/tensor.h"
#include "graph/coding.h"

namespace tapegrad {

// The values again, in fresh memory.
Tensor decode(const Coded& coded);
// Codes a tensor as it would be saved by an op that reads it smoothly, and decodes it: what comes of a
// value. Itself where it would be kept.
Tensor coded_and_decoded(const Tensor& x, const CodingPolicy& policy);

}  // namespace tapegrad
