// Cross entropy with classes as targets, fused: no probabilities are kept.
#pragma once

#include "core/tensor.h"
#include "spec/cross_entropy.h"

namespace tapegrad {

// x of shape (N, C, ...) or (C), int64 targets of shape (N, ...) or (), a weight for each class or none. What is
// computed stands in spec/cross_entropy.h. No derivative with respect to the weight.
Tensor cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                     LossReduction reduction, int64_t ignore_index, double label_smoothing);

}  // namespace tapegrad
