#include "ops/promotion.h"

#include <cmath>
#include <limits>

#include "core/error.h"

namespace tapegrad {

double largest_float(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return 65504.0;
    case DType::BFloat16:
      return 3.3895313892515355e38;
    case DType::Float32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

namespace {

template <class T>
bool integer_fits(Scalar number) {
  constexpr T kMost = std::numeric_limits<T>::max();
  if (number.is_float()) {
    double value = number.as_double();
    return value >= static_cast<double>(std::numeric_limits<T>::min()) &&
           value <= static_cast<double>(kMost);
  }
  constexpr int64_t kLeast = std::is_signed_v<T> ? std::numeric_limits<T>::min() : -int64_t{kMost};
  return number.as_int() >= kLeast && number.as_int() <= int64_t{kMost};
}

bool fits(Scalar number, DType dtype) {
  switch (dtype) {
    case DType::UInt8:
      return integer_fits<uint8_t>(number);
    case DType::Int8:
      return integer_fits<int8_t>(number);
    case DType::Int16:
      return integer_fits<int16_t>(number);
    case DType::Int32:
      return integer_fits<int32_t>(number);
    case DType::Int64:
      return integer_fits<int64_t>(number);
    case DType::Bool:
      return true;
    default: {
      double value = number.as_double();
      return !std::isfinite(value) || std::abs(value) <= largest_float(dtype);
    }
  }
}

}  // namespace

void check_fits(const char* op, Scalar number, DType dtype) {
  TAPEGRAD_CHECK(fits(number, dtype), op, ": value cannot be converted to type ", name(dtype),
                 " without overflow");
}

void check_element_fits(const char* op, Scalar number, DType dtype) {
  if (!is_reduced_float(dtype)) check_fits(op, number, dtype);
}

Scalar as_held(Scalar number, DType dtype) {
  if (dtype == DType::Bool) return Scalar(number.as_bool());
  return visit_dtype("number", dtype, [&](auto type) -> Scalar {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) return Scalar(static_cast<int64_t>(number.as<T>()));
    else return Scalar(static_cast<double>(number.as<T>()));
  });
}

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

}  // namespace tapegrad
