// layer_norm and rms_norm together with the calls around them (cuda/merge.cpp).
#pragma once

#include "core/op.h"

namespace tapegrad::cuda {

// What else the kernel of a norm does. All are contiguous, and as large as x.
struct NormNeighbours {
  // x is their sum, which is written; `first` is of x's dtype. Null where x is there.
  const TensorImpl* first = nullptr;
  const TensorImpl* second = nullptr;
  // Takes y in another dtype; may be null.
  const TensorImpl* narrow = nullptr;
  bool wants_result = true;  // y itself
};

// Runs a call of layer_norm so, of float32 or a half type. False, and nothing is done, where rows are too long.
bool run_merged_norm(const OpCall& call, const NormNeighbours& neighbours);

// The same of a call of layer_norm_backward: `narrow` takes the gradient of x in another dtype as well.
bool run_merged_norm_backward(const OpCall& call, const TensorImpl& narrow);

}  // namespace tapegrad::cuda
