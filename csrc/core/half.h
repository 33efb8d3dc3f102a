// float16 and bfloat16: storage formats. Arithmetic happens in float32.
// The conversions are branch-free integer code, so loops over them vectorise.
#pragma once

#include <bit>
#include <cstdint>

namespace tapegrad {

constexpr float half_bits_to_float(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000u) << 16;
  uint32_t magnitude = bits & 0x7fffu;
  // Normal numbers: move exponent and mantissa up and rebias by multiplication with 2^112, which
  // is exact and turns half subnormals into float normals on the way.
  float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  uint32_t special = std::bit_cast<uint32_t>(scaled) | 0x7f800000u;  // inf and NaN keep mantissas
  uint32_t result = magnitude >= 0x7c00u ? special : std::bit_cast<uint32_t>(scaled);
  return std::bit_cast<float>(sign | result);
}

constexpr uint16_t float_to_half_bits(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  // Normal results: round to nearest even on the 13 dropped bits.
  uint32_t normal = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  // Subnormal results: adding 0.5 lets the float adder do the rounding at the right bit.
  uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t infinite = 0x7c00u;
  uint32_t not_a_number = 0x7e00u;
  uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x477ff000u ? infinite : result;
  result = magnitude > 0x7f800000u ? not_a_number : result;
  return static_cast<uint16_t>(sign | result);
}

constexpr float bfloat16_bits_to_float(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

constexpr uint16_t float_to_bfloat16_bits(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  uint32_t result = (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded;
  return static_cast<uint16_t>(result);
}

struct Half {
  uint16_t bits = 0;
  constexpr Half() = default;
  constexpr Half(float value) : bits(float_to_half_bits(value)) {}
  constexpr operator float() const { return half_bits_to_float(bits); }
};

struct BFloat16 {
  uint16_t bits = 0;
  constexpr BFloat16() = default;
  constexpr BFloat16(float value) : bits(float_to_bfloat16_bits(value)) {}
  constexpr operator float() const { return bfloat16_bits_to_float(bits); }
};

}  // namespace tapegrad
