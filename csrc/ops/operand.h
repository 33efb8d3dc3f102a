// What kernels take that know float32 and float64 only: contiguous operands. Half types go through
// float32, outside the tape.
#pragma once

#include "core/tensor.h"
#include "ops/copy.h"

namespace tapegrad {

inline DType kernel_dtype(DType dtype) { return is_reduced_float(dtype) ? DType::Float32 : dtype; }

// x itself where it is contiguous and of the compute type, else a copy.
inline Tensor kernel_operand(const Tensor& x) {
  const DType compute = kernel_dtype(x.dtype());
  if (x.is_contiguous() && x.dtype() == compute) return x;
  Tensor copy = empty_like(x, x.sizes(), compute);
  copy_into(copy, x);
  return copy;
}

// A kernel's result in the dtype that was asked for.
inline Tensor narrowed(const Tensor& result, DType dtype) {
  if (result.dtype() == dtype) return result;
  Tensor narrow = empty_like(result, result.sizes(), dtype);
  copy_into(narrow, result);
  return narrow;
}

}  // namespace tapegrad
