// Convolution by cuDNN.
#pragma once

#include <string>

#include "core/op.h"

namespace tapegrad::cuda {

enum class ConvPart : uint8_t { Forward, GradInput, GradWeight };

// The calls of conv, conv_grad_input and conv_grad_weight, as csrc/cuda/conv.cpp has them. False if the library has
// no such convolution, or is not there or not wanted: nothing is done then.
bool convolve_with_dnn(ConvPart part, const OpCall& call);

// Whether a bias is added by the plan of a convolution, where the library has one that does.
inline bool dnn_adds_bias = true;

// How many were computed by the library so far.
inline int64_t dnn_convolutions = 0;
// Why the last one was not; empty where the library was not asked.
inline std::string dnn_refusal;

}  // namespace tapegrad::cuda
