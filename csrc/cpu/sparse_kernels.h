// The inner loops of products of sparse matrices, compiled once per instruction set.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "cpu/isa.h"

namespace tapegrad::cpu {

// Rows [begin, end) of a sparse matrix: all pointers but those of elements are to the first row.
struct CsrRows {
  const int64_t* starts;
  const int64_t* columns;
  int64_t begin, end;
};

struct SparseKernels {
  // y[r] = sum of values[e] * dense[columns[e]] over the elements e of row r; rows are `width` long.
  void (*mm)(const CsrRows& rows, const void* values, const void* dense, void* y, int64_t width);
  // y[e] = a[r] . b[columns[e]].
  void (*sampled)(const CsrRows& rows, const void* a, const void* b, void* y, int64_t width);
};

struct SparseTable {
  SparseKernels kernels[kDTypeCount];  // null where the dtype has no products
};
TAPEGRAD_ISA_TABLE(SparseTable, sparse_table)

}  // namespace tapegrad::cpu
