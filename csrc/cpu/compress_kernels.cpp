// Compiled once per instruction set.
#include "cpu/compress_kernels.h"

#include <type_traits>

#include "core/half.h"
#include "cpu/math.h"
#include "spec/philox.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

// ---- quantised blocks, see Note [Blocks of quantised values]

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
template <class S>
using Bits = std::conditional_t<sizeof(S) == 8, uint64_t, uint32_t>;

// Below, the reciprocal of a scale would overflow; above, a multiple of it.
template <class S>
inline constexpr S kTiny = sizeof(S) == 8 ? S(0x1p-1000) : S(0x1p-100f);
template <class S>
inline constexpr S kHuge = sizeof(S) == 8 ? S(0x1p1020) : S(0x1p124f);
template <class S>
inline constexpr Bits<S> kInfinity =
    sizeof(S) == 8 ? Bits<S>(0x7ff0000000000000u) : Bits<S>(0x7f800000u);

template <int kBits>
inline constexpr int kBias = 1 << (kBits - 1);
template <int kBits>
inline constexpr int kLevels = kBias<kBits> - 1;

// Apart from the numbers that the program itself draws from the same seed.
inline constexpr uint64_t kDomain = 0x636f6d7072657373u;

// A word whose bits look random, from one that does not: multiplications and shifts.
TAPEGRAD_INLINE uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x21f0aaadu;
  x = (x ^ (x >> 15)) * 0x735a2d97u;
  return x ^ (x >> 15);
}

// One word for two values of a block, from what is random for the call and the number of the block.
TAPEGRAD_INLINE void random_words(const PhiloxBlock& call, int64_t number, int64_t n,
                                  uint32_t* words) {
  const auto low = static_cast<uint32_t>(number), high = static_cast<uint32_t>(number >> 32);
  const uint32_t start = mixed(mixed(low + call.words[0]) ^ (high + call.words[1]));
  const uint32_t flip = mixed(mixed(low + call.words[2]) ^ (high + call.words[3]));
  for (int64_t i = 0; i < n; ++i) words[i] = mixed(static_cast<uint32_t>(i) + start) ^ flip;
}

// Between 0 and 1 from 15 bits, the ends left out: a sum with a whole number below 256 is exact, so a
// value that is one stays what it is.
template <class S>
TAPEGRAD_INLINE S between_integers(uint32_t bits) {
  return (static_cast<S>(static_cast<int32_t>(bits & 0x7fffu)) + S(0.5)) * S(0x1p-15);
}

template <class S, int kBits>
TAPEGRAD_INLINE uint8_t coded(S value, S inverse, uint32_t bits) {
  const S place = value * inverse + (S(kBias<kBits>) + between_integers<S>(bits));
  int32_t code = static_cast<int32_t>(place);
  code = code < 1 ? 1 : code;
  constexpr int32_t kTop = 2 * kBias<kBits> - 1;
  return static_cast<uint8_t>(code > kTop ? kTop : code);
}

template <class S>
TAPEGRAD_INLINE Bits<S> largest_magnitude(const S* values, int64_t n) {
  using U = Bits<S>;
  // As signed numbers, which every instruction set compares.
  using I = std::make_signed_t<U>;
  I largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const I magnitude = static_cast<I>(math::to_bits(values[i]) & (U(-1) >> 1));
    largest = magnitude > largest ? magnitude : largest;
  }
  return static_cast<U>(largest);
}

template <class S, int kBits>
TAPEGRAD_INLINE void encode_block(const S* __restrict values, int64_t n, S inverse,
                                  const uint32_t* __restrict words, uint8_t* __restrict codes) {
  const int64_t half = n / 2;
  if constexpr (kBits == 8) {
    for (int64_t i = 0; i < half; ++i) codes[i] = coded<S, 8>(values[i], inverse, words[i]);
    for (int64_t i = 0; i < half; ++i)
      codes[half + i] = coded<S, 8>(values[half + i], inverse, words[i] >> 16);
  } else {
    for (int64_t i = 0; i < half; ++i) {
      const uint8_t low = coded<S, 4>(values[i], inverse, words[i]);
      const uint8_t high = coded<S, 4>(values[half + i], inverse, words[i] >> 16);
      codes[i] = static_cast<uint8_t>(low | high << 4);
    }
  }
}

template <class T, int kBits>
int64_t encode(const QuantizedSpan& span, int64_t begin, int64_t end) {
  using S = Wide<T>;
  alignas(64) S room[kLargestBlock];
  alignas(64) uint32_t words[kLargestBlock / 2];
  const int64_t block = span.block;
  auto* scales = static_cast<S*>(span.scales);
  const PhiloxBlock call = philox(span.seed, span.counter, kDomain);
  int64_t unscaled = 0;
  for (int64_t b = begin; b < end; ++b) {
    auto* from = static_cast<const T*>(span.values) + b * block;
    const int64_t left = span.count - b * block, n = left < block ? left : block;
    const S* values = room;
    if (std::is_same_v<T, S> && n == block) {
      values = reinterpret_cast<const S*>(from);
    } else {
      for (int64_t i = 0; i < n; ++i) room[i] = static_cast<S>(from[i]);
      for (int64_t i = n; i < block; ++i) room[i] = S(0);
    }
    const Bits<S> bits = largest_magnitude(values, block);
    const S largest = math::from_bits<S>(bits);
    // Infinities and NaN are above kHuge by their bits.
    const bool scaled = bits == 0 || (largest >= kTiny<S> && bits <= math::to_bits(kHuge<S>));
    unscaled += !scaled;
    scales[b] = scaled ? largest / S(kLevels<kBits>) : math::from_bits<S>(kInfinity<S> + 1);
    const S inverse = scaled && bits != 0 ? S(kLevels<kBits>) / largest : S(0);
    uint8_t* codes = span.codes + b * block * kBits / 8;
    if (!scaled) {
      for (int64_t i = 0; i < block * kBits / 8; ++i) codes[i] = 0;
      continue;
    }
    random_words(call, b, block / 2, words);
    encode_block<S, kBits>(values, block, inverse, words, codes);
  }
  return unscaled;
}

template <class T, int kBits>
void decode(const QuantizedSpan& span, int64_t begin, int64_t end) {
  using S = Wide<T>;
  alignas(64) S room[kLargestBlock];
  const int64_t block = span.block;
  auto* scales = static_cast<const S*>(span.scales);
  for (int64_t b = begin; b < end; ++b) {
    auto* to = static_cast<T*>(span.values) + b * block;
    const int64_t left = span.count - b * block, n = left < block ? left : block;
    const bool direct = std::is_same_v<T, S> && n == block;
    S* __restrict values = direct ? reinterpret_cast<S*>(to) : room;
    const uint8_t* __restrict codes = span.codes + b * block * kBits / 8;
    const S scale = scales[b];
    if constexpr (kBits == 8) {
      for (int64_t i = 0; i < block; ++i)
        values[i] = static_cast<S>(static_cast<int32_t>(codes[i]) - kBias<8>) * scale;
    } else {
      const int64_t half = block / 2;
      for (int64_t i = 0; i < half; ++i)
        values[i] = static_cast<S>((static_cast<int32_t>(codes[i]) & 15) - kBias<4>) * scale;
      for (int64_t i = 0; i < half; ++i)
        values[half + i] = static_cast<S>((static_cast<int32_t>(codes[i]) >> 4) - kBias<4>) * scale;
    }
    if (direct) continue;
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(values[i]);
  }
}

// ---- bits

inline constexpr int64_t kStretch = 256;

template <class U>
int64_t run(const void* source, int64_t n, uint64_t first, uint64_t second) {
  auto* x = static_cast<const U*>(source);
  const U a = static_cast<U>(first), b = static_cast<U>(second);
  int64_t i = 0;
  for (; i + kStretch <= n; i += kStretch) {
    U others = 0;
    for (int64_t k = 0; k < kStretch; ++k)
      others |= static_cast<U>((x[i + k] ^ a) == 0 || (x[i + k] ^ b) == 0 ? 0 : 1);
    if (others != 0) break;
  }
  while (i < n && (x[i] == a || x[i] == b)) ++i;
  return i;
}

// Eight bytes of 0 or 1 as the bits of one, and back: each bit is moved by one term of the product.
TAPEGRAD_INLINE uint8_t gathered(uint64_t flags) {
  return static_cast<uint8_t>(flags * 0x0102040810204080u >> 56);
}
TAPEGRAD_INLINE uint64_t spread(uint8_t bits) {
  const uint64_t each = bits * 0x0101010101010101u & 0x8040201008040201u;
  return (each + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
}

template <class U>
void pack(const void* source, int64_t n, uint64_t one, uint8_t* bits) {
  auto* x = static_cast<const U*>(source);
  const U pattern = static_cast<U>(one);
  int64_t i = 0;
  alignas(64) uint8_t flags[64];
  for (; i + 64 <= n; i += 64) {
    for (int k = 0; k < 64; ++k) flags[k] = x[i + k] == pattern ? 1 : 0;
    for (int byte = 0; byte < 8; ++byte) {
      uint64_t eight;
      __builtin_memcpy(&eight, flags + 8 * byte, 8);
      bits[i / 8 + byte] = gathered(eight);
    }
  }
  for (; i < n; i += 8) {
    uint8_t value = 0;
    for (int64_t k = 0; k < 8 && i + k < n; ++k)
      value |= static_cast<uint8_t>((x[i + k] == pattern ? 1 : 0) << k);
    bits[i / 8] = value;
  }
}

template <class U>
void unpack(const uint8_t* bits, int64_t n, uint64_t zero, uint64_t one, void* target) {
  auto* x = static_cast<U*>(target);
  const U off = static_cast<U>(zero), on = static_cast<U>(one);
  int64_t i = 0;
  alignas(64) uint8_t flags[64];
  for (; i + 64 <= n; i += 64) {
    for (int byte = 0; byte < 8; ++byte) {
      const uint64_t eight = spread(bits[i / 8 + byte]);
      __builtin_memcpy(flags + 8 * byte, &eight, 8);
    }
    for (int k = 0; k < 64; ++k) x[i + k] = flags[k] != 0 ? on : off;
  }
  for (; i < n; ++i) x[i] = bits[i / 8] >> (i % 8) & 1 ? on : off;
}

template <class U>
constexpr BitKernels bit_kernels() {
  return {run<U>, pack<U>, unpack<U>};
}

// ---- integers

template <class T>
void range(const void* source, int64_t n, int64_t* low, int64_t* high) {
  auto* x = static_cast<const T*>(source);
  T least = x[0], most = x[0];
  for (int64_t i = 0; i < n; ++i) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  *low = least;
  *high = most;
}

template <class T, class Code>
void narrow(const void* source, int64_t n, int64_t low, void* target) {
  auto* x = static_cast<const T*>(source);
  auto* codes = static_cast<Code*>(target);
  using U = std::make_unsigned_t<T>;
  const U base = static_cast<U>(low);
  for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<Code>(static_cast<U>(x[i]) - base);
}

template <class T, class Code>
void widen(const void* source, int64_t n, int64_t low, void* target) {
  auto* codes = static_cast<const Code*>(source);
  auto* x = static_cast<T*>(target);
  using U = std::make_unsigned_t<T>;
  const U base = static_cast<U>(low);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(static_cast<U>(codes[i] + base));
}

template <class T>
constexpr NarrowKernels narrow_kernels() {
  return {range<T>,
          {narrow<T, uint8_t>, narrow<T, uint16_t>, narrow<T, uint32_t>},
          {widen<T, uint8_t>, widen<T, uint16_t>, widen<T, uint32_t>}};
}

// ---- bfloat16

template <class S>
int64_t round(const void* source, int64_t n, uint16_t* codes) {
  auto* x = static_cast<const S*>(source);
  constexpr float kTop = 0x1.fep127f;  // the largest bfloat16
  int64_t beyond = 0;
  for (int64_t i = 0; i < n; ++i) {
    const S magnitude = math::abs(x[i]);
    const bool finite = magnitude < math::from_bits<S>(kInfinity<S>);
    beyond += finite && magnitude > S(0x1.ffffffp127);
    const S limited = magnitude > S(kTop) ? S(kTop) : magnitude;
    codes[i] =
        float_to_bfloat16_bits(static_cast<float>(finite ? math::copysign(limited, x[i]) : x[i]));
  }
  return beyond;
}

template <class T>
constexpr QuantizeKernels quantize_kernels(bool four) {
  return four ? QuantizeKernels{encode<T, 4>, decode<T, 4>}
              : QuantizeKernels{encode<T, 8>, decode<T, 8>};
}

constexpr CompressTable make_table() {
  return {
      .quantize = {{quantize_kernels<Half>(false), quantize_kernels<Half>(true)},
                   {quantize_kernels<BFloat16>(false), quantize_kernels<BFloat16>(true)},
                   {quantize_kernels<float>(false), quantize_kernels<float>(true)},
                   {quantize_kernels<double>(false), quantize_kernels<double>(true)}},
      .bits = {bit_kernels<uint8_t>(), bit_kernels<uint16_t>(), bit_kernels<uint32_t>(),
               bit_kernels<uint64_t>()},
      .narrow = {narrow_kernels<int16_t>(), narrow_kernels<int32_t>(), narrow_kernels<int64_t>()},
      .round = {round<float>, round<double>},
  };
}

}  // namespace

extern const CompressTable compress_table;
// Constant-initialised: no code of this file may run before the instruction set is known.
constinit const CompressTable compress_table = make_table();

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
