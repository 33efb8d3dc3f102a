// The serial matrix-product kernels, compiled once per instruction set and reached through a table.
// gemm.cpp owns argument checks, splitting over threads and the choice of table.
#pragma once

#include <cstdint>

#include "cpu/isa.h"

namespace tapegrad::cpu {

// One product c = alpha * op(a) * op(b) + beta * c, all sizes positive. A bias, if there is one, is
// added to each row; beta is 0 then.
template <class T, class Scalar = T>
struct GemmArguments {
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  Scalar alpha;
  const T* a;
  int64_t lda;
  const T* b;
  int64_t ldb;
  Scalar beta;
  T* c;
  int64_t ldc;
  const T* bias = nullptr;
};

// y = alpha * (a x, or a transposed times x) + beta * y; a is stored as rows x columns, x and y are
// contiguous.
template <class T>
struct GemvArguments {
  int64_t rows, columns;
  T alpha;
  const T* a;
  int64_t lda;
  const T* x;
  T beta;
  T* y;
};

template <class T>
struct GemmKernels {
  // The workspace holds packed operands: kGemmWorkspaceBytes, aligned to 64 bytes.
  void (*gemm)(const GemmArguments<T>& product, T* workspace);
  // y[i] = the product of row i of a with x, for i < rows.
  void (*gemv_rows)(const GemvArguments<T>& product);
  // y[j] = the product of column j of a with x, for j < columns.
  void (*gemv_columns)(const GemvArguments<T>& product);
  // Lanes of a vector: the step in which the columns of c are best divided.
  int64_t width;
};

inline constexpr int64_t kGemmBlockBytes = int64_t{1} << 20;
inline constexpr int64_t kGemmStripBytes = int64_t{208} << 10;
inline constexpr int64_t kGemmWorkspaceBytes = kGemmBlockBytes + kGemmStripBytes;

struct GemmTable {
  GemmKernels<float> float32;
  GemmKernels<double> float64;
  // Integers are unsigned here, because wrapping around is the wanted result.
  GemmKernels<uint32_t> integer32;
  GemmKernels<uint64_t> integer64;
};
TAPEGRAD_ISA_TABLE(GemmTable, gemm_table)

}  // namespace tapegrad::cpu
