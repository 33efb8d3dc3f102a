// Normalisation by means and variances, fused.
#pragma once

#include <tuple>

#include "core/tensor.h"

namespace tapegrad {

// The last `dims` dimensions shifted and scaled to mean 0 and variance 1, or only scaled to mean
// square 1 (`centred` false). weight and bias, of these dimensions' sizes, may be undefined. All of
// one dtype, float32 or float64.
Tensor layer_norm(const Tensor& x, int64_t dims, const Tensor& weight, const Tensor& bias,
                  double eps, bool centred);

// Every channel (dimension 1) shifted and scaled by the given mean and variance, or, where they are
// undefined, by its own over the batch. Returns these with the result: mean and biased variance,
// without history.
std::tuple<Tensor, Tensor, Tensor> batch_norm(const Tensor& x, const Tensor& mean,
                                              const Tensor& variance, const Tensor& weight,
                                              const Tensor& bias, double eps);

}  // namespace tapegrad
