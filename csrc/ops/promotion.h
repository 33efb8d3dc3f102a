// PyTorch's type promotion over operands: tensors with dimensions outrank 0-d tensors, which outrank
// Python numbers; a lower rank only counts when its category is higher.
#pragma once

#include <span>

#include "core/tensor.h"

namespace tapegrad {

class ResultType {
 public:
  void add(const Tensor& tensor);
  void add(Scalar number) { add_to(kNumbers, number.dtype()); }
  DType get() const;

 private:
  enum Rank { kDimensioned, kZeroDim, kNumbers };
  void add_to(Rank rank, DType dtype) {
    types_[rank] = seen_[rank] ? promote_types(types_[rank], dtype) : dtype;
    seen_[rank] = true;
  }
  bool seen_[3] = {};
  DType types_[3];
};

// A 0-d tensor made of a Python number, weak in promotion.
Tensor wrapped_number(Scalar number);

}  // namespace tapegrad
