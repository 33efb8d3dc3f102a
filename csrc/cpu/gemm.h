// Matrix products on raw row-major memory. How they are computed is told in gemm.cpp.
//
// T is float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t or uint8_t. Integers wrap
// around; 16-bit floats are computed in float32 and rounded once, at the end.
//
// A matrix of r rows and c columns has element (i, j) at pointer[i * ld + j], ld >= c. With its
// transpose flag set an operand is *stored* the other way round, so none needs a copy to be
// transposed. With beta == 0 the output is not read and may hold anything, NaN included. An empty
// sum (k == 0) gives beta * c, and so does alpha == 0, where a and b are not read; an empty output
// is left alone. Output and inputs must not overlap.
// The result depends on the arguments, the instruction set and num_threads() only.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "core/half.h"

namespace tapegrad::cpu {

// The type of alpha and beta.
template <class T>
using GemmScalar =
    std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

// c (m x n) = alpha * op(a) (m x k) * op(b) (k x n) + beta * c.
template <class T>
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, GemmScalar<T> alpha,
          const T* a, int64_t lda, const T* b, int64_t ldb, GemmScalar<T> beta, T* c, int64_t ldc);

// c = op(a) * op(b) + bias, which is a row of n, added to each. T is float or double.
template <class T>
void gemm_with_bias(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const T* a,
                    int64_t lda, const T* b, int64_t ldb, const T* bias, T* c, int64_t ldc);

// The batch dimensions of a batched product, outermost first, with each operand's strides in
// elements. A stride of 0 broadcasts an input; no two products may write the same element of c.
struct GemmBatch {
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides_a;
  std::span<const int64_t> strides_b;
  std::span<const int64_t> strides_c;
};

template <class T>
void batched_gemm(const GemmBatch& batch, bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                  int64_t k, GemmScalar<T> alpha, const T* a, int64_t lda, const T* b, int64_t ldb,
                  GemmScalar<T> beta, T* c, int64_t ldc);

// One batch dimension.
template <class T>
void batched_gemm(int64_t batch, bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                  int64_t k, GemmScalar<T> alpha, const T* a, int64_t lda, int64_t stride_a,
                  const T* b, int64_t ldb, int64_t stride_b, GemmScalar<T> beta, T* c, int64_t ldc,
                  int64_t stride_c) {
  batched_gemm<T>(GemmBatch{{&batch, 1}, {&stride_a, 1}, {&stride_b, 1}, {&stride_c, 1}},
                  transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

// y = alpha * op(a) * x + beta * y, where a is *stored* with `rows` rows and `columns` columns.
// Strides are in elements; that of x may be 0 or negative, that of y negative.
template <class T>
void gemv(bool transpose, int64_t rows, int64_t columns, GemmScalar<T> alpha, const T* a,
          int64_t lda, const T* x, int64_t x_stride, GemmScalar<T> beta, T* y, int64_t y_stride);

// The sum of x[i * x_stride] * y[i * y_stride] for i < n.
template <class T>
T dot(int64_t n, const T* x, int64_t x_stride, const T* y, int64_t y_stride);

}  // namespace tapegrad::cpu
