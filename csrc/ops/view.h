// Views: tensors over the same storage. All are recorded, and tracked for in-place writes.
#pragma once

#include <optional>
#include <vector>

#include "core/tensor.h"
#include "graph/entry_kind.h"

namespace tapegrad {

// Of entries that a subscript makes too (ops/subscript.h).
extern const EntryKind select_entry, slice_entry, unsqueeze_entry;

Tensor as_strided(const Tensor& x, Sizes sizes, Sizes strides, std::optional<int64_t> offset);
Tensor view(const Tensor& x, Sizes sizes);     // RuntimeError when a copy would be needed
Tensor reshape(const Tensor& x, Sizes sizes);  // copies when it must
// A fresh, contiguous result in another shape. Nobody else sees it, so it is no view of anything.
Tensor unsafe_view(const Tensor& x, Sizes sizes);
Tensor expand(const Tensor& x, Sizes sizes);  // -1 keeps a size
Tensor permute(const Tensor& x, Sizes dims);
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1);
Tensor squeeze(const Tensor& x);  // all dimensions of size one
Tensor squeeze(const Tensor& x, Sizes dims);
Tensor unsqueeze(const Tensor& x, int64_t dim);
Tensor select(const Tensor& x, int64_t dim, int64_t index);
Tensor slice(const Tensor& x, int64_t dim, int64_t start, int64_t end, int64_t step);
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length);
Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step);
Tensor diagonal(const Tensor& x, int64_t offset, int64_t dim0, int64_t dim1);
// Complex numbers as pairs of real ones in a last dimension of two, and the reverse.
Tensor view_as_real(const Tensor& x);
Tensor view_as_complex(const Tensor& x);
Tensor detach(const Tensor& x);
std::vector<Tensor> split_with_sizes(const Tensor& x, Sizes sizes, int64_t dim);
// What a tensor and its Python object take at the least.
constexpr int64_t kTensorBytes = sizeof(TensorImpl) + 64;
std::vector<Tensor> unbind(const Tensor& x, int64_t dim);

// The transpose of the last two dimensions: Tensor.mT.
inline Tensor matrix_transpose(const Tensor& x) { return transpose(x, -2, -1); }

}  // namespace tapegrad
