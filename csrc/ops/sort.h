// Ordering elements, and what stands on an order: search, unique values, counts.
#pragma once

#include <optional>
#include <vector>

#include "core/tensor.h"

namespace tapegrad {

struct ValuesAndIndices {
  Tensor values;
  Tensor indices;
};

// Always stable; NaN is the greatest value.
ValuesAndIndices sort(const Tensor& x, int64_t dim, bool descending);
Tensor argsort(const Tensor& x, int64_t dim, bool descending);
ValuesAndIndices topk(const Tensor& x, int64_t k, int64_t dim, bool largest, bool sorted);
// The k-th smallest, from 1.
ValuesAndIndices kthvalue(const Tensor& x, int64_t k, int64_t dim, bool keepdim);
// The most frequent value along a dimension, the smallest of several, and where it came last.
ValuesAndIndices mode(const Tensor& x, int64_t dim, bool keepdim);

// The distinct elements, or slices along dim, in ascending order.
struct Unique {
  Tensor values;
  Tensor inverse;  // for each element the number of its value
  Tensor counts;   // how often each value occurs
};
Unique unique(const Tensor& x, std::optional<int64_t> dim);

// Where `values` would go in sorted rows. `sorter`, if defined, tells the rows' order.
Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values, bool right, bool out_int32,
                    const Tensor& sorter);
Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minlength);

}  // namespace tapegrad
