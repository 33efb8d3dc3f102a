// PyTorch's type promotion over operands: tensors with dimensions outrank 0-d tensors, which outrank
// Python numbers; a lower rank only counts when its category is higher.
#pragma once

#include <span>

#include "core/call.h"
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

// The largest finite number of a floating dtype.
double largest_float(DType dtype);
// Refuses a number that the dtype cannot hold. As in PyTorch, infinity and NaN are floats' own, and
// unsigned types take negative integers modulo their range.
void check_fits(const char* op, Scalar number, DType dtype);
// The same for numbers that become tensors of their own: there 16-bit floats have infinity for what
// is too large.
void check_element_fits(const char* op, Scalar number, DType dtype);
// The number as the dtype holds it: rounded, truncated, wrapped.
Scalar as_held(Scalar number, DType dtype);

}  // namespace tapegrad
