// lgamma, digamma and trigamma.
//
// Small positive arguments are moved by the recurrence gamma(a + 1) = a gamma(a) to an interval
// around a zero of the function, where a polynomial times the distance to the zero keeps relative
// precision; large ones use Stirling's series. Negative arguments reflect.
#pragma once

#include "cpu/math/base.h"
#include "cpu/math/logarithm.h"
#include "cpu/math/trigonometric.h"

namespace tapegrad::cpu::TAPEGRAD_ISA::math {

// From kStirlingStart + 1/2 on the series have full precision.
template <class T>
inline constexpr int kStirlingStart = sizeof(T) == 4 ? 4 : 8;

// lgamma(2 + u) / u for -1/2 <= u <= 1/2
TAPEGRAD_INLINE double lgamma_slope(double u) {
  return polynomial(u, 0x1.b0ee6072093cep-2, 0x1.4a34cc4a60fa8p-2, -0x1.13e001a55755ep-4,
                    0x1.51322ac7d6fa2p-6, -0x1.e404fc21d612ap-8, 0x1.7add6eb020e9cp-9,
                    -0x1.38ac5bfe5a0d4p-10, 0x1.0b36ae8208e7ep-11, -0x1.d3fd69d8e911p-13,
                    0x1.a12827598e97fp-14, -0x1.78d910e590678p-15, 0x1.57fe1230312a1p-16,
                    -0x1.3d4b173c601bfp-17, 0x1.26d7c63f4b852p-18, -0x1.090e9d8f4c58dp-19,
                    0x1.e327984a5f8aap-21, -0x1.37b64e70de2b1p-21, 0x1.3f9dadd38336ap-22);
}

// a (lgamma(a) - (a - 1/2) log(a) + a - log(2 pi) / 2) in z = 1 / a^2
TAPEGRAD_INLINE double stirling_series(double z) {
  return polynomial(z, 0x1.5555555555555p-4, -0x1.6c16c16c14af5p-9, 0x1.a01a017e8a71ep-11,
                    -0x1.38134e165d917p-11, 0x1.b92c93a799a0fp-11, -0x1.ef9811df03874p-10,
                    0x1.4c3853cb80654p-8);
}

struct GammaDescent {
  double b;
  double product;
};

// Steps of gamma(b + 1) = b gamma(b) downwards, while b is at least 5/2.
template <int kSteps>
TAPEGRAD_INLINE GammaDescent descend(GammaDescent state) {
  if constexpr (kSteps > 0) {
    const bool step = state.b >= 2.5;
    const double lower = state.b - 1.0;
    const double product = state.product * lower;
    state =
        descend<kSteps - 1>(GammaDescent{step ? lower : state.b, step ? product : state.product});
  }
  return state;
}

// lgamma for a > 0
TAPEGRAD_INLINE double lgamma_positive(double a) {
  constexpr int kStart = kStirlingStart<double>;
  const bool large = a >= kStart + 0.5;
  const GammaDescent down = descend<kStart - 2>(GammaDescent{a, 1.0});
  const bool below_half = a < 0.5, below = a < 1.5;
  const double u = below_half ? a : (below ? a - 1.0 : down.b - 2.0);
  const double up_product = below_half ? a * (a + 1.0) : a;
  const double product = below ? up_product : down.product;
  const double logarithm = assemble_log(reduce_log(large ? a : product));
  const double small_result = mul_add(u, lgamma_slope(u), below ? -logarithm : logarithm);
  const double inverse = 1.0 / a;
  constexpr double kShift = 0x1.d67f1c864beb5p-1 - 0.5;  // log(2 pi) / 2 - 1/2
  const double correction = mul_add(inverse, stirling_series(inverse * inverse), kShift);
  const double large_result = mul_add(a - 0.5, logarithm - 1.0, correction);
  return large ? large_result : small_result;
}

TAPEGRAD_INLINE double lgamma(double x) {
  constexpr double kLogPi = 0x1.250d048e7a1bdp0;
  const double a = abs(x);
  const double positive = lgamma_positive(a);
  // log|gamma(-a)| = log(pi / (a |sin(pi a)|)) - lgamma(a)
  const double reflected = (kLogPi - assemble_log(reduce_log(a * abs_sinpi(a)))) - positive;
  const double inside = (x < 0.0) & (a > Format<double>::kEpsilon / 8) ? reflected : positive;
  const bool pole = (x <= 0.0) & (floor(x) == x);
  const double result =
      pole | (a == Format<double>::kInfinity) ? Format<double>::kInfinity : inside;
  return x != x ? x : result;
}

// In double: beside the zeros between two poles the reflection cancels, and a float has no bits to
// spare for that.
TAPEGRAD_INLINE float lgamma(float x) { return static_cast<float>(lgamma(static_cast<double>(x))); }

// Positive finite numbers are easy; zero is the word before them, all others come after.
template <class T>
inline constexpr BitsOf<T> kGammaEasy = to_bits(Format<T>::kMax) - 1;
template <class T>
TAPEGRAD_INLINE BitsOf<T> gamma_difficulty(T x) {
  return to_bits(x) - 1;
}

namespace narrow {

template <class T>
TAPEGRAD_INLINE T lgamma(T x) {
  return static_cast<T>(lgamma_positive(static_cast<double>(x)));
}

}  // namespace narrow

// digamma(3/2 + v) / (3/2 + v - root) for |v| <= 1/2
TAPEGRAD_INLINE float digamma_slope(float v) {
  return polynomial(v, 0x1.e6f0ccp-1f, -0x1.b1cacep-2f, 0x1.eca032p-3f, -0x1.302e7p-3f,
                    0x1.857abap-4f, -0x1.ed7a6ap-5f, 0x1.43f5dap-5f, -0x1.20e0a8p-5f,
                    0x1.822338p-6f);
}
TAPEGRAD_INLINE double digamma_slope(double v) {
  return polynomial(
      v, 0x1.e6f0cbb873617p-1, -0x1.b1cb63005ee98p-2, 0x1.eca189b8e6d99p-3, -0x1.2feeeb98a7a35p-3,
      0x1.8512e5905da41p-4, -0x1.fb44202a07095p-5, 0x1.4de9aa059ae93p-5, -0x1.b9f8b124aba81p-6,
      0x1.256475f12ad06p-6, -0x1.86356279938c8p-7, 0x1.03c006a947b96p-7, -0x1.5a06cc9f9e294p-8,
      0x1.cd3e73e2060b8p-9, -0x1.336b412bb0464p-9, 0x1.980da06ac9046p-10, -0x1.0fcd5ee5a44cep-10,
      0x1.7b49fb82a0706p-11, -0x1.fc45f27dce6c7p-12, 0x1.dc1bd5e55ecd6p-13, -0x1.343ee8077639ap-13,
      0x1.1079156d5efacp-12, -0x1.72457b97afddp-13);
}

// (log(a) - 1 / (2a) - digamma(a)) a^2 in z = 1 / a^2
TAPEGRAD_INLINE float digamma_series(float z) {
  return polynomial(z, 0x1.55554p-4f, -0x1.10be1cp-7f, 0x1.d9819cp-9f);
}
TAPEGRAD_INLINE double digamma_series(double z) {
  return polynomial(z, 0x1.5555555555549p-4, -0x1.11111110e7eacp-7, 0x1.0410404fea654p-8,
                    -0x1.111055638f9ebp-8, 0x1.f012c49a080fep-8, -0x1.51549a3976de3p-6,
                    0x1.f81db4276d5b6p-5);
}

template <class T>
struct DigammaDescent {
  T b;
  T numerator;
  T denominator;
};

// Steps of digamma(b + 1) = digamma(b) + 1 / b downwards, while b is at least 2; the sum of the
// reciprocals is kept as a fraction, which costs one division in the end.
template <int kSteps, class T>
TAPEGRAD_INLINE DigammaDescent<T> descend(DigammaDescent<T> state) {
  if constexpr (kSteps > 0) {
    const bool step = state.b >= T(2);
    const T lower = state.b - T(1);
    const T numerator = mul_add(state.numerator, lower, state.denominator);
    const T denominator = state.denominator * lower;
    state = descend<kSteps - 1>(DigammaDescent<T>{step ? lower : state.b,
                                                  step ? numerator : state.numerator,
                                                  step ? denominator : state.denominator});
  }
  return state;
}

// digamma for a > 0
template <class T>
TAPEGRAD_INLINE T digamma_positive(T a) {
  constexpr T kRoot = T(0x1.762d86356be3fp0);
  constexpr T kRootLow = sizeof(T) == 4 ? T(0x1.ab5f2p-27) : T(0x1.b86a722197829p-54);
  const bool large = a >= kStirlingStart<T> + T(0.5), below = a < T(1);
  const auto down = descend<kStirlingStart<T> - 1>(DigammaDescent<T>{a, T(0), T(1)});
  const bool direct = large | below;
  const T fraction = (direct ? T(1) : down.numerator) / (direct ? a : down.denominator);
  const T b = below ? a + T(1) : down.b;
  const T from_root = ((b - kRoot) - kRootLow) * digamma_slope(b - T(1.5));
  const T small_result = from_root + (below ? -fraction : fraction);
  const T z = fraction * fraction;
  const T correction = mul_add(z, digamma_series(z), T(0.5) * fraction);
  const T large_result = assemble_log(reduce_log(a)) - correction;
  return large ? large_result : small_result;
}

template <class T>
TAPEGRAD_INLINE T digamma(T x) {
  constexpr T kPi = T(0x1.921fb54442d18p1);
  const T a = abs(x);
  const T positive = digamma_positive(a);
  // digamma(-a) = digamma(a) + 1 / a + pi cot(pi a)
  const T cotangent = T(1) / tan_of(reduce_trig_pi(modulo_two(a)));
  const T inverse = T(1) / a;
  const T mirrored = positive + mul_add(kPi, cotangent, inverse);
  const T reflected = a < Format<T>::kEpsilon / 256 ? inverse : mirrored;
  const T inside = x < T(0) ? reflected : positive;
  const T finite = a < Format<T>::kInfinity ? inside : x;
  const T defined = (x < T(0)) & (floor(x) == x) ? Format<T>::kNan : finite;
  return x == T(0) ? copysign(Format<T>::kInfinity, -x) : defined;
}

// (trigamma(b) b - 1 - 1 / (2b)) b^2 in z = 1 / b^2: the Bernoulli numbers B_2, B_4, ...
TAPEGRAD_INLINE float trigamma_series(float z) {
  return polynomial(z, 1.0f / 6, -1.0f / 30, 1.0f / 42, -1.0f / 30);
}
TAPEGRAD_INLINE double trigamma_series(double z) {
  return polynomial(z, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6,
                    -3617.0 / 510, 43867.0 / 798);
}

// 1 / (a + 1)^2 + ... + 1 / (a + kStirlingStart)^2 for 0 <= a < kStirlingStart. With
// u = a (a + kStirlingStart + 1), the first and the last of the factors multiply to u plus an
// integer, and so do the second and the last but one: two pairs make a fraction.
TAPEGRAD_INLINE float trigamma_steps(float a) {
  const float u = a * (a + 5.0f), outer = u + 4.0f, inner = u + 6.0f;
  const float numerator =
      mul_add(mul_add(2.0f, u, 17.0f), inner * inner, mul_add(2.0f, u, 13.0f) * (outer * outer));
  const float denominator = outer * inner;
  return numerator / (denominator * denominator);
}
TAPEGRAD_INLINE double trigamma_steps(double a) {
  const double u = a * (a + 9.0);
  const double first = u + 8.0, second = u + 14.0, third = u + 18.0, fourth = u + 20.0;
  const double outer =
      mul_add(mul_add(2.0, u, 65.0), second * second, mul_add(2.0, u, 53.0) * (first * first));
  const double inner =
      mul_add(mul_add(2.0, u, 45.0), fourth * fourth, mul_add(2.0, u, 41.0) * (third * third));
  const double outer_root = first * second, inner_root = third * fourth;
  return outer / (outer_root * outer_root) + inner / (inner_root * inner_root);
}

template <class T>
TAPEGRAD_INLINE T trigamma(T x) {
  constexpr T kPi = T(0x1.921fb54442d18p1);
  const T a = abs(x);
  const bool large = a >= T(kStirlingStart<T>);
  const T inverse = T(1) / (large ? a : a + T(kStirlingStart<T> + 1));
  const T z = inverse * inverse;
  const T series = inverse * (mul_add(T(0.5), inverse, T(1)) + z * trigamma_series(z));
  const T direct = T(1) / a;
  const T first = direct * direct;
  // trigamma(a + 1), which lacks the first term of trigamma(a)
  const T next = large ? series - first : series + trigamma_steps(a);
  // trigamma(-a) = (pi / sin(pi a))^2 - trigamma(a + 1)
  const T wave = kPi / abs_sinpi(a);
  const T inside = x < T(0) ? mul_add(wave, wave, -next) : (large ? series : next + first);
  const bool pole = (x <= T(0)) & (floor(x) == x);
  return pole ? Format<T>::kInfinity : inside;
}

}  // namespace tapegrad::cpu::TAPEGRAD_ISA::math
