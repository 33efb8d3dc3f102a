// Largest, smallest and middle elements, with or without their places.
#include <limits>

#include "core/error.h"
#include "graph/record.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/reduce_dims.h"
#include "ops/scatter.h"

namespace tapegrad {

namespace {

const Op amax_op("amax", {"dims"});
const Op amin_op("amin", {"dims"});
const Op max_dim_op("max", {"dims"});
const Op min_dim_op("min", {"dims"});
const Op argmax_op("argmax", {"dims"});
const Op argmin_op("argmin", {"dims"});
const Op median_op("median", {"dim"});

// Equal extremes share the gradient evenly.
struct SharedExtremeBackward final : Node {
  SharedExtremeBackward(const ReducedDims& dims, const char* node_name)
      : dims(dims), node_name(node_name) {}
  const char* name() const override { return node_name; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor x = saved(0), y = dims.restore(saved(1));
    Tensor chosen = eq(x, y) | isnan(x);  // the extreme of a NaN is NaN
    DimVector reduced;
    for (size_t d = 0; d < dims.sizes.size(); ++d)
      if (dims.contains(d)) reduced.push_back(static_cast<int64_t>(d));
    Tensor count = cast(sum(chosen, reduced, true), grads[0].dtype());
    grad_inputs[0] = where(chosen, dims.restore(grads[0]) / count, 0.0);
  }
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  ReducedDims dims;
  const char* node_name;
};

// The gradient goes to the chosen element.
struct ChosenBackward final : Node {
  ChosenBackward(const ReducedDims& dims, int64_t dim, const char* node_name)
      : dims(dims), dim(dim), node_name(node_name) {}
  const char* name() const override { return node_name; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor grad_x = zeros(dims.sizes, grads[0].dtype(), grads[0]->device());
    scatter_(grad_x, dim, dims.restore(saved(0)), dims.restore(grads[0]));
    grad_inputs[0] = grad_x;
  }
  ReducedDims dims;
  int64_t dim;
  const char* node_name;
};

void record_shared(const Tensor& x, const Tensor& y, const ReducedDims& dims,
                   const char* node_name) {
  if (!should_record(x)) return;
  auto& node = record<SharedExtremeBackward>({&x}, y, 2, dims, node_name);
  node.save_input(0, x);
  node.save_output(1, y);
}

// The extreme of everything: an empty tensor is refused in PyTorch's words.
void check_any_element(const char* op, const Tensor& x) {
  TAPEGRAD_CHECK(x.numel() > 0, op,
                 ": expected reduction dim to be specified for input.numel() "
                 "== 0, got shape ",
                 to_string(x.sizes()), "; specify dim=");
}

Tensor shared_extreme(const Op& op, const Tensor& x, Sizes dims, bool keepdim,
                      const char* node_name) {
  ReducedDims reduced = ReducedDims::of(op.name, x, dims, keepdim);
  if (dims.empty()) check_any_element(op.name, x);
  check_not_empty(op.name, x, reduced);
  Tensor y = run_reduction(op, x, reduced, x.dtype());
  record_shared(x, y, reduced, node_name);
  return y;
}

void check_ordered(const char* op, const Tensor& x) {
  TAPEGRAD_CHECK_AS(NotImplementedError, x.dtype() != DType::Bool, op,
                    ": bool tensors are not supported; call .int() first");
}

TensorPair chosen_extreme(const Op& op, const Tensor& x, int64_t dim, bool keepdim,
                          const char* node_name) {
  ReducedDims reduced = ReducedDims::of(op.name, x, DimVector{dim}, keepdim);
  check_not_empty(op.name, x, reduced);
  DimVector sizes = reduced.result_sizes();
  Tensor values = empty(op.name, sizes, x.dtype(), x->device());
  Tensor indices = empty_like(x, sizes, DType::Int64);
  const int64_t wrapped = wrap_dim(op.name, dim, x.dim());
  const bool by_mask = &op != &median_op;
  Scalar attribute = by_mask ? Scalar(static_cast<int64_t>(reduced.mask)) : Scalar(wrapped);
  dispatch(op, {x}, {attribute}, {values, indices});
  if (should_record(x))
    record<ChosenBackward>({&x}, values, 1, reduced, wrapped, node_name).save_input(0, indices);
  return {values, indices};
}

Tensor place(const Op& op, const Tensor& input, std::optional<int64_t> dim, bool keepdim) {
  TAPEGRAD_CHECK(input.dtype() != DType::Bool, op.name,
                 ": bool tensors are not supported; call .int() first");
  Tensor x = input;
  ReducedDims reduced = dim ? ReducedDims::of(op.name, x, DimVector{*dim}, keepdim)
                            : ReducedDims::of(op.name, x, {}, keepdim);
  if (!dim) {  // places count through the flattened tensor
    TAPEGRAD_CHECK_AS(IndexError, x.numel() > 0, op.name,
                      ": expected reduction dim to be specified for input.numel() == 0, got shape ",
                      to_string(x.sizes()), "; specify dim=");
    x = detach(contiguous(x));
  }
  check_not_empty(op.name, x, reduced);
  return run_reduction(op, x, reduced, DType::Int64);
}

}  // namespace

Tensor amax(const Tensor& x, Sizes dims, bool keepdim) {
  return shared_extreme(amax_op, x, dims, keepdim, "AmaxBackward0");
}
Tensor amin(const Tensor& x, Sizes dims, bool keepdim) {
  return shared_extreme(amin_op, x, dims, keepdim, "AminBackward0");
}

Tensor max(const Tensor& x) {
  check_any_element("max", x);
  return shared_extreme(amax_op, x, {}, false, "MaxBackward1");
}
Tensor min(const Tensor& x) {
  check_any_element("min", x);
  return shared_extreme(amin_op, x, {}, false, "MinBackward1");
}

TensorPair max(const Tensor& x, int64_t dim, bool keepdim) {
  return chosen_extreme(max_dim_op, x, dim, keepdim, "MaxBackward0");
}
TensorPair min(const Tensor& x, int64_t dim, bool keepdim) {
  return chosen_extreme(min_dim_op, x, dim, keepdim, "MinBackward0");
}

Tensor argmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  return place(argmax_op, x, dim, keepdim);
}
Tensor argmin(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  return place(argmin_op, x, dim, keepdim);
}

Tensor median(const Tensor& x) {
  check_ordered("median", x);
  if (x.numel() == 0) {
    TAPEGRAD_CHECK(is_floating(x.dtype()), "median: expected a tensor with elements, got shape ",
                   to_string(x.sizes()), " of dtype ", name(x.dtype()));
    return full({}, std::numeric_limits<double>::quiet_NaN(), x.dtype(), x->device());
  }
  Tensor flat = reshape(detach(x), DimVector{-1});
  Tensor y = chosen_extreme(median_op, flat, 0, false, "").first;
  record_shared(x, y, ReducedDims::of("median", x, {}, false), "MedianBackward0");
  return y;
}
TensorPair median(const Tensor& x, int64_t dim, bool keepdim) {
  check_ordered("median", x);
  return chosen_extreme(median_op, x, dim, keepdim, "MedianBackward1");
}

}  // namespace tapegrad
