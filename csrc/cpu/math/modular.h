// Quotients and neighbours of floating-point numbers: fmod, remainder, floor_divide, nextafter.
//
// fmod is one exact step: q = trunc(x / y) in double, then x - q y. That is right while q has no
// rounding of its own (see Note: the plain and the wide form).
#pragma once

#include "cpu/math/base.h"

namespace tapegrad::cpu::TAPEGRAD_ISA::math {

// The largest quotient of the plain fmod, remainder and floor_divide.
template <class T>
inline constexpr T kQuotientRange = sizeof(T) == 4 ? T(0x1p28) : T(0x1p52);

template <class T>
TAPEGRAD_INLINE BitsOf<T> quotient_difficulty(T x, T y) {
  return abs(x) > kQuotientRange<T> * abs(y) ? BitsOf<T>(1) : BitsOf<T>(0);
}

TAPEGRAD_INLINE float fmod(float x, float y) {
  // A double holds the product q y, and the quotient never rounds up to an integer.
  const double wide_x = x, wide_y = y;
  const double rest = wide_x - trunc(wide_x / wide_y) * wide_y;
  const bool below = (abs(x) < abs(y)) & (abs(x) < Format<float>::kInfinity);
  return below ? x : copysign(float(rest), x);
}

TAPEGRAD_INLINE double fmod(double x, double y) {
  const double a = abs(x), b = abs(y);
  // The rounded quotient can be one too large; the exact rest tells.
  const double rest = residual(a, trunc(a / b), b);
  const double corrected = rest < 0.0 ? rest + b : (rest >= b ? rest - b : rest);
  const bool below = (a < b) & (a < Format<double>::kInfinity);
  return below ? x : copysign(corrected, x);
}

// Moves a C remainder to the sign of the divisor, as Python's %.
template <class T>
TAPEGRAD_INLINE T remainder_of_fmod(T rest, T y) {
  return (rest != T(0)) & ((rest < T(0)) != (y < T(0))) ? rest + y : rest;
}

// floor(x / y) from the exact rest of the division, as Python's //.
template <class T>
TAPEGRAD_INLINE T floor_divide_of_fmod(T x, T y, T rest) {
  const T quotient = (x - rest) / y;
  const T lowered = (rest != T(0)) & ((y < T(0)) != (rest < T(0))) ? quotient - T(1) : quotient;
  const T floored = floor(lowered);
  const T whole = lowered - floored > T(0.5) ? floored + T(1) : floored;
  const T result = lowered != T(0) ? whole : copysign(T(0), x / y);
  return y == T(0) ? x / y : result;
}

template <class T>
TAPEGRAD_INLINE T remainder(T x, T y) {
  return remainder_of_fmod(fmod(x, y), y);
}

template <class T>
TAPEGRAD_INLINE T floor_divide(T x, T y) {
  return floor_divide_of_fmod(x, y, fmod(x, y));
}

namespace wide {

TAPEGRAD_INLINE float fmod(float x, float y) { return __builtin_fmodf(x, y); }
TAPEGRAD_INLINE double fmod(double x, double y) { return __builtin_fmod(x, y); }

template <class T>
TAPEGRAD_INLINE T remainder(T x, T y) {
  return remainder_of_fmod(wide::fmod(x, y), y);
}

template <class T>
TAPEGRAD_INLINE T floor_divide(T x, T y) {
  return floor_divide_of_fmod(x, y, wide::fmod(x, y));
}

}  // namespace wide

template <class T>
TAPEGRAD_INLINE T nextafter(T x, T y) {
  using Bits = BitsOf<T>;
  const Bits bits = to_bits(x);
  // Away from zero is the next larger pattern, towards zero the next smaller.
  const bool outward = (y > x) == (x > T(0));
  const Bits stepped = outward ? bits + 1 : bits - 1;
  const Bits smallest = (to_bits(y) & kSignBit<T>) | 1;
  const T moved = from_bits<T>(x == T(0) ? smallest : stepped);
  return (x != x) | (y != y) ? x + y : (x == y ? y : moved);
}

}  // namespace tapegrad::cpu::TAPEGRAD_ISA::math
