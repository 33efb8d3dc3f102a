#include "intercept/host_bytes.h"

#include <cstring>

#include "core/registry.h"
#include "intercept/capture.h"

namespace tapegrad {

namespace {

// Calls visit(address) for each element in order, whatever the strides.
template <class Visit>
void each_element(const TensorImpl& x, Visit&& visit) {
  auto item = static_cast<int64_t>(itemsize(x.dtype()));
  auto* data = static_cast<char*>(x.address());  // on the CPU
  DimVector index(static_cast<size_t>(x.dim()), 0);
  for (int64_t count = x.numel(); count > 0; --count) {
    int64_t place = 0;
    for (size_t d = 0; d < index.size(); ++d) place += index[d] * x.stride(d);
    visit(data + place * item);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < x.size(d)) break;
      index[d] = 0;
    }
  }
}

void tell_read(const Tensor& x) {
  if (x->storage().has(Storage::kTracked)) before_unseen_read(x->storage());
}

// Between the host and a device: contiguous tensors of one dtype and size.
void move_unseen(const Tensor& from, const Tensor& to) {
  tell_read(from);
  static const Op& move = *find_op("move");
  TensorImpl* const inputs[] = {from.impl()};
  TensorImpl* const outputs[] = {to.impl()};
  const Scalar attributes[] = {false};
  run_without_interceptors({move, inputs, attributes, outputs});
}

void put_on_device(const Tensor& x, const std::vector<char>& bytes) {
  auto* data = const_cast<char*>(bytes.data());  // which is only read
  Ref<Storage> memory = Storage::borrow(data, bytes.size(), nullptr, [](void*) {});
  const DimVector strides = contiguous_strides(x.sizes());
  const Tensor host(TensorImpl::create(std::move(memory), x.dtype(), x.sizes(), strides, 0));
  if (x.is_contiguous()) return move_unseen(host, x);
  const Tensor dense = empty_like(x);
  move_unseen(host, dense);
  copy_unseen(dense, x);
}

}  // namespace

std::vector<char> bytes_of(const Tensor& x) {
  if (x.numel() == 0) return {};
  if (!x->device().is_cpu()) return bytes_of(copy_to_host(x));
  size_t item = itemsize(x.dtype());
  if (x.is_contiguous()) {
    const auto* data = static_cast<const char*>(x->address());
    return {data, data + static_cast<size_t>(x.numel()) * item};
  }
  std::vector<char> bytes;
  bytes.reserve(static_cast<size_t>(x.numel()) * item);
  each_element(*x.impl(),
               [&](const char* element) { bytes.insert(bytes.end(), element, element + item); });
  return bytes;
}

void put_bytes(const Tensor& x, const std::vector<char>& bytes) {
  if (x.numel() == 0) return;
  if (!x->device().is_cpu()) return put_on_device(x, bytes);
  if (x.is_contiguous()) {
    std::memcpy(x->address(), bytes.data(), bytes.size());
    return;
  }
  size_t item = itemsize(x.dtype());
  const char* from = bytes.data();
  each_element(*x.impl(), [&](char* element) {
    std::memcpy(element, from, item);
    from += item;
  });
}

Tensor part_of_storage(const Ref<Storage>& storage, int64_t begin, int64_t end) {
  const int64_t sizes[] = {end - begin}, strides[] = {1};
  return Tensor(TensorImpl::create(storage, DType::UInt8, sizes, strides, begin));
}

Tensor whole_storage(const Ref<Storage>& storage) {
  return part_of_storage(storage, 0, static_cast<int64_t>(storage->nbytes()));
}

const Op& registered_copy() {
  static const Op& copy = *find_op("copy");
  return copy;
}

Tensor copy_to_host(const Tensor& x) {
  x->address();  // has evicted elements computed, and refuses where there are none
  Tensor dense = x;
  if (!x.is_contiguous()) copy_unseen(x, dense = empty_like(x));
  Tensor host(TensorImpl::empty(x.dtype(), x.sizes(), x.numel(), Device{}));
  move_unseen(dense, host);
  return host;
}

void copy_unseen(const Tensor& from, const Tensor& to) {
  tell_read(from);
  TensorImpl* const inputs[] = {from.impl()};
  TensorImpl* const outputs[] = {to.impl()};
  run_without_interceptors({registered_copy(), inputs, {}, outputs});
}

}  // namespace tapegrad
