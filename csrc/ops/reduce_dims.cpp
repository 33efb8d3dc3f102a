#include "ops/reduce_dims.h"

#include "core/error.h"
#include "core/torch_names.h"
#include "ops/complex.h"

namespace tapegrad {

ReducedDims ReducedDims::of(const char* op, const Tensor& x, Sizes dims, bool keepdim) {
  ReducedDims result{0, x.sizes(), keepdim};
  const int64_t rank = x.dim();
  if (dims.empty()) {
    result.mask = rank == kMaxRank ? ~uint64_t{0} : (uint64_t{1} << rank) - 1;
    return result;
  }
  for (int64_t d : wrap_dims(op, dims, rank))
    if (rank > 0) result.mask |= uint64_t{1} << d;  // a 0-d tensor accepts 0 and -1
  return result;
}

DimVector ReducedDims::keepdim_sizes() const {
  DimVector result(sizes);
  for (size_t d = 0; d < sizes.size(); ++d)
    if (contains(d)) result[d] = 1;
  return result;
}

std::vector<Node::Attribute> ReducedDims::attributes() const {
  DimVector dims;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (contains(d)) dims.push_back(static_cast<int64_t>(d));
  return {{"dim", dims}, {"keepdim", keepdim}};
}

DimVector ReducedDims::result_sizes() const {
  if (keepdim) return keepdim_sizes();
  DimVector result;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!contains(d)) result.push_back(sizes[d]);
  return result;
}

int64_t ReducedDims::count() const {
  int64_t product = 1;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (contains(d)) product *= sizes[d];
  return product;
}

Tensor run_reduction(const Op& op, const Tensor& x, const ReducedDims& dims, DType dtype,
                     std::initializer_list<Scalar> attributes) {
  constexpr size_t kMost = 3;
  Scalar values[kMost] = {static_cast<int64_t>(dims.mask)};
  std::copy(attributes.begin(), attributes.end(), values + 1);
  // Of complex numbers the parts are reduced, each by itself; ops for which that is wrong refuse them.
  const bool by_parts = is_complex(dtype) && (op.traits & kComplex);
  Tensor to = empty(op.name, dims.result_sizes(), dtype, x->device());
  if (by_parts) to = real_alias(to);
  const Tensor from = by_parts ? real_alias(x) : x;
  TensorImpl* inputs[] = {from.impl()};
  TensorImpl* outputs[] = {to.impl()};
  dispatch(op, inputs, {values, attributes.size() + 1}, outputs);
  return by_parts ? complex_alias(to) : to;
}

void check_not_empty(const char* op, const Tensor& x, const ReducedDims& dims) {
  if (x.numel() != 0) return;
  if (dims.mask == 0 || dims.count() != 0) return;  // no results at all, or nothing to reduce
  for (size_t d = 0; d < dims.sizes.size(); ++d)
    TAPEGRAD_CHECK_AS(IndexError, !dims.contains(d) || dims.sizes[d] != 0, op,
                      ": Expected reduction dim ", d, " to have non-zero size, got shape ",
                      to_string(dims.sizes), "; an empty reduction has no identity here");
}

void check_floating(const char* op, const Tensor& x) {
  TAPEGRAD_CHECK(is_floating(x.dtype()), op,
                 ": Expected a floating point or complex tensor as input. Got ",
                 type_name(x.dtype()), "; call .float() first");
}

}  // namespace tapegrad
