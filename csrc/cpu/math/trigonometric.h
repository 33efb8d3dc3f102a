// Trigonometry: sin, cos, tan, sinc, asin, acos, atan, atan2.
//
// x = k pi/2 + r with pi/2 in three words, which is exact enough for every |x| <= kTrigRange (see
// Note: the plain and the wide form). sin(r) and cos(r) are both evaluated and k selects.
#pragma once

#include "cpu/math/base.h"
#include "cpu/math/exponential.h"

namespace tapegrad::cpu::TAPEGRAD_ISA::math {

template <class T>
inline constexpr T kTrigRange = sizeof(T) == 4 ? T(0x1p17) : T(0x1p30);

// A NaN is easy.
template <class T>
TAPEGRAD_INLINE BitsOf<T> trig_difficulty(T x) {
  return abs(x) > kTrigRange<T> ? BitsOf<T>(1) : BitsOf<T>(0);
}

// pi / 2 as a sum of three full words.
template <class T>
struct HalfPi;
template <>
struct HalfPi<float> {
  static constexpr float kFirst = 0x1.921fb6p0f;
  static constexpr float kSecond = -0x1.777a5cp-25f;
  static constexpr float kThird = -0x1.ee59dap-50f;
};
template <>
struct HalfPi<double> {
  static constexpr double kFirst = 0x1.921fb54442d18p0;
  static constexpr double kSecond = 0x1.1a62633145c07p-54;
  static constexpr double kThird = -0x1.f1976b7ed8fbcp-110;
};

template <class T>
struct Quadrant {
  Pair<T> r;        // in [-pi/4, pi/4]
  BitsOf<T> index;  // counts quarter turns, modulo four in its low bits
};

template <class T>
TAPEGRAD_INLINE Quadrant<T> reduce_trig(T x) {
  using Pi = HalfPi<T>;
  const Nearest<T> k = nearest_of_product(x, T(0x1.45f306dc9c883p-1));
  const T first = residual(x, k.value, Pi::kFirst);
  const Pair<T> second = two_product(k.value, Pi::kSecond);
  // The short form of the sum is exact here: `first` is a multiple of the ulp of `second`.
  const Pair<T> r = fast_two_sum(first, -second.high);
  return {{r.high, mul_add(-k.value, Pi::kThird, r.low - second.low)}, k.bits};
}

// x pi instead of x, for |x| <= 1
template <class T>
TAPEGRAD_INLINE Quadrant<T> reduce_trig_pi(T x) {
  const Nearest<T> k = nearest(x + x);
  const T turn = mul_add(T(-0.5), k.value, x);
  const Pair<T> r = two_product(turn, T(2) * HalfPi<T>::kFirst);
  return {{r.high, mul_add(turn, T(2) * HalfPi<T>::kSecond, r.low)}, k.bits};
}

// (sin(r) - r) / r^3 and (cos(r) - 1 + r^2 / 2) / r^4, in z = r^2
TAPEGRAD_INLINE float sin_series(float z) {
  return polynomial(z, -0x1.555546p-3f, 0x1.11077cp-7f, -0x1.9955aep-13f);
}
TAPEGRAD_INLINE double sin_series(double z) {
  return polynomial(z, -0x1.5555555555549p-3, 0x1.111111110f861p-7, -0x1.a01a019c0e4eep-13,
                    0x1.71de3574bc405p-19, -0x1.ae5e63cefe8d1p-26, 0x1.5d924748010d4p-33);
}
TAPEGRAD_INLINE float cos_series(float z) {
  return polynomial(z, 0x1.55554ap-5f, -0x1.6c0c1ap-10f, 0x1.99e0f2p-16f);
}
TAPEGRAD_INLINE double cos_series(double z) {
  return polynomial(z, 0x1.555555555554cp-5, -0x1.6c16c16c15162p-10, 0x1.a01a019caef27p-16,
                    -0x1.27e4f807d541bp-22, 0x1.1ee9ea6c22911p-29, -0x1.8fadd01ead4c9p-37);
}

template <class T>
TAPEGRAD_INLINE Pair<T> sin_quarter(Pair<T> r) {
  const T z = r.high * r.high;
  return fast_two_sum(r.high, mul_add(r.high * z, sin_series(z), r.low));
}

template <class T>
TAPEGRAD_INLINE Pair<T> cos_quarter(Pair<T> r) {
  const T z = r.high * r.high;
  const Pair<T> lead = fast_two_sum(T(1), T(-0.5) * z);
  return fast_two_sum(lead.high, mul_add(z * z, cos_series(z), lead.low) - r.high * r.low);
}

// sin of the quadrant's angle after `turns` more quarter turns
template <class T>
TAPEGRAD_INLINE T sin_of(Quadrant<T> quadrant, BitsOf<T> turns) {
  const BitsOf<T> index = quadrant.index + turns;
  const T y = (index & 1) != 0 ? cos_quarter(quadrant.r).high : sin_quarter(quadrant.r).high;
  return from_bits<T>(to_bits(y) ^ ((index & 2) << (Format<T>::kWidth - 2)));
}

template <class T>
TAPEGRAD_INLINE Pair<T> sin_pair_of(Quadrant<T> quadrant) {
  const Pair<T> s = sin_quarter(quadrant.r), c = cos_quarter(quadrant.r);
  const bool odd = (quadrant.index & 1) != 0, negative = (quadrant.index & 2) != 0;
  const Pair<T> y = {odd ? c.high : s.high, odd ? c.low : s.low};
  return {negative ? -y.high : y.high, negative ? -y.low : y.low};
}

// (tan(r) - r) / r^3 in z = r^2
TAPEGRAD_INLINE float tan_series(float z) {
  return polynomial(z, 0x1.55556p-2f, 0x1.110d8ap-3f, 0x1.badc78p-5f, 0x1.5ca98p-6f, 0x1.6333dap-7f,
                    0x1.611a96p-14f, 0x1.1efb1ep-8f);
}
TAPEGRAD_INLINE double tan_series(double z) {
  return polynomial(z, 0x1.5555555555555p-2, 0x1.1111111111098p-3, 0x1.ba1ba1ba29ddep-5,
                    0x1.664f487d78bap-6, 0x1.226e366483df5p-7, 0x1.d6d393e55be3cp-9,
                    0x1.7da8013de5a11p-10, 0x1.351b2fbab98a7p-11, 0x1.f9e89fdcce713p-13,
                    0x1.794e479e74e5dp-14, 0x1.d2cbb87063d9cp-15, -0x1.745244e5117fdp-17,
                    0x1.32f48f3ad72a7p-15, -0x1.33f781e368ec2p-16, 0x1.1cfc006814ca4p-17);
}

template <class T>
TAPEGRAD_INLINE T tan_of(Quadrant<T> quadrant) {
  const T r = quadrant.r.high, z = r * r;
  const T t = r + mul_add(r * z, tan_series(z), quadrant.r.low);
  return (quadrant.index & 1) != 0 ? T(-1) / t : t;
}

template <class T>
TAPEGRAD_INLINE T sin(T x) {
  const T y = sin_of(reduce_trig(x), BitsOf<T>(0));
  return x == T(0) ? x : y;
}

template <class T>
TAPEGRAD_INLINE T cos(T x) {
  return sin_of(reduce_trig(x), BitsOf<T>(1));
}

template <class T>
TAPEGRAD_INLINE T tan(T x) {
  const T y = tan_of(reduce_trig(x));
  return abs(x) < kLinearRange<T> ? x : y;
}

// x modulo 2 in [-1, 1], exact, for the functions of pi x.
template <class T>
TAPEGRAD_INLINE T modulo_two(T x) {
  const T half = T(0.5) * x;
  return T(2) * (half - round(half));
}

// |sin(pi x)| for finite x
template <class T>
TAPEGRAD_INLINE T abs_sinpi(T x) {
  return abs(sin_of(reduce_trig_pi(modulo_two(x)), BitsOf<T>(0)));
}

// sin(pi x) / (pi x)
template <class T>
TAPEGRAD_INLINE T sinc(T x) {
  const Quadrant<T> quadrant = reduce_trig_pi(modulo_two(x));
  Pair<T> angle = two_product(x, T(2) * HalfPi<T>::kFirst);
  angle.low = mul_add(x, T(2) * HalfPi<T>::kSecond, angle.low);
  const Pair<T> ratio = divide(sin_pair_of(quadrant), angle);
  const T fractional = abs(x) < kLinearRange<T> ? T(1) : ratio.high + ratio.low;
  const T inside = abs(x) < T(1) / Format<T>::kEpsilon ? fractional : T(0);
  return x - x == T(0) ? inside : Format<T>::kNan;
}

// (asin(s) - s) / s^3 in z = s^2 <= 1/4
TAPEGRAD_INLINE float asin_series(float z) {
  return polynomial(z, 0x1.5555cap-3f, 0x1.330162p-4f, 0x1.748b76p-5f, 0x1.8ba4cp-6f,
                    0x1.59dd24p-5f);
}
TAPEGRAD_INLINE double asin_series(double z) {
  return polynomial(z, 0x1.5555555555384p-3, 0x1.333333336fdc5p-4, 0x1.6db6db419c3d9p-5,
                    0x1.f1c72c7fac308p-6, 0x1.6e89edb790754p-6, 0x1.1c6c42d1edd1fp-6,
                    0x1.c6f65c854f69bp-7, 0x1.8ef2e2fd19b4ep-7, 0x1.aa3670316a8d6p-8,
                    0x1.4108f0f3c4458p-6, -0x1.0b7f8a611f934p-6, 0x1.05fe95930181p-5);
}

// asin(s) = s + tail, where s is |x| itself up to 1/2 and sqrt((1 - |x|) / 2) beyond:
// asin(|x|) = pi/2 - 2 asin(s) there.
template <class T>
struct AsinReduction {
  T s;
  T tail;
};

template <class T>
TAPEGRAD_INLINE AsinReduction<T> reduce_asin(T a) {
  const bool outer = a > T(0.5);
  const T z = outer ? T(0.5) - T(0.5) * a : a * a;
  const T root = sqrt(z);
  const T s = outer ? root : a;
  return {s, s * z * asin_series(z)};
}

template <class T>
TAPEGRAD_INLINE T asin(T x) {
  using Pi = HalfPi<T>;
  const auto [s, tail] = reduce_asin(abs(x));
  const Pair<T> lead = fast_two_sum(Pi::kFirst, T(-2) * s);
  const T from_end = lead.high + (lead.low - mul_add(T(2), tail, -Pi::kSecond));
  return copysign(abs(x) > T(0.5) ? from_end : s + tail, x);
}

template <class T>
TAPEGRAD_INLINE T acos(T x) {
  using Pi = HalfPi<T>;
  const auto [s, tail] = reduce_asin(abs(x));
  const T near = T(2) * (s + tail);  // acos(|x|) beyond 1/2
  const T far = T(2) * Pi::kFirst - (near - T(2) * Pi::kSecond);
  const T middle = Pi::kFirst - (copysign(s, x) + (copysign(tail, x) - Pi::kSecond));
  const T outer = x < T(0) ? far : near;
  return abs(x) > T(0.5) ? outer : middle;
}

// (atan(t) - t) / t^3 in z = t^2 <= 1
TAPEGRAD_INLINE float atan_series(float z) {
  return polynomial(z, -0x1.5554dcp-2f, 0x1.9978f2p-3f, -0x1.230ad2p-3f, 0x1.b4e0dcp-4f,
                    -0x1.35560ep-4f, 0x1.61fc4ap-5f, -0x1.0c2a24p-6f, 0x1.7ece5p-9f);
}
TAPEGRAD_INLINE double atan_series(double z) {
  return polynomial(
      z, -0x1.5555555555555p-2, 0x1.999999999962p-3, -0x1.24924924753ecp-3, 0x1.c71c71bb00a6cp-4,
      -0x1.745d15ee35819p-4, 0x1.3b1399d1dcdc7p-4, -0x1.110fff599e4d2p-4, 0x1.e1d0239d392a6p-5,
      -0x1.aebbb1647a168p-5, 0x1.841dcf603a209p-5, -0x1.5d02278205cc7p-5, 0x1.3328700bb8169p-5,
      -0x1.00390504e9f2fp-5, 0x1.843f4bca23369p-6, -0x1.fd0e4de8fed9p-7, 0x1.123baedb61abdp-7,
      -0x1.ca3677db66678p-9, 0x1.1325b2f8964bep-10, -0x1.a359b96a4eee4p-13, 0x1.2f07811f9f6e9p-16);
}

// The angle of the point (b, a) in the first quadrant as high + low, a and b finite and not both
// zero. Above the diagonal the point is turned back by pi/2.
template <class T>
TAPEGRAD_INLINE Pair<T> first_quadrant_angle(T a, T b) {
  using Pi = HalfPi<T>;
  const bool steep = a > b;
  const T t = (steep ? -b : a) / (steep ? a : b);
  const T z = t * t;
  const Pair<T> angle = fast_two_sum(steep ? Pi::kFirst : T(0), t);
  const T turn_low = steep ? Pi::kSecond : T(0);
  return {angle.high, angle.low + mul_add(t * z, atan_series(z), turn_low)};
}

template <class T>
TAPEGRAD_INLINE T atan(T x) {
  // Beyond the bound atan rounds to pi/2.
  const T a = at_most(abs(x), T(0x1p60));
  const Pair<T> angle = first_quadrant_angle(a, T(1));
  return a < kLinearRange<T> ? x : copysign(angle.high + angle.low, x);
}

template <class T>
TAPEGRAD_INLINE T atan2(T y, T x) {
  using Pi = HalfPi<T>;
  // An infinity counts as one against finite numbers; two of them meet at pi/4.
  const T abs_y = abs(y), abs_x = abs(x);
  const bool infinite = (abs_y == Format<T>::kInfinity) | (abs_x == Format<T>::kInfinity);
  const T a = infinite ? (abs_y == Format<T>::kInfinity ? T(1) : T(0)) : abs_y;
  const T b = infinite ? (abs_x == Format<T>::kInfinity ? T(1) : T(0)) : abs_x;
  // Scaling keeps a + b finite and lifts subnormal numbers to full precision.
  const T larger = a > b ? a : b;
  const T factor = larger > T(1) ? T(0.25) : (sizeof(T) == 4 ? T(0x1p60) : T(0x1p500));
  const bool origin = larger == T(0);
  const Pair<T> angle = first_quadrant_angle(a * factor, origin ? T(1) : b * factor);
  const bool left = to_bits(x) >= kSignBit<T>;
  const T right_angle = angle.high + angle.low;
  const T left_angle = T(2) * Pi::kFirst - (angle.high + (angle.low - T(2) * Pi::kSecond));
  const T result = copysign(left ? left_angle : right_angle, y);
  return (x != x) | (y != y) ? x + y : result;
}

}  // namespace tapegrad::cpu::TAPEGRAD_ISA::math
