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

// "mm" for MmBackward0 and mm_ alike: small letters, without underscores.
std::string plain_op_name(std::string_view name);

}  // namespace tapegrad
