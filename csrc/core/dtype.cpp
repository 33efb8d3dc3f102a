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

// Of two that differ, one of them bare: wide unsigned integers give way to floats, and that is all.
DType promote_bare(DType a, DType b) {
  const DType other = is_wide_unsigned(a) ? b : a;
  if ((is_wide_unsigned(a) || is_wide_unsigned(b)) && is_floating(other) && !is_bare(other))
    return other;
  const bool float8 = is_float8(a) || is_float8(b);
  fail("Promotion for ", float8 ? "Float8 Types" : "uint16, uint32, uint64 types",
       " is not supported, attempted to promote ", name(a), " and ", name(b));
}

}  // namespace

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (is_bare(a) || is_bare(b)) [[unlikely]]
    return promote_bare(a, b);
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
  TAPEGRAD_CHECK_AS(TypeError, is_floating(dtype) && !is_bare(dtype),
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
