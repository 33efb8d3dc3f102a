// Philox 4x32-10: four random words of a counter and a seed. The same as csrc/spec/philox.h.

struct PhiloxBlock {
  unsigned words[4];

  // Two words after each other, for what draws step by step.
  __device__ uint64 wide(int i) const {
    return static_cast<uint64>(words[2 * i + 1]) << 32 | words[2 * i];
  }
  // What element k of a thread takes of a tile: one word or, from both halves of the tile, two.
  __device__ unsigned word_of(int k, float) const { return words[k]; }
  __device__ uint64 word_of(int k, double) const {
    return static_cast<uint64>(words[k + 2]) << 32 | words[k];
  }
};

__device__ inline PhiloxBlock philox(uint64 seed, uint64 counter, uint64 counter_high = 0) {
  unsigned key0 = static_cast<unsigned>(seed), key1 = static_cast<unsigned>(seed >> 32);
  unsigned c0 = static_cast<unsigned>(counter), c1 = static_cast<unsigned>(counter >> 32);
  unsigned c2 = static_cast<unsigned>(counter_high);
  unsigned c3 = static_cast<unsigned>(counter_high >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64 product0 = static_cast<uint64>(c0) * 0xD2511F53u;
    const uint64 product1 = static_cast<uint64>(c2) * 0xCD9E8D57u;
    c0 = static_cast<unsigned>(product1 >> 32) ^ c1 ^ key0;
    c2 = static_cast<unsigned>(product0 >> 32) ^ c3 ^ key1;
    c1 = static_cast<unsigned>(product1);
    c3 = static_cast<unsigned>(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Where random numbers come from: a seed and an offset. What a graph of captured work draws is counted from the state
// that the generator has when it runs, which is in memory: see Note [Random numbers of captured work].
// csrc/cuda/random_source.h fills it.
struct RandomSource {
  uint64 own_seed, own_offset;
  const uint64* added_seed;
  const uint64* added_offset;

  __device__ uint64 seed() const { return added_seed ? own_seed + *added_seed : own_seed; }
  __device__ uint64 offset() const { return added_offset ? own_offset + *added_offset : own_offset; }
};
