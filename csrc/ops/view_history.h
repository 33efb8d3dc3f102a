// Geometry of views, and how a gradient of a part becomes a gradient of the whole.
#pragma once

#include <span>

#include "core/tensor.h"

namespace tapegrad {

// A place in a storage.
struct Geometry {
  DimVector sizes;
  DimVector strides;
  int64_t offset = 0;
};

// Zeros of shape `sizes`, contiguous, with `part` added at the place `geometry` (where places
// overlap, as in unfold, they sum up). Recorded: linear in `part`.
Tensor embed(const Tensor& part, Sizes sizes, const Geometry& geometry);
// The reverse: the elements at the place `geometry` of the contiguous version of x, as a copy.
Tensor extract(const Tensor& x, const Geometry& geometry);

// Outputs of one op that are views of one tensor: writing to one of them is refused.
void mark_multi_output_views(std::span<const Tensor> views);

}  // namespace tapegrad
