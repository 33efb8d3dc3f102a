// The inner loops of softmax, compiled once per instruction set. The method is told in softmax.cpp.
#pragma once

#include <cstdint>

#include "cpu/isa.h"

namespace tapegrad::cpu {

// A line's summary so far: exp(x - top) adds up to sum.
struct SoftmaxState {
  double top, sum;
};

// A tile: `rows` rows of `columns` adjacent elements. The reduced dimension runs along the rows.
struct SoftmaxTile {
  int64_t rows, columns, row_stride;
  bool first, last;  // along the reduced dimension: nothing to rescale before, or after
};

inline constexpr int64_t kSoftmaxChunk = 4096;    // elements of a line
inline constexpr int64_t kSoftmaxColumns = 1024;  // of a tile, at most
inline constexpr int64_t kSoftmaxTile = 16384;    // elements of a tile, about
inline constexpr int64_t kShortLine = 32;         // lines up to this are transposed
inline constexpr int64_t kShortGroup = 16;        // of them taken together for cross entropy

struct SoftmaxKernels {
  // n elements of a line: merges them into the state; softmax also leaves exp(x - top) in y and
  // its own top in `top`.
  void (*open_line)(const void* x, void* y, int64_t n, void* top, SoftmaxState* state);
  // Makes the result of them, when the state is complete.
  void (*close_line)(const void* x, void* y, int64_t n, const void* top, SoftmaxState state);
  void (*merge)(SoftmaxState* into, const SoftmaxState& from);
  // The same for the columns of a tile; `tops` and `sums` hold one number per column. A tile's
  // exponentials are relative to the tops as they are when it is done.
  void (*fill_lowest)(void* tops, int64_t count);
  void (*open_tile)(const void* x, void* y, const SoftmaxTile& tile, void* tops, void* sums);
  void (*close_tile)(const void* x, void* y, const SoftmaxTile& tile, const void* tile_tops,
                     const void* tops, const void* sums);
  // Whole lines of at most kShortLine elements, one after the other.
  void (*short_lines)(const void* x, void* y, int64_t lines, int64_t length);
  // grad_x of one whole line, and of the columns of a whole matrix.
  void (*line_backward)(const void* grad, const void* y, void* grad_x, int64_t n);
  void (*columns_backward)(const void* grad, const void* y, void* grad_x, const SoftmaxTile& tile);
  // n probabilities exp(x - top - log_sum), times a factor, less an offset: these four lie in `line`, or for n columns of
  // adjacent lines in four arrays, one after the other.
  void (*line_probabilities)(const void* x, void* y, int64_t n, const void* line);
  void (*column_probabilities)(const void* x, void* y, int64_t n, const void* lines);
  // Both directions for whole lines of at most kShortLine elements, at most kShortGroup of them, one after the other: the
  // top and the logarithm of the sum of each; and the probabilities, from four arrays as above.
  void (*measure_short)(const void* x, int64_t lines, int64_t length, void* tops, void* log_sums);
  void (*short_probabilities)(const void* x, void* y, int64_t lines, int64_t length,
                              const void* numbers);
};

struct SoftmaxTable {
  SoftmaxKernels kernels[2][2];  // [softmax, log_softmax][float32, float64]
};
TAPEGRAD_ISA_TABLE(SoftmaxTable, softmax_table)

}  // namespace tapegrad::cpu
