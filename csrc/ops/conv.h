// Convolutions of one, two or three spatial dimensions.
#pragma once

#include "core/tensor.h"

namespace tapegrad {

struct Convolution {
  DimVector stride, padding, dilation;  // one number per spatial dimension
  bool transposed = false;
  DimVector output_padding;
  int64_t groups = 1;
  bool channels_last = false;  // in results and gradients; found by convolution()
};

// x (batch, channels, spatial...), or without the batch. weight (out, in / groups, kernel...), of a
// transposed one (in, out / groups, kernel...). bias (out) may be undefined. Lists of one number
// count for every dimension.
Tensor convolution(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Convolution& how);

}  // namespace tapegrad
