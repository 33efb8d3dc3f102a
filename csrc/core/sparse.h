// Sparse tensors, as all layers below Python know them: handles that have a shape, a dtype and a history, and no
// bytes.
//
// Note [A sparse tensor has no bytes]
// What a sparse tensor consists of, its indices and values, are dense tensors, and what may be done with them
// is known in Python (tapegrad/sparse). The core sees a handle over a storage on the CPU that is void, as storages
// of the meta device are, and that holds the parts as the owner of bytes which are not there. So a gradient may be sparse, pass
// along edges and through hooks, and arrive in .grad, and none of that asks for bytes; the two places that add gradients
// up ask Python for the sum. Everything else that meets such a handle is refused: a function of Python's by the
// routes of python/sparse.cpp, a call where it is dispatched, under the name of its op, and a look at the bytes by
// the storage itself. While no sparse tensor lives, the one test is that of Note [What stands between dispatch
// and the kernel].
#pragma once

#include "core/tensor.h"

namespace tapegrad {

// Set among what is intercepted everywhere while there are sparse tensors.
inline constexpr uint32_t kSparseTensors = uint32_t{1} << 29;
inline Reasons sparse_tensors{kSparseTensors};

inline bool is_sparse(const TensorImpl& x) {
  return x.storage().has(Storage::kVoid) && x.device().is_cpu();
}

// A handle that holds `parts`; free_parts(parts) runs at the end.
Tensor sparse_handle(void* parts, void (*free_parts)(void*), DType dtype, Sizes sizes);
// What the handle holds.
void* sparse_parts(const TensorImpl& x);
// Another handle on the same parts.
Tensor sparse_alias(const Tensor& x);

// Set by the binding layer.
struct SparseCalls {
  // The sum of two tensors of which at least one is sparse.
  Tensor (*add)(const Tensor& a, const Tensor& b) = nullptr;
  // All elements; recorded where the sweep is.
  Tensor (*to_dense)(const Tensor& x) = nullptr;
  // What a leaf's .grad, undefined at first, becomes when a gradient arrives; at least one of them is sparse.
  Tensor (*accumulate)(const Tensor& sum, const Tensor& grad, bool create_graph) = nullptr;
};
inline SparseCalls sparse_calls;

}  // namespace tapegrad
