// Matrix products, for the op and for ops that are made of them.
#pragma once

#include "core/op.h"

namespace tapegrad::cuda {

// A matrix of which the elements of a row lie side by side, rows `leading` apart; of a transposed one, columns.
struct Factor {
  const void* data;
  int64_t leading;
  bool transposed = false;
  int64_t batch_stride = 0;  // zero where all products share it
};

// What becomes of a product, with the tanh form of GELU.
enum class Epilogue : uint8_t {
  None,
  Gelu,          // c takes GELU of the product with its bias, which goes to `aside`
  GeluBackward,  // c takes the product times the derivative of GELU at `aside`
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
  Epilogue epilogue = Epilogue::None;  // of products of a half type that are no batch
  void* aside = nullptr;               // m x n, laid out as c
};

// On the current stream of the device, by whatever is fastest.
void multiply(const Product& product, int device);

// Runs a call of matmul, of one product of a half type, with an epilogue; `result` and `aside` are contiguous and as
// large as its output, which is not written unless it is one of them. False, and nothing is done, where the library has no
// such product.
bool multiply_with_gelu(const OpCall& call, Epilogue epilogue, const TensorImpl& result,
                        const TensorImpl& aside);

}  // namespace tapegrad::cuda
