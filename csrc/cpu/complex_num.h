// ComplexNum<T>: the scalar type with which the CPU kernels read the pointwise table for complex dtypes, as
// Num<T> is for real ones. Functions are those of the C standard, with its branch cuts and special values,
// except where the standard has none or one that loses digits.
//
// A real factor or summand of a line, a literal or a parameter, acts on the parts: as a complex number it
// would turn the sign of a zero, and infinities into NaN.
#pragma once

#include <cmath>
#include <complex>
#include <type_traits>

#include "core/complex.h"

namespace tapegrad::cpu {

struct Truth {
  bool set;
  friend Truth operator&(Truth a, Truth b) { return {bool(a.set & b.set)}; }
  friend Truth operator|(Truth a, Truth b) { return {bool(a.set | b.set)}; }
  friend Truth operator^(Truth a, Truth b) { return {bool(a.set ^ b.set)}; }
};

template <class T>
struct ComplexNum {
  using Standard = std::complex<T>;
  Complex<T> v;

  ComplexNum() = default;
  constexpr ComplexNum(Complex<T> value) : v(value) {}
  ComplexNum(Standard value) : v(value.real(), value.imag()) {}
  Standard standard() const { return {v.real, v.imag}; }
  template <class L>
    requires std::is_arithmetic_v<L>
  constexpr ComplexNum(L literal) : v(static_cast<T>(literal)) {}

  T real() const { return v.real; }
  T imag() const { return v.imag; }
  friend ComplexNum conjugate(ComplexNum a) { return tapegrad::conjugate(a.v); }

  friend ComplexNum operator-(ComplexNum a) { return -a.v; }
  friend ComplexNum operator+(ComplexNum a, ComplexNum b) { return a.v + b.v; }
  friend ComplexNum operator-(ComplexNum a, ComplexNum b) { return a.v - b.v; }
  friend ComplexNum operator*(ComplexNum a, ComplexNum b) { return a.v * b.v; }
  friend ComplexNum operator/(ComplexNum a, ComplexNum b) { return a.standard() / b.standard(); }

#define TAPEGRAD_REAL \
  template <class L>  \
    requires std::is_arithmetic_v<L>
  TAPEGRAD_REAL friend ComplexNum operator+(L a, ComplexNum b) {
    return Complex<T>(static_cast<T>(a) + b.v.real, b.v.imag);
  }
  TAPEGRAD_REAL friend ComplexNum operator+(ComplexNum a, L b) { return b + a; }
  TAPEGRAD_REAL friend ComplexNum operator-(L a, ComplexNum b) {
    return Complex<T>(static_cast<T>(a) - b.v.real, -b.v.imag);
  }
  TAPEGRAD_REAL friend ComplexNum operator-(ComplexNum a, L b) {
    return Complex<T>(a.v.real - static_cast<T>(b), a.v.imag);
  }
  TAPEGRAD_REAL friend ComplexNum operator*(L a, ComplexNum b) {
    return Complex<T>(static_cast<T>(a) * b.v.real, static_cast<T>(a) * b.v.imag);
  }
  TAPEGRAD_REAL friend ComplexNum operator*(ComplexNum a, L b) { return b * a; }
  TAPEGRAD_REAL friend ComplexNum operator/(ComplexNum a, L b) {
    return Complex<T>(a.v.real / static_cast<T>(b), a.v.imag / static_cast<T>(b));
  }
  TAPEGRAD_REAL friend ComplexNum operator/(L a, ComplexNum b) { return ComplexNum(a) / b; }
#undef TAPEGRAD_REAL

  friend Truth operator==(ComplexNum a, ComplexNum b) { return {a.v == b.v}; }
  friend Truth operator!=(ComplexNum a, ComplexNum b) { return {a.v != b.v}; }
  // Comparisons of a line are of real numbers: of magnitudes, and of an exponent's real part.
  friend Truth operator<(ComplexNum a, ComplexNum b) { return {a.v.real < b.v.real}; }
  friend Truth operator>=(ComplexNum a, ComplexNum b) { return {a.v.real >= b.v.real}; }
  friend ComplexNum where(Truth c, ComplexNum p, ComplexNum q) { return c.set ? p : q; }

  friend ComplexNum abs(ComplexNum a) { return std::hypot(a.v.real, a.v.imag); }
  friend ComplexNum square(ComplexNum a) { return a * a; }
  friend ComplexNum sqrt(ComplexNum a) { return std::sqrt(a.standard()); }
  friend ComplexNum rsqrt(ComplexNum a) { return T(1) / sqrt(a); }
  friend ComplexNum exp(ComplexNum a) { return std::exp(a.standard()); }
  friend ComplexNum exp2(ComplexNum a) { return exp(a * T(0.693147180559945309417)); }
  friend ComplexNum expm1(ComplexNum a) {
    const T half = std::sin(a.v.imag / 2), grown = std::expm1(a.v.real);
    return Complex<T>(grown * std::cos(a.v.imag) - 2 * half * half,
                      std::exp(a.v.real) * std::sin(a.v.imag));
  }
  friend ComplexNum log(ComplexNum a) { return std::log(a.standard()); }
  friend ComplexNum log2(ComplexNum a) { return log(a) / T(0.693147180559945309417); }
  friend ComplexNum log10(ComplexNum a) { return log(a) / T(2.302585092994045684018); }
  // Near one, whose logarithm is small, the magnitude is not formed.
  friend ComplexNum log1p(ComplexNum a) {
    const T x = a.v.real, y = a.v.imag;
    if (!(std::abs(x) < T(0.5) && std::abs(y) < T(0.5))) return log(T(1) + a);
    return Complex<T>(std::log1p(x * (2 + x) + y * y) / 2, std::atan2(y, 1 + x));
  }
  friend ComplexNum pow(ComplexNum a, ComplexNum b) {
    if (b.v == Complex<T>(0)) return 1;
    return std::pow(a.standard(), b.standard());
  }
  friend ComplexNum sinc(ComplexNum a) {
    const ComplexNum angle = a * T(3.14159265358979323846);
    return where(a == ComplexNum(0), ComplexNum(1), sin(angle) / angle);
  }
  friend ComplexNum sigmoid(ComplexNum a) { return T(1) / (T(1) + exp(-a)); }

#define TAPEGRAD_STANDARD(NAME) \
  friend ComplexNum NAME(ComplexNum a) { return std::NAME(a.standard()); }
  TAPEGRAD_STANDARD(sin)
  TAPEGRAD_STANDARD(cos)
  TAPEGRAD_STANDARD(tan)
  TAPEGRAD_STANDARD(asin)
  TAPEGRAD_STANDARD(acos)
  TAPEGRAD_STANDARD(atan)
  TAPEGRAD_STANDARD(sinh)
  TAPEGRAD_STANDARD(cosh)
  TAPEGRAD_STANDARD(tanh)
  TAPEGRAD_STANDARD(asinh)
  TAPEGRAD_STANDARD(acosh)
  TAPEGRAD_STANDARD(atanh)
#undef TAPEGRAD_STANDARD
};

}  // namespace tapegrad::cpu
