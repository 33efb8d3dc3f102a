// The inner loops of the reductions, compiled once per instruction set.
//
// A reduction folds elements into a *state* (a wide sum, a value with its place, a mean with its
// squared deviations). The driver in reduce.cpp owns the geometry and the threads; it asks a kernel
// for two things only: to fold rows (each its own state) or a matrix by columns. States of parts
// of one reduction can be merged, so any reduction can be cut anywhere.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "cpu/convert.h"
#include "cpu/isa.h"

namespace tapegrad::cpu {

enum class ReduceKind : uint8_t {
  Sum,
  Mean,
  Prod,
  Max,
  Min,
  ArgMax,  // values and places
  ArgMin,
  CountNonzero,
  Any,
  All,
  Moments,  // variance and mean
  AbsSum,
  SquareSum,
  AbsMax,
  AbsMin,
  LogSumExp,
};
inline constexpr int kReduceKinds = 16;

// What the loops compute with; every other dtype is converted on the way in and out.
enum class ReduceType : uint8_t { Int64, Float32, Float64 };
inline constexpr int kReduceTypes = 3;

constexpr ReduceType reduce_type(DType dtype) {
  if (dtype == DType::Float64) return ReduceType::Float64;
  return is_floating(dtype) ? ReduceType::Float32 : ReduceType::Int64;
}
constexpr DType dtype_of(ReduceType type) {
  if (type == ReduceType::Float64) return DType::Float64;
  return type == ReduceType::Float32 ? DType::Float32 : DType::Int64;
}

struct ReduceParams {
  int64_t count;           // elements per result
  double correction = 0;   // of a variance
  bool take_root = false;  // of a variance
};

// Where elements come from: memory in the compute type, or anything that `load` converts to it.
struct ReduceSource {
  const char* data;
  int64_t itemsize;
  Convert load;  // null: no conversion
  ReduceSource at(int64_t offset) const { return {data + offset * itemsize, itemsize, load}; }
};

// Rows of `length` elements, `stride` apart, at distances of `row_stride`.
struct RowStrip {
  int64_t stride, row_stride, rows, length;
  int64_t first;  // the place along the reduced dimension of element 0
};
// A matrix whose columns are reduced; the elements of a row are adjacent.
struct ColumnStrip {
  int64_t row_stride, rows, columns;
  int64_t first;
};

inline constexpr int64_t kMaxColumns = 2048;  // of a ColumnStrip
inline constexpr int64_t kMaxStateBytes = 24;

struct ReduceKernel {
  int64_t state_bytes;
  DType produces[2];
  void (*init)(void* states, int64_t count);
  void (*rows)(const ReduceSource& x, const RowStrip& strip, void* states);
  void (*columns)(const ReduceSource& x, const ColumnStrip& strip, void* states);
  void (*merge)(void* into, const void* from, int64_t count);
  // The states came from a matrix whose rows were taken `factor` at a time as one wide row: merges
  // them into the first `columns` states.
  void (*fold)(void* states, int64_t columns, int64_t factor);
  // out1 may be null, and so may out0 if out1 is not. `out_stride` is in elements.
  void (*finish)(const void* states, int64_t count, const ReduceParams& params, void* out0,
                 void* out1, int64_t out_stride);
};

struct ReduceTable {
  ReduceKernel kernels[kReduceKinds][kReduceTypes];  // rows == null where there is none
};
TAPEGRAD_ISA_TABLE(ReduceTable, reduce_table)

}  // namespace tapegrad::cpu
