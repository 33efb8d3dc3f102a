// Norms over lists of tensors and their scaling, for the clipping of gradients and for scaled losses. What is
// unusual in clipping (mixed dtypes, odd layouts, shared memory) is left to the composed functions in
// tapegrad/nn/utils.
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

// Multiplies tensors of one dtype and device by a number, and sets `found_inf` to one where an element is
// infinite or NaN; else it stays as it is. Nothing is read on the host.
void unscale_tensors(std::span<const Tensor> tensors, const Tensor& found_inf,
                     const Tensor& factor);
// What a scale becomes after a step: smaller if something was found in it, and larger after so many without.
void update_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& found_inf,
                  double growth_factor, double backoff_factor, int64_t growth_interval);

}  // namespace tapegrad
