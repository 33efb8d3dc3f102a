// Philox 4x32-10: four random words from a 128-bit counter and a 64-bit key, by ten rounds of two
// widening multiplications. Everything is forced inline, so that kernel files compiled for
// different instruction sets can share it (see cpu/isa.h).
#pragma once

#include <cstdint>

namespace tapegrad {

struct PhiloxBlock {
  uint32_t words[4];

  [[gnu::always_inline]] uint64_t wide(int i) const {
    return static_cast<uint64_t>(words[2 * i + 1]) << 32 | words[2 * i];
  }
};

[[gnu::always_inline]] inline PhiloxBlock philox(uint64_t seed, uint64_t counter,
                                                 uint64_t counter_high = 0) {
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high);
  uint32_t c3 = static_cast<uint32_t>(counter_high >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(c0) * 0xD2511F53u;
    const uint64_t product1 = static_cast<uint64_t>(c2) * 0xCD9E8D57u;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key0;
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key1;
    c1 = static_cast<uint32_t>(product1);
    c3 = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// A tile is the output of consecutive counters, all first words, then all second words and so on:
// the order in which a vectorised loop stores them.
inline constexpr int kTileCounters = 16;
inline constexpr int kTileWords = 4 * kTileCounters;

[[gnu::always_inline]] inline void philox_tile(uint64_t seed, uint64_t first_counter,
                                               uint32_t* __restrict words) {
  for (int i = 0; i < kTileCounters; ++i) {
    const PhiloxBlock block = philox(seed, first_counter + static_cast<uint64_t>(i));
    for (int k = 0; k < 4; ++k) words[k * kTileCounters + i] = block.words[k];
  }
}

}  // namespace tapegrad
