// exp and its family: exp, exp2, expm1, sigmoid, sinh, cosh, tanh.
//
// All but exp2 share one reduction: x = n ln2 + r with |r| <= ln2 / 2, then
// exp(x) = 2^n (1 + r + r^2 Q(r)) with Q a minimax polynomial.
#pragma once

#include "cpu/math/base.h"

namespace tapegrad::cpu::TAPEGRAD_ISA::math {

template <class T>
struct ExpReduction {
  Nearest<T> n;  // the power of two
  T r;           // the reduced argument ...
  T r_low;       // ... and its rounding error
  T square;      // r^2
  T slope;       // Q(r)
};

TAPEGRAD_INLINE float exp_slope(float r) {
  return polynomial(r, 0x1.fffffcp-2f, 0x1.55548ap-3f, 0x1.555864p-5f, 0x1.123de8p-7f,
                    0x1.6a70c2p-10f);
}
TAPEGRAD_INLINE double exp_slope(double r) {
  return polynomial(r, 0x1.000000000000ap-1, 0x1.55555555554f9p-3, 0x1.55555555507c8p-5,
                    0x1.1111111127f2bp-7, 0x1.6c16c1845426ep-10, 0x1.a01a012986477p-13,
                    0x1.a01999946d45fp-16, 0x1.71df267718351p-19, 0x1.28ade676959a4p-22,
                    0x1.ad7ebd23ffb18p-26);
}

// exp(r) - 1
template <class T>
TAPEGRAD_INLINE T growth(ExpReduction<T> parts) {
  return mul_add(parts.square, parts.slope, parts.r);
}

// ln2 in two parts; the first has few bits, so that its products with n are exact.
template <class T>
inline constexpr T kLn2High = T(0x1.62e42feep-1);
template <>
inline constexpr float kLn2High<float> = 0x1.62e4p-1f;
template <class T>
inline constexpr T kLn2Low = T(0x1.a39ef35793c76p-33);
template <>
inline constexpr float kLn2Low<float> = 0x1.7f7d1cp-20f;

template <class T>
inline constexpr T kLog2E = T(0x1.71547652b82fep0);

// Beyond these arguments exp overflows, or is zero.
template <class T>
inline constexpr T kExpHigh = sizeof(T) == 4 ? T(89) : T(710);
template <class T>
inline constexpr T kExpLow = sizeof(T) == 4 ? T(-104) : T(-746);

template <class T>
TAPEGRAD_INLINE ExpReduction<T> reduce_exp(T x) {
  const Nearest<T> n = nearest_of_product(x, kLog2E<T>);
  const T exact = mul_add(n.value, -kLn2High<T>, x);
  const T r = mul_add(n.value, -kLn2Low<T>, exact);
  return {n, r, residual(exact - r, n.value, kLn2Low<T>), r * r, exp_slope(r)};
}

template <class T>
TAPEGRAD_INLINE ExpReduction<T> reduce_exp(Pair<T> x) {
  const Nearest<T> n = nearest_of_product(x.high, kLog2E<T>);
  const T exact = mul_add(n.value, -kLn2High<T>, x.high);
  const T rest = mul_add(n.value, kLn2Low<T>, -x.low);
  const T r = exact - rest;
  return {n, r, (exact - r) - rest, r * r, exp_slope(r)};
}

// y * 2^n for y in [2^-12, 2): gradual underflow is rounded once, overflow gives infinity.
template <class T>
TAPEGRAD_INLINE T scale(T y, Nearest<T> n) {
  constexpr int kMantissaBits = Format<T>::kMantissaBits;
  constexpr BitsOf<T> kRaised = BitsOf<T>(Format<T>::kBias + 64) << kMantissaBits;
  constexpr BitsOf<T> kHalved = BitsOf<T>(Format<T>::kBias - 1) << kMantissaBits;
  const bool tiny = n.value < T(16 - Format<T>::kBias);
  const BitsOf<T> power = (n.bits << kMantissaBits) + (tiny ? kRaised : kHalved);
  return y * from_bits<T>(power) * (tiny ? T(0x1p-64) : T(2));
}

// y * 2^n for n <= 0 and y in [2^-12, 2): gradual underflow is rounded once.
template <class T>
TAPEGRAD_INLINE T scale_down(T y, Nearest<T> n) {
  return y * power_of_two(n, 64) * T(0x1p-64);
}

template <class T>
TAPEGRAD_INLINE ExpReduction<T> reduce_exp_bounded(T x) {
  return reduce_exp(at_most(at_least(x, kExpLow<T>), kExpHigh<T>));
}

template <class T>
TAPEGRAD_INLINE T exp(T x) {
  const ExpReduction<T> parts = reduce_exp_bounded(x);
  return scale(T(1) + growth(parts), parts.n);
}

// Up to this magnitude of x the powers of two around exp(x) are normal numbers.
template <class T>
inline constexpr T kExpNarrow = sizeof(T) == 4 ? T(87) : T(708);

template <class T>
inline constexpr BitsOf<T> kExpEasy = to_bits(kExpNarrow<T>);

template <class T>
TAPEGRAD_INLINE BitsOf<T> exp_difficulty(T x) {
  return to_bits(abs(x));
}

namespace narrow {

// y * 2^n where both y and the result are normal numbers
template <class T>
TAPEGRAD_INLINE T scale(T y, Nearest<T> n) {
  return from_bits<T>(to_bits(y) + (n.bits << Format<T>::kMantissaBits));
}

template <class T>
TAPEGRAD_INLINE T exp(T x) {
  const ExpReduction<T> parts = reduce_exp(x);
  return narrow::scale(T(1) + growth(parts), parts.n);
}

}  // namespace narrow

// (2^f - 1) / f for |f| <= 1/2
TAPEGRAD_INLINE float exp2_slope(float f) {
  return polynomial(f, 0x1.62e432p-1f, 0x1.ebfbe6p-3f, 0x1.c6ada8p-5f, 0x1.3b21c4p-7f,
                    0x1.5fbcfep-10f, 0x1.4be41ap-13f);
}

TAPEGRAD_INLINE double exp2_slope(double f) {
  return polynomial(f, 0x1.62e42fefa39f3p-1, 0x1.ebfbdff82c599p-3, 0x1.c6b08d7048d97p-5,
                    0x1.3b2ab6fba1ad3p-7, 0x1.5d87fe7b654aep-10, 0x1.4309130808eabp-13,
                    0x1.ffcbf1be798cdp-17, 0x1.62bfdd3f8be5ap-20, 0x1.b538523e34169p-24,
                    0x1.e5ef984d80129p-28, 0x1.ceb7fe0fd126dp-32);
}

template <class T>
TAPEGRAD_INLINE T exp2(T x) {
  constexpr T kHigh = T(Format<T>::kBias + 2);
  constexpr T kLow = T(-Format<T>::kBias - Format<T>::kMantissaBits - 1);
  const T bounded = at_most(at_least(x, kLow), kHigh);
  const Nearest<T> n = nearest(bounded);
  const T f = bounded - n.value;
  return scale(mul_add(f, exp2_slope(f), T(1)), n);
}

// Below this magnitude f(x) == x for the odd functions of this library, to the last bit.
template <class T>
inline constexpr T kLinearRange = sizeof(T) == 4 ? T(0x1p-13) : T(0x1p-27);

template <class T>
TAPEGRAD_INLINE T expm1(T x) {
  // Half the result is summed, because 2^n itself may overflow where the result does not.
  const ExpReduction<T> parts = reduce_exp(at_most(at_least(x, T(-60)), kExpHigh<T>));
  const T power = power_of_two(parts.n, -1);
  const Pair<T> lead = fast_two_sum(power - T(0.5), power * parts.r);
  const T tail = mul_add(parts.square, parts.slope, parts.r_low);
  const T half = lead.high + mul_add(power, tail, lead.low);
  return abs(x) < Format<T>::kEpsilon / 4 ? x : half + half;
}

// 1 / (1 + exp(-x)). With exp(-x) = p (1 + growth), p a power of two, the denominator is rounded
// twice at most: (1 + p) + p growth. It is made 2^-64 times as large, as exp(-x) itself may overflow
// where the result is a subnormal number. Beyond 40 the result is one.
template <class T>
TAPEGRAD_INLINE T sigmoid(T x) {
  constexpr T kUnit = T(0x1p-64);
  const ExpReduction<T> parts = reduce_exp(at_most(at_least(-x, T(-40)), -kExpLow<T>));
  const T power = power_of_two(parts.n, -64);
  return T(1) / mul_add(power, growth(parts), power + kUnit) * kUnit;
}

// Beyond this argument sinh and cosh overflow; a quarter of exp does not yet.
template <class T>
inline constexpr T kHyperbolicHigh = kExpHigh<T> + T(0.6);

// exp(|x|) / 4
template <class T>
TAPEGRAD_INLINE T quarter_exp_abs(T x) {
  const ExpReduction<T> parts = reduce_exp(at_most(abs(x), kHyperbolicHigh<T>));
  const T power = power_of_two(parts.n, -2);
  return mul_add(power, growth(parts), power);
}

// (sinh(x) - x) / x^3 in z = x^2, |x| <= 1
TAPEGRAD_INLINE float sinh_series(float z) {
  return polynomial(z, 0x1.555556p-3f, 0x1.1110ep-7f, 0x1.a022bcp-13f, 0x1.756c1ep-19f);
}
TAPEGRAD_INLINE double sinh_series(double z) {
  return polynomial(z, 0x1.5555555555556p-3, 0x1.11111111110a6p-7, 0x1.a01a01a028996p-13,
                    0x1.71de3a465b6f4p-19, 0x1.ae64671adb96cp-26, 0x1.611a563457eb3p-33,
                    0x1.b4c75414eaf58p-41);
}

template <class T>
TAPEGRAD_INLINE T sinh(T x) {
  const T z = x * x;
  const T inner = mul_add(x * z, sinh_series(z), x);
  const T quarter = quarter_exp_abs(x);
  const T outer = T(2) * (quarter - T(0.0625) / quarter);
  return abs(x) < T(1) ? inner : copysign(outer, x);
}

template <class T>
TAPEGRAD_INLINE T cosh(T x) {
  const T quarter = quarter_exp_abs(x);
  return T(2) * (quarter + T(0.0625) / quarter);
}

// (tanh(x) - x) / x^3 in z = x^2, |x| <= 5/8
TAPEGRAD_INLINE float tanh_series(float z) {
  return polynomial(z, -0x1.555532p-2f, 0x1.1106f6p-3f, -0x1.b83654p-5f, 0x1.52027ap-6f,
                    -0x1.754e12p-8f);
}
TAPEGRAD_INLINE double tanh_series(double z) {
  return polynomial(z, -0x1.55555555554ffp-2, 0x1.111111110aca6p-3, -0x1.ba1ba1b504735p-5,
                    0x1.664f477a852bcp-6, -0x1.226e1623285a1p-7, 0x1.d6cf26f23bf22p-9,
                    -0x1.7d6897c80ee85p-10, 0x1.3365c84657f42p-11, -0x1.df531ec1c961p-13,
                    0x1.438bc698376d1p-14, -0x1.0d9cad7e1cebdp-16);
}

// exp(2 r) for |r| <= ln2 / 4
TAPEGRAD_INLINE float exp_twice(float r) {
  return horner(r, 1.0f, 2.0f, 0x1.fffffcp0f, 0x1.55548ap0f, 0x1.555864p-1f, 0x1.123de8p-2f,
                0x1.6a70c2p-4f);
}
TAPEGRAD_INLINE double exp_twice(double r) {
  return polynomial(r, 1.0, 2.0, 0x1.000000000000ap1, 0x1.55555555554f9p0, 0x1.55555555507c8p-1,
                    0x1.1111111127f2bp-2, 0x1.6c16c1845426ep-4, 0x1.a01a012986477p-6,
                    0x1.a01999946d45fp-8, 0x1.71df267718351p-10, 0x1.28ade676959a4p-12,
                    0x1.ad7ebd23ffb18p-15);
}

template <class T>
TAPEGRAD_INLINE T tanh(T x) {
  const T a = abs(x);
  const T z = a * a;
  const T inner = mul_add(a * z, tanh_series(z), a);
  // 1 - 2 / (exp(2a) + 1), which rounds to one beyond the bound
  const T bounded = at_most(a, sizeof(T) == 4 ? T(10) : T(20));
  const Nearest<T> n = nearest_of_product(bounded, T(2) * kLog2E<T>);
  const T r = mul_add(n.value, T(-0x1.62e42fefa39efp-2), bounded);
  const T outer = T(1) - T(2) / mul_add(exp_twice(r), power_of_two(n, 0), T(1));
  return copysign(a < T(0.625) ? inner : outer, x);
}

}  // namespace tapegrad::cpu::TAPEGRAD_ISA::math
