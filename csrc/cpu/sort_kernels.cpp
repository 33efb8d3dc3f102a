// Compiled once per instruction set.
#include "cpu/sort_kernels.h"

#include <bit>
#include <type_traits>

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

template <size_t kBytes>
using UnsignedOf = std::conditional_t<
    kBytes == 1, uint8_t,
    std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>>;

template <class T>
[[gnu::always_inline]] inline UnsignedOf<sizeof(T)> key_of(T value) {
  using Key = UnsignedOf<sizeof(T)>;
  constexpr Key kSign = static_cast<Key>(Key(1) << (8 * sizeof(T) - 1));
  Key bits = std::bit_cast<Key>(value);
  if constexpr (std::is_integral_v<T>) {
    return std::is_signed_v<T> ? static_cast<Key>(bits ^ kSign) : bits;
  } else {
    // Infinity's bits, which only NaN's exceed: exponent all ones, mantissa zero.
    constexpr Key kInfinity = std::is_same_v<T, double>     ? Key(0x7ff0000000000000u)
                              : std::is_same_v<T, float>    ? Key(0x7f800000u)
                              : std::is_same_v<T, BFloat16> ? Key(0x7f80u)
                                                            : Key(0x7c00u);
    Key magnitude = static_cast<Key>(bits & static_cast<Key>(~kSign));
    bool negative = bits > kSign;  // minus zero is not
    Key key = negative ? static_cast<Key>(~bits) : static_cast<Key>(magnitude | kSign);
    return magnitude > kInfinity ? static_cast<Key>(~Key(0)) : key;
  }
}

template <class T>
uint64_t keys(const void* x, int64_t n, bool descending, void* out) {
  using Key = UnsignedOf<sizeof(T)>;
  auto* source = static_cast<const T*>(x);
  auto* target = static_cast<Key*>(out);
  Key flip = descending ? static_cast<Key>(~Key(0)) : Key(0);
  Key smallest = static_cast<Key>(~Key(0));
  for (int64_t i = 0; i < n; ++i) {
    Key key = static_cast<Key>(key_of(source[i]) ^ flip);
    target[i] = key;
    smallest = key < smallest ? key : smallest;
  }
  return smallest;
}

}  // namespace

extern const SortTable sort_table;
// Constant-initialised: no code of this file may run before the instruction set is known.
constinit const SortTable sort_table = {
    {keys<bool>, keys<uint8_t>, keys<int8_t>, keys<int16_t>, keys<int32_t>, keys<int64_t>,
     keys<Half>, keys<BFloat16>, keys<float>, keys<double>},
};

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
