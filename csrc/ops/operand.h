// What kernels take: contiguous operands, or operands whose channels lie last. Where they know float32 and float64
// only, half types go through float32, outside the tape. Kernels of CUDA devices that read half types themselves
// compute in float32, and keep sums and statistics in that.
//
// Note [Channels last]
// Kernels of convolution, pooling and batch_norm take tensors in the usual order and tensors whose channels
// lie last; all tensors of a call are in one of the two, and the kernel sees by the strides in which. So
// these ops choose the format of a call, which is that of PyTorch's result, and bring operands into it.
#pragma once

#include "core/layout.h"
#include "core/tensor.h"
#include "ops/copy.h"
#include "ops/create.h"

namespace tapegrad {

inline DType kernel_dtype(DType dtype) { return is_reduced_float(dtype) ? DType::Float32 : dtype; }
// Of ops whose kernels on CUDA take half types as they are.
inline DType kernel_dtype(DType dtype, Device device) {
  return device.type == DeviceType::CUDA ? dtype : kernel_dtype(dtype);
}

// x itself where it is contiguous and of the compute type, else a copy.
inline Tensor kernel_operand(const Tensor& x) {
  const DType compute = kernel_dtype(x.dtype());
  if (x.is_contiguous() && x.dtype() == compute) return x;
  Tensor copy = empty_like(x, x.sizes(), compute);
  copy_into(copy, x);
  return copy;
}

// x itself where it is of the dtype and in the format, else a copy; what has no channels is contiguous.
inline Tensor operand_in(const Tensor& x, DType compute, MemoryFormat format) {
  if (x.dim() < 4) format = MemoryFormat::Contiguous;
  if (x.dtype() == compute && is_contiguous(*x.impl(), format)) return x;
  Tensor copy = empty_like_layout(x, compute, format);
  copy_into(copy, x);
  return copy;
}

// The same for kernels that read half types themselves on CUDA devices.
inline Tensor device_operand(const Tensor& x, MemoryFormat format = MemoryFormat::Contiguous) {
  const bool reads_half = x->device().type == DeviceType::CUDA;
  return operand_in(x, reads_half ? x.dtype() : kernel_dtype(x.dtype()), format);
}

// Uninitialised, in a format.
inline Tensor empty_in(const char* op, Sizes sizes, DType dtype, Device device,
                       MemoryFormat format) {
  Tensor out = empty(op, sizes, dtype, device);
  if (format != MemoryFormat::Contiguous)
    out->set_geometry(sizes, format_strides(op, sizes, format), 0);
  return out;
}

// A kernel's result in the dtype that was asked for.
inline Tensor narrowed(const Tensor& result, DType dtype) {
  if (result.dtype() == dtype) return result;
  Tensor narrow = empty_like_layout(result, dtype);
  copy_into(narrow, result);
  return narrow;
}

}  // namespace tapegrad
