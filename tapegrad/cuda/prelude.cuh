// What the pointwise table means in CUDA C. pointwise_source.py puts this text before the kernels
// that it makes of the table's lines; NVRTC compiles the two together and needs no header file.
//
// Start reading at Num<S>, the counterpart of csrc/cpu/num.h: the scalar with which a line is read.
// It keeps literals in the type computed with, makes integers wrap, and finds the functions of the
// table by argument-dependent look-up.

// A kernel takes one struct, by value, named `arguments`. Whoever compiles these texts for something
// else than a GPU says beforehand what a kernel and its dynamic shared memory are.
#ifndef TAPEGRAD_KERNEL
#define TAPEGRAD_KERNEL(NAME, ...) \
  extern "C" __global__ void NAME(const __grid_constant__ __VA_ARGS__ arguments)
#define TAPEGRAD_SHARED_BYTES(NAME) extern __shared__ __align__(16) unsigned char NAME[]
#endif

// The first statement of every kernel: Note [Kernels start early] in csrc/cuda/launch.h.
__device__ inline void wait_for_earlier_work() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

typedef long long int64;
typedef unsigned long long uint64;

// Where a thread tells of an element that it cannot use: csrc/cuda/kernel_errors.h.
struct ErrorPlace {
  uint64* word;
  uint64 call;

  __device__ void report(int64 element) const {
    *const_cast<volatile uint64*>(word) = call | (static_cast<uint64>(element) & 0x7fffffffffffull);
  }
};

// ---- float16 and bfloat16: storage formats, computed in float (see csrc/core/half.h). Devices convert by an
// instruction, with the same results but for the bits of NaNs.

struct Half {
  unsigned short bits;
};
struct BFloat16 {
  unsigned short bits;
};

__device__ inline float to_float(Half value) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#else
  const unsigned magnitude = value.bits & 0x7fffu;
  // Multiplying by 2^112 rebiases the exponent, and makes normal numbers of subnormal ones.
  const unsigned scaled = __float_as_uint(__uint_as_float(magnitude << 13) * 0x1p112f);
  const unsigned bits = magnitude >= 0x7c00u ? scaled | 0x7f800000u : scaled;
  return __uint_as_float((value.bits & 0x8000u) << 16 | bits);
#endif
}

__device__ inline Half to_half(float value) {
#if defined(__CUDA_ARCH__)
  Half narrow;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(value));
  return narrow;
#else
  const unsigned bits = __float_as_uint(value);
  const unsigned magnitude = bits & 0x7fffffffu;
  unsigned result;
  if (magnitude > 0x7f800000u) result = 0x7e00u;        // NaN
  else if (magnitude >= 0x477ff000u) result = 0x7c00u;  // rounds to infinity
  else if (magnitude < 0x38800000u)                     // subnormal: the adder rounds at 2^-24
    result = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u;
  else
    result = (magnitude - 0x38000000u + 0x0fffu + (magnitude >> 13 & 1u)) >> 13;
  return {static_cast<unsigned short>((bits >> 16 & 0x8000u) | result)};
#endif
}

__device__ inline float to_float(BFloat16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}

__device__ inline BFloat16 to_bfloat16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  BFloat16 narrow;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(value));
  return narrow;
#else
  const unsigned bits = __float_as_uint(value);
  const unsigned rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return {static_cast<unsigned short>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded)};
#endif
}

// ---- the storage types S: what each is computed in, and the way there and back

template <class S>
struct Storage;

#define TAPEGRAD_STORAGE(TYPE, COMPUTE, UNSIGNED, FLOATING, LOAD, STORE)     \
  template <>                                                                \
  struct Storage<TYPE> {                                                     \
    using Compute = COMPUTE;                                                 \
    using Unsigned = UNSIGNED;                                               \
    static constexpr bool kFloating = FLOATING;                              \
    __device__ static Compute load(TYPE value) { return LOAD(value); }       \
    __device__ static TYPE store(Compute value) { return STORE(value); }     \
  };
TAPEGRAD_STORAGE(float, float, float, true, float, float)
TAPEGRAD_STORAGE(double, double, double, true, double, double)
TAPEGRAD_STORAGE(Half, float, float, true, to_float, to_half)
TAPEGRAD_STORAGE(BFloat16, float, float, true, to_float, to_bfloat16)
TAPEGRAD_STORAGE(bool, int, unsigned, false, int, bool)
TAPEGRAD_STORAGE(unsigned char, int, unsigned, false, int, static_cast<unsigned char>)
TAPEGRAD_STORAGE(signed char, int, unsigned, false, int, static_cast<signed char>)
TAPEGRAD_STORAGE(short, int, unsigned, false, int, static_cast<short>)
TAPEGRAD_STORAGE(int, int, unsigned, false, int, int)
TAPEGRAD_STORAGE(int64, int64, uint64, false, int64, int64)
#undef TAPEGRAD_STORAGE

// ---- CUDA's math library under one name for float and double

namespace math {

#define TAPEGRAD_MATH(NAME)                                            \
  __device__ inline float NAME(float x) { return ::NAME##f(x); }       \
  __device__ inline double NAME(double x) { return ::NAME(x); }
#define TAPEGRAD_MATH_2(NAME)                                                      \
  __device__ inline float NAME(float x, float y) { return ::NAME##f(x, y); }       \
  __device__ inline double NAME(double x, double y) { return ::NAME(x, y); }
TAPEGRAD_MATH(sqrt)
TAPEGRAD_MATH(rsqrt)
TAPEGRAD_MATH(floor)
TAPEGRAD_MATH(ceil)
TAPEGRAD_MATH(trunc)
TAPEGRAD_MATH(rint)
TAPEGRAD_MATH(fabs)
TAPEGRAD_MATH(exp)
TAPEGRAD_MATH(exp2)
TAPEGRAD_MATH(expm1)
TAPEGRAD_MATH(log)
TAPEGRAD_MATH(log2)
TAPEGRAD_MATH(log10)
TAPEGRAD_MATH(log1p)
TAPEGRAD_MATH(sin)
TAPEGRAD_MATH(cos)
TAPEGRAD_MATH(tan)
TAPEGRAD_MATH(sinpi)
TAPEGRAD_MATH(asin)
TAPEGRAD_MATH(acos)
TAPEGRAD_MATH(atan)
TAPEGRAD_MATH(sinh)
TAPEGRAD_MATH(cosh)
TAPEGRAD_MATH(tanh)
TAPEGRAD_MATH(asinh)
TAPEGRAD_MATH(acosh)
TAPEGRAD_MATH(atanh)
TAPEGRAD_MATH(erf)
TAPEGRAD_MATH(erfc)
TAPEGRAD_MATH(erfcx)
TAPEGRAD_MATH(erfinv)
TAPEGRAD_MATH(lgamma)
TAPEGRAD_MATH_2(atan2)
TAPEGRAD_MATH_2(copysign)
TAPEGRAD_MATH_2(pow)
TAPEGRAD_MATH_2(fmod)
TAPEGRAD_MATH_2(nextafter)
#undef TAPEGRAD_MATH
#undef TAPEGRAD_MATH_2
__device__ inline float hypot(float x, float y) { return ::hypotf(x, y); }
// As csrc/cpu/math/power.h has it, scaled by a power of two so that squares stay in range: CUDA's own goes wrong at the end
// of it.
__device__ inline double hypot(double x, double y) {
  const double a = ::fabs(x), b = ::fabs(y), larger = a > b ? a : b;
  const bool huge = larger > 0x1p500, tiny = larger < 0x1p-450;
  const double down = huge ? 0x1p-600 : tiny ? 0x1p600 : 1.0, up = huge ? 0x1p600 : tiny ? 0x1p-600 : 1.0;
  const double c = a * down, d = b * down;
  const bool infinite = ::isinf(x) || ::isinf(y);
  return infinite ? 1.0 / 0.0 : ::sqrt(::fma(c, c, d * d)) * up;
}
// As csrc/cpu/math/error_function.h has it: for a >= 0, normal_cdf(-a) = exp(-a^2 / 2) v H(u) with
// v = 3 / (a + 3) and u = a / (a + 3). CUDA's own takes three times as long.
__device__ inline float normal_cdf(float x) {
  const float scaled = ::fminf(::fabsf(x), 15.0f) * (1.0f / 3);
  const float v = 1.0f / (1.0f + scaled), u = scaled * v;
  float h = -0x1.6fb008p-6f;
  h = ::fmaf(h, u, 0x1.a59642p-5f);
  h = ::fmaf(h, u, -0x1.a60c4p-14f);
  h = ::fmaf(h, u, -0x1.3f45b6p-5f);
  h = ::fmaf(h, u, -0x1.5c5e46p-4f);
  h = ::fmaf(h, u, 0x1.1874cap-4f);
  h = ::fmaf(h, u, 0x1.6cf946p-2f);
  h = ::fmaf(h, u, -0x1.64c6eep-1f);
  h = ::fmaf(h, u, 0.5f);
  const float y = v * h * ::expf(-0.5f * x * x);
  return x < 0 ? y : 1.0f - y;
}
__device__ inline double normal_cdf(double x) { return ::normcdf(x); }
// For results that are rounded to a half type, which have 11 bits at most: within 4e-5 of the value, so also where
// it is small, by the device's own exponential and reciprocal. normal_cdf(-a) = exp(-a^2 / 2) P(1 / (1 + k a)).
__device__ inline float narrow_normal_cdf(float x) {
  const float t = ::__fdividef(1.0f, ::fmaf(0.37476659f, ::fabsf(x), 1.0f));
  float h = -0.09050407f;
  h = ::fmaf(h, t, 0.200444255f);
  h = ::fmaf(h, t, 0.08344726f);
  h = ::fmaf(h, t, 0.15764434f);
  h = ::fmaf(h, t, 0.148968885f);
  const float y = t * h * ::__expf(-0.5f * x * x);
  return x < 0 ? y : 1.0f - y;
}
__device__ inline float normal_density(float x) {
  return 0.3989422804014327f * ::expf(-0.5f * x * x);
}
__device__ inline double normal_density(double x) {
  return 0.3989422804014327 * ::exp(-0.5 * x * x);
}
// An exponential of what was a half type, or its difference from another: within 4e-6 of the value.
template <class S>
__device__ inline typename Storage<S>::Compute narrow_exp(typename Storage<S>::Compute x) {
  if constexpr (sizeof(S) == 2) return ::__expf(x);
  else return exp(x);
}
// 2^x, by one instruction: within 2e-7 of the value, which vanishes where it would be denormal.
__device__ inline float fast_exp2(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return ::exp2f(x);
#endif
}
__device__ inline float narrow_normal_density(float x) {
  return 0.3989422804014327f * ::__expf(-0.5f * x * x);
}

// Half to even.
template <class T>
__device__ inline T round(T x) {
  return rint(x);
}

template <class T>
__device__ inline T sigmoid(T x) {
  // exp of a negative number only: it may vanish, but does not overflow.
  const T decay = exp(-fabs(x));
  return (x < 0 ? decay : T(1)) / (1 + decay);
}

// sin(pi x) / (pi x)
template <class T>
__device__ inline T sinc(T x) {
  constexpr T kPi = T(3.141592653589793238);
  return x == 0 ? T(1) : sinpi(x) / (kPi * x);
}

// log(exp(a) + exp(b)); equal infinities have no gap between them
template <class T>
__device__ inline T logaddexp(T a, T b) {
  if (a == b) return a + T(0.6931471805599453094);
  if (a != a || b != b) return a + b;
  return (a > b ? a : b) + log1p(exp(-fabs(a - b)));
}

// log2(2^a + 2^b)
template <class T>
__device__ inline T logaddexp2(T a, T b) {
  constexpr T kLog2E = T(1.442695040888963407);
  if (a == b) return a + 1;
  if (a != a || b != b) return a + b;
  return (a > b ? a : b) + kLog2E * log1p(exp2(-fabs(a - b)));
}

// The functions below are rare and long: they are computed in double and are not inlined, which
// keeps them accurate near their zeros and the kernels that call them small.

__device__ __noinline__ double digamma(double x) {
  constexpr double kPi = 3.141592653589793238, kRoot = 1.461632144968362341;
  constexpr double kRootSlope = 0.9676720454506208;
  if (x == 0) return ::copysign(1.0 / 0.0, -x);
  double result = 0;
  if (x < 0) {
    if (::floor(x) == x) return 0.0 / 0.0;
    // digamma(x) = digamma(1 - x) - pi cot(pi x)
    result = -kPi * ::cospi(x) / ::sinpi(x);
    x = 1 - x;
  }
  // Close to its positive root the sum below cancels: the tangent is better there.
  if (result == 0 && ::fabs(x - kRoot) < 1e-9) return (x - kRoot) * kRootSlope;
  constexpr double kSeriesStart = 10;
  for (; x < kSeriesStart; x += 1) result -= 1 / x;
  const double z = 1 / (x * x);
  // sum of B_2k / (2k x^2k)
  const double series =
      z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 -
      z * (691.0 / 32760 - z / 12))))));
  return result + ::log(x) - 0.5 / x - series;
}

// The Hurwitz zeta function for s > 1, q > 0: some terms, then the Euler-Maclaurin formula.
__device__ __noinline__ double zeta_positive(double s, double q) {
  constexpr int kTerms = 10;
  constexpr double kBernoulli[] = {  // B_2j / (2j)!
      1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0,
      1.0 / 74724249600.0, -3617.0 / 10670622842880000.0};
  double sum = 0;
  for (int k = 0; k < kTerms; ++k) sum += ::pow(q + k, -s);
  const double a = q + kTerms, power = ::pow(a, 1 - s);
  if (power == 0) return sum;  // its factor may be infinite
  double correction = 0.5, factor = s / a, order = s;
  for (double coefficient : kBernoulli) {
    correction += coefficient * factor;
    factor *= (order + 1) / a * ((order + 2) / a);
    order += 2;
  }
  return sum + power * (1 / (s - 1) + correction / a);
}

// zeta(s, q) for any q; a negative q needs an integer s, as (q + k)^-s is real only then.
__device__ __noinline__ double zeta(double s, double q) {
  if (q != q) return q;
  if (!(s > 1)) return s == 1 ? 1.0 / 0.0 : 0.0 / 0.0;
  if (q > 0) return ::isinf(q) ? 0 : zeta_positive(s, q);
  if (::floor(q) == q) return 1.0 / 0.0;
  if (::floor(s) != s) return 0.0 / 0.0;
  // The terms below zero are, but for the sign, those of zeta(s, below) up to |q|.
  const double below = -q - ::floor(-q);
  const double negative_terms = zeta_positive(s, below) - zeta_positive(s, 1 - q);
  return zeta_positive(s, 1 - below) + (::fmod(s, 2.0) == 1 ? -negative_terms : negative_terms);
}

// The n-th derivative of digamma, (-1)^(n+1) n! zeta(n + 1, x)
__device__ __noinline__ double polygamma(int n, double x) {
  if (n == 0) return digamma(x);
  constexpr int kInfiniteFactorial = 171;
  double factorial = 1;
  for (int k = 2; k <= n && k <= kInfiniteFactorial; ++k) factorial *= k;
  const double size = factorial * zeta(n + 1, x);
  return n % 2 ? size : -size;
}

// Defined in the files of the folder functions, which are put behind the kernels that call them: Note
// [Functions written once] in csrc/cpu/special.cpp.
#define TAPEGRAD_SPECIAL(NAME) __device__ double NAME(double x);
#define TAPEGRAD_SPECIAL_2(NAME) __device__ double NAME(double a, double b);
#define TAPEGRAD_SPECIAL_3(NAME) __device__ double NAME(double a, double b, double parameter);
TAPEGRAD_SPECIAL(airy_ai)
TAPEGRAD_SPECIAL(airy_ai_prime)
TAPEGRAD_SPECIAL(bessel_j0)
TAPEGRAD_SPECIAL(bessel_j1)
TAPEGRAD_SPECIAL(bessel_y0)
TAPEGRAD_SPECIAL(bessel_y1)
TAPEGRAD_SPECIAL(i0)
TAPEGRAD_SPECIAL(i0e)
TAPEGRAD_SPECIAL(i1)
TAPEGRAD_SPECIAL(i1e)
TAPEGRAD_SPECIAL(log_ndtr)
TAPEGRAD_SPECIAL(modified_bessel_k0)
TAPEGRAD_SPECIAL(modified_bessel_k1)
TAPEGRAD_SPECIAL(ndtr)
TAPEGRAD_SPECIAL(ndtri)
TAPEGRAD_SPECIAL(ndtri_estimate)
TAPEGRAD_SPECIAL(scaled_modified_bessel_k0)
TAPEGRAD_SPECIAL(scaled_modified_bessel_k1)
TAPEGRAD_SPECIAL(spherical_bessel_j0)
TAPEGRAD_SPECIAL(spherical_bessel_j1)
TAPEGRAD_SPECIAL_2(chebyshev_polynomial_t)
TAPEGRAD_SPECIAL_2(chebyshev_polynomial_v)
TAPEGRAD_SPECIAL_2(chebyshev_polynomial_w)
TAPEGRAD_SPECIAL_2(gamma_density)
TAPEGRAD_SPECIAL_2(hermite_polynomial_h)
TAPEGRAD_SPECIAL_2(hermite_polynomial_he)
TAPEGRAD_SPECIAL_2(igamma)
TAPEGRAD_SPECIAL_2(igammac)
TAPEGRAD_SPECIAL_3(gegenbauer)
TAPEGRAD_SPECIAL_3(laguerre)
#undef TAPEGRAD_SPECIAL
#undef TAPEGRAD_SPECIAL_2
#undef TAPEGRAD_SPECIAL_3

// ---- quotients. Division of an integer by zero is the caller's to refuse.

// The quotient rounded towards zero; the smallest number divided by -1 wraps to itself.
template <class N>
__device__ inline typename N::T truncate_divide(typename N::T a, typename N::T b) {
  using U = typename N::Unsigned;
  return b == -1 ? static_cast<typename N::T>(U(0) - U(a)) : a / b;
}

// a - q b for the quotient q rounded towards zero: the sign is that of a
template <class N>
__device__ inline typename N::T truncated_rest(typename N::T a, typename N::T b) {
  if constexpr (N::kFloating) return fmod(a, b);
  else return b == -1 ? 0 : a % b;
}

// Whether a rest of a truncated division has the other sign than Python wants.
template <class T>
__device__ inline bool is_off_floor(T rest, T b) {
  return rest != 0 && (rest < 0) != (b < 0);
}

// floor(a / b), from the exact rest of the division
template <class T>
__device__ inline T floor_divide(T a, T b, T rest) {
  if (b == 0) return a / b;
  const T quotient = (a - rest) / b - (is_off_floor(rest, b) ? T(1) : T(0));
  if (quotient == 0) return copysign(T(0), a / b);
  const T floored = floor(quotient);
  return quotient - floored > T(0.5) ? floored + 1 : floored;
}

// CUDA's own pow may be off by a unit where the result is exact, as of 3^1, which derivatives of squares ask for.
template <class T>
__device__ inline T power(T base, T exponent) {
  if (exponent == 1) return base;
  if (exponent == 2) return base * base;
  if (exponent == 3) return base * base * base;
  if (exponent == -1) return 1 / base;
  return pow(base, exponent);
}

// base^exponent modulo the word; a negative exponent gives the truncated fraction.
template <class N>
__device__ inline typename N::T integer_power(typename N::T base, typename N::T exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
  typename N::Unsigned result = 1, square = base;
  for (auto rest = exponent; rest != 0; rest >>= 1) {
    if (rest & 1) result *= square;
    square *= square;
  }
  return static_cast<typename N::T>(result);
}

}  // namespace math

// ---- conditions

struct Mask {
  bool set;
  __device__ friend Mask operator&(Mask a, Mask b) { return {a.set && b.set}; }
  __device__ friend Mask operator|(Mask a, Mask b) { return {a.set || b.set}; }
  __device__ friend Mask operator^(Mask a, Mask b) { return {a.set != b.set}; }
};

template <class L>
inline constexpr bool kIsLiteral = false;
template <>
inline constexpr bool kIsLiteral<int> = true;
template <>
inline constexpr bool kIsLiteral<double> = true;

template <class S>
inline constexpr bool kIsBool = false;
template <>
inline constexpr bool kIsBool<bool> = true;

// ---- the scalar that reads the table

template <class S>
struct Num {
  using T = typename Storage<S>::Compute;
  using Unsigned = typename Storage<S>::Unsigned;
  static constexpr bool kFloating = Storage<S>::kFloating;

  T v;

  __device__ constexpr Num(T value) : v(value) {}
  // A literal of the table: 2 or 0.5.
  template <class L>
    requires(kIsLiteral<L>)
  __device__ constexpr Num(L literal) : v(static_cast<T>(literal)) {}

  __device__ friend Num operator-(Num a) {
    if constexpr (kFloating) return -a.v;
    else return T(Unsigned(0) - Unsigned(a.v));
  }
  __device__ friend Num operator+(Num a, Num b) { return T(Unsigned(a.v) + Unsigned(b.v)); }
  __device__ friend Num operator-(Num a, Num b) { return T(Unsigned(a.v) - Unsigned(b.v)); }
  __device__ friend Num operator*(Num a, Num b) { return T(Unsigned(a.v) * Unsigned(b.v)); }
  __device__ friend Num operator/(Num a, Num b) { return a.v / b.v; }

  __device__ friend Mask operator==(Num a, Num b) { return {a.v == b.v}; }
  __device__ friend Mask operator!=(Num a, Num b) { return {a.v != b.v}; }
  __device__ friend Mask operator<(Num a, Num b) { return {a.v < b.v}; }
  __device__ friend Mask operator<=(Num a, Num b) { return {a.v <= b.v}; }
  __device__ friend Mask operator>(Num a, Num b) { return {a.v > b.v}; }
  __device__ friend Mask operator>=(Num a, Num b) { return {a.v >= b.v}; }

  __device__ friend Num operator&(Num a, Num b) { return T(a.v & b.v); }
  __device__ friend Num operator|(Num a, Num b) { return T(a.v | b.v); }
  __device__ friend Num operator^(Num a, Num b) { return T(a.v ^ b.v); }
  __device__ friend Num operator~(Num a) {
    if constexpr (kIsBool<S>) return T(a.v == 0);
    else return T(~a.v);
  }
  // Shifts by the width or more, or by a negative count, shift everything out.
  __device__ friend Num left_shift(Num a, Num b) {
    const bool inside = b.v >= 0 && b.v < T(8 * sizeof(T));
    return inside ? T(Unsigned(a.v) << b.v) : T(0);
  }
  __device__ friend Num right_shift(Num a, Num b) {
    constexpr T kLast = 8 * sizeof(T) - 1;
    return T(a.v >> (b.v >= 0 && b.v < kLast ? b.v : kLast));
  }
  // Euclid's algorithm. The smallest number has no absolute value and is divided as it is.
  __device__ friend Num gcd(Num a, Num b) {
    T x = a.v < 0 ? T(Unsigned(0) - Unsigned(a.v)) : a.v;
    T y = b.v < 0 ? T(Unsigned(0) - Unsigned(b.v)) : b.v;
    while (x != 0) {
      const T rest = T(y % x);
      y = x;
      x = rest;
    }
    return y;
  }

  __device__ friend Num where(Mask c, Num p, Num q) { return c.set ? p.v : q.v; }
  // NaN in either operand comes through.
  __device__ friend Num maximum(Num a, Num b) { return a.v > b.v || a.v != a.v ? a.v : b.v; }
  __device__ friend Num minimum(Num a, Num b) { return a.v < b.v || a.v != a.v ? a.v : b.v; }
  __device__ friend Num sign(Num a) { return T(T(a.v > 0) - T(a.v < 0)); }
  __device__ friend Num square(Num a) { return a * a; }

  // Functions with an integer form.
  __device__ friend Num abs(Num a) {
    if constexpr (kFloating) return math::fabs(a.v);
    else return a.v < 0 ? -a : a;
  }
  __device__ friend Num copysign(Num a, Num b) {
    if constexpr (kFloating) return math::copysign(a.v, b.v);
    else return (a.v < 0) == (b.v < 0) ? a : -a;
  }
  __device__ friend Num pow(Num a, Num b) {
    if constexpr (kFloating) return math::power(a.v, b.v);
    else return math::integer_power<Num>(a.v, b.v);
  }
  __device__ friend Num div_trunc(Num a, Num b) {
    if constexpr (kFloating) return math::trunc(a.v / b.v);
    else return math::truncate_divide<Num>(a.v, b.v);
  }
  __device__ friend Num fmod(Num a, Num b) { return math::truncated_rest<Num>(a.v, b.v); }
  __device__ friend Num remainder(Num a, Num b) {
    const T rest = math::truncated_rest<Num>(a.v, b.v);
    return math::is_off_floor(rest, b.v) ? rest + b.v : rest;
  }
  __device__ friend Num floor_divide(Num a, Num b) {
    const T rest = math::truncated_rest<Num>(a.v, b.v);
    if constexpr (kFloating) return math::floor_divide(a.v, b.v, rest);
    else return math::truncate_divide<Num>(a.v, b.v) - T(math::is_off_floor(rest, b.v));
  }

  // The neighbour in the storage format, which for the half types is not the compute type's.
  __device__ friend Num nextafter(Num a, Num b) {
    if constexpr (sizeof(S) == sizeof(T)) {
      return math::nextafter(a.v, b.v);
    } else {
      if (a.v != a.v || b.v != b.v) return a.v + b.v;
      if (a.v == b.v) return b;
      S stepped = Storage<S>::store(a.v);
      if (a.v == 0) stepped.bits = b.v < 0 ? 0x8001u : 0x0001u;
      else stepped.bits += (b.v > a.v) == (a.v > 0) ? 1 : -1;
      return Storage<S>::load(stepped);
    }
  }
  __device__ friend Num digamma(Num a) { return T(math::digamma(a.v)); }
  __device__ friend Num polygamma(Num n, Num a) {
    return T(math::polygamma(static_cast<int>(n.v), a.v));
  }

  __device__ friend Num ndtri(Num a) {
    if constexpr (sizeof(T) == 4) return T(math::ndtri_estimate(a.v));
    else return math::ndtri(a.v);
  }
  __device__ friend Num zeta(Num a, Num b) {
    return T(math::zeta(static_cast<double>(a.v), static_cast<double>(b.v)));
  }

#define TAPEGRAD_SPECIAL(NAME) \
  __device__ friend Num NAME(Num a) { return T(math::NAME(static_cast<double>(a.v))); }
#define TAPEGRAD_SPECIAL_2(NAME)                                                   \
  __device__ friend Num NAME(Num a, Num b) {                                       \
    return T(math::NAME(static_cast<double>(a.v), static_cast<double>(b.v)));      \
  }
#define TAPEGRAD_SPECIAL_3(NAME)                                                   \
  __device__ friend Num NAME(Num a, Num b, Num parameter) {                        \
    return T(math::NAME(static_cast<double>(a.v), static_cast<double>(b.v),        \
                        static_cast<double>(parameter.v)));                        \
  }
  TAPEGRAD_SPECIAL(airy_ai)
  TAPEGRAD_SPECIAL(airy_ai_prime)
  TAPEGRAD_SPECIAL(bessel_j0)
  TAPEGRAD_SPECIAL(bessel_j1)
  TAPEGRAD_SPECIAL(bessel_y0)
  TAPEGRAD_SPECIAL(bessel_y1)
  TAPEGRAD_SPECIAL(i0)
  TAPEGRAD_SPECIAL(i0e)
  TAPEGRAD_SPECIAL(i1)
  TAPEGRAD_SPECIAL(i1e)
  TAPEGRAD_SPECIAL(log_ndtr)
  TAPEGRAD_SPECIAL(modified_bessel_k0)
  TAPEGRAD_SPECIAL(modified_bessel_k1)
  TAPEGRAD_SPECIAL(ndtr)
  TAPEGRAD_SPECIAL(scaled_modified_bessel_k0)
  TAPEGRAD_SPECIAL(scaled_modified_bessel_k1)
  TAPEGRAD_SPECIAL(spherical_bessel_j0)
  TAPEGRAD_SPECIAL(spherical_bessel_j1)
  TAPEGRAD_SPECIAL_2(chebyshev_polynomial_t)
  TAPEGRAD_SPECIAL_2(chebyshev_polynomial_v)
  TAPEGRAD_SPECIAL_2(chebyshev_polynomial_w)
  TAPEGRAD_SPECIAL_2(gamma_density)
  TAPEGRAD_SPECIAL_2(hermite_polynomial_h)
  TAPEGRAD_SPECIAL_2(hermite_polynomial_he)
  TAPEGRAD_SPECIAL_2(igamma)
  TAPEGRAD_SPECIAL_2(igammac)
  TAPEGRAD_SPECIAL_3(gegenbauer)
  TAPEGRAD_SPECIAL_3(laguerre)
#undef TAPEGRAD_SPECIAL
#undef TAPEGRAD_SPECIAL_2
#undef TAPEGRAD_SPECIAL_3

#define TAPEGRAD_FORWARD(NAME) \
  __device__ friend Num NAME(Num a) { return math::NAME(a.v); }
#define TAPEGRAD_FORWARD_2(NAME) \
  __device__ friend Num NAME(Num a, Num b) { return math::NAME(a.v, b.v); }
  TAPEGRAD_FORWARD(sqrt)
  TAPEGRAD_FORWARD(rsqrt)
  TAPEGRAD_FORWARD(floor)
  TAPEGRAD_FORWARD(ceil)
  TAPEGRAD_FORWARD(trunc)
  TAPEGRAD_FORWARD(round)
  TAPEGRAD_FORWARD(exp)
  TAPEGRAD_FORWARD(exp2)
  TAPEGRAD_FORWARD(expm1)
  TAPEGRAD_FORWARD(log)
  TAPEGRAD_FORWARD(log2)
  TAPEGRAD_FORWARD(log10)
  TAPEGRAD_FORWARD(log1p)
  TAPEGRAD_FORWARD(sin)
  TAPEGRAD_FORWARD(cos)
  TAPEGRAD_FORWARD(tan)
  TAPEGRAD_FORWARD(asin)
  TAPEGRAD_FORWARD(acos)
  TAPEGRAD_FORWARD(atan)
  TAPEGRAD_FORWARD(sinh)
  TAPEGRAD_FORWARD(cosh)
  TAPEGRAD_FORWARD(tanh)
  TAPEGRAD_FORWARD(asinh)
  TAPEGRAD_FORWARD(acosh)
  TAPEGRAD_FORWARD(atanh)
  TAPEGRAD_FORWARD(sinc)
  TAPEGRAD_FORWARD(sigmoid)
  TAPEGRAD_FORWARD(erf)
  TAPEGRAD_FORWARD(erfc)
  TAPEGRAD_FORWARD(erfcx)
  TAPEGRAD_FORWARD(erfinv)
  __device__ friend Num normal_cdf(Num a) {
    if constexpr (sizeof(S) == 2) return math::narrow_normal_cdf(a.v);
    else return math::normal_cdf(a.v);
  }
  __device__ friend Num gelu(Num a) { return a * normal_cdf(a); }
  __device__ friend Num normal_density(Num a) {
    if constexpr (sizeof(S) == 2) return math::narrow_normal_density(a.v);
    else return math::normal_density(a.v);
  }
  TAPEGRAD_FORWARD(lgamma)
  TAPEGRAD_FORWARD_2(atan2)
  TAPEGRAD_FORWARD_2(hypot)
  TAPEGRAD_FORWARD_2(logaddexp)
  TAPEGRAD_FORWARD_2(logaddexp2)
#undef TAPEGRAD_FORWARD
#undef TAPEGRAD_FORWARD_2
};

// ---- from one dtype to another, as csrc/cpu/convert.cpp has it

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;

// What does not fit becomes the least number of the type it goes through.
template <class Through, class F>
__device__ inline Through to_integer(F value) {
  constexpr bool kWide = sizeof(Through) == 8;
  constexpr F kLimit = kWide ? F(0x1p63) : F(0x1p31);
  constexpr F kLeast = kSame<F, double> && !kWide ? -kLimit - 1 : -kLimit;
  constexpr Through kMinimum = kWide ? Through(1ull << 63) : Through(1u << 31);
  return value > kLeast && value < kLimit ? Through(value) : kMinimum;
}

template <class To, class From>
__device__ inline To convert(From from) {
  if constexpr (kSame<From, To>) return from;
  else {
    const auto value = Storage<From>::load(from);
    using C = typename Storage<To>::Compute;
    if constexpr (kIsBool<To>) return value != 0;
    else if constexpr (Storage<To>::kFloating) {
      // Straight to the smaller format: there is one rounding.
      if constexpr (sizeof(To) == 2) return Storage<To>::store(static_cast<float>(value));
      else return static_cast<To>(value);
    } else if constexpr (Storage<From>::kFloating) {
      if constexpr (sizeof(To) == 8 || kSame<To, unsigned char>)
        return static_cast<To>(to_integer<int64>(value));
      else return static_cast<To>(to_integer<int>(value));
    } else return static_cast<To>(static_cast<C>(value));
  }
}

// ---- where elements are

// n / size for n below 2^31: csrc/cuda/elements.cpp.
struct Divisor {
  unsigned size, factor, shift;
  __device__ unsigned divide(unsigned n) const { return (__umulhi(n, factor) + n) >> shift; }
};

// The sizes that a number of an element is divided by, innermost first, and the strides of some tensors.
template <int kRank, int kTensors>
struct NarrowGeometry {
  Divisor sizes[kRank];
  int64 strides[kTensors][kRank];

  __device__ void find(int64 element, int64 (&offsets)[kTensors]) const {
    unsigned rest = static_cast<unsigned>(element);
    for (int64& offset : offsets) offset = 0;
#pragma unroll
    for (int d = 0; d < kRank; ++d) {
      const unsigned outer = d + 1 < kRank ? sizes[d].divide(rest) : 0;
      const unsigned index = d + 1 < kRank ? rest - outer * sizes[d].size : rest;
#pragma unroll
      for (int t = 0; t < kTensors; ++t) offsets[t] += index * strides[t][d];
      rest = outer;
    }
  }
};
template <int kRank, int kTensors>
struct WideGeometry {
  int64 sizes[kRank];
  int64 strides[kTensors][kRank];

  __device__ void find(int64 element, int64 (&offsets)[kTensors]) const {
    for (int64& offset : offsets) offset = 0;
    for (int d = 0; d < kRank; ++d) {
      const int64 outer = d + 1 < kRank ? element / sizes[d] : 0;
      const int64 index = element - outer * sizes[d];
      for (int t = 0; t < kTensors; ++t) offsets[t] += (d + 1 < kRank ? index : element) * strides[t][d];
      element = outer;
    }
  }
};

// ---- what a kernel does around a line

// Elements that are moved at a time.
template <class S, int kWidth>
struct alignas(sizeof(S) * kWidth) Vector {
  S elements[kWidth];
};

// An operand as a line sees it: of dtype S, rounded to T on its way.
template <class S, class Through, class From>
__device__ inline Num<S> operand(From from) {
  if constexpr (kSame<From, S>) return Storage<S>::load(from);
  else if constexpr (kSame<Through, S>) return Storage<S>::load(convert<S>(from));
  else return convert<typename Num<S>::T>(from);
}

// A result of dtype S as it is written.
template <class To, class S>
__device__ inline To result(Num<S> value) {
  return convert<To>(Storage<S>::store(value.v));
}
template <class To, class S>
__device__ inline To result(Mask value) {
  return convert<To>(value.set);
}
