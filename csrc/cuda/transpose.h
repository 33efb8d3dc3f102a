// Copies that exchange dimensions.
#pragma once

#include "core/loop_nest.h"

namespace tapegrad::cuda {

// Copies elements of one dtype, the first tensor of the nest from the second, if they lie so that tiles pay.
bool copy_transposed(const TensorImpl& to, const TensorImpl& from, const LoopNest& nest);

}  // namespace tapegrad::cuda
