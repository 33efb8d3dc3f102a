// Where a line of the table differs for complex numbers: read in place of the line's own rule.
#pragma once

#include <type_traits>

#include "pointwise_rules.h"

namespace tapegrad::rules {

template <class Rule, int I, class S, class P>
auto complex_grad(const S& g, const S& a, const S& b, const S& c, const S& y, const P* p) {
  // One root of the product is not the product of the roots where the real part is negative.
  if constexpr (std::is_same_v<Rule, acosh_rule>) return g * rsqrt(a - 1) * rsqrt(a + 1);
  else return Rule::template grad<I>(g, a, b, c, y, p);
}

}  // namespace tapegrad::rules
