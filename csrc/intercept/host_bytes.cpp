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
  auto* data = static_cast<char*>(x.address());
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

}  // namespace

std::vector<char> bytes_of(const TensorImpl& x) {
  if (x.numel() == 0) return {};
  size_t item = itemsize(x.dtype());
  if (x.is_contiguous()) {
    const auto* data = static_cast<const char*>(x.address());
    return {data, data + static_cast<size_t>(x.numel()) * item};
  }
  std::vector<char> bytes;
  bytes.reserve(static_cast<size_t>(x.numel()) * item);
  each_element(x, [&](const char* element) { bytes.insert(bytes.end(), element, element + item); });
  return bytes;
}

void put_bytes(const TensorImpl& x, const std::vector<char>& bytes) {
  if (x.numel() == 0) return;
  if (x.is_contiguous()) {
    std::memcpy(x.address(), bytes.data(), bytes.size());
    return;
  }
  size_t item = itemsize(x.dtype());
  const char* from = bytes.data();
  each_element(x, [&](char* element) {
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
  static const Op& move = *find_op("move");
  Tensor dense = x;
  if (!x.is_contiguous()) copy_unseen(x, dense = empty_like(x));
  Tensor host(TensorImpl::empty(x.dtype(), x.sizes(), x.numel(), Device{}));
  if (x->device().is_meta()) x->storage().use();  // which refuses
  TensorImpl* const inputs[] = {dense.impl()};
  TensorImpl* const outputs[] = {host.impl()};
  const Scalar attributes[] = {false};
  run_without_interceptors({move, inputs, attributes, outputs});
  return host;
}

void copy_unseen(const Tensor& from, const Tensor& to) {
  TensorImpl* const inputs[] = {from.impl()};
  TensorImpl* const outputs[] = {to.impl()};
  run_without_interceptors({registered_copy(), inputs, {}, outputs});
}

}  // namespace tapegrad
