// 8-bit floats: storage formats of models, which convert to and from float32 as PyTorch's do.
//
//   e4m3fn    no infinities: what is too large becomes the largest number; NaN has all bits set
//   e5m2      the upper half of a float16
//   *fnuz     no infinities and no negative zero, whose place NaN takes; what is too large becomes NaN
//   e8m0fnu   powers of two, neither signs nor zero: the scales of blocks of other numbers
#pragma once

#include <bit>
#include <cstdint>

namespace tapegrad {

namespace float8 {

enum class Special : uint8_t { Finite, Infinite, OneNaN };

struct Format {
  int mantissa;  // how many bits
  int bias;
  Special special;
  constexpr bool operator==(const Format&) const = default;
};
inline constexpr Format kE4m3fn{3, 7, Special::Finite};
inline constexpr Format kE5m2{2, 15, Special::Infinite};
inline constexpr Format kE4m3fnuz{3, 8, Special::OneNaN};
inline constexpr Format kE5m2fnuz{2, 16, Special::OneNaN};
inline constexpr Format kE8m0fnu{0, 127, Special::OneNaN};

constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// Rounded to nearest, ties to even.
template <Format kFormat>
constexpr uint8_t encode(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const bool is_nan = magnitude > 0x7f800000u;
  uint32_t sign = (bits >> 24) & 0x80u;
  constexpr int kShift = 23 - kFormat.mantissa;
  constexpr uint32_t kLeastNormal = static_cast<uint32_t>(128 - kFormat.bias) << 23;
  // Adding this number lets the float adder round what will be subnormal at the right bit.
  constexpr float kRounder = power_of_two(kShift + 1 - kFormat.bias);
  uint32_t code;
  if (magnitude < kLeastNormal)
    code = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + kRounder) -
           std::bit_cast<uint32_t>(kRounder);
  else
    code = (magnitude - (kLeastNormal - 0x800000u) + ((1u << (kShift - 1)) - 1) +
            ((magnitude >> kShift) & 1u)) >>
           kShift;
  if constexpr (kFormat.special == Special::Finite) {
    if (code > 0x7e) code = 0x7e;
    if (is_nan) code = 0x7f;
  } else if constexpr (kFormat.special == Special::Infinite) {
    if (code > 0x7c) code = 0x7c;
    if (is_nan) code = 0x7f;
  } else {
    if (code == 0) sign = 0;
    if (code > 0x7f || is_nan) sign = 0x80, code = 0;
  }
  return static_cast<uint8_t>(sign | code);
}

template <Format kFormat>
constexpr float decode(uint8_t bits) {
  const uint32_t sign = uint32_t(bits & 0x80u) << 24;
  const uint32_t code = bits & 0x7fu;
  constexpr uint32_t kNaN = 0x7fc00000u;
  if constexpr (kFormat.special == Special::OneNaN)
    if (bits == 0x80) return std::bit_cast<float>(kNaN);
  if constexpr (kFormat.special == Special::Finite)
    if (code == 0x7f) return std::bit_cast<float>(sign | 0x7ff00000u);
  if constexpr (kFormat.special == Special::Infinite)
    if (code >= 0x7c) return std::bit_cast<float>(sign | 0x7f800000u | (code & 3u) << 21);
  // The multiplication is exact, and makes normal numbers of subnormal ones.
  constexpr int kShift = 23 - kFormat.mantissa;
  const float scaled = std::bit_cast<float>(code << kShift) * power_of_two(127 - kFormat.bias);
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

// Half-way between two powers, the greater one; but beside the least, that.
template <>
constexpr uint8_t encode<kE8m0fnu>(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t exponent = (bits >> 23) & 0xffu, fraction = bits & 0x7fffffu;
  if (exponent == 0xff) return 0xff;
  const bool up = exponent > 0 ? fraction >= 0x400000u : fraction > 0x400000u;
  return static_cast<uint8_t>(exponent + up);
}
template <>
constexpr float decode<kE8m0fnu>(uint8_t bits) {
  if (bits == 0xff) return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(bits ? uint32_t{bits} << 23 : 0x400000u);
}

}  // namespace float8

template <float8::Format kFormat>
struct Float8 {
  uint8_t bits = 0;
  constexpr Float8() = default;
  constexpr Float8(float value) : bits(float8::encode<kFormat>(value)) {}
  constexpr operator float() const { return float8::decode<kFormat>(bits); }
};

}  // namespace tapegrad
