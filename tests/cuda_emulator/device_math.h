// CUDA's mathematical functions and intrinsics. What the C library has is taken from there; the
// rest is computed in double, the float versions too, so that they round correctly nearly always.
#pragma once

// ---- the C library's functions: f and ff of it, and CUDA's overloads under the name without the f

#define TAPEGRAD_MATH(NAME)                 \
  extern "C" double NAME(double) noexcept;  \
  extern "C" float NAME##f(float) noexcept; \
  static inline float NAME(float x) { return NAME##f(x); }
#define TAPEGRAD_MATH_2(NAME)                      \
  extern "C" double NAME(double, double) noexcept; \
  extern "C" float NAME##f(float, float) noexcept; \
  static inline float NAME(float x, float y) { return NAME##f(x, y); }
TAPEGRAD_MATH(sqrt)
TAPEGRAD_MATH(cbrt)
TAPEGRAD_MATH(floor)
TAPEGRAD_MATH(ceil)
TAPEGRAD_MATH(trunc)
TAPEGRAD_MATH(rint)
TAPEGRAD_MATH(nearbyint)
TAPEGRAD_MATH(round)
TAPEGRAD_MATH(fabs)
TAPEGRAD_MATH(exp)
TAPEGRAD_MATH(exp2)
TAPEGRAD_MATH(expm1)
TAPEGRAD_MATH(log)
TAPEGRAD_MATH(log2)
TAPEGRAD_MATH(log10)
TAPEGRAD_MATH(log1p)
TAPEGRAD_MATH(logb)
TAPEGRAD_MATH(sin)
TAPEGRAD_MATH(cos)
TAPEGRAD_MATH(tan)
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
TAPEGRAD_MATH(lgamma)
TAPEGRAD_MATH(tgamma)
TAPEGRAD_MATH_2(atan2)
TAPEGRAD_MATH_2(hypot)
TAPEGRAD_MATH_2(copysign)
TAPEGRAD_MATH_2(pow)
TAPEGRAD_MATH_2(fmod)
TAPEGRAD_MATH_2(remainder)
TAPEGRAD_MATH_2(nextafter)
TAPEGRAD_MATH_2(fmin)
TAPEGRAD_MATH_2(fmax)
TAPEGRAD_MATH_2(fdim)
#undef TAPEGRAD_MATH
#undef TAPEGRAD_MATH_2

extern "C" {
long double expl(long double) noexcept;
long double erfcl(long double) noexcept;
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double ldexp(double, int) noexcept;
float ldexpf(float, int) noexcept;
double frexp(double, int*) noexcept;
float frexpf(float, int*) noexcept;
double modf(double, double*) noexcept;
float modff(float, float*) noexcept;
int ilogb(double) noexcept;
int ilogbf(float) noexcept;
long lrint(double) noexcept;
long lrintf(float) noexcept;
long long llrint(double) noexcept;
long long llrintf(float) noexcept;
long lround(double) noexcept;
long lroundf(float) noexcept;
long long llround(double) noexcept;
long long llroundf(float) noexcept;
int abs(int) noexcept;
long labs(long) noexcept;
long long llabs(long long) noexcept;
}
static inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
static inline float ldexp(float x, int exponent) { return ldexpf(x, exponent); }
static inline double scalbn(double x, int exponent) { return ldexp(x, exponent); }
static inline float scalbnf(float x, int exponent) { return ldexpf(x, exponent); }
static inline float frexp(float x, int* exponent) { return frexpf(x, exponent); }
static inline float modf(float x, float* whole) { return modff(x, whole); }
static inline long abs(long x) { return labs(x); }
static inline long long abs(long long x) { return llabs(x); }
static inline float abs(float x) { return fabsf(x); }
static inline double abs(double x) { return fabs(x); }

#define TAPEGRAD_CLASSIFY(T)                                         \
  static inline bool isnan(T x) { return x != x; }                   \
  static inline bool isinf(T x) { return __builtin_isinf(x) != 0; }  \
  static inline bool isfinite(T x) { return __builtin_isfinite(x); } \
  static inline bool signbit(T x) { return __builtin_signbit(x) != 0; }
TAPEGRAD_CLASSIFY(float)
TAPEGRAD_CLASSIFY(double)
#undef TAPEGRAD_CLASSIFY

// min and max of CUDA: of two numbers of one type; NaN loses, as in fmin and fmax.
#define TAPEGRAD_MIN_MAX(T)                               \
  static inline T min(T a, T b) { return b < a ? b : a; } \
  static inline T max(T a, T b) { return a < b ? b : a; }
TAPEGRAD_MIN_MAX(int)
TAPEGRAD_MIN_MAX(unsigned)
TAPEGRAD_MIN_MAX(long)
TAPEGRAD_MIN_MAX(unsigned long)
TAPEGRAD_MIN_MAX(long long)
TAPEGRAD_MIN_MAX(unsigned long long)
#undef TAPEGRAD_MIN_MAX
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

// ---- functions that only CUDA has

namespace tapegrad_emulator {

constexpr double kPi = 3.14159265358979323846;

// The argument within a period of sin(pi x) is exact, so the result is accurate near every zero.
inline double sin_pi(double x) {
  const double reduced = ::remainder(x, 2.0);  // -1 to 1
  const double a = ::fabs(reduced);
  const double value = a <= 0.25   ? ::sin(kPi * a)
                       : a <= 0.75 ? ::cos(kPi * (a - 0.5))
                                   : ::sin(kPi * (1 - a));
  return ::copysign(value, reduced == 0 ? x : reduced);
}
inline double cos_pi(double x) {
  const double a = ::fabs(::remainder(x, 2.0));
  return a <= 0.25 ? ::cos(kPi * a) : a <= 0.75 ? ::sin(kPi * (0.5 - a)) : -::cos(kPi * (1 - a));
}

inline double normal_cdf(double x) {
  // sqrt(1/2) in two parts: rounding the argument of erfc would show in the tail.
  constexpr double kHigh = 0.70710678118654752440, kLow = -4.83364665672645672e-17;
  constexpr double kSlope = 1.12837916709551257390;  // 2 / sqrt(pi)
  const double z = -x * kHigh;
  if (!__builtin_isfinite(z)) return x != x ? x : x < 0 ? 0 : 1;
  const double rest = ::fma(-x, kHigh, -z) - x * kLow;
  return 0.5 * (::erfc(z) - rest * kSlope * ::exp(-z * z));
}

// Halley's iteration on erf (sign 1) or erfc (sign -1).
inline double invert_error_function(double (*function)(double), double value, double sign,
                                    double start) {
  constexpr double kSlope = 1.12837916709551257390;
  double t = start;
  for (int step = 0; step < 6; ++step) {
    const double change = sign * (function(t) - value) / (kSlope * ::exp(-t * t));
    t -= change / (1 + t * change);
  }
  return t;
}
// Within some parts in a thousand: from log(1 - erf(t)^2), which is close to a rational function.
inline double inverse_error_start(double log_of_rest) {
  constexpr double kShape = 0.147;
  const double half = 2 / (kPi * kShape) + log_of_rest / 2;
  return ::sqrt(::sqrt(half * half - log_of_rest / kShape) - half);
}
inline double inverse_erfc(double y);
inline double inverse_erf(double x) {
  const double a = ::fabs(x);
  if (!(a <= 1)) return __builtin_nan("");
  if (a > 0.5) return ::copysign(inverse_erfc(1 - a), x);
  if (a < 1e-9) return x * 0.88622692545275801365;  // sqrt(pi) / 2
  const double start = a < 1e-3 ? a * 0.886 : inverse_error_start(::log1p(-a * a));
  return ::copysign(invert_error_function(::erf, a, 1, start), x);
}
inline double inverse_erfc(double y) {
  if (!(y >= 0 && y <= 2)) return __builtin_nan("");
  if (y == 0 || y == 2) return y == 0 ? __builtin_inf() : -__builtin_inf();
  if (y > 1.5) return -inverse_erfc(2 - y);
  if (y >= 0.5) return inverse_erf(1 - y);
  return invert_error_function(::erfc, y, -1, inverse_error_start(::log(y * (2 - y))));
}

// exp(x^2) erfc(x); long doubles have the bits that the square of a large argument takes.
inline double scaled_erfc(double x) {
  if (x < 100) return static_cast<double>(::expl(static_cast<long double>(x) * x) * ::erfcl(x));
  const double w = 0.5 / x / x;
  return (1 - w * (1 - w * (3 - w * (15 - w * 105)))) / (x * 1.77245385090551602730);
}

}  // namespace tapegrad_emulator

#define TAPEGRAD_OWN_MATH(NAME, VALUE)                                                 \
  static inline double NAME(double x) { return VALUE; }                                \
  static inline float NAME##f(float x) { return static_cast<float>(NAME(double(x))); } \
  static inline float NAME(float x) { return NAME##f(x); }
TAPEGRAD_OWN_MATH(rsqrt, 1 / sqrt(x))
TAPEGRAD_OWN_MATH(rcbrt, 1 / cbrt(x))
TAPEGRAD_OWN_MATH(exp10, pow(10.0, x))
TAPEGRAD_OWN_MATH(sinpi, tapegrad_emulator::sin_pi(x))
TAPEGRAD_OWN_MATH(cospi, tapegrad_emulator::cos_pi(x))
TAPEGRAD_OWN_MATH(erfcx, tapegrad_emulator::scaled_erfc(x))
TAPEGRAD_OWN_MATH(normcdf, tapegrad_emulator::normal_cdf(x))
TAPEGRAD_OWN_MATH(normcdfinv, -1.41421356237309504880 * tapegrad_emulator::inverse_erfc(2 * x))
TAPEGRAD_OWN_MATH(erfinv, tapegrad_emulator::inverse_erf(x))
TAPEGRAD_OWN_MATH(erfcinv, tapegrad_emulator::inverse_erfc(x))
#undef TAPEGRAD_OWN_MATH

#define TAPEGRAD_SINE_AND_COSINE(NAME, SIN, COS, T)              \
  static inline void NAME(T x, T* sine, T* cosine) {             \
    const T argument = x; /* which may be where a result goes */ \
    *sine = SIN(argument);                                       \
    *cosine = COS(argument);                                     \
  }
TAPEGRAD_SINE_AND_COSINE(sincos, sin, cos, double)
TAPEGRAD_SINE_AND_COSINE(sincosf, sinf, cosf, float)
TAPEGRAD_SINE_AND_COSINE(sincos, sinf, cosf, float)
TAPEGRAD_SINE_AND_COSINE(sincospi, sinpi, cospi, double)
TAPEGRAD_SINE_AND_COSINE(sincospif, sinpif, cospif, float)
TAPEGRAD_SINE_AND_COSINE(__sincosf, sinf, cosf, float)
#undef TAPEGRAD_SINE_AND_COSINE

// ---- intrinsics of arithmetic. The approximations are accurate here, which theirs are not.

static inline float __expf(float x) { return expf(x); }
static inline float __exp10f(float x) { return exp10f(x); }
static inline float __logf(float x) { return logf(x); }
static inline float __log2f(float x) { return log2f(x); }
static inline float __log10f(float x) { return log10f(x); }
static inline float __sinf(float x) { return sinf(x); }
static inline float __cosf(float x) { return cosf(x); }
static inline float __tanf(float x) { return tanf(x); }
static inline float __powf(float x, float y) { return powf(x, y); }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float fdividef(float x, float y) { return x / y; }
static inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
static inline float __frsqrt_rn(float x) { return rsqrtf(x); }

#define TAPEGRAD_ROUNDED(LETTER, FMA, T)                         \
  static inline T __##LETTER##add_rn(T x, T y) { return x + y; } \
  static inline T __##LETTER##sub_rn(T x, T y) { return x - y; } \
  static inline T __##LETTER##mul_rn(T x, T y) { return x * y; } \
  static inline T __##LETTER##div_rn(T x, T y) { return x / y; } \
  static inline T __##LETTER##rcp_rn(T x) { return 1 / x; }      \
  static inline T __##LETTER##sqrt_rn(T x) { return sqrt(x); }   \
  static inline T FMA(T x, T y, T z) { return fma(x, y, z); }
TAPEGRAD_ROUNDED(f, __fmaf_rn, float)
TAPEGRAD_ROUNDED(d, __fma_rn, double)
#undef TAPEGRAD_ROUNDED

// Conversions of CUDA saturate, and make zero (32 bits) or the smallest number (64 bits) of NaN.
namespace tapegrad_emulator {

template <class To, class From>
To convert(From x) {
  constexpr bool kSigned = static_cast<To>(-1) < 0;
  constexpr To kLeast = kSigned ? static_cast<To>(1ull << (8 * sizeof(To) - 1)) : 0;
  constexpr To kGreatest = static_cast<To>(~static_cast<unsigned long long>(kLeast));
  const From bound = static_cast<From>(1ull << (8 * sizeof(To) - 1)) * (kSigned ? 1 : 2);
  if (x != x) return sizeof(To) == 4 ? 0 : static_cast<To>(1ull << (8 * sizeof(To) - 1));
  if (x >= bound) return kGreatest;
  if (x < static_cast<From>(kLeast)) return kLeast;
  return static_cast<To>(x);
}

}  // namespace tapegrad_emulator

#define TAPEGRAD_CONVERT(NAME, FROM, TO)                                                  \
  static inline TO NAME##_rn(FROM x) { return tapegrad_emulator::convert<TO>(rint(x)); }  \
  static inline TO NAME##_rz(FROM x) { return tapegrad_emulator::convert<TO>(trunc(x)); } \
  static inline TO NAME##_rd(FROM x) { return tapegrad_emulator::convert<TO>(floor(x)); } \
  static inline TO NAME##_ru(FROM x) { return tapegrad_emulator::convert<TO>(ceil(x)); }
TAPEGRAD_CONVERT(__float2int, float, int)
TAPEGRAD_CONVERT(__float2uint, float, unsigned)
TAPEGRAD_CONVERT(__float2ll, float, long long)
TAPEGRAD_CONVERT(__float2ull, float, unsigned long long)
TAPEGRAD_CONVERT(__double2int, double, int)
TAPEGRAD_CONVERT(__double2uint, double, unsigned)
TAPEGRAD_CONVERT(__double2ll, double, long long)
TAPEGRAD_CONVERT(__double2ull, double, unsigned long long)
#undef TAPEGRAD_CONVERT
static inline float __int2float_rn(int x) { return static_cast<float>(x); }
static inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
static inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
static inline float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
static inline double __int2double_rn(int x) { return x; }
static inline double __uint2double_rn(unsigned x) { return x; }
static inline double __ll2double_rn(long long x) { return static_cast<double>(x); }
static inline double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
static inline float __double2float_rn(double x) { return static_cast<float>(x); }

// ---- intrinsics of bits

static inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
static inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
static inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
static inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
static inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
static inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
static inline int __double2hiint(double x) {
  return static_cast<int>(__double_as_longlong(x) >> 32);
}
static inline int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
static inline double __hiloint2double(int high, int low) {
  return __longlong_as_double(
      static_cast<long long>(static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 |
                             static_cast<unsigned>(low)));
}

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
  unsigned result = 0;
  for (int bit = 0; bit < 32; ++bit) result |= (x >> bit & 1) << (31 - bit);
  return result;
}
static inline unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
         __brev(static_cast<unsigned>(x >> 32));
}
static inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32);
}
static inline int __mulhi(int x, int y) {
  return static_cast<int>(static_cast<long long>(x) * y >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(x) * y >> 64);
}
static inline long long __mul64hi(long long x, long long y) {
  return static_cast<long long>(static_cast<__int128>(x) * y >> 64);
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both << (shift & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both >> (shift & 31));
}
// Four bytes of the eight of x (0 to 3) and y (4 to 7), chosen by the digits of the selector.
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long both = static_cast<unsigned long long>(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned digit = selector >> (4 * i) & 0xf;
    unsigned byte = static_cast<unsigned>(both >> (8 * (digit & 7))) & 0xff;
    if (digit & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
