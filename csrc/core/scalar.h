// A Python number: bool, int or float, kept without loss. Also the type of an op's attributes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/dtype.h"

namespace tapegrad {

class Scalar {
 public:
  enum class Kind : uint8_t { Bool, Int, Float };

  constexpr Scalar() : Scalar(int64_t{0}) {}
  constexpr Scalar(bool value) : int_(value), kind_(Kind::Bool) {}
  constexpr Scalar(int value) : int_(value), kind_(Kind::Int) {}
  constexpr Scalar(int64_t value) : int_(value), kind_(Kind::Int) {}
  constexpr Scalar(uint64_t value) : int_(static_cast<int64_t>(value)), kind_(Kind::Int) {}
  constexpr Scalar(double value) : float_(value), kind_(Kind::Float) {}
  constexpr Scalar(DType dtype) : int_(static_cast<int64_t>(dtype)), kind_(Kind::Int) {}

  constexpr Kind kind() const { return kind_; }
  constexpr bool is_float() const { return kind_ == Kind::Float; }
  constexpr bool is_bool() const { return kind_ == Kind::Bool; }

  constexpr double as_double() const { return is_float() ? float_ : static_cast<double>(int_); }
  constexpr int64_t as_int() const { return is_float() ? static_cast<int64_t>(float_) : int_; }
  constexpr bool as_bool() const { return is_float() ? float_ != 0 : int_ != 0; }
  constexpr DType as_dtype() const { return static_cast<DType>(int_); }

  template <class T>
  constexpr T as() const {
    if constexpr (std::is_same_v<T, bool>) return as_bool();
    else if constexpr (std::is_integral_v<T>) return static_cast<T>(as_int());
    else if constexpr (std::is_same_v<T, Complex<double>>) return T(as_double());
    else return T(static_cast<float>(as_double()));
  }

  // The dtype a 0-d tensor made of this number has: bool, int64 or the default dtype's category.
  DType dtype() const;

 private:
  union {
    int64_t int_;
    double float_;
  };
  Kind kind_;
};

template <>
constexpr double Scalar::as<double>() const {
  return as_double();
}

template <class T>
constexpr Scalar scalar_of(T value) {
  if constexpr (std::is_same_v<T, bool>) return value;
  else if constexpr (std::is_integral_v<T>) return static_cast<int64_t>(value);
  else return static_cast<double>(value);
}
// An element of a tensor, on the host; that of uint64 modulo 2^64.
inline Scalar read_element(const char* op, const void* element, DType dtype) {
  return visit_real_dtype(op, dtype, [&](auto type) {
    return scalar_of(*static_cast<const decltype(type)*>(element));
  });
}

}  // namespace tapegrad
