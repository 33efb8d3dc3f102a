// pow and hypot.
//
// pow(x, y) = 2^(y log2|x|). The error of the exponent becomes the relative error of the result,
// so log2 needs about ten bits more than the type has: a float is computed in double, a double as
// a sum of two doubles.
#pragma once

#include "cpu/math/base.h"
#include "cpu/math/exponential.h"
#include "cpu/math/logarithm.h"

namespace tapegrad::cpu::TAPEGRAD_ISA::math {

// log2(1 + f) / f on the mantissa interval, to 2^-35
TAPEGRAD_INLINE double log2_slope_short(double f) {
  return polynomial(f, 0x1.71547652a1f6fp0, -0x1.715476565d6c6p-1, 0x1.ec709ebb3aa96p-2,
                    -0x1.715470964e1fep-2, 0x1.2776521646b49p-2, -0x1.ec72b6831bcc5p-3,
                    0x1.a63f3f1705783p-3, -0x1.714154cf7b4fep-3, 0x1.4529479c37ae4p-3,
                    -0x1.2530973f40925p-3, 0x1.28721f17eaea3p-3, -0x1.2482d913866cp-3,
                    0x1.3cda9dcd289dp-4);
}

// 2^f for |f| <= 1/2, to 2^-29
TAPEGRAD_INLINE double exp2_short(double f) {
  return polynomial(f, 0x1.0000000261646p0, 0x1.62e430c7de299p-1, 0x1.ebfbdadc514e2p-3,
                    0x1.c6aed4c27e25ep-5, 0x1.3b2dbbe44c2d6p-7, 0x1.5f4566e70598p-10,
                    0x1.41d325f8679dap-13);
}

// |x|^y for |x| neither 0, 1 nor infinite, y finite
TAPEGRAD_INLINE float magnitude_pow(float x, float y) {
  const auto [e, m] = split_binary(double(abs(x)));
  const double f = m - 1.0;
  const double log2_x = mul_add(f, log2_slope_short(f), e);
  const double exponent = at_most(at_least(double(y) * log2_x, -160.0), 140.0);
  const Nearest<double> n = nearest(exponent);
  return float(exp2_short(exponent - n.value) * power_of_two(n, 0));
}

// log2 of a positive finite double as a pair, to about 2^-66
TAPEGRAD_INLINE Pair<double> log2_pair(double x) {
  const auto [e, m] = split_binary_subnormal(x);
  // log2(m) = s (c0 + z (c1 + z R(z))), s = (m - 1) / (m + 1), z = s^2
  const Pair<double> s = divide(Pair<double>{m - 1.0, 0.0}, two_sum(m, 1.0));
  const Pair<double> square = two_product(s.high, s.high);
  const Pair<double> z = {square.high, square.low + 2.0 * s.high * s.low};
  const double series =
      z.high * polynomial(z.high, 0x1.2776c50ef9d26p-1, 0x1.a61762a759233p-2, 0x1.484b1421e02dp-2,
                          0x1.0c9a63bd513bfp-2, 0x1.c69f959f28778p-3, 0x1.87afdb862aacep-3,
                          0x1.85f1bdae73703p-3);
  Pair<double> slope = fast_two_sum(0x1.ec709dc3a03fdp-1, series);
  slope.low += 0x1.d27f05548af0cp-55;
  Pair<double> bend = two_product(z.high, slope.high);
  bend.low += mul_add(z.high, slope.low, z.low * slope.high);
  Pair<double> factor = fast_two_sum(0x1.71547652b82fep1, bend.high);
  factor.low += bend.low + 0x1.777d0ffda0d24p-55;
  Pair<double> log2_m = two_product(s.high, factor.high);
  log2_m.low += mul_add(s.high, factor.low, s.low * factor.high);
  const Pair<double> sum = fast_two_sum(e, log2_m.high);
  return fast_two_sum(sum.high, sum.low + log2_m.low);
}

TAPEGRAD_INLINE double magnitude_pow(double x, double y) {
  const Pair<double> log2_x = log2_pair(abs(x));
  const double bounded_y = at_most(at_least(y, -0x1p70), 0x1p70);
  const Pair<double> product = two_product(bounded_y, log2_x.high);
  const double low = mul_add(bounded_y, log2_x.low, product.low);
  const double exponent = at_most(at_least(product.high, -1080.0), 1025.0);
  const Nearest<double> n = nearest(exponent);
  const double f = (exponent - n.value) + (exponent == product.high ? low : 0.0);
  return scale(mul_add(f, exp2_slope(f), 1.0), n);
}

template <class T>
TAPEGRAD_INLINE T pow(T x, T y) {
  const T a = abs(x);
  const bool y_integer = round(y) == y;
  const bool y_odd = y_integer & (round(T(0.5) * y) != T(0.5) * y);
  // At 0 and infinity only the direction counts: 0^y, or its inverse, is 0 or infinity.
  const bool grows = (a > T(1)) == (y > T(0));
  const bool extreme = (a == T(0)) | (a == Format<T>::kInfinity) | (abs(y) == Format<T>::kInfinity);
  const T limit = grows ? Format<T>::kInfinity : T(0);
  const T size = extreme ? limit : magnitude_pow(x, y);
  const T signed_size = y_odd ? copysign(size, x) : size;
  const bool undefined = (x < T(0)) & (a < Format<T>::kInfinity) & !y_integer;
  const T inside = a == T(1) ? (y_odd ? x : T(1)) : signed_size;
  const T with_nan = (x != x) | (y != y) ? x + y : (undefined ? Format<T>::kNan : inside);
  return (x == T(1)) | (y == T(0)) ? T(1) : with_nan;
}

TAPEGRAD_INLINE float hypot(float x, float y) {
  const double wide_x = x, wide_y = y;
  const float y_out = float(sqrt(wide_x * wide_x + wide_y * wide_y));
  const bool infinite = (abs(x) == Format<float>::kInfinity) | (abs(y) == Format<float>::kInfinity);
  return infinite ? Format<float>::kInfinity : y_out;
}

TAPEGRAD_INLINE double hypot(double x, double y) {
  const double a = abs(x), b = abs(y);
  const double larger = a > b ? a : b;
  // The squares stay in range after scaling by a power of two.
  const bool huge = larger > 0x1p500, tiny = larger < 0x1p-450;
  const double down = huge ? 0x1p-600 : (tiny ? 0x1p600 : 1.0);
  const double up = huge ? 0x1p600 : (tiny ? 0x1p-600 : 1.0);
  const double scaled_x = a * down, scaled_y = b * down;
  const double result = sqrt(mul_add(scaled_x, scaled_x, scaled_y * scaled_y)) * up;
  const bool infinite = (a == Format<double>::kInfinity) | (b == Format<double>::kInfinity);
  return infinite ? Format<double>::kInfinity : result;
}

}  // namespace tapegrad::cpu::TAPEGRAD_ISA::math
