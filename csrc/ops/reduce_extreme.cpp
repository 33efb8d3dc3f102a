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
const Op argmax_op("argmax", {"dims"}, kNoDerivative);
const Op argmin_op("argmin", {"dims"}, kNoDerivative);
const Op median_op("median", {"dim"});

const EntryKind amax_entry(amax_op, {"self", "result"});
const EntryKind amin_entry(amin_op, {"self", "result"});
const EntryKind max_of_all_entry("max", amax_op, {"self", "result"}, 1);
const EntryKind min_of_all_entry("min", amin_op, {"self", "result"}, 1);
const EntryKind median_of_all_entry(median_op, {"self", "result"});
const EntryKind max_entry(max_dim_op, {"indices"});
const EntryKind min_entry(min_dim_op, {"indices"});
const EntryKind median_entry(median_op, {"indices"}, 1);

// Equal extremes share the gradient evenly.
struct SharedExtremeBackward final : VariantEntry {
  SharedExtremeBackward(const ReducedDims& dims, const EntryKind& kind)
      : VariantEntry(kind), dims(dims) {}
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
};

// The gradient goes to the chosen element.
struct ChosenBackward final : VariantEntry {
  ChosenBackward(const ReducedDims& dims, int64_t dim, const EntryKind& kind)
      : VariantEntry(kind), dims(dims), dim(dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor grad_x = zeros(dims.sizes, grads[0].dtype(), grads[0]->device());
    scatter_(grad_x, dim, dims.restore(saved(0)), dims.restore(grads[0]));
    grad_inputs[0] = grad_x;
  }
  ReducedDims dims;
  int64_t dim;
};

void record_shared(const Tensor& x, const Tensor& y, const ReducedDims& dims,
                   const EntryKind& kind) {
  if (!should_record(x)) return;
  auto& node = record<SharedExtremeBackward>({&x}, y, 2, dims, kind);
  node.save_input(0, x);
  node.save_output(1, y);
}

// The extreme of everything: an empty tensor is refused in PyTorch's words.
void check_any_element(const char* op, const Tensor& x) {
  TAPEGRAD_CHECK(x.numel() > 0, op,
                 ": Expected reduction dim to be specified for input.numel() == 0. Specify the "
                 "reduction dim with the 'dim' argument.");
}

Tensor shared_extreme(const Op& op, const Tensor& x, Sizes dims, bool keepdim,
                      const EntryKind& kind) {
  ReducedDims reduced = ReducedDims::of(op.name, x, dims, keepdim);
  if (dims.empty()) check_any_element(op.name, x);
  check_not_empty(op.name, x, reduced);
  Tensor y = run_reduction(op, x, reduced, x.dtype());
  record_shared(x, y, reduced, kind);
  return y;
}

void check_ordered(const char* op, const Tensor& x) {
  TAPEGRAD_CHECK_AS(NotImplementedError, x.dtype() != DType::Bool, op,
                    ": bool tensors are not supported; call .int() first");
}

TensorPair chosen_extreme(const Op& op, const Tensor& x, int64_t dim, bool keepdim,
                          const EntryKind& kind) {
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
    record<ChosenBackward>({&x}, values, 1, reduced, wrapped, kind).save_input(0, indices);
  return {values, indices};
}

Tensor place(const Op& op, const Tensor& input, std::optional<int64_t> dim, bool keepdim) {
  TAPEGRAD_CHECK(input.dtype() != DType::Bool, op.name,
                 ": bool tensors are not supported; call .int() first");
  Tensor x = input;
  ReducedDims reduced = dim ? ReducedDims::of(op.name, x, DimVector{*dim}, keepdim)
                            : ReducedDims::of(op.name, x, {}, keepdim);
  if (!dim) {  // places count through the flattened tensor
    TAPEGRAD_CHECK_AS(
        IndexError, x.numel() > 0, op.name,
        ": Expected reduction dim to be specified for input.numel() == 0. Specify the "
        "reduction dim with the 'dim' argument.");
    x = detach(contiguous(x));
  }
  check_not_empty(op.name, x, reduced);
  return run_reduction(op, x, reduced, DType::Int64);
}

}  // namespace

Tensor amax(const Tensor& x, Sizes dims, bool keepdim) {
  return shared_extreme(amax_op, x, dims, keepdim, amax_entry);
}
Tensor amin(const Tensor& x, Sizes dims, bool keepdim) {
  return shared_extreme(amin_op, x, dims, keepdim, amin_entry);
}

Tensor max(const Tensor& x) {
  check_any_element("max", x);
  return shared_extreme(amax_op, x, {}, false, max_of_all_entry);
}
Tensor min(const Tensor& x) {
  check_any_element("min", x);
  return shared_extreme(amin_op, x, {}, false, min_of_all_entry);
}

TensorPair max(const Tensor& x, int64_t dim, bool keepdim) {
  return chosen_extreme(max_dim_op, x, dim, keepdim, max_entry);
}
TensorPair min(const Tensor& x, int64_t dim, bool keepdim) {
  return chosen_extreme(min_dim_op, x, dim, keepdim, min_entry);
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
  Tensor y = chosen_extreme(median_op, flat, 0, false, median_entry).first;
  record_shared(x, y, ReducedDims::of("median", x, {}, false), median_of_all_entry);
  return y;
}
TensorPair median(const Tensor& x, int64_t dim, bool keepdim) {
  check_ordered("median", x);
  return chosen_extreme(median_op, x, dim, keepdim, median_entry);
}

}  // namespace tapegrad
