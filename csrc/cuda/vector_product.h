// Products of a matrix and a vector, which are bound by reading the matrix.
#pragma once

#include "cuda/product.h"

namespace tapegrad::cuda {

// Of m = 1 or n = 1, and k > 0.
void multiply_vector(const Product& product, int device);

// The row sums of a product's a, if k > 0.
void sum_rows(const Product& product, int device);

}  // namespace tapegrad::cuda
