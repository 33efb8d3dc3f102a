// Making tensors.
#pragma once

#include <optional>

#include "core/layout.h"
#include "core/op.h"
#include "core/tensor.h"

namespace tapegrad {

extern const Op fill_op;

Tensor full(Sizes sizes, Scalar value, DType dtype, Device device);
inline Tensor zeros(Sizes sizes, DType dtype, Device device) {
  return full(sizes, 0, dtype, device);
}
inline Tensor ones(Sizes sizes, DType dtype, Device device) {
  return full(sizes, 1, dtype, device);
}
// A 0-d tensor.
Tensor scalar_tensor(Scalar value, DType dtype, Device device);

// Uninitialised, with x's shape, and its memory order unless another one is asked for.
Tensor empty_like_layout(const Tensor& x, DType dtype,
                         MemoryFormat format = MemoryFormat::Preserve);
Tensor empty_like_layout(const Tensor& x, DType dtype, MemoryFormat format, Device device);

// Zeros in the shape of x and in its memory order.
Tensor zeros_like(const Tensor& x);

Tensor arange(Scalar start, Scalar end, Scalar step, DType dtype, Device device);
// start, start + step, ...; integer dtypes take both without their fractions.
Tensor steps_from(Scalar start, Scalar step, int64_t count, DType dtype, Device device);
Tensor linspace(double start, double end, int64_t steps, DType dtype, Device device);
Tensor logspace(double start, double end, int64_t steps, double base, DType dtype, Device device);
Tensor eye(int64_t rows, int64_t columns, DType dtype, Device device);

// Writes `value` everywhere. No history; callers that are public bump and record (see copy.h).
void fill_into(const Tensor& out, Scalar value);

}  // namespace tapegrad
