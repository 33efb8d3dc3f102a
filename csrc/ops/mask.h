// Ops that choose elements by a mask, and the places of what is not zero.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace tapegrad {

// The indices of the elements that are not zero, one row for each.
Tensor nonzero(const Tensor& x);
// The same as one vector for each dimension; a 0-d tensor counts as a vector of one.
std::vector<Tensor> nonzero_columns(const Tensor& x);

Tensor masked_select(const Tensor& x, const Tensor& mask);

// `value` is 0-d and takes the dtype of the tensor.
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);
void masked_fill_(const Tensor& self, const Tensor& mask, const Tensor& value);
// A number as such a value; RuntimeError when the dtype cannot hold it.
Tensor fill_value(const char* op, Scalar value, DType dtype);

// The elements of `source`, in order, where the mask is true.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);
void masked_scatter_(const Tensor& self, const Tensor& mask, const Tensor& source);

}  // namespace tapegrad
