// The special functions that branch, loop or read long tables: compiled once, for doubles.
//
// Note [Functions written once]
// These functions are no work for the vector unit, so one text serves the CPU and CUDA devices: the
// files of tapegrad/cuda/functions. It keeps to what C++ and CUDA C share, computes in double, and is
// included here and put behind the prelude of a kernel that calls it. It needs the four definitions
// below, erfcx, and the C library's mathematical functions.
#include "cpu/special.h"

#include <cmath>

#define TAPEGRAD_ISA once
#include "cpu/math/error_function.h"

#define TAPEGRAD_FUNCTION
#define TAPEGRAD_HELPER static inline
#define TAPEGRAD_TABLE static constexpr double

namespace tapegrad::cpu::special {

using std::acos, std::cos, std::erf, std::exp, std::expm1, std::fabs, std::floor, std::fma,
    std::fmod, std::log, std::log1p, std::pow, std::sin, std::sqrt, std::trunc;

static inline double infinity() { return __builtin_huge_val(); }
static inline double not_a_number() { return __builtin_nan(""); }
constexpr double kRootHalf = 0x1.6a09e667f3bcdp-1;

// c[0] + c[1] u + c[2] u^2 + ...
template <int kCount>
static inline double horner(const double (&c)[kCount], double u) {
  double y = c[kCount - 1];
  for (int k = kCount - 2; k >= 0; --k) y = y * u + c[k];
  return y;
}

static double erfc(double x) { return once::math::erfc(x); }

// exp(x^2) erfc(x) for x >= 0
static double erfcx_positive(double x) {
  constexpr double kInverseRootPi = 0x1.20dd750429b6dp-1;
  if (x > 25) {
    const double w = x < 1e100 ? 0.5 / (x * x) : 0;
    const double series =
        w * (1 - w * (3 - w * (15 - w * (105 - w * (945 - w * (10395 - w * 135135))))));
    return kInverseRootPi * (1 - series) / x;
  }
  const auto factor = once::math::scaled_erfc(x);
  return factor.high + factor.low;
}

double erfcx(double x) {
  if (!(x < 0)) return erfcx_positive(x);
  if (x < -27) return infinity();
  const double square = x * x, rest = fma(x, x, -square), power = exp(square);
  return 2 * (power + power * rest) - erfcx_positive(-x);
}

#include "tapegrad/cuda/functions/airy.cuh"
#include "tapegrad/cuda/functions/bessel.cuh"
#include "tapegrad/cuda/functions/gamma.cuh"
#include "tapegrad/cuda/functions/normal.cuh"
#include "tapegrad/cuda/functions/polynomial.cuh"

}  // namespace tapegrad::cpu::special
