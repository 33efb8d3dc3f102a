// Element types, their categories, and PyTorch's promotion lattice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

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
  Complex64,  // reserved: the enumeration and the promotion table know them, the kernels follow
  Complex128,
};
inline constexpr int kDTypeCount = 12;

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
};

constexpr const DTypeInfo& info(DType dtype) { return kDTypeInfo[static_cast<int>(dtype)]; }
constexpr size_t itemsize(DType dtype) { return info(dtype).itemsize; }
constexpr const char* name(DType dtype) { return info(dtype).name; }
constexpr DTypeCategory category(DType dtype) { return info(dtype).category; }
constexpr bool is_floating(DType dtype) { return category(dtype) == DTypeCategory::Floating; }
constexpr bool is_complex(DType dtype) { return category(dtype) == DTypeCategory::Complex; }
constexpr bool is_integral(DType dtype, bool include_bool = true) {
  return category(dtype) == DTypeCategory::Integer || (include_bool && dtype == DType::Bool);
}
constexpr bool is_reduced_float(DType dtype) {
  return dtype == DType::Float16 || dtype == DType::BFloat16;
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
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

[[noreturn]] void fail_unsupported_dtype(const char* op, DType dtype);

// Calls body(T{}) with the C++ type of dtype. Bool is visited as bool.
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
    default:
      fail_unsupported_dtype("copy", dtype);
  }
}

}  // namespace tapegrad
