// Matrix products, for the op and for ops that are made of them.
#pragma once

#include "core/dtype.h"
#include "core/scalar.h"

namespace tapegrad::cuda {

// A matrix of which the elements of a row lie side by side, rows `leading` apart; of a transposed one, columns.
struct Factor {
  const void* data;
  int64_t leading;
  bool transposed = false;
  int64_t batch_stride = 0;  // zero where all products share it
};

// c (m x n) = alpha * a (m x k) * b (k x n) + beta * c + bias, for each of a batch. Where beta is zero, what
// c held is not read. The bias is a row, and goes with products that are no batch.
struct Product {
  DType dtype;
  int64_t m, n, k;
  Factor a, b;
  void* c;
  int64_t c_leading;  // elements of a row lie side by side
  Scalar alpha = 1, beta = 0;
  const void* bias = nullptr;
  int64_t batch = 1, c_batch_stride = 0;
  void* row_sums = nullptr;  // of a, m of them; with products that are no batch and have no bias
  bool is_wide = false;      // c and the sums are of float32, the factors of a half type
};

// On the current stream of the device, by whatever is fastest.
void multiply(const Product& product, int device);

}  // namespace tapegrad::cuda
