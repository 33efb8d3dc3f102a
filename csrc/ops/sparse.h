// Products of sparse matrices, given by rows: where the elements of each row begin, their columns, their values.
#pragma once

#include <utility>

#include "core/tensor.h"

namespace tapegrad {

// The matrix of shape (starts - 1, rows of dense) times a dense one. It is not recorded, as all of these are not.
Tensor csr_mm(const Tensor& starts, const Tensor& columns, const Tensor& values,
              const Tensor& dense);
// Of a @ b.mT, the elements at the places that starts and columns name.
Tensor csr_sampled_mm(const Tensor& starts, const Tensor& columns, const Tensor& a,
                      const Tensor& b);
// Of numbers below `count`: where each would begin among the sorted ones, and the order that sorts them, which keeps equal
// ones as they were.
std::pair<Tensor, Tensor> counting_order(const Tensor& numbers, int64_t count);

}  // namespace tapegrad
