// Integer division, remainder and power for every integer type.
//
// Arithmetic wraps around as in PyTorch and is done on unsigned words, where that is defined.
// Division by zero is the caller's to refuse. The smallest number divided by -1, which traps on
// x86, wraps to itself.
#pragma once

#include <cstdint>

#include "cpu/math/base.h"

namespace tapegrad::cpu::TAPEGRAD_ISA::math {

template <class Int>
inline constexpr bool kIsSigned = Int(-1) < Int(0);

template <class Int>
TAPEGRAD_INLINE Int wrapping_multiply(Int a, Int b) {
  return Int(std::uint64_t(a) * std::uint64_t(b));
}

template <class Int>
TAPEGRAD_INLINE Int wrapping_subtract(Int a, Int b) {
  return Int(std::uint64_t(a) - std::uint64_t(b));
}

// The quotient rounded towards zero.
template <class Int>
TAPEGRAD_INLINE Int truncate_divide(Int a, Int b) {
  const bool negates = kIsSigned<Int> && b == Int(-1);
  const Int divisor = negates ? Int(1) : b;
  Int quotient;
  if constexpr (sizeof(Int) < 8) {
    // There is no vector instruction for integer division; a double holds the quotient exactly.
    static_assert(kIsSigned<Int> || sizeof(Int) < 4);
    quotient = Int(std::int32_t(double(a) / double(divisor)));
  } else {
    quotient = a / divisor;
  }
  return negates ? wrapping_subtract(Int(0), quotient) : quotient;
}

// The remainder with the sign of the dividend, as C's %.
template <class Int>
TAPEGRAD_INLINE Int fmod_integer(Int a, Int b) {
  return wrapping_subtract(a, wrapping_multiply(truncate_divide(a, b), b));
}

// The remainder with the sign of the divisor, as Python's %.
template <class Int>
TAPEGRAD_INLINE Int remainder_integer(Int a, Int b) {
  const Int rest = fmod_integer(a, b);
  return (rest != 0) & ((rest < 0) != (b < 0)) ? Int(rest + b) : rest;
}

// The quotient rounded down, as Python's //.
template <class Int>
TAPEGRAD_INLINE Int floor_divide_integer(Int a, Int b) {
  const Int quotient = truncate_divide(a, b);
  const Int rest = wrapping_subtract(a, wrapping_multiply(quotient, b));
  return (rest != 0) & ((rest < 0) != (b < 0)) ? Int(quotient - 1) : quotient;
}

// base^exponent modulo the word size. A negative exponent gives the truncated fraction, as in
// PyTorch: 0 unless the base is 1 or -1.
template <class Int>
inline Int pow_integer(Int base, Int exponent) {
  if (exponent < 0) {
    const Int sign = (exponent & 1) != 0 ? base : Int(1);
    return base == 1 || base == Int(-1) ? sign : Int(0);
  }
  std::uint64_t result = 1, square = std::uint64_t(base);
  for (std::uint64_t rest = std::uint64_t(exponent); rest != 0; rest >>= 1) {
    result *= (rest & 1) != 0 ? square : 1;
    square *= square;
  }
  return Int(result);
}

}  // namespace tapegrad::cpu::TAPEGRAD_ISA::math
