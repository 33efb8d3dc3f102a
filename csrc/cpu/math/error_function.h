// erf, erfc, erfinv and the normal distribution's cdf.
//
// For a >= 0, erfc(a) = exp(-a^2) G(t) / (1 + 2a) with t = (a - k) / (a + k): G varies between 1
// and 1.3 over the whole half line, so one polynomial in t gives every tail to full relative
// precision, provided that a^2 keeps its low word and the quotient its rounding error.
#pragma once

#include "cpu/math/base.h"
#include "cpu/math/exponential.h"
#include "cpu/math/logarithm.h"

namespace tapegrad::cpu::TAPEGRAD_ISA::math {

// The k of the map to t.
template <class T>
inline constexpr T kErfcCentre = sizeof(T) == 4 ? T(2) : T(4);
// Makes kErfcSteepness (t + 1/2)^2 follow G'(t) from t = -1 to -1/2, after which t is exact.
template <class T>
inline constexpr T kErfcSteepness = sizeof(T) == 4 ? T(3.5) : T(6.9);
// Beyond this argument erfc is zero.
template <class T>
inline constexpr T kErfcZero = sizeof(T) == 4 ? T(10.1) : T(27.3);

// (1 + 2a) exp(a^2) erfc(a) as a pair
TAPEGRAD_INLINE Pair<float> erfc_factor(float t) {
  Pair<float> sum = fast_two_sum(
      0x1.46e80ep0f, t * polynomial(t, -0x1.7bf616p-4f, -0x1.54084ep-3f, 0x1.4ffc4ap-3f,
                                    -0x1.bc09cap-5f, -0x1.081d56p-7f, 0x1.1aca8ep-7f,
                                    0x1.58466ep-10f, -0x1.41ea68p-10f, -0x1.a2db38p-12f));
  sum.low += 0x1.5f2566p-26f;  // the low word of the leading coefficient
  return sum;
}
TAPEGRAD_INLINE Pair<double> erfc_factor(double t) {
  Pair<double> sum = fast_two_sum(
      0x1.3ba5916e9fd7fp0,
      t * polynomial(t, -0x1.1df1ad154a29bp-3, 0x1.f7f5df66fd7bcp-7, 0x1.16ecefcfa5fa1p-4,
                     -0x1.9ddb23c3e8ee2p-4, 0x1.7fee004df7d85p-4, -0x1.0fb06dfe5217dp-4,
                     0x1.3079edf9dbff9p-5, -0x1.09623881b8454p-6, 0x1.49c6719751abbp-8,
                     -0x1.8d4a9edad36d2p-11, -0x1.a1de85a687dcfp-13, 0x1.3be0c0e298d21p-13,
                     -0x1.9969df5bd2e34p-16, -0x1.78a59867198fp-17, 0x1.7fb0e31305ad8p-18,
                     0x1.43b26de2e6f1p-22, -0x1.c014e04c36137p-21, 0x1.0d7e329f9890cp-24,
                     0x1.ede03652b55bfp-24, -0x1.0cd31e9e43b15p-27, -0x1.d268cb811668ep-27,
                     -0x1.e84d72c32f249p-30));
  sum.low -= 0x1.aa45b10e531c4p-55;  // the low word of the leading coefficient
  return sum;
}

// exp(a^2) erfc(a) for a >= 0, as far as erfc is not zero, as a pair
template <class T>
TAPEGRAD_INLINE Pair<T> scaled_erfc(T a) {
  const Pair<T> denominator = fast_two_sum(T(1), T(2) * a);
  // One division serves both denominators.
  const T centred = a + kErfcCentre<T>;
  const T inverse_both = T(1) / (centred * denominator.high);
  // t + 1 is small where G is steep, so t comes from it, with its rounding error times G'.
  const T t_above = T(2) * a * (denominator.high * inverse_both);
  const T t = t_above - T(1);
  const T t_low = t_above - (t + T(1));
  const T steepness = kErfcSteepness<T> * (t + T(0.5)) * (t + T(0.5));
  Pair<T> numerator = erfc_factor(t);
  numerator.low = mul_add(steepness, t_low, numerator.low);
  return divide(numerator, denominator, centred * inverse_both);
}

// erfc for a >= 0
template <class T>
TAPEGRAD_INLINE T erfc_positive(T a) {
  const Pair<T> factor = scaled_erfc(a);
  const Pair<T> square = two_product(a, a);
  const ExpReduction<T> parts = reduce_exp(Pair<T>{-square.high, -square.low});
  const T rise = growth(parts), low = mul_add(factor.low, rise, factor.low);
  return scale_down(factor.high + mul_add(factor.high, rise, low), parts.n);
}

template <class T>
TAPEGRAD_INLINE T erfc(T x) {
  const T y = erfc_positive(at_most(abs(x), kErfcZero<T>));
  return x < T(0) ? T(2) - y : y;
}

// erf(x) / x - 1 in z = x^2 <= 1
TAPEGRAD_INLINE float erf_series(float z) {
  return polynomial(z, 0x1.06eba8p-3f, -0x1.81273ep-2f, 0x1.ce2ce6p-4f, -0x1.b7f71ap-6f,
                    0x1.53f224p-8f, -0x1.a3515ep-11f, 0x1.4771fep-14f);
}
TAPEGRAD_INLINE double erf_series(double z) {
  return polynomial(z, 0x1.06eba8214db68p-3, -0x1.812746b0379bdp-2, 0x1.ce2f21a040d15p-4,
                    -0x1.b82ce311fa932p-6, 0x1.565bccf92b31cp-8, -0x1.c02db03dd8c63p-11,
                    0x1.f9a2baa92d20cp-14, -0x1.f4ca4d71c9206p-17, 0x1.b97fd3ee44b0dp-20,
                    -0x1.5c07275310dacp-23, 0x1.d71b1121363c1p-27, -0x1.abae4db86ed33p-31);
}

// -log(exp(a^2) erfc(a)) for a in [1, 6]; beyond, erf is one.
TAPEGRAD_INLINE float erfc_decay(float a) {
  return polynomial(a - 2.5f, 0x1.8e8bbp0f, 0x1.692866p-2f, -0x1.cbf4ccp-5f, 0x1.5c3004p-7f,
                    -0x1.50213p-9f, 0x1.a14266p-14f, -0x1.9ce786p-13f);
}
TAPEGRAD_INLINE double erfc_decay(double a) {
  return polynomial(a - 3.5, 0x1.dcc8b2950b93ep0, 0x1.107c691443417p-2, -0x1.105be5f8b5399p-5,
                    0x1.567803214d296p-8, -0x1.ca0f84cdc4131p-11, 0x1.34edc793893b1p-13,
                    -0x1.99179b95d2cbbp-16, 0x1.039503d1ae887p-18, -0x1.4f2485c18d596p-21,
                    0x1.c1a9ac7bc465bp-25, -0x1.7a7c57ce1a772p-27, 0x1.260549cb625d1p-26,
                    0x1.1ef6a86ccdd8bp-26, 0x1.37c502aebd98dp-27, 0x1.af8e84ec2799ap-29,
                    0x1.762fb1054e884p-31, 0x1.803e4c03bcc0ep-34, 0x1.561e2345217c1p-38);
}

template <class T>
TAPEGRAD_INLINE T erf(T x) {
  const T a = abs(x);
  const T inner = mul_add(x, erf_series(x * x), x);
  const T bounded = at_most(a, sizeof(T) == 4 ? T(3.9375) : T(5.9375));
  const ExpReduction<T> parts = reduce_exp(-mul_add(bounded, bounded, erfc_decay(bounded)));
  const T power = power_of_two(parts.n, 0);
  const T outer = (T(1) - power) - power * growth(parts);
  return a < T(1) ? inner : copysign(outer, x);
}

// Beyond this argument the distribution is zero on the left.
template <class T>
inline constexpr T kNormalZero = sizeof(T) == 4 ? T(15) : T(38.7);

// For a >= 0, normal_cdf(-a) = exp(-a^2 / 2) v H(u) with v = 1 / (a + k) and u = a / (a + k): near
// a = 0, where H is steep, u has many bits.
template <class T>
inline constexpr T kNormalCentre = sizeof(T) == 4 ? T(3) : T(6);  // k

TAPEGRAD_INLINE float normal_factor(float u) {
  return horner(u, 0x1.8p0f, -0x1.0b9532p1f, 0x1.11baf4p0f, 0x1.a4af3p-3f, -0x1.0546b4p-2f,
                -0x1.dee89p-4f, -0x1.3c893p-12f, 0x1.3c30b2p-3f, -0x1.13c406p-4f);
}
TAPEGRAD_INLINE double normal_factor(double u) {
  return polynomial(
      u - 0.4375, 0x1.bfded105ca2dcp-1, -0x1.bada676d1f74cp0, 0x1.8152a399b0fd6p1,
      -0x1.2661f12cd98cbp2, 0x1.8883ded5e84e4p2, -0x1.c35b28f644eb8p2, 0x1.b65b5e7dc4ac6p2,
      -0x1.59bfc29009bc1p2, 0x1.95d2e032e146p1, -0x1.04bce4d07abbap0, -0x1.27c4c3d78c386p-2,
      0x1.1fc542521acfcp-1, -0x1.d170e859ab92ap-3, -0x1.b8790133b938ap-4, 0x1.2d1fcff764c1bp-3,
      -0x1.65e9dfa7f52b6p-7, -0x1.09ac7d65957dp-4, 0x1.81398b933c913p-6, 0x1.b7da9d1b252ddp-6,
      -0x1.fb0f792f359a4p-7, -0x1.7013a9e5ecba5p-7, 0x1.812592e1ae458p-8, 0x1.ecc8a6aeab11ap-9);
}

template <class T>
TAPEGRAD_INLINE T normal_decay_factor(T a) {
  const T v = T(1) / (a + kNormalCentre<T>);
  return v * normal_factor(a * v);
}

// exp(-z / 2) = 2^n (1 + growth). Where the product is not rounded one word of ln2 does: z is a square,
// and its rounding costs more.
template <class T>
struct BellReduction {
  Nearest<T> n;
  T growth;
};

// exp(-r / 2) - 1 for |r| <= ln2
TAPEGRAD_INLINE float bell_growth(float r) {
  return r * horner(r, -0.5f, 0x1.fffffcp-4f, -0x1.55548ap-6f, 0x1.555864p-9f, -0x1.123de8p-12f,
                    0x1.6a70c2p-16f);
}
TAPEGRAD_INLINE double bell_growth(double r) {
  return r * polynomial(r, -0.5, 0x1.000000000000ap-3, -0x1.55555555554f9p-6, 0x1.55555555507c8p-9,
                        -0x1.1111111127f2bp-12, 0x1.6c16c1845426ep-16, -0x1.a01a012986477p-20,
                        0x1.a01999946d45fp-24, -0x1.71df267718351p-28, 0x1.28ade676959a4p-32,
                        -0x1.ad7ebd23ffb18p-37);
}

template <class T>
TAPEGRAD_INLINE BellReduction<T> reduce_bell(T z) {
  const Nearest<T> n = nearest_of_product(z, T(-0.5) * kLog2E<T>);
  if constexpr (kHasFma) return {n, bell_growth(mul_add(n.value, T(0x1.62e42fefa39efp0), z))};
  const T exact = z + n.value * (T(2) * kLn2High<T>);
  return {n, bell_growth(exact + n.value * (T(2) * kLn2Low<T>))};
}

template <class T>
TAPEGRAD_INLINE BellReduction<T> reduce_bell_bounded(T z) {
  return reduce_bell(at_most(z, T(-2) * kExpLow<T>));
}

template <class T>
inline constexpr T kNormalPeak = T(0x1.9884533d43651p-2);  // 1 / sqrt(2 pi)

// The cumulative distribution of the normal law, erfc(-x / sqrt(2)) / 2, and its density, to a few
// units in the last place; beyond |x| = 3 to 1 + x^2 / 2 of them, as the square is rounded. Where
// both are wanted the compiler computes the reduction once.
template <class T>
TAPEGRAD_INLINE T normal_tail(T x) {  // normal_cdf(-|x|)
  const T factor = normal_decay_factor(magnitude_at_most(x, kNormalZero<T>));
  const BellReduction<T> bell = reduce_bell_bounded(x * x);
  return scale_down(mul_add(factor, bell.growth, factor), bell.n);
}
template <class T>
TAPEGRAD_INLINE T normal_cdf(T x) {
  const T y = normal_tail(x);
  return x < T(0) ? y : T(1) - y;
}
template <class T>
TAPEGRAD_INLINE T normal_density(T x) {
  const BellReduction<T> bell = reduce_bell_bounded(x * x);
  return scale_down(mul_add(kNormalPeak<T>, bell.growth, kNormalPeak<T>), bell.n);
}

// x * normal_cdf(x), on the right as x - x * normal_cdf(-x): rounded once less, and without a choice
// where both sides are one expression (narrow::gelu).
template <class T>
TAPEGRAD_INLINE T gelu(T x) {
  const T y = normal_tail(x);
  const T right = x > kNormalZero<T> ? x : mul_add(-x, y, x);
  return x > T(0) ? right : x * y;
}

// Up to this magnitude the distribution is a normal number.
template <class T>
inline constexpr T kNormalNarrow = sizeof(T) == 4 ? T(12) : T(37);
template <class T>
inline constexpr BitsOf<T> kNormalEasy = to_bits(kNormalNarrow<T>);

template <class T>
TAPEGRAD_INLINE BitsOf<T> normal_difficulty(T x) {
  return to_bits(abs(x));
}

namespace narrow {

template <class T>
TAPEGRAD_INLINE T normal_tail(T x) {
  const T factor = normal_decay_factor(abs(x));
  const BellReduction<T> bell = reduce_bell(x * x);
  return narrow::scale(mul_add(factor, bell.growth, factor), bell.n);
}
template <class T>
TAPEGRAD_INLINE T normal_cdf(T x) {
  const T y = narrow::normal_tail(x);
  return x < T(0) ? y : T(1) - y;
}
template <class T>
TAPEGRAD_INLINE T gelu(T x) {
  return mul_add(-abs(x), narrow::normal_tail(x), at_least(x, T(0)));
}
template <class T>
TAPEGRAD_INLINE T normal_density(T x) {
  const BellReduction<T> bell = reduce_bell(x * x);
  return narrow::scale(mul_add(kNormalPeak<T>, bell.growth, kNormalPeak<T>), bell.n);
}

}  // namespace narrow

// erfinv in two pieces of w = -log(1 - x^2): erfinv(x) / x is a polynomial in w near the centre,
// erfinv(|x|) one in a root of w in the tail.
TAPEGRAD_INLINE float erfinv_centre(float w) {
  return polynomial(w - 2.0f, 0x1.60912ep0f, 0x1.ff8672p-3f, -0x1.02067cp-9f, -0x1.bbaaacp-10f,
                    0x1.c5fb14p-13f, 0x1.08a1b4p-17f, -0x1.54fcccp-18f, 0x1.c46d9ep-23f,
                    0x1.8c8e9p-24f);
}
TAPEGRAD_INLINE double erfinv_centre(double w) {
  return polynomial(
      w - 3.125, 0x1.a755e7c99ae87p0, 0x1.ebd80d9b13e23p-3, -0x1.8b6c33114fb93p-8,
      -0x1.845769484d9p-11, 0x1.879c2a21443fap-13, -0x1.d1d1f7b9ab93p-17, -0x1.6e8a5445f1337p-20,
      0x1.c6b4f5f7921ecp-22, -0x1.f36cd33d53346p-26, -0x1.1a9e3e5154398p-28, 0x1.20f46106e7b4ap-30,
      -0x1.dc57541f4c08cp-35, -0x1.c8816d8ba2c9ap-37, 0x1.729f21217fcd5p-39, -0x1.6f88be24f755ap-44,
      -0x1.6d1a3c1cda5eep-45, 0x1.df17833f870d4p-48, 0x1.7240ab5a044bap-56, -0x1.355f72cc70b3dp-53,
      0x1.9d28648632c71p-57, 0x1.866955707047cp-60, -0x1.8fbd94b2e1ce9p-63, -0x1.47829474781d8p-68);
}
TAPEGRAD_INLINE float erfinv_tail(float w) {
  return polynomial(sqrt(w) - 3.0625f, 0x1.729f8ep1f, 0x1.00e3fep0f, 0x1.98029ap-8f,
                    -0x1.9f873ap-9f, 0x1.1731cep-10f, -0x1.dea064p-13f, -0x1.1ea756p-17f,
                    0x1.826d34p-15f, -0x1.62d138p-16f);
}
TAPEGRAD_INLINE double erfinv_tail(double w) {
  const double root = sqrt(w);
  const double ratio = polynomial(
      sqrt(root) - 2.03125, 0x1.ec44e6d992fbfp-1, 0x1.85a91469b6ccfp-5, -0x1.006108c53e8dcp-5,
      0x1.37867220f267ap-7, 0x1.929f59a3b631ap-8, -0x1.ad78a99cac36bp-7, 0x1.b4bf906c7fcf3p-7,
      -0x1.348c1d82811e8p-7, 0x1.62b131d970e97p-9, 0x1.ba9b9a819000cp-8, -0x1.26f75067ef6dfp-6,
      0x1.9e17f1af88e3bp-6, -0x1.12e32caa76457p-6, -0x1.066f84ddfa17ep-6, 0x1.e7fbd81e1892bp-5,
      -0x1.20a8f85d19a52p-4, -0x1.2f8c5a8dd44c2p-11, 0x1.16bd52c41e575p-3, -0x1.45241a9b1736dp-3,
      -0x1.46ea6132b996ap-4, 0x1.f6dcad2fd469p-3, -0x1.57228a58ef718p-8, -0x1.2646afbc59f84p-3);
  return root * ratio;
}

template <class T>
TAPEGRAD_INLINE T erfinv(T x) {
  constexpr T kSplit = sizeof(T) == 4 ? T(4) : T(6.25);
  const T a = abs(x);
  const T w = -assemble_log(narrow::reduce_log((T(1) - a) * (T(1) + a)));
  const T inside = w < kSplit ? x * erfinv_centre(w) : copysign(erfinv_tail(w), x);
  const T outside = a == T(1) ? copysign(Format<T>::kInfinity, x) : Format<T>::kNan;
  return a < T(1) ? inside : outside;
}

}  // namespace tapegrad::cpu::TAPEGRAD_ISA::math
