// The Hurwitz zeta function and polygamma. They loop and branch: not for the vector unit.
#pragma once

#include "cpu/math/base.h"
#include "cpu/math/gamma.h"
#include "cpu/math/power.h"

namespace tapegrad::cpu::TAPEGRAD_ISA::math {

// The Hurwitz zeta function sum_k (q + k)^-s for q > 0, s > 1: some terms, then the
// Euler-Maclaurin formula for the rest.
inline double zeta_positive(double s, double q) {
  constexpr int kTerms = 10;
  // B_2j / (2j)!
  constexpr double kBernoulli[] = {
      1.0 / 12,
      -1.0 / 720,
      1.0 / 30240,
      -1.0 / 1209600,
      1.0 / 47900160,
      -691.0 / 1307674368000,
      1.0 / 74724249600,
      -3617.0 / 10670622842880000,
      43867.0 / 5109094217170944000,
      -174611.0 / 802857662698291200000.0,
  };
  double sum = 0.0;
  for (int k = 0; k < kTerms; ++k) sum += pow(q + k, -s);
  const double a = q + kTerms, power = pow(a, 1.0 - s);
  if (power == 0.0) return sum;  // its factor may be infinite
  double correction = 0.5, factor = s / a, order = s;
  for (const double coefficient : kBernoulli) {
    correction += coefficient * factor;
    factor *= (order + 1.0) / a * ((order + 2.0) / a);
    order += 2.0;
  }
  return sum + power * (1.0 / (s - 1.0) + correction / a);
}

// zeta(s, q) for any q; a negative q needs an integer s, as (q + k)^-s is real only then.
inline double zeta(double s, double q) {
  if (q != q) return q;
  if (!(s > 1.0)) return s == 1.0 ? Format<double>::kInfinity : Format<double>::kNan;
  if (q > 0.0) return q < Format<double>::kInfinity ? zeta_positive(s, q) : 0.0;
  if (floor(q) == q) return Format<double>::kInfinity;
  if (!(floor(s) == s)) return Format<double>::kNan;
  // The terms below zero are, but for the sign, those of zeta(s, below) up to |q|.
  const double below = -q - floor(-q);
  const double negative_terms = zeta_positive(s, below) - zeta_positive(s, 1.0 - q);
  const bool odd = round(0.5 * s) != 0.5 * s;
  return zeta_positive(s, 1.0 - below) + (odd ? -negative_terms : negative_terms);
}

// The n-th derivative of digamma, (-1)^(n+1) n! zeta(n + 1, x)
inline double polygamma(int n, double x) {
  if (n == 0) return digamma(x);
  if (n == 1) return trigamma(x);
  constexpr int kInfiniteFactorial = 171;
  double factorial = 1.0;
  for (int k = 2; k <= n && k <= kInfiniteFactorial; ++k) factorial *= k;
  const double size = factorial * zeta(n + 1.0, x);
  return n % 2 == 1 ? size : -size;
}

inline float polygamma(int n, float x) {
  if (n == 1) return trigamma(x);
  return float(polygamma(n, double(x)));
}
inline float zeta(float s, float q) { return float(zeta(double(s), double(q))); }

}  // namespace tapegrad::cpu::TAPEGRAD_ISA::math
