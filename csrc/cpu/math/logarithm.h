// Logarithms and the inverse hyperbolic functions: log, log2, log10, log1p, log1pexp, logaddexp,
// asinh, acosh, atanh.
//
// One core serves all: u = 2^e m with m in [sqrt(1/2), sqrt(2)), f = m - 1, and
// log(m) = f + tail. Keeping f and tail apart lets each base multiply them without losing f's
// exactness, and lets log1p add the part of its argument that 1 + x rounds away.
#pragma once

#include "cpu/math/base.h"
#include "cpu/math/exponential.h"

namespace tapegrad::cpu::TAPEGRAD_ISA::math {

template <class T>
struct LogReduction {
  T e;     // the power of two, an integer
  T f;     // m - 1
  T tail;  // log(m) - f
};

TAPEGRAD_INLINE float log_tail(float f) {
  const float slope =
      polynomial(f, 0x1.555554p-2f, -0x1.000228p-2f, 0x1.99a034p-3f, -0x1.547214p-3f,
                 0x1.22d5dep-3f, -0x1.0d82f8p-3f, 0x1.0578fp-3f, -0x1.390a8p-4f);
  return f * f * mul_add(f, slope, -0.5f);
}

TAPEGRAD_INLINE double log_tail(double f) {
  const double slope = polynomial(
      f, 0x1.5555555555533p-2, -0x1.fffffffffef16p-3, 0x1.999999999f72cp-3, -0x1.555555566b1fp-3,
      0x1.24924922a4d8ap-3, -0x1.ffffff2c042aep-4, 0x1.c71c71dfbe18p-4, -0x1.9999c26928c6fp-4,
      0x1.745d3f251633bp-4, -0x1.5550eea6d0832p-4, 0x1.3b0b88af69406p-4, -0x1.24d74bcc15f46p-4,
      0x1.11cd024eb0c39p-4, -0x1.fba1f41a1aafep-5, 0x1.d05a78b371fa2p-5, -0x1.d11edee0689aap-5,
      0x1.0a61ca2c12de7p-4, -0x1.ea07266d4a35dp-5, 0x1.ac78aea928d8cp-6);
  return f * f * mul_add(f, slope, -0.5);
}

template <class T>
struct Binary {
  T exponent;
  T mantissa;  // in [sqrt(1/2), sqrt(2))
};

// Splits a positive, finite, normal number. Counted from sqrt(1/2), the exponent field changes where
// the mantissa interval ends.
TAPEGRAD_INLINE Binary<float> split_binary(float x) {
  // Unsigned until the shift: special values come by here too, before they are told apart.
  constexpr std::uint32_t kSqrtHalf = to_bits(0x1.6a09e6p-1f);
  const std::int32_t exponent = static_cast<std::int32_t>(to_bits(x) - kSqrtHalf) >> 23;
  return {float(exponent),
          from_bits<float>(to_bits(x) - (static_cast<std::uint32_t>(exponent) << 23))};
}
TAPEGRAD_INLINE Binary<double> split_binary(double x) {
  constexpr std::uint64_t kOne = to_bits(1.0), kSqrtHalf = to_bits(0x1.6a09e667f3bcdp-1);
  const std::uint64_t counted = to_bits(x) + (kOne - kSqrtHalf);
  const std::uint64_t mantissa = (counted & ((std::uint64_t(1) << 52) - 1)) + kSqrtHalf;
  // Few processors convert 64-bit integers: the integer is placed in the low bits of a large number
  // and that number is subtracted.
  const double exponent = from_bits<double>((counted >> 52) | to_bits(0x1p52)) - (0x1p52 + 1023.0);
  return {exponent, from_bits<double>(mantissa)};
}

// Splits any positive finite number, subnormal ones too.
template <class T>
TAPEGRAD_INLINE Binary<T> split_binary_subnormal(T x) {
  constexpr T kShift = T(Format<T>::kMantissaBits + 1);
  constexpr T kScale = sizeof(T) == 4 ? T(0x1p24) : T(0x1p53);
  const bool subnormal = x < Format<T>::kMinNormal;
  const Binary<T> parts = split_binary(subnormal ? x * kScale : x);
  return {subnormal ? parts.exponent - kShift : parts.exponent, parts.mantissa};
}

template <class T>
TAPEGRAD_INLINE LogReduction<T> reduce_log(T x) {
  const Binary<T> parts = split_binary_subnormal(x);
  const T f = parts.mantissa - T(1);
  return {parts.exponent, f, log_tail(f)};
}

// Reduces log(base + x + x_low), base 0 or 1, where |x_low| is at most an ulp of x.
template <class T>
TAPEGRAD_INLINE LogReduction<T> reduce_log_sum(T base, T x, T x_low) {
  // Where x is so large that the short form of the sum is not exact, the base no longer counts.
  const Pair<T> sum = fast_two_sum(base, x);
  const Binary<T> parts = split_binary(sum.high);
  // The bound keeps 2^-e normal; it acts where the low part no longer counts.
  const T unscale = power_of_two(nearest(at_least(-parts.exponent, T(2 - Format<T>::kBias))), 0);
  const T f = (parts.mantissa - T(1)) + (sum.low + x_low) * unscale;
  return {parts.exponent, f, log_tail(f)};
}

template <class T>
TAPEGRAD_INLINE LogReduction<T> reduce_log1p(T x) {
  return reduce_log_sum(T(1), x, T(0));
}

template <class T>
TAPEGRAD_INLINE T assemble_log(LogReduction<T> parts) {
  const T low = mul_add(parts.e, kLn2Low<T>, parts.tail);
  return mul_add(parts.e, kLn2High<T>, parts.f + low);
}

// The values of a logarithm outside the positive finite numbers.
template <class T>
TAPEGRAD_INLINE T with_log_limits(T x, T y) {
  const T inside = x < Format<T>::kInfinity ? y : x;
  const T outside = x == T(0) ? -Format<T>::kInfinity : Format<T>::kNan;
  return x > T(0) ? inside : outside;
}

template <class T>
TAPEGRAD_INLINE T assemble_log2(LogReduction<T> parts) {
  constexpr T kHigh = T(0x1.71547652b82fep0);
  constexpr T kLow = sizeof(T) == 4 ? T(0x1.4ae0cp-26) : T(0x1.777d0ffda0d24p-56);
  const T low = mul_add(parts.f, kLow, parts.tail * kHigh);
  return parts.e + mul_add(parts.f, kHigh, low);
}

template <class T>
TAPEGRAD_INLINE T assemble_log10(LogReduction<T> parts) {
  constexpr T kHigh = T(0x1.bcb7b1526e50ep-2);
  constexpr T kLow = sizeof(T) == 4 ? T(-0x1.5b235ep-27) : T(0x1.95355baaafad3p-57);
  // log10(2), the first part short enough for exact products with e.
  constexpr T kTwoHigh = sizeof(T) == 4 ? T(0x1.344p-2) : T(0x1.34413509f78p-2);
  constexpr T kTwoLow = T((0x1.34413509f79ffp-2 - double(kTwoHigh)) - 0x1.9dc1da994fd21p-59);
  const T low = mul_add(parts.f, kLow, mul_add(parts.e, kTwoLow, parts.tail * kHigh));
  return mul_add(parts.e, kTwoHigh, mul_add(parts.f, kHigh, low));
}

template <class T>
TAPEGRAD_INLINE T log(T x) {
  return with_log_limits(x, assemble_log(reduce_log(x)));
}
template <class T>
TAPEGRAD_INLINE T log2(T x) {
  return with_log_limits(x, assemble_log2(reduce_log(x)));
}
template <class T>
TAPEGRAD_INLINE T log10(T x) {
  return with_log_limits(x, assemble_log10(reduce_log(x)));
}

// Positive, finite, normal numbers are easy: counted from the first of them, all others come later.
template <class T>
inline constexpr BitsOf<T> kLogEasy = to_bits(Format<T>::kMax) - to_bits(Format<T>::kMinNormal);

template <class T>
TAPEGRAD_INLINE BitsOf<T> log_difficulty(T x) {
  return to_bits(x) - to_bits(Format<T>::kMinNormal);
}

namespace narrow {

template <class T>
TAPEGRAD_INLINE LogReduction<T> reduce_log(T x) {
  const Binary<T> parts = split_binary(x);
  const T f = parts.mantissa - T(1);
  return {parts.exponent, f, log_tail(f)};
}

template <class T>
TAPEGRAD_INLINE T log(T x) {
  return assemble_log(narrow::reduce_log(x));
}
template <class T>
TAPEGRAD_INLINE T log2(T x) {
  return assemble_log2(narrow::reduce_log(x));
}
template <class T>
TAPEGRAD_INLINE T log10(T x) {
  return assemble_log10(narrow::reduce_log(x));
}

}  // namespace narrow

template <class T>
TAPEGRAD_INLINE T log1p(T x) {
  const T y = assemble_log(reduce_log1p(x));
  const T finite = x < Format<T>::kInfinity ? y : x;
  const T inside = abs(x) < Format<T>::kEpsilon / 4 ? x : finite;
  const T outside = x == T(-1) ? -Format<T>::kInfinity : Format<T>::kNan;
  return x > T(-1) ? inside : outside;
}

// log(1 + exp(x)), the core of softplus: log1pexp(-x) is -logsigmoid(x).
template <class T>
TAPEGRAD_INLINE T log1pexp(T x) {
  const T decay = exp(-abs(x));
  const T rest = decay < Format<T>::kEpsilon / 4 ? decay : assemble_log(reduce_log1p(decay));
  return at_least(x, T(0)) + rest;
}

// log(exp(a) + exp(b))
template <class T>
TAPEGRAD_INLINE T logaddexp(T a, T b) {
  const T larger = a > b ? a : b;
  const T difference = a - b;
  const T gap = a == b ? T(0) : -abs(difference);  // equal infinities have no gap
  const T y = larger + log1pexp(gap);
  return difference != difference && a != b ? a + b : y;
}

// log2(2^a + 2^b)
template <class T>
TAPEGRAD_INLINE T logaddexp2(T a, T b) {
  const T larger = a > b ? a : b;
  const T gap = a == b ? T(0) : -abs(a - b);
  const T decay = exp2(gap);
  const T rest = decay < Format<T>::kEpsilon / 4 ? decay : assemble_log(reduce_log1p(decay));
  return (a != a) | (b != b) ? a + b : mul_add(rest, kLog2E<T>, larger);
}

// From here on the logarithm of a large argument is taken without the square of the argument.
template <class T>
inline constexpr T kLargeHyperbolic = sizeof(T) == 4 ? T(0x1p14) : T(0x1p28);

// log(1 + x + x_low), or log(2 huge) where `use_huge`.
template <class T>
TAPEGRAD_INLINE T log1p_or_log_twice(Pair<T> x, T huge, bool use_huge) {
  LogReduction<T> parts =
      reduce_log_sum(use_huge ? T(0) : T(1), use_huge ? huge : x.high, use_huge ? T(0) : x.low);
  parts.e = use_huge ? parts.e + T(1) : parts.e;
  return assemble_log(parts);
}

template <class T>
TAPEGRAD_INLINE T asinh(T x) {
  const T a = abs(x);
  const T square = a * a;
  // asinh(a) = log1p(a + a^2 / (1 + sqrt(1 + a^2)))
  const Pair<T> argument = two_sum(a, square / (T(1) + sqrt(T(1) + square)));
  const T y = log1p_or_log_twice(argument, a, a > kLargeHyperbolic<T>);
  const T inside = a < kLinearRange<T> ? x : copysign(y, x);
  return a < Format<T>::kInfinity ? inside : x;
}

template <class T>
TAPEGRAD_INLINE T acosh(T x) {
  const Pair<T> above = two_sum(x, T(-1));
  const T square = mul_add(above.high, above.high, T(2) * above.high);
  const T root = sqrt(square);
  const T root_low = residual(square, root, root) / at_least(root + root, Format<T>::kMinNormal);
  Pair<T> argument = two_sum(above.high, root);
  argument.low += above.low + root_low;
  const T y = log1p_or_log_twice(argument, x, x > kLargeHyperbolic<T>);
  const T inside = x < Format<T>::kInfinity ? y : x;
  return x >= T(1) ? inside : Format<T>::kNan;
}

template <class T>
TAPEGRAD_INLINE T atanh(T x) {
  const T a = abs(x);
  // atanh(a) = log1p(2 a / (1 - a)) / 2, with the rounding errors of the quotient kept
  const Pair<T> ratio = divide(Pair<T>{T(2) * a, T(0)}, two_sum(T(1), -a));
  const T y = T(0.5) * assemble_log(reduce_log_sum(T(1), ratio.high, ratio.low));
  const T inside = a < kLinearRange<T> ? x : copysign(y, x);
  const T outside = a == T(1) ? copysign(Format<T>::kInfinity, x) : Format<T>::kNan;
  return a < T(1) ? inside : outside;
}

}  // namespace tapegrad::cpu::TAPEGRAD_ISA::math
