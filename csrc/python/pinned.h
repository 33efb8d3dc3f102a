// Tensors in page-locked memory.
#pragma once

#include "core/tensor.h"

namespace tapegrad::python {

// A copy of a tensor of the CPU in page-locked memory; the tensor itself if it is there.
Tensor pinned(const Tensor& x);

}  // namespace tapegrad::python
