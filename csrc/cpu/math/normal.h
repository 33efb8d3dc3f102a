// The normal distribution to full precision, for the pointwise table alone.
#pragma once

#include "cpu/math/error_function.h"

namespace tapegrad::cpu::TAPEGRAD_ISA::math {

// The cumulative distribution of the normal law, erfc(-x / sqrt(2)) / 2, as precise in its tail as erfc:
// normal_cdf of error_function.h is shorter, and rounds the square.
template <class T>
TAPEGRAD_INLINE T ndtr(T x) {
  constexpr T kRootHalf = T(0x1.6a09e667f3bcdp-1);
  constexpr T kRootHalfLow = sizeof(T) == 4 ? T(0x1.9fcef4p-27) : T(-0x1.bdd3413b26456p-55);
  constexpr T kTwoOverRootPi = T(0x1.20dd750429b6dp0);
  const T a = at_most(abs(x), sizeof(T) == 4 ? T(14.25) : T(38.6));
  const Pair<T> t = two_product(a, kRootHalf);
  Pair<T> factor = scaled_erfc(t.high);
  const T t_low = mul_add(a, kRootHalfLow, t.low);
  factor.low += t_low * mul_add(T(2) * t.high, factor.high, -kTwoOverRootPi);
  const Pair<T> square = two_product(a, a);
  const ExpReduction<T> parts = reduce_exp(Pair<T>{T(-0.5) * square.high, T(-0.5) * square.low});
  const T rise = growth(parts), low = mul_add(factor.low, rise, factor.low);
  const T y = scale_down(T(0.5) * (factor.high + mul_add(factor.high, rise, low)), parts.n);
  return x < T(0) ? y : T(1) - y;
}

}  // namespace tapegrad::cpu::TAPEGRAD_ISA::math
