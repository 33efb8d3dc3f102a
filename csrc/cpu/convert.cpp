// Compiled once per instruction set.
#include "cpu/convert.h"

#include <limits>
#include <type_traits>

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

template <class From, class To>
[[gnu::always_inline]] inline To convert_one(From value) {
  constexpr bool kFromHalf = std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>;
  constexpr bool kToHalf = std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>;
  if constexpr (std::is_same_v<From, To>) return value;
  else if constexpr (std::is_same_v<To, bool>) {
    if constexpr (kFromHalf) return static_cast<float>(value) != 0;
    else return value != From(0);
  } else if constexpr (kFromHalf) return convert_one<float, To>(static_cast<float>(value));
  else if constexpr (kToHalf) return To(static_cast<float>(value));
  // What does not fit becomes the least number of the type it goes through, as the processor and so
  // PyTorch have it: int64 for uint8 and itself, int32 for the rest.
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr bool kWide = std::is_same_v<To, int64_t> || std::is_same_v<To, uint8_t>;
    using Through = std::conditional_t<kWide, int64_t, int32_t>;
    constexpr From kLimit = kWide ? From(0x1p63) : From(0x1p31);
    // Double alone has fractions between -2^31 - 1 and -2^31, which are cut off.
    constexpr From kLeast = std::is_same_v<From, double> && !kWide ? -kLimit - 1 : -kLimit;
    bool fits = value > kLeast && value < kLimit;
    return static_cast<To>(fits ? static_cast<Through>(value)
                                : std::numeric_limits<Through>::min());
  } else return static_cast<To>(value);
}

template <class From, class To>
void convert(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  auto* source = static_cast<const From*>(from);
  auto* target = static_cast<To*>(to);
  if (from_stride == 1 && to_stride == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) target[i] = convert_one<From, To>(source[i]);
  } else if (from_stride == 0) {
    To value = convert_one<From, To>(source[0]);
    for (int64_t i = 0; i < n; ++i) target[i * to_stride] = value;
  } else {
    for (int64_t i = 0; i < n; ++i)
      target[i * to_stride] = convert_one<From, To>(source[i * from_stride]);
  }
}

template <class From>
constexpr void fill_row(Convert (&row)[kConvertible]) {
  row[static_cast<int>(DType::Bool)] = convert<From, bool>;
  row[static_cast<int>(DType::UInt8)] = convert<From, uint8_t>;
  row[static_cast<int>(DType::Int8)] = convert<From, int8_t>;
  row[static_cast<int>(DType::Int16)] = convert<From, int16_t>;
  row[static_cast<int>(DType::Int32)] = convert<From, int32_t>;
  row[static_cast<int>(DType::Int64)] = convert<From, int64_t>;
  row[static_cast<int>(DType::Float16)] = convert<From, Half>;
  row[static_cast<int>(DType::BFloat16)] = convert<From, BFloat16>;
  row[static_cast<int>(DType::Float32)] = convert<From, float>;
  row[static_cast<int>(DType::Float64)] = convert<From, double>;
}

// Constant-initialised: no code of this file may run before the instruction set is known.
constexpr ConvertTable make_table() {
  ConvertTable table{};
  fill_row<bool>(table.run[0]);
  fill_row<uint8_t>(table.run[1]);
  fill_row<int8_t>(table.run[2]);
  fill_row<int16_t>(table.run[3]);
  fill_row<int32_t>(table.run[4]);
  fill_row<int64_t>(table.run[5]);
  fill_row<Half>(table.run[6]);
  fill_row<BFloat16>(table.run[7]);
  fill_row<float>(table.run[8]);
  fill_row<double>(table.run[9]);
  return table;
}

}  // namespace

extern const ConvertTable convert_table;
constinit const ConvertTable convert_table = make_table();

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
