// Reading and writing at places given by index tensors.
//
// Indices out of range raise an error that names index, dimension and size before anything is
// written: IndexError, except for index_add, where PyTorch raises RuntimeError.
#pragma once

#include <span>

#include "core/tensor.h"

namespace tapegrad {

// One index tensor for each leading dimension; an undefined one keeps its dimension whole. Integer
// tensors broadcast together; bool and uint8 masks stand for the indices of their true elements.
using IndexList = std::span<const Tensor>;

Tensor index(const Tensor& x, IndexList indices);
Tensor index_put(const Tensor& x, IndexList indices, const Tensor& values, bool accumulate);
void index_put_(const Tensor& self, IndexList indices, const Tensor& values, bool accumulate);

// Slices along one dimension, by a vector of indices.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                 Scalar alpha);
void index_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                Scalar alpha);
Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
void index_copy_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source);
Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& value);
void index_fill_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value);

// As if x were flat.
Tensor take(const Tensor& x, const Tensor& index);
Tensor put(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate);
void put_(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate);

}  // namespace tapegrad
