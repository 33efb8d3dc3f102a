// Depthwise convolution by kernels of our own, which are several times as fast as cuDNN's.
#pragma once

#include "cuda/conv_dnn.h"

namespace tapegrad::cuda {

// The calls of conv, conv_grad_input and conv_grad_weight, as csrc/cuda/conv.cpp has them. False where there are
// no kernels for them: nothing is done then.
bool convolve_depthwise(ConvPart part, const OpCall& call);

}  // namespace tapegrad::cuda
