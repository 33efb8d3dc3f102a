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
    case DType::Complex64:
      return std::numeric_limits<float>::max();
    case DType::Float8_e4m3fn:
      return 448;
    case DType::Float8_e5m2:
    case DType::Float8_e5m2fnuz:
      return 57344;
    case DType::Float8_e4m3fnuz:
      return 240;
    case DType::Float8_e8m0fnu:
      return 0x1p127;
    default:
      return std::numeric_limits<double>::max();
  }
}

namespace {

template <class T>
bool integer_fits(Scalar number) {
  constexpr T kMost = std::numeric_limits<T>::max();
  if (std::is_same_v<T, uint64_t> && !number.is_float()) return true;  // modulo 2^64
  if (number.is_float()) {
    double value = number.as_double();
    return value >= static_cast<double>(std::numeric_limits<T>::min()) &&
           value <= static_cast<double>(kMost);
  }
  constexpr auto kHighest = static_cast<int64_t>(kMost);
  constexpr int64_t kLeast = std::is_signed_v<T> ? std::numeric_limits<T>::min() : -kHighest;
  return number.as_int() >= kLeast && number.as_int() <= kHighest;
}

// 8-bit floats without infinities do not take them for numbers, and those without signs nothing below
// their least number; integers lose their sign there.
bool float8_fits(Scalar number, DType dtype) {
  const double value = number.as_double();
  if (!number.is_float()) return std::abs(value) <= largest_float(dtype);
  if (std::isnan(value)) return true;
  if (std::isinf(value)) return dtype == DType::Float8_e5m2;
  if (dtype == DType::Float8_e8m0fnu && value < 0x1p-127) return false;
  return std::abs(value) <= largest_float(dtype);
}

bool fits(Scalar number, DType dtype) {
  if (is_float8(dtype)) return float8_fits(number, dtype);
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
    case DType::UInt16:
      return integer_fits<uint16_t>(number);
    case DType::UInt32:
      return integer_fits<uint32_t>(number);
    case DType::UInt64:
      return integer_fits<uint64_t>(number);
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
  if (!is_reduced_float(dtype) && !is_float8(dtype)) check_fits(op, number, dtype);
}

Scalar as_held(Scalar number, DType dtype) {
  if (dtype == DType::Bool) return Scalar(number.as_bool());
  return visit_real_dtype("number", dtype, [&](auto type) -> Scalar {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) return Scalar(static_cast<int64_t>(number.as<T>()));
    else return Scalar(static_cast<double>(number.as<T>()));
  });
}

void ResultType::add(const Tensor& tensor) {
  DType dtype = tensor.dtype();
  if (tensor->is_wrapped_number()) {
    // A number's float64 only says "float": the default dtype is meant, and the complex dtype of such.
    if (is_complex(dtype)) dtype = complex_dtype(default_dtype());
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
    // The complex dtype of what has no dimensions says "complex", not how precise.
    const bool gives_parts = !outranks && is_floating(higher) && is_complex(result);
    result = outranks      ? higher
             : gives_parts ? complex_dtype(higher)
                           : promote_types(higher, result);
    seen = true;
  }
  return result;
}

}  // namespace tapegrad
