#include "ops/promotion.h"

namespace tapegrad {

void ResultType::add(const Tensor& tensor) {
  DType dtype = tensor.dtype();
  if (tensor->is_wrapped_number()) {
    // A number's float64 only says "float": the default dtype is meant.
    add_to(kNumbers, is_floating(dtype) ? default_dtype() : dtype);
  } else {
    add_to(tensor.dim() == 0 ? kZeroDim : kDimensioned, dtype);
  }
}

DType ResultType::get() const {
  bool seen = false;
  DType result = DType::Bool;
  for (int rank : {kNumbers, kZeroDim, kDimensioned}) {
    if (!seen_[rank]) continue;
    DType higher = types_[rank];
    bool outranks = !seen || (higher != DType::Bool && category(higher) >= category(result));
    result = outranks ? higher : promote_types(higher, result);
    seen = true;
  }
  return result;
}

Tensor wrapped_number(Scalar number) {
  Tensor tensor;
  switch (number.kind()) {
    case Scalar::Kind::Float:
      tensor = Tensor(TensorImpl::empty(DType::Float64, {}, 1));
      *tensor.data<double>() = number.as_double();
      break;
    case Scalar::Kind::Int:
      tensor = Tensor(TensorImpl::empty(DType::Int64, {}, 1));
      *tensor.data<int64_t>() = number.as_int();
      break;
    case Scalar::Kind::Bool:
      tensor = Tensor(TensorImpl::empty(DType::Bool, {}, 1));
      *tensor.data<bool>() = number.as_bool();
      break;
  }
  tensor->set_wrapped_number(true);
  return tensor;
}

}  // namespace tapegrad
