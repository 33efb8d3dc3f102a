#include "core/dtype.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/scalar.h"

namespace tapegrad {

namespace {

DType default_dtype_value = DType::Float32;

constexpr bool is_signed_integer(DType dtype) {
  return is_integral(dtype, false) && dtype != DType::UInt8;
}

}  // namespace

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (category(a) < category(b)) std::swap(a, b);  // a is of the higher category
  if (is_complex(a)) {
    bool wide = a == DType::Complex128 || b == DType::Float64 || b == DType::Complex128;
    return wide ? DType::Complex128 : DType::Complex64;
  }
  if (category(a) != category(b)) return a;
  if (is_floating(a)) {
    if (is_reduced_float(a) && is_reduced_float(b)) return DType::Float32;
    return std::max(a, b);
  }
  // Two different integers: the wider one, except that uint8 with int8 needs int16.
  if (is_signed_integer(a) && is_signed_integer(b)) return std::max(a, b);
  DType other = a == DType::UInt8 ? b : a;
  return other == DType::Int8 ? DType::Int16 : other;
}

DType default_dtype() { return default_dtype_value; }

void set_default_dtype(DType dtype) {
  TAPEGRAD_CHECK_AS(TypeError, is_floating(dtype),
                    "set_default_dtype: only floating-point types are supported as the default "
                    "type, got ",
                    name(dtype));
  default_dtype_value = dtype;
}

void fail_unsupported_dtype(const char* op, DType dtype) {
  fail<NotImplementedError>(op, ": not implemented for '", name(dtype), "'");
}

DType Scalar::dtype() const {
  switch (kind_) {
    case Kind::Bool:
      return DType::Bool;
    case Kind::Int:
      return DType::Int64;
    case Kind::Float:
      return default_dtype();
  }
  return DType::Int64;
}

}  // namespace tapegrad
