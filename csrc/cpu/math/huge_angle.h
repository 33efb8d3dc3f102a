// The wide forms of sin, cos and tan (see Note: the plain and the wide form): the reduction of
// Payne and Hanek, right for every angle. C libraries are off by several ulps where a huge angle
// falls next to a multiple of pi/2.
//
// |x| = m 2^e with an integer m below 2^53. Bits of 2/pi whose product with 2^e is a multiple of
// four do not matter, so 192 bits of 2/pi behind those, times m, give the quadrant in the top two
// bits and the rest of the turn behind them, with 75 good bits in the worst case.
#pragma once

#include <cstdint>

#include "cpu/math/base.h"
#include "cpu/math/trigonometric.h"

namespace tapegrad::cpu::TAPEGRAD_ISA::math {

__extension__ typedef unsigned __int128 Uint128;

// 2/pi in binary, behind 64 zeros that stand for the bits before the point.
inline constexpr std::uint64_t kTwoOverPi[] = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
    0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
    0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
    0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
};

// 64 bits of the table from a bit position on
inline std::uint64_t two_over_pi_bits(int position) {
  const int word = position / 64, shift = position % 64;
  const Uint128 both = Uint128(kTwoOverPi[word]) << 64 | kTwoOverPi[word + 1];
  return std::uint64_t(both >> (64 - shift));
}

// A fraction of a quarter turn, given as turn / 2^128, in radians
inline Pair<double> radians(Uint128 turn) {
  if (turn == 0) return {0.0, 0.0};
  const auto upper = std::uint64_t(turn >> 64);
  const int zeros = upper != 0 ? __builtin_clzll(upper) : 64 + __builtin_clzll(std::uint64_t(turn));
  const Uint128 normal = turn << zeros;
  const double unit = __builtin_ldexp(1.0, -zeros);
  const double high = double(std::uint64_t(normal >> 75)) * 0x1p-53 * unit;
  const double low = double(std::uint64_t(normal >> 22) & 0x1fffffffffffff) * 0x1p-106 * unit;
  const Pair<double> lead = two_product(high, HalfPi<double>::kFirst);
  const double rest = high * HalfPi<double>::kSecond + low * HalfPi<double>::kFirst;
  return fast_two_sum(lead.high, lead.low + rest);
}

// reduce_trig for finite |x| of at least 2^-8
inline Quadrant<double> reduce_trig_huge(double x) {
  constexpr std::uint64_t kImplicitBit = std::uint64_t(1) << 52;
  const std::uint64_t bits = to_bits(abs(x));
  const std::uint64_t m = (bits & (kImplicitBit - 1)) | kImplicitBit;
  const int e = int(bits >> 52) - (1023 + 52);
  const int position = 64 + e - 2;
  const Uint128 low = Uint128(m) * two_over_pi_bits(position + 128);
  const Uint128 middle = Uint128(m) * two_over_pi_bits(position + 64) + (low >> 64);
  const std::uint64_t top = m * two_over_pi_bits(position) + std::uint64_t(middle >> 64);
  // To the nearest quadrant; what is left is a signed fraction in two's complement.
  const std::uint64_t index = (top + (std::uint64_t(1) << 61)) >> 62;
  const Uint128 fraction = (Uint128(top) << 64 | std::uint64_t(middle)) << 2;
  const bool below = fraction >> 127 != 0;
  const Pair<double> r = radians(below ? -fraction : fraction);
  const bool negative = below != (x < 0.0);
  return {{negative ? -r.high : r.high, negative ? -r.low : r.low}, x < 0.0 ? -index : index};
}

namespace wide {

inline double sin(double x) {
  if (trig_difficulty(x) == 0) return math::sin(x);
  return x - x == 0.0 ? sin_of(reduce_trig_huge(x), 0) : x - x;
}

inline double cos(double x) {
  if (trig_difficulty(x) == 0) return math::cos(x);
  return x - x == 0.0 ? sin_of(reduce_trig_huge(x), 1) : x - x;
}

inline double tan(double x) {
  if (trig_difficulty(x) == 0) return math::tan(x);
  return x - x == 0.0 ? tan_of(reduce_trig_huge(x)) : x - x;
}

inline float sin(float x) { return float(wide::sin(double(x))); }
inline float cos(float x) { return float(wide::cos(double(x))); }
inline float tan(float x) { return float(wide::tan(double(x))); }

}  // namespace wide

}  // namespace tapegrad::cpu::TAPEGRAD_ISA::math
