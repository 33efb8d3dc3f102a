// Where a kernel's random numbers come from.
#pragma once

#include <cstdint>

#include "core/op.h"

namespace tapegrad::cuda {

// As tapegrad/cuda/kernels/philox.cuh declares it: a seed and an offset, to which a captured kernel adds those that it
// finds on the device. See Note [Random numbers of captured work].
struct RandomSource {
  uint64_t seed, offset;
  const uint64_t* added_seed;  // null where nothing is added
  const uint64_t* added_offset;
};

// Of a random op, whose attributes begin with seed and offset.
RandomSource random_source(const OpCall& call);
// The same, where they stand elsewhere.
RandomSource random_source(const char* op, int device, uint64_t seed, uint64_t offset);
// Of numbers that are not the program's (Generator::reserve_aside).
RandomSource random_source_aside(const char* op, int device, uint64_t seed, uint64_t offset);

}  // namespace tapegrad::cuda
