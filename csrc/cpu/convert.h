// Element conversion between any two dtypes: contiguous and strided runs.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "cpu/isa.h"

namespace tapegrad::cpu {

inline constexpr int kConvertible = 10;  // the real dtypes: Bool to Float64

// Converts n elements; strides are in elements of the respective dtype.
using Convert = void (*)(const void* from, int64_t from_stride, void* to, int64_t to_stride,
                         int64_t n);

struct ConvertTable {
  Convert run[kConvertible][kConvertible];  // [from][to]
};
TAPEGRAD_ISA_TABLE(ConvertTable, convert_table)

// From or to a complex dtype (cpu/complex.cpp); to a real one the imaginary parts are dropped.
Convert complex_converter(DType from, DType to);
// From or to a bare dtype (cpu/bare.cpp).
Convert bare_converter(DType from, DType to);

inline Convert converter(DType from, DType to) {
  if (is_limited(from) || is_limited(to)) [[unlikely]]
    return is_bare(from) || is_bare(to) ? bare_converter(from, to) : complex_converter(from, to);
  return best_convert_table().run[static_cast<int>(from)][static_cast<int>(to)];
}

}  // namespace tapegrad::cpu
