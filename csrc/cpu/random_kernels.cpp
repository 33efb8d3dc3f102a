// Distributions as plain loops over a tile of random words. Compiled once per instruction set.
//
// A float takes one word, a double two. Uniform variables are half open, [0, 1); what goes into a
// logarithm comes from the open interval (0, 1) and reaches down to 2^-32 (float), 2^-53 (double).
#include "cpu/random_kernels.h"

#include "cpu/math.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

using Words = const uint32_t*;

template <class T>
inline constexpr int kPerTile = sizeof(T) == 8 ? kTileWords / 2 : kTileWords;

TAPEGRAD_INLINE uint64_t wide_word(Words words, int i) {
  return static_cast<uint64_t>(words[kTileWords / 2 + i]) << 32 | words[i];
}

// [0, 1) in steps of 2^-52: the word becomes the mantissa of a number in [1, 2).
TAPEGRAD_INLINE double unit_interval(uint64_t word) {
  return math::from_bits<double>(word >> 12 | 0x3ff0000000000000u) - 1.0;
}

// The open interval.
TAPEGRAD_INLINE float open_interval(uint32_t word) {
  const float u = (static_cast<float>(static_cast<int32_t>(word >> 1)) + 0.5f) * 0x1p-31f;
  return math::at_most(u, 0x1.fffffep-1f);
}
TAPEGRAD_INLINE double open_interval(uint64_t word) { return unit_interval(word) + 0x1p-53; }

// An angle from -pi to pi, in units of pi.
TAPEGRAD_INLINE float half_turns(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word)) * 0x1p-31f;
}
TAPEGRAD_INLINE double half_turns(uint64_t word) { return 2.0 * unit_interval(word) - 1.0; }

template <class T>
TAPEGRAD_INLINE auto word_of(Words words, int i) {
  if constexpr (sizeof(T) == 8) return wide_word(words, i);
  else return words[i];
}

// a + (b - a) u, where u has as many bits as the mantissa of a float; 16-bit floats are rounded from
// that, so that small values come in all their steps. Where the sum rounds up to the open end it is
// set back.
TAPEGRAD_INLINE void uniform(float* y, Words words, int64_t, const SampleParams& params) {
  const float from = static_cast<float>(params.a);
  const float length = static_cast<float>(params.b - params.a);
  const float limit = static_cast<float>(params.limit);
  constexpr int kBits = 24;
  constexpr float kStep = 1.0f / static_cast<float>(1 << kBits);
  for (int i = 0; i < kPerTile<float>; ++i) {
    const float u = static_cast<float>(static_cast<int32_t>(words[i] >> (32 - kBits))) * kStep;
    y[i] = math::at_most(from + length * u, limit);
  }
}
TAPEGRAD_INLINE void uniform(double* y, Words words, int64_t, const SampleParams& params) {
  const double from = params.a, length = params.b - params.a;
  for (int i = 0; i < kPerTile<double>; ++i) {
    const uint64_t word = wide_word(words, i);
    const double last_bit = (word & 0x800u) != 0 ? 0x1p-53 : 0.0;
    y[i] = math::at_most(from + length * (unit_interval(word) + last_bit), params.limit);
  }
}

// Box and Muller: a pair of independent normal variables from a radius and an angle.
template <class T>
TAPEGRAD_INLINE void normal(T* __restrict y, Words words, int64_t, const SampleParams& params) {
  const T mean = static_cast<T>(params.a), std = static_cast<T>(params.b);
  constexpr int kPairs = kPerTile<T> / 2;
  for (int i = 0; i < kPairs; ++i) {
    const T radius = std * math::sqrt(T(-2) * math::log(open_interval(word_of<T>(words, i))));
    const auto angle = math::reduce_trig_pi(half_turns(word_of<T>(words, kPairs + i)));
    y[i] = mean + radius * math::sin_of(angle, math::BitsOf<T>(1));
    y[kPairs + i] = mean + radius * math::sin_of(angle, math::BitsOf<T>(0));
  }
}

template <class T>
TAPEGRAD_INLINE void log_normal(T* __restrict y, Words words, int64_t tile,
                                const SampleParams& params) {
  normal(y, words, tile, params);
  for (int i = 0; i < kPerTile<T>; ++i) y[i] = math::exp(y[i]);
}

// a is the rate.
template <class T>
TAPEGRAD_INLINE void exponential(T* y, Words words, int64_t, const SampleParams& params) {
  const T scale = static_cast<T>(-1.0 / params.a);
  for (int i = 0; i < kPerTile<T>; ++i)
    y[i] = scale * math::log(open_interval(word_of<T>(words, i)));
}

// a is the median, b the half width. tan has its pole at the open ends of the interval.
template <class T>
TAPEGRAD_INLINE void cauchy(T* y, Words words, int64_t, const SampleParams& params) {
  const T median = static_cast<T>(params.a), width = static_cast<T>(params.b);
  for (int i = 0; i < kPerTile<T>; ++i) {
    const T turns = open_interval(word_of<T>(words, i)) - T(0.5);
    y[i] = median + width * math::tan_of(math::reduce_trig_pi(turns));
  }
}

// a is log(1 - p). Trials up to and including the first success.
TAPEGRAD_INLINE void geometric(double* y, Words words, int64_t, const SampleParams& params) {
  const double inverse = 1.0 / params.a;
  for (int i = 0; i < kPerTile<double>; ++i) {
    const double trials = math::ceil(math::log(open_interval(wide_word(words, i))) * inverse);
    y[i] = math::at_least(trials, 1.0);
  }
}

// Scaling a word to the range favours no integer by more than length / 2^32, or / 2^64.
TAPEGRAD_INLINE void integers_narrow(int64_t* y, Words words, int64_t, const SampleParams& params) {
  for (int i = 0; i < kTileWords; ++i)
    y[i] = params.first + static_cast<int64_t>(words[i] * params.length >> 32);
}
TAPEGRAD_INLINE void integers_wide(int64_t* y, Words words, int64_t, const SampleParams& params) {
  const auto first = static_cast<uint64_t>(params.first);
  for (int i = 0; i < kTileWords / 2; ++i) {
    const uint64_t word = wide_word(words, i);
    const auto scaled =
        static_cast<uint64_t>(static_cast<unsigned __int128>(word) * params.length >> 64);
    y[i] = static_cast<int64_t>(first + (params.length == 0 ? word : scaled));
  }
}

TAPEGRAD_INLINE void bernoulli_narrow(bool* y, Words words, int64_t, const SampleParams& params) {
  for (int i = 0; i < kTileWords; ++i) y[i] = words[i] < params.threshold;
}
// The threshold is that of words of 63 bits, so that probability one has one too.
TAPEGRAD_INLINE void bernoulli_wide(bool* y, Words words, int64_t, const SampleParams& params) {
  for (int i = 0; i < kTileWords / 2; ++i) y[i] = wide_word(words, i) >> 1 < params.threshold;
}

// One probability per element. Reading stops at the end of a tile, so the caller pads.
TAPEGRAD_INLINE void bernoulli_each_narrow(bool* y, Words words, int64_t tile,
                                           const SampleParams& params) {
  auto* p = static_cast<const float*>(params.probabilities) + tile * kTileWords;
  for (int i = 0; i < kTileWords; ++i)
    y[i] = static_cast<double>(words[i]) < static_cast<double>(p[i]) * 0x1p32;
}
TAPEGRAD_INLINE void bernoulli_each_wide(bool* y, Words words, int64_t tile,
                                         const SampleParams& params) {
  auto* p = static_cast<const double*>(params.probabilities) + tile * (kTileWords / 2);
  for (int i = 0; i < kTileWords / 2; ++i) y[i] = unit_interval(wide_word(words, i)) < p[i];
}

template <auto kSample, class T, int kCount>
void fill(void* out, int64_t tiles, uint64_t counter, const SampleParams& params) {
  auto* y = static_cast<T*>(out);
  alignas(64) uint32_t words[kTileWords];
  for (int64_t tile = 0; tile < tiles; ++tile) {
    philox_tile(params.seed, counter + static_cast<uint64_t>(tile * kTileCounters), words);
    kSample(y + tile * kCount, words, tile, params);
  }
}

template <class T>
using Sample = void (*)(T* y, Words words, int64_t tile, const SampleParams& params);

template <class T, Sample<T> kSample, int kCount = kPerTile<T>>
constexpr Sampler sampler() {
  return {fill<kSample, T, kCount>, dtype_of<T>, kCount};
}

// Constant-initialised: no code of this file may run before the instruction set is known.
constexpr RandomTable make_table() {
  return {
      .uniform = {sampler<float, uniform>(), sampler<double, uniform>()},
      .normal = {sampler<float, normal<float>>(), sampler<double, normal<double>>()},
      .exponential = {sampler<float, exponential<float>>(), sampler<double, exponential<double>>()},
      .cauchy = {sampler<float, cauchy<float>>(), sampler<double, cauchy<double>>()},
      .log_normal = {sampler<float, log_normal<float>>(), sampler<double, log_normal<double>>()},
      .geometric = sampler<double, geometric>(),
      .integers = {sampler<int64_t, integers_narrow, kTileWords>(),
                   sampler<int64_t, integers_wide, kTileWords / 2>()},
      .bernoulli = {sampler<bool, bernoulli_narrow, kTileWords>(),
                    sampler<bool, bernoulli_wide, kTileWords / 2>()},
      .bernoulli_each = {sampler<bool, bernoulli_each_narrow, kTileWords>(),
                         sampler<bool, bernoulli_each_wide, kTileWords / 2>()},
  };
}

}  // namespace

extern const RandomTable random_table;
constinit const RandomTable random_table = make_table();

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
