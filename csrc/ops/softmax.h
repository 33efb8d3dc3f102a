// softmax and log_softmax, with fused derivatives that are ops themselves.
#pragma once

#include <optional>

#include "core/tensor.h"

namespace tapegrad {

Tensor softmax(const Tensor& x, int64_t dim, std::optional<DType> dtype = {});
Tensor log_softmax(const Tensor& x, int64_t dim, std::optional<DType> dtype = {});

// Of the gradient and the result y: (g - sum(g y)) y, and g - exp(y) sum(g). Recorded.
Tensor softmax_backward(const Tensor& grad, const Tensor& y, int64_t dim);
Tensor log_softmax_backward(const Tensor& grad, const Tensor& y, int64_t dim);

}  // namespace tapegrad
