// Element conversion between any two dtypes: contiguous and strided runs.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "cpu/isa.h"

namespace tapegrad::cpu {

inline constexpr int kConvertible = 10;  // the dtypes with kernels: Bool to Float64

// Converts n elements; strides are in elements of the respective dtype.
using Convert = void (*)(const void* from, int64_t from_stride, void* to, int64_t to_stride,
                         int64_t n);

struct ConvertTable {
  Convert run[kConvertible][kConvertible];  // [from][to]
};
TAPEGRAD_ISA_TABLE(ConvertTable, convert_table)

inline Convert converter(DType from, DType to) {
  return best_convert_table().run[static_cast<int>(from)][static_cast<int>(to)];
}

}  // namespace tapegrad::cpu
