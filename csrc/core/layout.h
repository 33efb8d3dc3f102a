// Where elements lie in memory, and in which order results do. The rules are PyTorch's, because they can
// be seen: by stride(), and by whether reshape() of a result shows it or copies it.
#pragma once

#include <span>

#include "core/tensor.h"

namespace tapegrad {

enum class MemoryFormat : uint8_t { Preserve, Contiguous, ChannelsLast, ChannelsLast3d };

// How the elements of an operand lie in its memory. Refers to sizes and strides kept elsewhere.
struct Placement {
  DType dtype;
  Device device;
  int64_t offset;  // in elements
  Sizes sizes, strides;

  friend bool operator==(const Placement& a, const Placement& b) {
    return a.dtype == b.dtype && a.device == b.device && a.offset == b.offset &&
           same_sizes(a.sizes, b.sizes) && same_sizes(a.strides, b.strides);
  }
};
Placement placement_of(const TensorImpl& x);

// The bytes of its memory that elements lie in. Strides may be negative, as in a call of flip.
struct ByteRange {
  int64_t begin = 0, end = 0;

  bool is_empty() const { return begin == end; }
  bool meets(ByteRange other) const { return begin < other.end && other.begin < end; }
  ByteRange with(ByteRange other) const;
};
// False where the range cannot be expressed in 64 bits: never for a tensor that exists.
[[nodiscard]] bool find_byte_range(const Placement& placement, ByteRange& range);
ByteRange byte_range(const Placement& placement);
// Whether all elements lie within so many bytes of memory.
bool lies_within(const Placement& placement, size_t nbytes);

// Whether two tensors have the same place in their storages, read as one dtype.
inline bool same_geometry(const Tensor& a, const Tensor& b) {
  return placement_of(*a.impl()) == placement_of(*b.impl());
}
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
