// Convolutions in which each channel has a window of its own, by kernels of our own.
#pragma once

#include "cuda/conv_dnn.h"

namespace tapegrad::cuda {

// The calls of conv, conv_grad_input and conv_grad_weight, as csrc/cuda/conv.cpp has them. False if a call is none of
// these, or they are not wanted: nothing is done then.
bool convolve_depthwise(ConvPart part, const OpCall& call);

// Whether they are computed so. Results of other kernels differ by rounding.
inline bool uses_depthwise = true;

// Results of so many elements are worth a kernel for one number of channels.
inline int64_t depthwise_many = int64_t{1} << 20;

// How many were so far.
inline int64_t depthwise_convolutions = 0;

}  // namespace tapegrad::cuda
