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

// The shape of a tensor with the strides it has in memory.
struct Layout {
  DimVector sizes;
  DimVector strides;
};

// Zeros of shape `sizes`, contiguous, with `part` added at the place `geometry` (where places
// overlap, as in unfold, they sum up). Recorded: linear in `part`.
Tensor embed(const Tensor& part, Sizes sizes, const Geometry& geometry);
// The same where the whole has strides of its own, to which `geometry` refers.
Tensor embed(const Tensor& part, const Layout& whole, const Geometry& geometry);
// The reverse: the elements at the place `geometry` of the contiguous version of x, as a copy.
Tensor extract(const Tensor& x, const Geometry& geometry);
Tensor extract(const Tensor& x, const Layout& whole, const Geometry& geometry);

// Records that y shows the place of x: the gradient of as_strided.
void record_as_strided(const Tensor& x, const Tensor& y, Geometry place);

// Outputs of one op that are views of one tensor: writing to one of them is refused.
void mark_multi_output_views(std::span<const Tensor> views);

}  // namespace tapegrad
