// Element types, their categories, and PyTorch's promotion lattice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/complex.h"
#include "core/float8.h"
#include "core/half.h"

namespace tapegrad {

enum class DType : uint8_t {
  Bool,
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  Float16,
  BFloat16,
  Float32,
  Float64,
  Complex64,
  Complex128,
  // Bare dtypes: see Note [Bare dtypes].
  Float8_e4m3fn,
  Float8_e5m2,
  Float8_e4m3fnuz,
  Float8_e5m2fnuz,
  Float8_e8m0fnu,
  UInt16,
  UInt32,
  UInt64,
};
inline constexpr int kDTypeCount = 20;

// Note [Bare dtypes]
// The 8-bit floats and the unsigned integers of more than 8 bits are stored, converted, moved and indexed, and
// hardly computed with, as in PyTorch. Kernels have no code for them: those that move bytes go by the size of an
// item, conversions go through a dtype that has code (cpu/bare.cpp), and pointwise kernels convert
// their operands anyway. An op that takes them says so by the trait kBare, a line of the pointwise table by
// BARE; all others refuse them at dispatch (core/op.cpp).

enum class DTypeCategory : uint8_t { Bool, Integer, Floating, Complex };

struct DTypeInfo {
  const char* name;        // "float32"
  const char* short_name;  // "float": PyTorch's alias, or the same as name
  uint8_t itemsize;
  DTypeCategory category;
};

inline constexpr DTypeInfo kDTypeInfo[kDTypeCount] = {
    {"bool", "bool", 1, DTypeCategory::Bool},
    {"uint8", "uint8", 1, DTypeCategory::Integer},
    {"int8", "int8", 1, DTypeCategory::Integer},
    {"int16", "short", 2, DTypeCategory::Integer},
    {"int32", "int", 4, DTypeCategory::Integer},
    {"int64", "long", 8, DTypeCategory::Integer},
    {"float16", "half", 2, DTypeCategory::Floating},
    {"bfloat16", "bfloat16", 2, DTypeCategory::Floating},
    {"float32", "float", 4, DTypeCategory::Floating},
    {"float64", "double", 8, DTypeCategory::Floating},
    {"complex64", "cfloat", 8, DTypeCategory::Complex},
    {"complex128", "cdouble", 16, DTypeCategory::Complex},
    {"float8_e4m3fn", "float8_e4m3fn", 1, DTypeCategory::Floating},
    {"float8_e5m2", "float8_e5m2", 1, DTypeCategory::Floating},
    {"float8_e4m3fnuz", "float8_e4m3fnuz", 1, DTypeCategory::Floating},
    {"float8_e5m2fnuz", "float8_e5m2fnuz", 1, DTypeCategory::Floating},
    {"float8_e8m0fnu", "float8_e8m0fnu", 1, DTypeCategory::Floating},
    {"uint16", "uint16", 2, DTypeCategory::Integer},
    {"uint32", "uint32", 4, DTypeCategory::Integer},
    {"uint64", "uint64", 8, DTypeCategory::Integer},
};

constexpr const DTypeInfo& info(DType dtype) { return kDTypeInfo[static_cast<int>(dtype)]; }
constexpr size_t itemsize(DType dtype) { return info(dtype).itemsize; }
constexpr const char* name(DType dtype) { return info(dtype).name; }
constexpr DTypeCategory category(DType dtype) { return info(dtype).category; }
constexpr bool is_floating(DType dtype) { return category(dtype) == DTypeCategory::Floating; }
constexpr bool is_complex(DType dtype) {
  return dtype == DType::Complex64 || dtype == DType::Complex128;
}
constexpr bool is_bare(DType dtype) { return dtype > DType::Complex128; }  // Note [Bare dtypes]
constexpr bool is_float8(DType dtype) { return is_bare(dtype) && dtype < DType::UInt16; }
constexpr bool is_wide_unsigned(DType dtype) { return dtype >= DType::UInt16; }
// Whether only some ops take it: it is complex or bare.
constexpr bool is_limited(DType dtype) { return dtype >= DType::Complex64; }
// Whether values of the dtype have gradients.
constexpr bool has_gradient(DType dtype) {
  return dtype >= DType::Float16 && dtype < DType::UInt16;
}
constexpr bool is_signed(DType dtype) {
  return dtype != DType::Bool && dtype != DType::UInt8 && dtype != DType::Float8_e8m0fnu &&
         !is_wide_unsigned(dtype);
}
constexpr bool is_integral(DType dtype, bool include_bool = true) {
  return category(dtype) == DTypeCategory::Integer || (include_bool && dtype == DType::Bool);
}
constexpr bool is_reduced_float(DType dtype) {
  return dtype == DType::Float16 || dtype == DType::BFloat16;
}
// The dtype of the parts of a complex one; any other is its own.
constexpr DType real_dtype(DType dtype) {
  if (!is_complex(dtype)) return dtype;
  return dtype == DType::Complex128 ? DType::Float64 : DType::Float32;
}
// The complex dtype whose parts hold what the dtype holds.
constexpr DType complex_dtype(DType dtype) {
  const bool wide = dtype == DType::Float64 || dtype == DType::Complex128;
  return wide ? DType::Complex128 : DType::Complex64;
}

// The smallest dtype both convert to, as torch.promote_types.
DType promote_types(DType a, DType b);

DType default_dtype();
void set_default_dtype(DType dtype);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::Bool;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::UInt8;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::Int8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::Int16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::Int32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::Int64;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::Float16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::BFloat16;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::Float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::Float64;
};
template <>
struct DTypeOf<Complex<float>> {
  static constexpr DType value = DType::Complex64;
};
template <>
struct DTypeOf<Complex<double>> {
  static constexpr DType value = DType::Complex128;
};
template <float8::Format kFormat>
struct DTypeOf<Float8<kFormat>> {
  static constexpr DType value = kFormat == float8::kE4m3fn     ? DType::Float8_e4m3fn
                                 : kFormat == float8::kE5m2     ? DType::Float8_e5m2
                                 : kFormat == float8::kE4m3fnuz ? DType::Float8_e4m3fnuz
                                 : kFormat == float8::kE5m2fnuz ? DType::Float8_e5m2fnuz
                                                                : DType::Float8_e8m0fnu;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::UInt16;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::UInt32;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::UInt64;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

[[noreturn]] void fail_unsupported_dtype(const char* op, DType dtype);

// Calls body(T{}) with the C++ type of dtype, which is neither complex nor bare. Bool is visited as bool.
template <class Body>
decltype(auto) visit_dtype(const char* op, DType dtype, Body&& body) {
  switch (dtype) {
    case DType::Bool:
      return body(bool{});
    case DType::UInt8:
      return body(uint8_t{});
    case DType::Int8:
      return body(int8_t{});
    case DType::Int16:
      return body(int16_t{});
    case DType::Int32:
      return body(int32_t{});
    case DType::Int64:
      return body(int64_t{});
    case DType::Float16:
      return body(Half{});
    case DType::BFloat16:
      return body(BFloat16{});
    case DType::Float32:
      return body(float{});
    case DType::Float64:
      return body(double{});
    default:
      fail_unsupported_dtype(op, dtype);
  }
}

// The same for complex dtypes alone, and for all that are not bare.
template <class Body>
decltype(auto) visit_complex(const char* op, DType dtype, Body&& body) {
  switch (dtype) {
    case DType::Complex64:
      return body(Complex<float>{});
    case DType::Complex128:
      return body(Complex<double>{});
    default:
      fail_unsupported_dtype(op, dtype);
  }
}
template <class Body>
decltype(auto) visit_any_dtype(const char* op, DType dtype, Body&& body) {
  if (is_complex(dtype)) return visit_complex(op, dtype, body);
  return visit_dtype(op, dtype, body);
}
// The same for bare dtypes alone, and for all that are not complex: for what handles a few elements on the
// host, no kernels.
template <class Body>
decltype(auto) visit_bare(const char* op, DType dtype, Body&& body) {
  switch (dtype) {
    case DType::Float8_e4m3fn:
      return body(Float8<float8::kE4m3fn>{});
    case DType::Float8_e5m2:
      return body(Float8<float8::kE5m2>{});
    case DType::Float8_e4m3fnuz:
      return body(Float8<float8::kE4m3fnuz>{});
    case DType::Float8_e5m2fnuz:
      return body(Float8<float8::kE5m2fnuz>{});
    case DType::Float8_e8m0fnu:
      return body(Float8<float8::kE8m0fnu>{});
    case DType::UInt16:
      return body(uint16_t{});
    case DType::UInt32:
      return body(uint32_t{});
    case DType::UInt64:
      return body(uint64_t{});
    default:
      fail_unsupported_dtype(op, dtype);
  }
}
template <class Body>
decltype(auto) visit_real_dtype(const char* op, DType dtype, Body&& body) {
  if (is_bare(dtype)) return visit_bare(op, dtype, body);
  return visit_dtype(op, dtype, body);
}

// What 16 bytes are to kernels that only move bytes. Memory that others own may be aligned to 8.
struct Bytes16 {
  uint64_t low, high;
  Bytes16() = default;
  constexpr explicit Bytes16(uint64_t low) : low(low), high(0) {}
};

// Calls body(T{}) with an unsigned type of the item's size: for kernels that only move bytes.
template <class Body>
decltype(auto) visit_itemsize(DType dtype, Body&& body) {
  switch (itemsize(dtype)) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 4:
      return body(uint32_t{});
    case 8:
      return body(uint64_t{});
    case 16:
      return body(Bytes16{});
    default:
      fail_unsupported_dtype("copy", dtype);
  }
}

}  // namespace tapegrad
