// In which order results lie in memory. The rules are PyTorch's, because they can be seen: by
// stride(), and by whether reshape() of a result shows it or copies it.
#pragma once

#include <span>

#include "core/tensor.h"

namespace tapegrad {

enum class MemoryFormat : uint8_t { Preserve, Contiguous, ChannelsLast, ChannelsLast3d };

// Whether two tensors have the same place in their storages, read as one dtype.
bool same_geometry(const Tensor& a, const Tensor& b);
// Whether they show the same elements in the same way: that, of one storage.
bool shows_same(const Tensor& a, const Tensor& b);

// Whether the elements fill their memory without gaps and without repeats, in whatever order.
bool is_dense(const TensorImpl& x);

// Whether the elements lie without gaps in the order of a format other than Preserve.
bool is_contiguous(const TensorImpl& x, MemoryFormat format);

// ChannelsLast where the strides say so, else Contiguous.
MemoryFormat suggested_format(const TensorImpl& x);

// Strides of a fresh tensor in a format other than Preserve; refuses sizes of another rank.
DimVector format_strides(const char* op, Sizes sizes, MemoryFormat format);

// Strides of a fresh tensor like x: those of x if x is dense, else dense ones in the same order.
DimVector strides_like(const TensorImpl& x);

// Strides of what is computed element by element from operands that broadcast to `sizes`. The
// earlier operand decides where two disagree, and the usual order where none says anything.
DimVector elementwise_strides(Sizes sizes, std::span<const Tensor* const> operands);

}  // namespace tapegrad
