// Variances and norms.
#include <cmath>

#include "core/error.h"
#include "core/torch_names.h"
#include "graph/record.h"
#include "ops/autocast.h"
#include "ops/complex.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/reduce_dims.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const Op var_op("var", {"dims", "correction", "root"});
const Op norm_op("norm", {"dims", "p"});

const EntryKind norm_entry(norm_op, {"self", "result"});
const EntryKind norm_over_entry(norm_op, {"self", "result"}, 1);

const CastRule norm_rule("norm", Cast::None, Cast::Total);

DimVector dim_list(const ReducedDims& dims) {
  DimVector list;
  for (size_t d = 0; d < dims.sizes.size(); ++d)
    if (dims.contains(d)) list.push_back(static_cast<int64_t>(d));
  return list;
}

// ---- variance

// What one of the four ops computes: var or std, alone or with the mean.
struct Moments {
  EntryKind kind;
  bool root;
  bool with_mean;
  const char* op() const { return kind.function.c_str(); }
};
const Moments kVar{{"var", var_op, {"self"}}, false, false};
const Moments kStd{{"std", var_op, {"self", "result"}}, true, false};
const Moments kVarMean{{"var_mean", var_op, {"self"}}, false, true};
const Moments kStdMean{{"std_mean", var_op, {"self", "result0"}}, true, true};

struct MomentsBackward final : Node {
  MomentsBackward(const Moments& moments, const ReducedDims& dims, double correction)
      : moments(moments), dims(dims), correction(correction) {}
  const EntryKind& kind() const override { return moments.kind; }
  SavedReading reading(size_t i, const Tensor&) const override {
    return {i == 0 ? SavedUse::Smooth : SavedUse::Exact};
  }
  void vjp(Gradients grads, Gradients grad_inputs) override;

  const Moments& moments;
  ReducedDims dims;
  double correction;
};

void MomentsBackward::vjp(Gradients grads, Gradients grad_inputs) {
  const double count = static_cast<double>(dims.count());
  Tensor grad_x;
  if (grads[0].defined()) {
    Tensor x = saved(0);
    Tensor g = grads[0];
    if (moments.root) {
      Tensor y = saved(1);
      Tensor zero = y == 0.0;
      g = where(zero, 0.0, g / where(zero, 1.0, 2.0 * y));
    }
    Tensor centered = x - mean(x, dim_list(dims), true);
    grad_x = dims.restore(g) * (2.0 / (count - correction)) * centered;
  }
  if (moments.with_mean && grads[1].defined()) {
    Tensor from_mean = dims.expand_back(grads[1] / count);
    grad_x = grad_x.defined() ? grad_x + from_mean : from_mean;
  }
  grad_inputs[0] = grad_x;
}

TensorPair run_moments(const Moments& moments, const Tensor& x, Sizes dims, double correction,
                       bool keepdim) {
  TAPEGRAD_CHECK(is_floating(x.dtype()), moments.op(),
                 ": std and var only support floating point and complex dtypes, got ",
                 type_name(x.dtype()), "; call .float() first");
  ReducedDims reduced = ReducedDims::of(moments.op(), x, dims, keepdim);
  Scalar attributes[] = {static_cast<int64_t>(reduced.mask), correction, moments.root};
  DimVector sizes = reduced.result_sizes();
  Tensor outputs[2] = {empty(moments.op(), sizes, x.dtype(), x->device()), Tensor()};
  if (moments.with_mean) outputs[1] = empty_like(outputs[0]);
  std::span<const Tensor> used(outputs, moments.with_mean ? 2 : 1);
  dispatch(var_op, std::span<const Tensor>(&x, 1), attributes, used);
  if (should_record(x)) {
    auto& node =
        record<MomentsBackward>({&x}, used, moments.root ? 2 : 1, moments, reduced, correction);
    node.save_input(0, x);
    if (moments.root) node.save_output(1, outputs[0]);
  }
  return {outputs[0], outputs[1]};
}

// ---- norm

struct NormBackward final : VariantEntry {
  NormBackward(const ReducedDims& dims, double p, const EntryKind& kind)
      : VariantEntry(kind), dims(dims), p(p) {}
  SavedReading reading(size_t i, const Tensor&) const override {
    if (i == 1 || std::isinf(p)) return {SavedUse::Exact};
    return {p == 2 ? SavedUse::Smooth : SavedUse::Ratio};
  }
  void vjp(Gradients grads, Gradients grad_inputs) override;
  Tensor extreme(const Tensor& g, const Tensor& x, const Tensor& y) const;

  ReducedDims dims;
  double p;
};

// The gradient of an infinity norm is shared by the elements of that magnitude.
Tensor NormBackward::extreme(const Tensor& g, const Tensor& x, const Tensor& y) const {
  Tensor magnitude = abs(x);
  Tensor chosen = eq(magnitude, y) | (isnan(magnitude) & isnan(y));
  Tensor count = cast(sum(chosen, dim_list(dims), true), g.dtype());
  return sign(x) * where(chosen, g / count, 0.0);
}

// Where the norm is zero the subgradient zero is taken, as PyTorch does.
void NormBackward::vjp(Gradients grads, Gradients grad_inputs) {
  Tensor x = saved(0), y = dims.restore(saved(1)), g = dims.restore(grads[0]);
  Tensor& grad_x = grad_inputs[0];
  if (p == 0) {
    grad_x = zeros(x.sizes(), x.dtype(), x->device());
  } else if (p == 1) {
    grad_x = g * sign(x);
  } else if (p == 2) {
    grad_x = g * where(y == 0.0, 0.0, x / where(y == 0.0, 1.0, y));
  } else if (std::isinf(p)) {
    grad_x = extreme(g, x, y);
  } else if (p < 1) {
    Tensor zero = x == 0.0;
    Tensor scaled = where(zero, 0.0, sign(x) * pow(where(zero, 1.0, abs(x)), p - 1));
    grad_x = scaled * g * pow(y, 1 - p);
  } else {
    Tensor zero = y == 0.0;
    Tensor scaled = p < 2 ? sign(x) * pow(abs(x), p - 1) : x * pow(abs(x), p - 2);
    grad_x = scaled * where(zero, 0.0, g / pow(where(zero, 1.0, y), p - 1));
  }
}

// Orders without a kernel of their own are composed, outside the tape and of values without tangents.
Tensor power_norm(const Tensor& given, const ReducedDims& dims, double p) {
  GradMode off(false);
  const Tensor x = detach(given);
  Tensor wide = is_reduced_float(x.dtype()) ? cast(x, DType::Float32) : x;
  Tensor total = sum(pow(abs(wide), p), dim_list(dims), dims.keepdim);
  return cast(pow(total, 1 / p), x.dtype());
}

Tensor run_norm(const Tensor& x, const ReducedDims& dims, double p) {
  const bool has_kernel = p == 0 || p == 1 || p == 2 || std::isinf(p);
  return has_kernel ? run_reduction(norm_op, x, dims, x.dtype(), {p}) : power_norm(x, dims, p);
}

}  // namespace

Tensor var(const Tensor& x, Sizes dims, double correction, bool keepdim) {
  if (is_complex(x.dtype()))
    return var(real(x), dims, correction, keepdim) + var(imag(x), dims, correction, keepdim);
  return run_moments(kVar, x, dims, correction, keepdim).first;
}
Tensor standard_deviation(const Tensor& x, Sizes dims, double correction, bool keepdim) {
  if (is_complex(x.dtype())) return sqrt(var(x, dims, correction, keepdim));
  return run_moments(kStd, x, dims, correction, keepdim).first;
}
TensorPair var_mean(const Tensor& x, Sizes dims, double correction, bool keepdim) {
  if (is_complex(x.dtype())) return {var(x, dims, correction, keepdim), mean(x, dims, keepdim)};
  return run_moments(kVarMean, x, dims, correction, keepdim);
}
TensorPair std_mean(const Tensor& x, Sizes dims, double correction, bool keepdim) {
  if (is_complex(x.dtype()))
    return {standard_deviation(x, dims, correction, keepdim), mean(x, dims, keepdim)};
  return run_moments(kStdMean, x, dims, correction, keepdim);
}

Tensor norm(const Tensor& input, double p, Sizes dims, bool keepdim, std::optional<DType> dtype) {
  if (autocast_devices) [[unlikely]]
    dtype = total_dtype(norm_rule, input, dtype);
  TAPEGRAD_CHECK(!dtype || is_complex(*dtype) == is_complex(input.dtype()),
                 "norm: dtype should be ",
                 is_complex(input.dtype()) ? "complex for complex" : "real for real",
                 " inputs, but got ", name(*dtype));
  Tensor x = dtype ? cast(input, *dtype) : input;
  if (is_complex(x.dtype())) x = complex_abs(x);
  check_floating("norm", x);
  ReducedDims reduced = ReducedDims::of("norm", x, dims, keepdim);
  TAPEGRAD_CHECK(!(std::isinf(p) || p < 0) || x.numel() > 0 || reduced.count() > 0,
                 "norm: expected elements to reduce for p = ", p, ", got shape ",
                 to_string(x.sizes()), "; an infinity norm of nothing has no value");
  Tensor y = run_norm(x, reduced, p);
  if (should_record(x)) {
    const EntryKind& kind = dims.empty() ? norm_entry : norm_over_entry;
    auto& node = record<NormBackward>({&x}, y, 2, reduced, p, kind);
    node.save_input(0, x);
    node.save_output(1, y);
  }
  return y;
}

}  // namespace tapegrad
