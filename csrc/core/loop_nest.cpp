#include "core/loop_nest.h"

#include <algorithm>
#include <cstdlib>

namespace tapegrad {

void LoopNest::build(std::span<const TensorImpl* const> tensors) {
  const TensorImpl& first = *tensors[0];
  int rank = static_cast<int>(first.dim());
  int count = static_cast<int>(tensors.size());

  // Innermost first: by the first tensor's stride, dimensions of size one left out.
  int order[kMaxRank];
  int used = 0;
  for (int d = rank - 1; d >= 0; --d)
    if (first.size(d) != 1) order[used++] = d;
  std::stable_sort(order, order + used, [&](int a, int b) {
    return std::abs(first.stride(a)) < std::abs(first.stride(b));
  });

  rank_ = 0;
  for (int k = 0; k < used; ++k) {
    int64_t size = first.size(order[k]);
    int64_t strides[kMaxTensors];
    bool mergeable = rank_ > 0;
    for (int t = 0; t < count; ++t) {
      int d = order[k] - rank + static_cast<int>(tensors[t]->dim());
      bool broadcast = d < 0 || tensors[t]->size(d) == 1;
      strides[t] = broadcast ? 0 : tensors[t]->stride(d);
      if (mergeable) mergeable = strides[t] == strides_[t][rank_ - 1] * sizes_[rank_ - 1];
    }
    if (mergeable) {
      sizes_[rank_ - 1] *= size;
      continue;
    }
    sizes_[rank_] = size;
    for (int t = 0; t < count; ++t) strides_[t][rank_] = strides[t];
    ++rank_;
  }
  if (rank_ == 0) {  // a single element
    rank_ = 1;
    sizes_[0] = 1;
    for (int t = 0; t < count; ++t) strides_[t][0] = 1;
  }
}

}  // namespace tapegrad
