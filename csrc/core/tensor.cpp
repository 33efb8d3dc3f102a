#include "core/tensor.h"

#include <cstring>

#include "core/error.h"

namespace tapegrad {

#ifdef TAPEGRAD_CHECKED
void check_in_kernel() {
  TAPEGRAD_CHECK(
      running_kernels > 0,
      "internal error: bytes are looked at outside of a kernel, and not by read_on_host()");
}
#endif

namespace {
int64_t live_tensors = 0;

// At least one slot, which holds the heap pointer when the rank grows.
size_t object_bytes(uint8_t rank) {
  return sizeof(TensorImpl) + sizeof(int64_t) * std::max(2 * rank, 1);
}
}  // namespace

int64_t live_tensor_count() { return live_tensors; }

Ref<TensorImpl> TensorImpl::create(Ref<Storage> storage, DType dtype, Sizes sizes, Sizes strides,
                                   int64_t offset) {
  auto rank = static_cast<uint8_t>(sizes.size());
  auto* impl = new (pool_allocate(object_bytes(rank))) TensorImpl(std::move(storage), dtype, rank);
  ++live_tensors;
  std::copy_n(sizes.data(), rank, impl->inline_dims_);
  std::copy_n(strides.data(), rank, impl->inline_dims_ + rank);
  impl->settle_geometry(offset);
  return Ref<TensorImpl>::adopt(impl);
}

Ref<TensorImpl> TensorImpl::empty(DType dtype, Sizes sizes, int64_t numel, Device device) {
  auto rank = static_cast<uint8_t>(sizes.size());
  Ref<Storage> storage = Storage::allocate(static_cast<size_t>(numel) * itemsize(dtype), device);
  auto* impl = new (pool_allocate(object_bytes(rank))) TensorImpl(std::move(storage), dtype, rank);
  ++live_tensors;
  int64_t stride = 1;
  for (size_t i = rank; i-- > 0;) {
    impl->inline_dims_[i] = sizes[i];
    impl->inline_dims_[rank + i] = stride;
    stride = wrapping_product(stride, sizes[i] > 1 ? sizes[i] : 1);
  }
  impl->numel_ = numel;
  return Ref<TensorImpl>::adopt(impl);
}

Ref<TensorImpl> TensorImpl::bare_alias() const {
  auto* impl = new (pool_allocate(object_bytes(rank_))) TensorImpl(storage_, dtype_, rank_);
  ++live_tensors;
  std::copy_n(dims(), 2 * rank_, impl->inline_dims_);
  impl->contiguous_ = contiguous_;
  impl->offset_ = offset_;
  impl->numel_ = numel_;
  impl->data_alias_ = data_alias_;
  return Ref<TensorImpl>::adopt(impl);
}

void* TensorImpl::used_data() const {
  storage_->use();
  return static_cast<char*>(storage_->data()) + offset_ * static_cast<int64_t>(itemsize(dtype_));
}

void TensorImpl::set_geometry(Sizes sizes, Sizes strides, int64_t offset) {
  size_t rank = sizes.size();
  // The arguments may be our own dims: copy them out before the array moves.
  DimVector new_sizes(sizes);
  DimVector new_strides(strides);
  if (heap_dims_) delete[] heap_dims();
  heap_dims_ = rank > inline_rank_;
  if (heap_dims_) inline_dims_[0] = reinterpret_cast<int64_t>(new int64_t[2 * rank]);
  rank_ = static_cast<uint8_t>(rank);
  int64_t* target = heap_dims_ ? heap_dims() : inline_dims_;
  std::copy(new_sizes.begin(), new_sizes.end(), target);
  std::copy(new_strides.begin(), new_strides.end(), target + rank);
  settle_geometry(offset);
}

void TensorImpl::settle_geometry(int64_t offset) {
  offset_ = offset;
  numel_ = 1;
  for (int64_t size : sizes()) numel_ = wrapping_product(numel_, size);
  contiguous_ = tapegrad::is_contiguous(sizes(), strides());
}

void TensorImpl::destroy() noexcept {
  if (meta_) destroy_autograd_meta(this, std::exchange(meta_, nullptr));
  if (heap_dims_) delete[] heap_dims();
  --live_tensors;
  size_t bytes = object_bytes(inline_rank_);
  this->~TensorImpl();
  pool_free(this, bytes);
}

void check_device_dtype(const char* op, DType dtype, Device device) {
  if (is_limited(dtype) && device.type == DeviceType::CUDA)
    fail<NotImplementedError>(op, ": ", is_complex(dtype) ? "complex " : "",
                              "tensors are not supported on CUDA devices, got ", name(dtype),
                              "; keep them on the CPU");
}

Tensor empty(const char* op, Sizes sizes, DType dtype, Device device) {
  check_device_dtype(op, dtype, device);
  return Tensor(TensorImpl::empty(dtype, sizes, checked_numel(op, sizes), device));
}

Tensor empty_like(const Tensor& operand) {
  return Tensor(
      TensorImpl::empty(operand.dtype(), operand.sizes(), operand.numel(), operand->device()));
}

Tensor empty_like(const Tensor& operand, Sizes sizes, DType dtype) {
  int64_t numel = 1;
  for (int64_t size : sizes) numel = wrapping_product(numel, size);  // beside a zero, any size
  return Tensor(TensorImpl::empty(dtype, sizes, numel, operand->device()));
}

Tensor alias(const Tensor& x, Sizes sizes, Sizes strides, int64_t offset) {
  Tensor shown(TensorImpl::create(x->storage_ref(), x.dtype(), sizes, strides, offset));
  shown->set_data_alias(x->is_data_alias());
  return shown;
}

}  // namespace tapegrad
