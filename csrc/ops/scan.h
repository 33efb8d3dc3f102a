// Scans: running sums, products and extremes along a dimension.
#pragma once

#include <optional>
#include <utility>

#include "core/tensor.h"

namespace tapegrad {

Tensor cumsum(const Tensor& x, int64_t dim, std::optional<DType> dtype = {});
Tensor cumprod(const Tensor& x, int64_t dim, std::optional<DType> dtype = {});
void cumsum_(const Tensor& self, int64_t dim, std::optional<DType> dtype = {});
void cumprod_(const Tensor& self, int64_t dim, std::optional<DType> dtype = {});
Tensor logcumsumexp(const Tensor& x, int64_t dim);
// Values and the places of the latest extreme.
std::pair<Tensor, Tensor> cummax(const Tensor& x, int64_t dim);
std::pair<Tensor, Tensor> cummin(const Tensor& x, int64_t dim);

// The product of the elements before each one, or with `reverse` of those after it.
Tensor exclusive_cumprod(const Tensor& x, int64_t dim, bool reverse);

}  // namespace tapegrad
