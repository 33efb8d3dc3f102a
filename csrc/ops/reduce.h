// Reductions and what is made of them. An empty list of dims means all of them.
#pragma once

#include <optional>
#include <utility>

#include "core/tensor.h"

namespace tapegrad {

using TensorPair = std::pair<Tensor, Tensor>;

Tensor sum(const Tensor& x, Sizes dims, bool keepdim, std::optional<DType> dtype = {});
// Sums broadcast dimensions away, so that the result has shape `sizes`. Recorded.
Tensor sum_to_size(const Tensor& x, Sizes sizes);
Tensor mean(const Tensor& x, Sizes dims, bool keepdim, std::optional<DType> dtype = {});
Tensor prod(const Tensor& x, std::optional<DType> dtype = {});
Tensor prod(const Tensor& x, int64_t dim, bool keepdim, std::optional<DType> dtype = {});
Tensor logsumexp(const Tensor& x, Sizes dims, bool keepdim);

// The gradient is shared by equal extremes.
Tensor amax(const Tensor& x, Sizes dims, bool keepdim);
Tensor amin(const Tensor& x, Sizes dims, bool keepdim);
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
// Values and indices of the first extreme; the gradient goes to that one.
TensorPair max(const Tensor& x, int64_t dim, bool keepdim);
TensorPair min(const Tensor& x, int64_t dim, bool keepdim);
Tensor argmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim);
Tensor argmin(const Tensor& x, std::optional<int64_t> dim, bool keepdim);
// Of an even number of values the lower of the two in the middle.
Tensor median(const Tensor& x);
TensorPair median(const Tensor& x, int64_t dim, bool keepdim);

// Whether elements are nonzero; of no elements together, but of each, with test_each().
Tensor test_each(const Tensor& x);
Tensor any(const Tensor& x, Sizes dims, bool keepdim);
Tensor all(const Tensor& x, Sizes dims, bool keepdim);
Tensor count_nonzero(const Tensor& x, Sizes dims);

Tensor var(const Tensor& x, Sizes dims, double correction, bool keepdim);
Tensor standard_deviation(const Tensor& x, Sizes dims, double correction, bool keepdim);
TensorPair var_mean(const Tensor& x, Sizes dims, double correction, bool keepdim);
TensorPair std_mean(const Tensor& x, Sizes dims, double correction, bool keepdim);
Tensor norm(const Tensor& x, double p, Sizes dims, bool keepdim, std::optional<DType> dtype = {});

}  // namespace tapegrad
