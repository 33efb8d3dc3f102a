// What the loops of linear algebra ask of their numbers, real or complex: one loop serves both.
//
// For files that are compiled once: the functions are those of any instruction set (cpu/isa.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/complex.h"

namespace tapegrad {

// Quotients that do not overflow on the way: the textbook's where it cannot, in which a number divided by itself is one
// exactly, so that equal rows cancel; elsewhere those of R. L. Smith (Algorithm 116, 1962).
template <class T>
Complex<T> operator/(Complex<T> a, Complex<T> b) {
  constexpr T kFar = std::is_same_v<T, float> ? T(1e12) : T(1e100), kNear = 1 / kFar;
  const T size = b.real * b.real + b.imag * b.imag;
  const T most = std::max(std::abs(a.real), std::abs(a.imag));
  if (size > kNear && size < kFar && most > kNear && most < kFar) [[likely]]
    return {(a.real * b.real + a.imag * b.imag) / size, (a.imag * b.real - a.real * b.imag) / size};
  if (std::abs(b.real) >= std::abs(b.imag)) {
    const T ratio = b.imag / b.real, divisor = b.real + b.imag * ratio;
    return {(a.real + a.imag * ratio) / divisor, (a.imag - a.real * ratio) / divisor};
  }
  const T ratio = b.real / b.imag, divisor = b.real * ratio + b.imag;
  return {(a.real * ratio + a.imag) / divisor, (a.imag * ratio - a.real) / divisor};
}
// A real factor acts on the parts.
template <class T>
Complex<T> operator/(Complex<T> a, T b) {
  return {a.real / b, a.imag / b};
}
template <class T>
Complex<T> operator*(T a, Complex<T> b) {
  return {a * b.real, a * b.imag};
}
template <class T>
Complex<T> operator*(Complex<T> a, T b) {
  return {a.real * b, a.imag * b};
}
template <class T>
Complex<T>& operator-=(Complex<T>& a, Complex<T> b) {
  return a = a - b;
}
template <class T, class U>
Complex<T>& operator/=(Complex<T>& a, U b) {
  return a = a / b;
}

namespace cpu::linalg {

template <class T>
struct RealOf {
  using Type = T;
};
template <class T>
struct RealOf<Complex<T>> {
  using Type = T;
};
// The type of a number's magnitude.
template <class T>
using Real = typename RealOf<T>::Type;

template <class T>
T conjugate_of(T x) {
  if constexpr (is_complex_type<T>) return conjugate(x);
  else return x;
}
template <class T>
Real<T> real_part(T x) {
  if constexpr (is_complex_type<T>) return x.real;
  else return x;
}
template <class T>
Real<T> imaginary_part(T x) {
  if constexpr (is_complex_type<T>) return x.imag;
  else return 0;
}
template <class T>
Real<T> magnitude(T x) {
  if constexpr (is_complex_type<T>) return std::hypot(x.real, x.imag);
  else return std::abs(x);
}
// By which pivots are chosen: LAPACK's measure, cheaper than the magnitude.
template <class T>
Real<T> pivot_size(T x) {
  if constexpr (is_complex_type<T>) return std::abs(x.real) + std::abs(x.imag);
  else return std::abs(x);
}
template <class T>
bool is_nan(T x) {
  return std::isnan(real_part(x)) || std::isnan(imaginary_part(x));
}

}  // namespace cpu::linalg

}  // namespace tapegrad
