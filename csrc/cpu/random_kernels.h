// What random_kernels.cpp offers to random.cpp: samplers that fill whole tiles.
#pragma once

#include "core/dtype.h"
#include "cpu/isa.h"
#include "spec/philox.h"

namespace tapegrad::cpu {

// The parameters of a distribution; which ones mean something is told beside each sampler.
struct SampleParams {
  uint64_t seed;
  double a, b;
  double limit;        // of a uniform variable: the largest value below its open end
  int64_t first;       // of a range of integers
  uint64_t length;     // of that range; 0 means 2^64
  uint64_t threshold;  // of a Bernoulli variable: words below it are ones
  const void* probabilities;
};

// Fills `tiles` tiles of the sampler's own type, beginning with the tile at `counter`.
using FillTiles = void (*)(void* out, int64_t tiles, uint64_t counter, const SampleParams& params);

struct Sampler {
  FillTiles fill;
  DType dtype;       // what it writes
  int64_t per_tile;  // elements: one word each, or two
};

// A tile never holds fewer elements: what a reservation is computed from.
inline constexpr int64_t kMinPerTile = kTileWords / 2;

struct RandomTable {
  Sampler uniform[2], normal[2], exponential[2], cauchy[2], log_normal[2];  // float32, float64
  Sampler geometric;                                                        // float64
  Sampler integers[2], bernoulli[2];  // from one word, from two
  Sampler bernoulli_each[2];          // float32, float64 probabilities
};
TAPEGRAD_ISA_TABLE(RandomTable, random_table)

}  // namespace tapegrad::cpu
