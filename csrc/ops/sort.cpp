#include "ops/sort.h"

#include <algorithm>

#include "core/error.h"
#include "core/op.h"
#include "graph/record.h"
#include "intercept/capture.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/pointwise.h"
#include "ops/promotion.h"
#include "ops/scatter.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const Op sort_op("sort", {"descending"});
const Op topk_op("topk", {"largest", "sorted"});
const Op kth_value_op("kthvalue", {"k"});
const Op mode_op("mode");
const Op sort_rows_op("sort_rows");
const Op run_numbers_op("run_numbers", {}, kNoDerivative | kHostRead);
const Op run_starts_op("run_starts", {}, kNoDerivative);
const Op searchsorted_op("searchsorted", {"right"}, kNoDerivative);
const Op bounds_op("bounds", {}, kNoDerivative | kHostRead);
const Op bincount_op("bincount", {}, kNoDerivative | kAnyOrder);

const EntryKind sort_entry(sort_op, {"indices"});
const EntryKind topk_entry(topk_op, {"indices"});
const EntryKind kthvalue_entry(kth_value_op, {"indices"});
const EntryKind mode_entry(mode_op, {"indices"});
const EntryKind unique_entry("unique2", sort_op);
const EntryKind unique_dim_entry("unique_dim", sort_rows_op);

// Of ops whose values are elements of the input at indices that differ from each other.
struct PickedBackward final : VariantEntry {
  PickedBackward(const EntryKind& kind, Sizes sizes, int64_t dim, bool dropped)
      : VariantEntry(kind), sizes(sizes), dim(dim), dropped(dropped) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor g = grads[0], indices = saved(0);
    if (dropped) {
      g = unsqueeze(g, dim);
      indices = unsqueeze(indices, dim);
    }
    Tensor grad_x = zeros(sizes, g.dtype(), g->device());
    scatter_(grad_x, dim, indices, g);
    grad_inputs[0] = grad_x;
  }
  DimVector sizes;
  int64_t dim;
  bool dropped;  // the outputs lack the dimension
};

// x for kernels that work on contiguous rows: dimension `dim` last, a 0-d tensor as a vector.
struct AsRows {
  AsRows(const Tensor& x, int64_t dim) : dim(dim) {
    if (x.dim() == 0) {
      rows = alias(x, DimVector{1}, DimVector{1}, x->offset());
      return;
    }
    DimVector sizes(x.sizes()), strides(x.strides());
    std::swap(sizes[dim], sizes.back());
    std::swap(strides[dim], strides.back());
    rows = contiguous(alias(x, sizes, strides, x->offset()));
  }
  // A result with rows of another length.
  Tensor like(const char* op, int64_t length, DType dtype) const {
    DimVector sizes(rows.sizes());
    sizes.back() = length;
    return empty(op, sizes, dtype, rows->device());
  }
  // A result with its dimensions in the order of x's.
  Tensor back(const Tensor& result, int64_t rank) const {
    if (rank == 0) return alias(result, {}, {}, 0);
    if (dim == rank - 1) return result;
    DimVector sizes(result.sizes()), strides(result.strides());
    std::swap(sizes[dim], sizes.back());
    std::swap(strides[dim], strides.back());
    return alias(result, sizes, strides, 0);
  }

  int64_t dim;
  Tensor rows;
};

ValuesAndIndices pick(const Op& op, const Tensor& x, int64_t dim, int64_t length,
                      std::initializer_list<Scalar> attributes) {
  AsRows source(x, dim);
  Tensor values = source.like(op.name, length, x.dtype());
  Tensor indices = source.like(op.name, length, DType::Int64);
  dispatch(op, {source.rows}, attributes, {values, indices});
  return {source.back(values, x.dim()), source.back(indices, x.dim())};
}

// What is sorted lies in memory as x does; a part of it is contiguous.
ValuesAndIndices laid_out(ValuesAndIndices picked, Sizes strides) {
  return {rearranged(picked.values, strides), rearranged(picked.indices, strides)};
}
ValuesAndIndices contiguous_parts(ValuesAndIndices picked) {
  return laid_out(picked, contiguous_strides(picked.values.sizes()));
}

void record_picked(const EntryKind& kind, const Tensor& x, const ValuesAndIndices& picked,
                   int64_t dim, bool dropped) {
  if (should_record(x))
    record<PickedBackward>({&x}, picked.values, 1, kind, x.sizes(), dim, dropped)
        .save_input(0, picked.indices);
}

int64_t length_of(const Tensor& x, int64_t dim) { return x.dim() == 0 ? 1 : x.size(dim); }

void check_not_empty(const char* op, const Tensor& x, int64_t dim) {
  TAPEGRAD_CHECK_AS(IndexError, length_of(x, dim) > 0, op, ": Expected reduction dim ", dim,
                    " to have non-zero size");
}

// One element of each row.
ValuesAndIndices pick_one(const Op& op, const EntryKind& kind, const Tensor& x, int64_t dim,
                          bool keepdim, std::initializer_list<Scalar> attributes) {
  ValuesAndIndices one = contiguous_parts(pick(op, x, dim, 1, attributes));
  const bool dropped = !keepdim && x.dim() > 0;
  if (dropped) {
    DimVector sizes(x.sizes());
    sizes.erase(dim);
    for (Tensor* result : {&one.values, &one.indices})
      *result = alias(*result, sizes, contiguous_strides(sizes), 0);
  }
  record_picked(kind, x, one, dim, dropped);
  return one;
}

}  // namespace

namespace {

// Wide unsigned integers as the int64 numbers that are in the same order, and back.
Tensor ordered_integers(const Tensor& x) {
  const Tensor wide = cast(x, DType::Int64);
  return x.dtype() == DType::UInt64 ? bitwise_xor(wide, wrapped_number(INT64_MIN)) : wide;
}
Tensor from_ordered(const Tensor& integers, DType dtype) {
  const bool shifted = dtype == DType::UInt64;
  return cast(shifted ? bitwise_xor(integers, wrapped_number(INT64_MIN)) : integers, dtype);
}

}  // namespace

ValuesAndIndices sort(const Tensor& x, int64_t dim, bool descending) {
  if (is_wide_unsigned(x.dtype())) {
    const auto [values, indices] = sort(ordered_integers(x), dim, descending);
    return {from_ordered(values, x.dtype()), indices};
  }
  int64_t d = wrap_dim("sort", dim, x.dim());
  ValuesAndIndices sorted =
      laid_out(pick(sort_op, x, d, length_of(x, d), {descending}), strides_like(*x.impl()));
  record_picked(sort_entry, x, sorted, d, false);
  return sorted;
}

Tensor argsort(const Tensor& x, int64_t dim, bool descending) {
  GradMode off(false);
  return sort(x, dim, descending).indices;
}

ValuesAndIndices topk(const Tensor& x, int64_t k, int64_t dim, bool largest, bool sorted) {
  int64_t d = wrap_dim("topk", dim, x.dim());
  int64_t length = length_of(x, d);
  TAPEGRAD_CHECK(k >= 0 && k <= length, "topk: selected index k out of range: k is ", k,
                 " for dimension ", d, " with size ", length);
  TAPEGRAD_CHECK(x.dtype() != DType::Bool, "topk: does not support bool; call .byte() first");
  // The one element of a 0-d tensor is its top, even of none: a 0-d result has a value.
  ValuesAndIndices top =
      contiguous_parts(pick(topk_op, x, d, x.dim() == 0 ? 1 : k, {largest, sorted}));
  record_picked(topk_entry, x, top, d, false);
  return top;
}

ValuesAndIndices kthvalue(const Tensor& x, int64_t k, int64_t dim, bool keepdim) {
  int64_t d = wrap_dim("kthvalue", dim, x.dim());
  int64_t length = length_of(x, d);
  check_not_empty("kthvalue", x, d);
  TAPEGRAD_CHECK(k >= 1 && k <= length, "kthvalue: selected number k out of range for dimension ",
                 d, ": k is ", k, ", the size is ", length);
  if (x.dtype() == DType::Bool) fail_unsupported_dtype("kthvalue", x.dtype());
  return pick_one(kth_value_op, kthvalue_entry, x, d, keepdim, {k});
}

ValuesAndIndices mode(const Tensor& x, int64_t dim, bool keepdim) {
  const int64_t d = wrap_dim("mode", dim, x.dim());
  check_not_empty("mode", x, d);
  return pick_one(mode_op, mode_entry, x, d, keepdim, {});
}

// ---- unique

namespace {

// From rows in order: `order` tells where each came from.
Unique unique_of_sorted(const Tensor& rows, const Tensor& order) {
  int64_t n = rows.size(0);
  Tensor numbers = empty_like(rows, DimVector{n}, DType::Int64);
  dispatch(run_numbers_op, {rows}, {}, {numbers});
  int64_t runs = n > 0 ? read_on_host<int64_t>(numbers)[n - 1] + 1 : 0;
  Tensor starts = empty_like(rows, DimVector{runs + 1}, DType::Int64);
  dispatch(run_starts_op, {numbers}, {}, {starts});
  Tensor first = slice(starts, 0, 0, runs, 1), last = slice(starts, 0, 1, runs + 1, 1);
  Tensor inverse = index_put(numbers, {&order, 1}, numbers, false);
  return {index_select(rows, 0, first), inverse, sub(last, first)};
}

// The values depend on x, but how they pick and merge has no derivative, as in PyTorch.
struct UniqueBackward final : VariantEntry {
  using VariantEntry::VariantEntry;
  void vjp(Gradients, Gradients) override {
    fail<NotImplementedError>("the derivative for 'unique' is not implemented; it was recorded at ",
                              line(), "; pass it a .detach() tensor");
  }
};

Unique find_unique(const Tensor& x, std::optional<int64_t> dim) {
  GradMode off(false);
  if (is_wide_unsigned(x.dtype())) {
    Unique result = find_unique(ordered_integers(x), dim);
    result.values = from_ordered(result.values, x.dtype());
    return result;
  }
  if (!dim) {
    Tensor flat = reshape(detach(x), DimVector{-1});
    ValuesAndIndices sorted = sort(flat, 0, false);
    Unique result = unique_of_sorted(sorted.values, sorted.indices);
    result.inverse = reshape(result.inverse, x.sizes());
    return result;
  }
  int64_t d = wrap_dim("unique", *dim, x.dim());
  if (x.dim() == 0) return find_unique(reshape(detach(x), DimVector{1}), 0);
  for (int64_t k = 0; k < x.dim(); ++k)
    TAPEGRAD_CHECK(k == d || x.size(k) > 0, "unique: There are 0 sized dimensions, and they aren't "
                                            "selected, so unique cannot be applied");
  // Rows are compared in the order of the other dimensions: d goes to the front, nothing else moves.
  DimVector front{d}, back;
  for (int64_t k = 0; k < x.dim(); ++k) {
    if (k != d) front.push_back(k);
    back.push_back(k == d ? 0 : k < d ? k + 1 : k);
  }
  Tensor moved = contiguous(permute(detach(x), front));
  Tensor order = empty_like(x, DimVector{x.size(d)}, DType::Int64);
  dispatch(sort_rows_op, {moved}, {}, {order});
  Unique result = unique_of_sorted(index_select(moved, 0, order), order);
  result.values = contiguous(permute(result.values, back));
  return result;
}

}  // namespace

Unique unique(const Tensor& x, std::optional<int64_t> dim) {
  Unique result = find_unique(x, dim);
  if (is_floating(x.dtype()) && should_record(x))
    record<UniqueBackward>({&x}, result.values, 0, dim ? unique_dim_entry : unique_entry);
  return result;
}

// ---- search and count

Tensor searchsorted(const Tensor& sequence, const Tensor& values, bool right, bool out_int32,
                    const Tensor& sorter) {
  TAPEGRAD_CHECK(sequence.dim() > 0,
                 "searchsorted: boundaries tensor should have positive dimension, but got 0");
  TAPEGRAD_CHECK(values.dim() > 0 || sequence.dim() == 1,
                 "searchsorted: input value can be a scalar only when boundaries tensor dimension "
                 "is 1, but we got ",
                 sequence.dim());
  bool fits = sequence.dim() == 1 || (sequence.dim() == values.dim() &&
                                      same_sizes(sequence.sizes().first(sequence.dim() - 1),
                                                 values.sizes().first(values.dim() - 1)));
  TAPEGRAD_CHECK(fits,
                 "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
                 "dimensions of boundaries tensor and input value tensor must match, but we got ",
                 to_string(sequence.sizes()), " and ", to_string(values.sizes()));
  ResultType type;
  type.add(sequence);
  type.add(values);
  DType dtype = type.get();
  if (dtype == DType::Bool) fail_unsupported_dtype("searchsorted", dtype);
  std::vector<Tensor> inputs{contiguous(cast(detach(sequence), dtype)),
                             contiguous(cast(detach(values), dtype))};
  if (sorter.defined()) {
    TAPEGRAD_CHECK(same_sizes(sorter.sizes(), sequence.sizes()),
                   "searchsorted: boundary and sorter must have the same size, but got ",
                   to_string(sequence.sizes()), " and ", to_string(sorter.sizes()));
    TAPEGRAD_CHECK(sorter.dtype() == DType::Int64,
                   "searchsorted: sorter must be a tensor of int64 but got ", name(sorter.dtype()));
    Tensor extremes = empty_like(sorter, DimVector{2}, DType::Int64);
    inputs.push_back(contiguous(sorter));
    dispatch(bounds_op, {inputs.back()}, {}, {extremes});
    const auto range = read_on_host<int64_t>(extremes);
    TAPEGRAD_CHECK(sorter.numel() == 0 || (range[0] >= 0 && range[1] < sequence.sizes().back()),
                   "searchsorted: sorter index out of range");
  }
  Tensor out = empty_like(values, values.sizes(), out_int32 ? DType::Int32 : DType::Int64);
  Scalar attribute(right);
  dispatch(searchsorted_op, inputs, std::span(&attribute, 1), std::span(&out, 1));
  return out;
}

Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minlength) {
  if (!is_integral(x.dtype(), false) || is_bare(x.dtype()))
    fail_unsupported_dtype("bincount", x.dtype());
  TAPEGRAD_CHECK(x.dim() == 1, "bincount only supports 1-d non-negative integral inputs, got ",
                 x.dim(), " dimensions");
  TAPEGRAD_CHECK(minlength >= 0, "bincount: minlength should be >= 0, got ", minlength);
  TAPEGRAD_CHECK(!weights.defined() || (weights.dim() == 1 && weights.size(0) == x.size(0)),
                 "bincount: weights should be 1-d and have the same length as input");
  if (x.numel() == 0) return zeros(DimVector{minlength}, DType::Int64, x->device());
  Tensor places = contiguous(cast(x, DType::Int64));
  Tensor extremes = empty_like(x, DimVector{2}, DType::Int64);
  dispatch(bounds_op, {places}, {}, {extremes});
  const auto range = read_on_host<int64_t>(extremes);
  TAPEGRAD_CHECK(range[0] >= 0, "bincount only supports 1-d non-negative integral inputs, got ",
                 range[0]);
  int64_t length = std::max(minlength, range[1] + 1);
  if (!weights.defined()) {
    Tensor counts = zeros(DimVector{length}, DType::Int64, x->device());
    dispatch(bincount_op, {places}, {}, {counts});
    return counts;
  }
  DType dtype = weights.dtype() == DType::Float32 ? DType::Float32 : DType::Float64;
  Tensor sums = zeros(DimVector{length}, dtype, x->device());
  dispatch(bincount_op, {places, contiguous(cast(detach(weights), dtype))}, {}, {sums});
  return sums;
}

}  // namespace tapegrad
