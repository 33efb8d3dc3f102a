// Foundations of the CPU math functions: bit access, rounding, exact arithmetic, polynomials.
//
// Note: branch-free math
// Every function in csrc/cpu/math is scalar code without branches, tables or calls, so that a plain
// loop over it becomes vector code at -O3. A choice is written `condition ? a : b` over two values
// that are both computed; a rounding to an integer is the addition of a large constant whose sum
// keeps the integer in its low bits. Everything is forced inline and lives in a namespace named
// after the instruction set: the kernels are compiled once per instruction set, and the linker must
// never merge an AVX-512 body with an SSE one. For the same reason nothing here uses std templates.
// Zeros keep their sign, infinities and NaNs follow C99.
//
// Required flags: -fno-math-errno -fno-trapping-math -ffp-contract=off. With GCC -fno-thread-jumps
// too: jump threading copies code into the arms of a choice, and both copies are then computed.
//
// Note: the plain and the wide form
// A few functions are cheap only on a part of their domain: trigonometry needs a multi-word
// reduction for huge arguments, fmod a long division for huge quotients. For those the plain form
// is right for easy arguments and the form in namespace `wide` is right everywhere. exp and the
// logarithms are called with any argument inside other functions, so their plain form is right
// everywhere, and a form in namespace `narrow` for easy arguments only leaves out zeros, infinities,
// NaNs and subnormal numbers, lgamma's also negative ones. Both forms give the same bits where both
// are right. `..._difficulty` is a word that is at most `k...Easy`, or zero, for easy arguments: a
// kernel tests a tile of inputs and picks the form for the whole tile.
#pragma once

#include <cstdint>

#ifndef TAPEGRAD_ISA
#define TAPEGRAD_ISA base
#endif

#define TAPEGRAD_INLINE [[gnu::always_inline]] inline

namespace tapegrad::cpu::TAPEGRAD_ISA::math {

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
inline constexpr bool kHasFma = true;
#else
inline constexpr bool kHasFma = false;
#endif

template <class T>
struct Format;

template <>
struct Format<float> {
  using Bits = std::uint32_t;
  static constexpr int kWidth = 32;
  static constexpr int kMantissaBits = 23;
  static constexpr int kBias = 127;
  static constexpr float kEpsilon = 0x1p-23f;
  static constexpr float kMinNormal = 0x1p-126f;
  static constexpr float kMax = 0x1.fffffep127f;
  static constexpr float kInfinity = __builtin_huge_valf();
  static constexpr float kNan = __builtin_nanf("");
  // Adding this constant rounds to an integer, half to even, and leaves it in the low bits.
  static constexpr float kRoundingShift = 0x1.8p23f;
};

template <>
struct Format<double> {
  using Bits = std::uint64_t;
  static constexpr int kWidth = 64;
  static constexpr int kMantissaBits = 52;
  static constexpr int kBias = 1023;
  static constexpr double kEpsilon = 0x1p-52;
  static constexpr double kMinNormal = 0x1p-1022;
  static constexpr double kMax = 0x1.fffffffffffffp1023;
  static constexpr double kInfinity = __builtin_huge_val();
  static constexpr double kNan = __builtin_nan("");
  static constexpr double kRoundingShift = 0x1.8p52;
};

template <class T>
using BitsOf = typename Format<T>::Bits;

template <class T>
TAPEGRAD_INLINE constexpr BitsOf<T> to_bits(T x) {
  return __builtin_bit_cast(BitsOf<T>, x);
}

template <class T>
TAPEGRAD_INLINE T from_bits(BitsOf<T> bits) {
  return __builtin_bit_cast(T, bits);
}

template <class T>
inline constexpr BitsOf<T> kSignBit = BitsOf<T>(1) << (Format<T>::kWidth - 1);

TAPEGRAD_INLINE float abs(float x) { return __builtin_fabsf(x); }
TAPEGRAD_INLINE double abs(double x) { return __builtin_fabs(x); }
TAPEGRAD_INLINE float copysign(float x, float sign) { return __builtin_copysignf(x, sign); }
TAPEGRAD_INLINE double copysign(double x, double sign) { return __builtin_copysign(x, sign); }
TAPEGRAD_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
TAPEGRAD_INLINE double sqrt(double x) { return __builtin_sqrt(x); }
TAPEGRAD_INLINE float floor(float x) { return __builtin_floorf(x); }
TAPEGRAD_INLINE double floor(double x) { return __builtin_floor(x); }
TAPEGRAD_INLINE float ceil(float x) { return __builtin_ceilf(x); }
TAPEGRAD_INLINE double ceil(double x) { return __builtin_ceil(x); }
TAPEGRAD_INLINE float trunc(float x) { return __builtin_truncf(x); }
TAPEGRAD_INLINE double trunc(double x) { return __builtin_trunc(x); }
// Half to even, as torch.round.
TAPEGRAD_INLINE float round(float x) { return __builtin_rintf(x); }
TAPEGRAD_INLINE double round(double x) { return __builtin_rint(x); }

template <class T>
TAPEGRAD_INLINE T rsqrt(T x) {
  return T(1) / sqrt(x);
}

// The smaller and the larger of x and a bound; a NaN in x passes through.
template <class T>
TAPEGRAD_INLINE T at_most(T x, T bound) {
  return bound < x ? bound : x;
}
template <class T>
TAPEGRAD_INLINE T at_least(T x, T bound) {
  return bound > x ? bound : x;
}

// The smaller of |x| and a bound; a NaN becomes the bound. A minimum of words is one instruction, where
// a minimum that lets NaNs pass is two.
template <class T>
TAPEGRAD_INLINE T magnitude_at_most(T x, T bound) {
  const BitsOf<T> magnitude = to_bits(x) & ~kSignBit<T>, limit = to_bits(bound);
  return from_bits<T>(magnitude < limit ? magnitude : limit);
}

// a * b + c, in one rounding where the instruction exists; never a library call.
TAPEGRAD_INLINE float mul_add(float a, float b, float c) {
  if constexpr (kHasFma) return __builtin_fmaf(a, b, c);
  return a * b + c;
}
TAPEGRAD_INLINE double mul_add(double a, double b, double c) {
  if constexpr (kHasFma) return __builtin_fma(a, b, c);
  return a * b + c;
}

// An unevaluated sum high + low, with low at most half an ulp of high.
template <class T>
struct Pair {
  T high;
  T low;
};

template <class T>
TAPEGRAD_INLINE Pair<T> two_sum(T a, T b) {
  const T sum = a + b;
  const T b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// two_sum for |a| >= |b|, for a == 0, and wherever a is a multiple of the ulp of b.
template <class T>
TAPEGRAD_INLINE Pair<T> fast_two_sum(T a, T b) {
  const T sum = a + b;
  return {sum, (a - sum) + b};
}

// x with its mantissa rounded to half the bits, so that products of halves are exact.
template <class T>
TAPEGRAD_INLINE T upper_half(T x) {
  constexpr int kDropped = (Format<T>::kMantissaBits + 2) / 2;
  constexpr BitsOf<T> kHalfUnit = BitsOf<T>(1) << (kDropped - 1);
  return from_bits<T>((to_bits(x) + kHalfUnit) & ~(2 * kHalfUnit - 1));
}

template <class T>
TAPEGRAD_INLINE Pair<T> two_product(T a, T b) {
  const T product = a * b;
  if constexpr (kHasFma) return {product, mul_add(a, b, -product)};
  const T a_high = upper_half(a), a_low = a - a_high;
  const T b_high = upper_half(b), b_low = b - b_high;
  const T error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
  return {product, error};
}

// c - a * b where the difference cancels the leading bits: exact up to one rounding.
template <class T>
TAPEGRAD_INLINE T residual(T c, T a, T b) {
  if constexpr (kHasFma) return mul_add(-a, b, c);
  const Pair<T> product = two_product(a, b);
  return (c - product.high) - product.low;
}

// The quotient of two pairs, given an approximation of 1 / b.
template <class T>
TAPEGRAD_INLINE Pair<T> divide(Pair<T> a, Pair<T> b, T inverse) {
  const T quotient = a.high * inverse;
  const T rest = residual(a.high, quotient, b.high) + mul_add(-quotient, b.low, a.low);
  return {quotient, rest * inverse};
}
template <class T>
TAPEGRAD_INLINE Pair<T> divide(Pair<T> a, Pair<T> b) {
  return divide(a, b, T(1) / b.high);
}

// c0 + c1 x + c2 x^2 + ... by Horner's rule.
template <class T>
TAPEGRAD_INLINE T horner(T, T c0) {
  return c0;
}
template <class T, class... Rest>
TAPEGRAD_INLINE T horner(T x, T c0, T c1, Rest... rest) {
  return mul_add(horner(x, c1, rest...), x, c0);
}

// The same sum in blocks of four terms, a Horner rule in x^4 over the blocks. It costs two products
// more and is a quarter as deep, which lets the processor overlap the steps.
template <class T, class... Few>
TAPEGRAD_INLINE T sum_of_blocks(T x, T, T, Few... few) {
  return horner(x, few...);
}
template <class T, class... Rest>
TAPEGRAD_INLINE T sum_of_blocks(T x, T x2, T x4, T c0, T c1, T c2, T c3, T c4, Rest... rest) {
  const T block = mul_add(mul_add(c3, x, c2), x2, mul_add(c1, x, c0));
  return mul_add(sum_of_blocks(x, x2, x4, c4, rest...), x4, block);
}

template <class T, class... Coefficients>
TAPEGRAD_INLINE T polynomial(T x, Coefficients... c) {
  if constexpr (sizeof...(c) <= 6) return horner(x, c...);
  const T x2 = x * x;
  return sum_of_blocks(x, x2, x2 * x2, c...);
}

// The nearest integer to a value of small magnitude, as a number and in the low bits of a word.
template <class T>
struct Nearest {
  T value;
  BitsOf<T> bits;
};

template <class T>
TAPEGRAD_INLINE Nearest<T> nearest_of_product(T x, T factor) {
  const T shifted = mul_add(x, factor, Format<T>::kRoundingShift);
  return {shifted - Format<T>::kRoundingShift, to_bits(shifted)};
}

template <class T>
TAPEGRAD_INLINE Nearest<T> nearest(T x) {
  const T shifted = x + Format<T>::kRoundingShift;
  return {shifted - Format<T>::kRoundingShift, to_bits(shifted)};
}

// 2^(n + offset) for a result in the normal range
template <class T>
TAPEGRAD_INLINE T power_of_two(Nearest<T> n, int offset) {
  // The shift drops all but the low bits of the word, which hold n.
  const BitsOf<T> biased = BitsOf<T>(offset + Format<T>::kBias) << Format<T>::kMantissaBits;
  return from_bits<T>((n.bits << Format<T>::kMantissaBits) + biased);
}

}  // namespace tapegrad::cpu::TAPEGRAD_ISA::math
