// Which dimensions a reduction reduces, and how its result's gradient gets them back. For the files
// of the reduction family.
#pragma once

#include <initializer_list>

#include "core/op.h"
#include "core/tensor.h"
#include "graph/node.h"
#include "ops/view.h"

namespace tapegrad {

// The reduced dimensions of an input, as kernels and tape entries keep them.
struct ReducedDims {
  uint64_t mask = 0;  // bit d: dimension d is reduced
  DimVector sizes;    // the input's
  bool keepdim = false;

  // Checked; an empty list means all.
  static ReducedDims of(const char* op, const Tensor& x, Sizes dims, bool keepdim);

  bool contains(size_t d) const { return mask >> d & 1; }
  DimVector result_sizes() const;
  DimVector keepdim_sizes() const;
  int64_t count() const;  // elements per result
  // The reduced dimensions and keepdim, as an entry shows them.
  std::vector<Node::Attribute> attributes() const;

  // A result (or its gradient) with the reduced dimensions back, as ones: it broadcasts against
  // the input.
  Tensor restore(const Tensor& result) const {
    return keepdim || result.dim() == 0 ? result : view(result, keepdim_sizes());
  }
  Tensor expand_back(const Tensor& grad) const { return expand(restore(grad), sizes); }
};

// Computes a reduction into a fresh tensor. `attributes` follow the mask.
Tensor run_reduction(const Op& op, const Tensor& x, const ReducedDims& dims, DType dtype,
                     std::initializer_list<Scalar> attributes = {});

// Refuses to take the extreme of nothing.
void check_not_empty(const char* op, const Tensor& x, const ReducedDims& dims);
void check_floating(const char* op, const Tensor& x);

}  // namespace tapegrad
