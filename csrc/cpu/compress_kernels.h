// The inner loops of codings, compiled once per instruction set.
//
// Note [Blocks of quantised values]
// Values are cut into blocks. A block keeps the largest magnitude, divided by the number of levels, as
// its scale, and of each value a code: value / scale, rounded up or down at random so that the mean
// is the value. Codes are stored with a bias, as 1..255 or 1..15. With four bits, a byte holds element i
// of the block's first half and element i of its second half. The last block is filled up with zeros.
// A block that cannot be scaled (it has infinities, NaN or huge numbers, or nothing but tiny ones)
// gets the scale NaN, and is kept beside the codes as it is.
#pragma once

#include <cstdint>

#include "cpu/isa.h"

namespace tapegrad::cpu {

inline constexpr int64_t kLargestBlock = 4096;

// What the loops over blocks read and write.
struct QuantizedSpan {
  void* values;
  int64_t count;  // of values
  int64_t block;  // values in a block, a multiple of 32
  uint8_t* codes;
  void* scales;
  uint64_t seed, counter;  // what the random numbers are made of
};

struct QuantizeKernels {
  // Codes blocks from begin to end; returns how many of them cannot be scaled.
  int64_t (*encode)(const QuantizedSpan& span, int64_t begin, int64_t end);
  void (*decode)(const QuantizedSpan& span, int64_t begin, int64_t end);
};

// Of elements of 1, 2, 4 and 8 bytes, compared by their bits.
struct BitKernels {
  // How many of n elements, at most, are first or second before another one comes.
  int64_t (*run)(const void* x, int64_t n, uint64_t first, uint64_t second);
  // The bit of an element is whether it is `one`. Eight elements a byte, the lowest bit first.
  void (*pack)(const void* x, int64_t n, uint64_t one, uint8_t* bits);
  void (*unpack)(const uint8_t* bits, int64_t n, uint64_t zero, uint64_t one, void* x);
};

// Of integers of 2, 4 and 8 bytes.
struct NarrowKernels {
  void (*range)(const void* x, int64_t n, int64_t* low, int64_t* high);
  void (*narrow[3])(const void* x, int64_t n, int64_t low, void* codes);  // to 1, 2, 4 bytes
  void (*widen[3])(const void* codes, int64_t n, int64_t low, void* x);
};

struct CompressTable {
  QuantizeKernels quantize[4][2];  // float16, bfloat16, float32, float64; 8 and 4 bits
  BitKernels bits[4];
  NarrowKernels narrow[3];
  // float32 and float64 to bfloat16, to the nearest; finite values stay finite. Returns how many
  // lie beyond bfloat16's range by more than rounding.
  int64_t (*round[2])(const void* x, int64_t n, uint16_t* codes);
};
TAPEGRAD_ISA_TABLE(CompressTable, compress_table)

}  // namespace tapegrad::cpu
