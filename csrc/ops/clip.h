// Norms over lists of tensors and their scaling, for the clipping of gradients. What is unusual (mixed
// dtypes, odd layouts, shared memory) is left to the composed functions in tapegrad/nn/utils.
#pragma once

#include <optional>
#include <span>

#include "core/tensor.h"

namespace tapegrad {

// The norm of all elements of all tensors, with p = 1, 2 or infinity; nothing where the kernels do not
// take the tensors.
std::optional<Tensor> total_norm(std::span<const Tensor> tensors, double p);

// Multiplies all tensors by a number; false, with nothing changed, where the kernels do not take them.
bool scale_tensors(std::span<const Tensor> tensors, const Tensor& factor);

}  // namespace tapegrad
