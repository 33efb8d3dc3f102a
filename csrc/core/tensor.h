// Tensor: a counted handle on a TensorImpl, which is storage plus geometry.
//
// Note [One count for C++ and Python]
// A tensor that Python has seen has a Python object. From then on the object's own reference count
// is the tensor's count: retain() and release() forward to it through PythonHooks. So the
// Python object lives exactly as long as the tensor, and with it identity, subclass and attributes,
// however the references are spread over the two languages.
#pragma once

#include <cstdint>
#include <span>

#include "core/byte_access.h"
#include "core/dtype.h"
#include "core/interceptor.h"
#include "core/refcount.h"
#include "core/scalar.h"
#include "core/shape.h"
#include "core/storage.h"

namespace tapegrad {

struct AutogradMeta;  // owned by the tensor, defined by the graph layer

struct PythonHooks {
  void (*retain)(void* object);
  void (*release)(void* object);
};
inline PythonHooks python_hooks;

// Set by the graph layer: how to free what it attached to a tensor.
class TensorImpl;
inline void (*destroy_autograd_meta)(TensorImpl*, AutogradMeta*) noexcept = nullptr;

class TensorImpl {
 public:
  static Ref<TensorImpl> create(Ref<Storage> storage, DType dtype, Sizes sizes, Sizes strides,
                                int64_t offset);
  // The same place in the same storage, with nothing attached.
  Ref<TensorImpl> bare_alias() const;
  // Freshly allocated and contiguous, contents undefined.
  static Ref<TensorImpl> empty(DType dtype, Sizes sizes, int64_t numel, Device device);

  TensorImpl(const TensorImpl&) = delete;
  TensorImpl& operator=(const TensorImpl&) = delete;

  DType dtype() const { return dtype_; }
  Device device() const { return storage_->device(); }
  int64_t dim() const { return rank_; }
  int64_t numel() const { return numel_; }
  int64_t offset() const { return offset_; }
  Sizes sizes() const { return {dims(), rank_}; }
  Sizes strides() const { return {dims() + rank_, rank_}; }
  int64_t size(size_t d) const { return dims()[d]; }
  int64_t stride(size_t d) const { return dims()[rank_ + d]; }
  bool is_contiguous() const { return contiguous_; }
  Storage& storage() const { return *storage_; }
  const Ref<Storage>& storage_ref() const { return storage_; }

  // The first element, for kernels: Note [Who may look at bytes].
  void* data() const {
    check_in_kernel();
    return address();
  }
  // Where it is, for others.
  void* address() const {
    if (storage_->has(Storage::kBatched | Storage::kEvicted | Storage::kFresh | Storage::kVoid |
                      Storage::kHeld)) [[unlikely]]
      return used_data();
    return static_cast<char*>(storage_->data()) + offset_ * static_cast<int64_t>(itemsize(dtype_));
  }
  template <class T>
  T* data_as() const {
    return static_cast<T*>(data());
  }

  // Points this tensor at other memory or gives it another shape; the identity stays.
  void set_geometry(Sizes sizes, Sizes strides, int64_t offset);
  void set_storage(Ref<Storage> storage, DType dtype) {
    storage_ = std::move(storage);
    dtype_ = dtype;
  }

  // How many saved values hold this very object (graph/tape_memory.h).
  uint32_t savers() const { return savers_; }
  void set_savers(uint32_t count) { savers_ = count; }

  // A Python number turned into a 0-d tensor: weaker in type promotion.
  bool is_wrapped_number() const { return wrapped_number_; }
  void set_wrapped_number(bool value) { wrapped_number_ = value; }

  // Whether this is what `.data` gave, or a view of it: Note [Writes through .data].
  bool is_data_alias() const { return data_alias_; }
  void set_data_alias(bool value) { data_alias_ = value; }

  AutogradMeta* meta() const { return meta_; }
  void set_meta(AutogradMeta* meta) { meta_ = meta; }

  void* python_object() const { return python_object_; }
  // Hands counting over to the object, whose count must already include count().
  void set_python_object(void* object) { python_object_ = object; }
  uint32_t count() const { return count_; }
  // The Python object is being freed: no reference is left on either side.
  void destroy() noexcept;

  void retain() {
    if (python_object_) python_hooks.retain(python_object_);
    else ++count_;
  }
  void release() noexcept {
    if (python_object_) python_hooks.release(python_object_);
    else if (--count_ == 0) destroy();
  }

 private:
  TensorImpl(Ref<Storage> storage, DType dtype, uint8_t rank)
      : dtype_(dtype), rank_(rank), inline_rank_(rank), storage_(std::move(storage)) {
    if (is_limited(dtype)) [[unlikely]]
      intercepted_everywhere |= kLimitedTensors;
  }

  // What follows from sizes and strides.
  void settle_geometry(int64_t offset);
  // data() where the bytes are not simply there.
  void* used_data() const;

  // Sizes, then strides. When the rank outgrew the object, the first slot points to the heap.
  int64_t* heap_dims() const { return reinterpret_cast<int64_t*>(inline_dims_[0]); }
  const int64_t* dims() const { return heap_dims_ ? heap_dims() : inline_dims_; }

  uint32_t count_ = 1;
  DType dtype_;
  uint8_t rank_;
  uint8_t inline_rank_;  // how many dimensions fit behind the object
  bool contiguous_ = true;
  bool wrapped_number_ = false;
  bool heap_dims_ = false;
  bool data_alias_ = false;
  uint32_t savers_ = 0;
  Ref<Storage> storage_;
  int64_t offset_ = 0;
  int64_t numel_ = 0;
  AutogradMeta* meta_ = nullptr;
  void* python_object_ = nullptr;
  int64_t inline_dims_[];
};

// Live tensors, for leak checks.
int64_t live_tensor_count();

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}
  explicit Tensor(TensorImpl* impl) : impl_(impl) {}

  bool defined() const { return static_cast<bool>(impl_); }
  TensorImpl* impl() const { return impl_.get(); }
  TensorImpl* operator->() const { return impl_.get(); }
  [[nodiscard]] TensorImpl* detach_reference() { return impl_.detach(); }
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

  DType dtype() const { return impl_->dtype(); }
  int64_t dim() const { return impl_->dim(); }
  int64_t numel() const { return impl_->numel(); }
  Sizes sizes() const { return impl_->sizes(); }
  Sizes strides() const { return impl_->strides(); }
  int64_t size(size_t d) const { return impl_->size(d); }
  int64_t stride(size_t d) const { return impl_->stride(d); }
  bool is_contiguous() const { return impl_->is_contiguous(); }

 private:
  Ref<TensorImpl> impl_;
};

// Whether nobody else can see the tensor or its memory: then the memory may take another value.
inline bool is_sole_owner(const Tensor& tensor) {
  const Storage& storage = tensor->storage();
  return !tensor->python_object() && tensor->count() == 1 && storage.use_count() == 1 &&
         !storage.is_borrowed();
}

// Refuses a dtype that the device does not have.
void check_device_dtype(const char* op, DType dtype, Device device);
// An uninitialised contiguous tensor. Checks the sizes and names the op when they are unusable.
Tensor empty(const char* op, Sizes sizes, DType dtype, Device device);
// The same on the device of an operand, with its dtype or another, for sizes that are known to be usable.
Tensor empty_like(const Tensor& operand);
Tensor empty_like(const Tensor& operand, Sizes sizes, DType dtype);

// A tensor over the same storage, with no history.
Tensor alias(const Tensor& x, Sizes sizes, Sizes strides, int64_t offset);

}  // namespace tapegrad
