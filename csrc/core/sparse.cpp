#include "core/sparse.h"

#include "core/error.h"

namespace tapegrad {

namespace {

struct Parts {
  void* object;
  void (*free)(void*);
};

void free_parts_of(void* owner) {
  auto* parts = static_cast<Parts*>(owner);
  --sparse_tensors;
  parts->free(parts->object);
  delete parts;
}

}  // namespace

Tensor sparse_handle(void* object, void (*free)(void*), DType dtype, Sizes sizes) {
  // No two elements have one address, since none has any: all strides are zero, unlike those of any tensor of bytes.
  const DimVector strides(sizes.size(), 0);
  auto* parts = new Parts{object, free};
  ++sparse_tensors;
  const uint16_t flags = storage_context.flags;
  storage_context.flags = static_cast<uint16_t>(flags | Storage::kVoid);
  Ref<Storage> storage = Storage::borrow(parts, 0, parts, free_parts_of);
  storage_context.flags = flags;
  return Tensor(TensorImpl::create(std::move(storage), dtype, sizes, strides, 0));
}

void* sparse_parts(const TensorImpl& x) { return static_cast<Parts*>(x.storage().data())->object; }

Tensor sparse_alias(const Tensor& x) {
  return Tensor(TensorImpl::create(x->storage_ref(), x.dtype(), x.sizes(), x.strides(), 0));
}

}  // namespace tapegrad
