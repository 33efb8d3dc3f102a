// Sums, means, products, and the tests and counts that have no gradient.
#include "ops/reduce.h"

#include "core/error.h"
#include "core/torch_names.h"
#include "graph/record.h"
#include "ops/autocast.h"
#include "ops/complex.h"
#include "ops/complex_composed.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/join.h"
#include "ops/pointwise.h"
#include "ops/reduce_dims.h"
#include "ops/scan.h"

namespace tapegrad {

namespace {

const Op sum_op("sum", {"dims"}, kComplex);
const Op mean_op("mean", {"dims"}, kComplex);
const Op prod_op("prod", {"dims"});
const Op any_op("any", {"dims"}, kNoDerivative);
const Op all_op("all", {"dims"}, kNoDerivative);
const Op count_nonzero_op("count_nonzero", {"dims"}, kNoDerivative);
const Op logsumexp_op("logsumexp", {"dims"});

const EntryKind sum_entry(sum_op);
const EntryKind sum_over_entry(sum_op, {}, 1);
const EntryKind mean_entry(mean_op);
const EntryKind mean_over_entry(mean_op, {}, 1);
const EntryKind prod_entry(prod_op, {"self"});
const EntryKind prod_over_entry(prod_op, {"self"}, 1);
const EntryKind logsumexp_entry(logsumexp_op, {"self", "result"});

const CastRule sum_rule("sum", Cast::None, Cast::Total);
const CastRule prod_rule("prod", Cast::Total, Cast::Total);
const CastRule logsumexp_rule("logsumexp", Cast::None, Cast::Float32);

struct SumBackward final : VariantEntry {
  SumBackward(const ReducedDims& dims, const EntryKind& kind) : VariantEntry(kind), dims(dims) {}
  std::vector<Attribute> attributes() const override { return dims.attributes(); }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = dims.expand_back(grads[0]);
  }
  ReducedDims dims;
};

struct MeanBackward final : VariantEntry {
  MeanBackward(const ReducedDims& dims, const EntryKind& kind) : VariantEntry(kind), dims(dims) {}
  std::vector<Attribute> attributes() const override { return dims.attributes(); }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = dims.expand_back(grads[0] / static_cast<double>(dims.count()));
  }
  ReducedDims dims;
};

// d prod / dx_k is the product of the others: of those before times those after. No division, so
// zeros need no case of their own, at any order.
struct ProdBackward final : VariantEntry {
  ProdBackward(const ReducedDims& dims, int64_t dim, const EntryKind& kind)
      : VariantEntry(kind), dims(dims), dim(dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor x = saved(0);
    Tensor before = exclusive_cumprod(x, dim, false);
    Tensor after = exclusive_cumprod(x, dim, true);
    grad_inputs[0] = dims.restore(grads[0]) * before * after;
  }
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  ReducedDims dims;
  int64_t dim;
};

struct LogsumexpBackward final : Entry<logsumexp_entry> {
  explicit LogsumexpBackward(const ReducedDims& dims) : dims(dims) {}
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor x = saved(0), y = dims.restore(saved(1));
    // Where every x is -inf, so is y: no weight is better than the NaN of their difference.
    Tensor finite_y = where(isneginf(y), 0.0, y);
    grad_inputs[0] = dims.restore(grads[0]) * exp(x - finite_y);
  }
  ReducedDims dims;
};

// Integers run in 64 bits. A dtype asked for is what elements are converted to first, unless the
// kernel computes in no narrower a type anyway.
struct SumTypes {
  Tensor x;
  DType result;
};
SumTypes sum_types(const Tensor& x, std::optional<DType> dtype) {
  const DType own = x.dtype();
  if (is_wide_unsigned(own)) {  // no kernel reads them
    const DType wide = dtype.value_or(DType::Int64);
    return {cast(x, wide), wide};
  }
  if (!dtype) return {x, is_integral(own) ? DType::Int64 : own};
  const bool as_integers = is_integral(own) && is_integral(*dtype, false);
  const bool as_float = is_reduced_float(own) && *dtype == DType::Float32;
  return {as_integers || as_float ? x : cast(x, *dtype), *dtype};
}

Tensor record_sum(const Tensor& x, Tensor y, const ReducedDims& dims, bool whole) {
  if (has_gradient(y.dtype()) && should_record(x))
    record<SumBackward>({&x}, y, 0, dims, whole ? sum_entry : sum_over_entry);
  return y;
}

// Elements two by two, and the results so again: products of complex numbers, which have no kernel of their own.
Tensor complex_product(const Tensor& input, int64_t dim, bool keepdim) {
  Tensor x = input;
  if (x.dim() == 0) return clone(x);
  while (x.size(dim) > 1) {
    const int64_t half = x.size(dim) / 2, rest = x.size(dim) - 2 * half;
    Tensor product = narrow(x, dim, 0, half) * narrow(x, dim, half, half);
    if (rest) {
      const Tensor parts[] = {product, narrow(x, dim, 2 * half, rest)};
      product = cat(parts, dim);
    }
    x = product;
  }
  if (x.size(dim) == 0) {
    DimVector sizes(x.sizes());
    sizes[dim] = 1;
    x = ones(sizes, x.dtype(), x->device());
  }
  if (keepdim) return x.is_same(input) ? clone(x) : x;
  return x.is_same(input) ? clone(select(x, dim, 0)) : select(x, dim, 0);
}

Tensor prod_over(const Tensor& input, const ReducedDims& dims, int64_t dim, const EntryKind& kind,
                 std::optional<DType> dtype) {
  if (autocast_devices) [[unlikely]]
    dtype = total_dtype(prod_rule, input, dtype);
  auto [x, result] = sum_types(input, dtype);
  if (is_complex(result)) return complex_product(x, dim, dims.keepdim);
  Tensor y = run_reduction(prod_op, x, dims, result);
  if (is_floating(result) && should_record(x)) {
    auto& node = record<ProdBackward>({&x}, y, 1, dims, dim, kind);
    node.save_input(0, x);
  }
  return y;
}

// any and all keep uint8, an old habit of PyTorch; everything else gives bool.
DType test_dtype(const Tensor& x) { return x.dtype() == DType::UInt8 ? DType::UInt8 : DType::Bool; }
Tensor test(const Op& op, const Tensor& input, Sizes dims, bool keepdim) {
  const Tensor x = is_limited(input.dtype()) ? ne(input, wrapped_number(0)) : input;
  return run_reduction(op, x, ReducedDims::of(op.name, x, dims, keepdim), test_dtype(x));
}

}  // namespace

Tensor sum(const Tensor& input, Sizes dims, bool keepdim, std::optional<DType> dtype) {
  if (autocast_devices) [[unlikely]]
    dtype = total_dtype(sum_rule, input, dtype);
  ReducedDims reduced = ReducedDims::of("sum", input, dims, keepdim);
  auto [x, result] = sum_types(input, dtype);
  return record_sum(x, run_reduction(sum_op, x, reduced, result), reduced, dims.empty());
}

Tensor sum_to_size(const Tensor& x, Sizes sizes) {
  // A 0-d tensor is summed as by sum(): integers become int64.
  const bool whole = sizes.empty() && is_integral(x.dtype());
  if (same_sizes(x.sizes(), sizes)) return whole ? sum(x, {}, false, std::nullopt) : x;
  TAPEGRAD_CHECK(can_expand(sizes, x.sizes()), "sum_to_size: a tensor of shape ",
                 to_string(x.sizes()), " cannot be summed to shape ", to_string(sizes));
  const size_t extra = x.sizes().size() - sizes.size();
  ReducedDims dims{0, x.sizes(), false};
  for (size_t d = 0; d < x.sizes().size(); ++d)
    if (d < extra || (sizes[d - extra] == 1 && x.size(d) != 1)) dims.mask |= uint64_t{1} << d;
  const DType dtype = is_integral(x.dtype()) ? DType::Int64 : x.dtype();
  const Tensor from = real_alias(x),
               to = real_alias(empty("sum_to_size", sizes, dtype, x->device()));
  TensorImpl* inputs[] = {from.impl()};
  TensorImpl* outputs[] = {to.impl()};
  Scalar mask(static_cast<int64_t>(dims.mask));
  dispatch(sum_op, inputs, {&mask, 1}, outputs);
  return record_sum(x, is_complex(dtype) ? complex_alias(to) : to, dims, false);
}

Tensor mean(const Tensor& input, Sizes dims, bool keepdim, std::optional<DType> dtype) {
  DType result = dtype.value_or(input.dtype());
  TAPEGRAD_CHECK(
      has_gradient(result),
      "mean(): could not infer output dtype. Input dtype must be either a floating point or "
      "complex dtype. Got: ",
      type_name(result));
  ReducedDims reduced = ReducedDims::of("mean", input, dims, keepdim);
  const bool wider = is_reduced_float(input.dtype()) && result == DType::Float32;
  Tensor x = wider ? input : cast(input, result);
  Tensor y = run_reduction(mean_op, x, reduced, result);
  if (should_record(x))
    record<MeanBackward>({&x}, y, 0, reduced, dims.empty() ? mean_entry : mean_over_entry);
  return y;
}

Tensor prod(const Tensor& x, std::optional<DType> dtype) {
  Tensor flat = x.dim() == 1 ? x : reshape(x, DimVector{-1});
  return prod_over(flat, ReducedDims::of("prod", flat, {}, false), 0, prod_entry, dtype);
}

Tensor prod(const Tensor& x, int64_t dim, bool keepdim, std::optional<DType> dtype) {
  DimVector dims{dim};
  ReducedDims reduced = ReducedDims::of("prod", x, dims, keepdim);
  return prod_over(x, reduced, wrap_dim("prod", dim, x.dim()), prod_over_entry, dtype);
}

Tensor logsumexp(const Tensor& input, Sizes dims, bool keepdim) {
  if (autocast_devices) [[unlikely]]
    return run_cast(logsumexp_rule, [&](auto& x) { return logsumexp(x, dims, keepdim); }, input);
  if (is_complex(input.dtype())) return complex_logsumexp(input, dims, keepdim);
  Tensor x = is_integral(input.dtype()) ? cast(input, default_dtype()) : input;
  ReducedDims reduced = ReducedDims::of("logsumexp", x, dims, keepdim);
  Tensor y = run_reduction(logsumexp_op, x, reduced, x.dtype());
  if (should_record(x)) {
    auto& node = record<LogsumexpBackward>({&x}, y, 2, reduced);
    node.save_input(0, x);
    node.save_output(1, y);
  }
  return y;
}

Tensor test_each(const Tensor& x) { return cast(ne(x, wrapped_number(0)), test_dtype(x)); }
Tensor any(const Tensor& x, Sizes dims, bool keepdim) { return test(any_op, x, dims, keepdim); }
Tensor all(const Tensor& x, Sizes dims, bool keepdim) { return test(all_op, x, dims, keepdim); }

Tensor count_nonzero(const Tensor& input, Sizes dims) {
  const Tensor x = is_limited(input.dtype()) ? ne(input, wrapped_number(0)) : input;
  ReducedDims reduced = ReducedDims::of("count_nonzero", x, dims, false);
  return run_reduction(count_nonzero_op, x, reduced, DType::Int64);
}

}  // namespace tapegrad
