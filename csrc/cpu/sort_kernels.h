// Sort keys: every dtype as unsigned integers of its size whose order is the wanted order.
#pragma once

#include <cstdint>

#include "cpu/convert.h"
#include "cpu/isa.h"

namespace tapegrad::cpu {

// Writes the keys of n elements and returns the smallest. NaN is the greatest of values, the two
// zeros are equal; descending turns the order round.
using MakeKeys = uint64_t (*)(const void* x, int64_t n, bool descending, void* keys);

struct SortTable {
  MakeKeys keys[kConvertible];
};
TAPEGRAD_ISA_TABLE(SortTable, sort_table)

}  // namespace tapegrad::cpu
