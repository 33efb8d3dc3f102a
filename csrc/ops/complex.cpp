#include "ops/complex.h"

#include "core/call.h"
#include "core/error.h"
#include "core/op.h"
#include "graph/record.h"
#include "intercept/capture.h"
#include "ops/create.h"
#include "ops/pointwise.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const Op conj_op("conj", {}, kAnyRank | kComplex | kOverwrites);
const Op abs_op("complex_abs", {}, kAnyRank | kComplex);
const Op angle_op("complex_angle", {}, kAnyRank | kComplex);
const Op sgn_op("complex_sgn", {}, kAnyRank | kComplex);

const EntryKind conj_entry(conj_op);
const EntryKind abs_entry("abs", abs_op, {"self"}, 1);
const EntryKind angle_entry("angle", angle_op, {"self"});
const EntryKind sgn_entry("sgn", sgn_op, {"self"});

struct ConjBackward final : Entry<conj_entry> {
  void vjp(Gradients grads, Gradients grad_inputs) override { grad_inputs[0] = conj(grads[0]); }
};

struct AbsBackward final : Entry<abs_entry> {
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = grads[0] * complex_sgn(saved(0));
  }
};

// The angle grows in the direction of iz, and the slower the farther out z is.
struct AngleBackward final : Entry<angle_entry> {
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor z = saved(0), length = complex_abs(z);
    const Tensor quarter = wrapped_complex(Complex<double>(0, 1));
    note_constant(quarter);
    Tensor turned = mul(complex_sgn(z), quarter);
    Tensor zero = length == 0.0;
    grad_inputs[0] = where(zero, 0.0, grads[0] * turned / where(zero, 1.0, length));
  }
};

// What of the gradient is across z, for along z nothing changes.
struct SgnBackward final : Entry<sgn_entry> {
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor z = saved(0), length = complex_abs(z), unit = complex_sgn(z);
    Tensor across = grads[0] - unit * real(conj(unit) * grads[0]);
    Tensor zero = length == 0.0;
    grad_inputs[0] = where(zero, 0.0, across / where(zero, 1.0, length));
  }
};

void check_complex(const char* op, const Tensor& x) {
  TAPEGRAD_CHECK(is_complex(x.dtype()), op, ": expected a complex tensor, got ", name(x.dtype()));
}

template <class Backward>
Tensor run(const Op& op, const Tensor& x, DType dtype, size_t saved) {
  Tensor y = empty_like_layout(x, dtype);
  dispatch(op, {x}, {}, {y});
  if (should_record(x)) {
    auto& node = record<Backward>({&x}, y, saved);
    if (saved) node.save_input(0, x);
  }
  return y;
}

}  // namespace

void run_complex_vjp(Node& node, Gradients grads, Gradients grad_inputs) {
  constexpr uint16_t kOwn = kHolomorphic & ~kComplex;
  const Op* op = node.kind().op;
  auto conjugate = [](Gradients gradients) {
    bool any = false;
    for (Tensor& g : gradients) {
      if (!g.defined() || !is_complex(g.dtype())) continue;
      g = conj(g);
      any = true;
    }
    return any;
  };
  const bool conjugated = op && (op->traits & kOwn) && conjugate(grads);
  node.vjp(grads, grad_inputs);
  if (conjugated) conjugate(grad_inputs);
}

Tensor conj(const Tensor& x) {
  return is_complex(x.dtype()) ? run<ConjBackward>(conj_op, x, x.dtype(), 0) : x;
}

Tensor complex_abs(const Tensor& x) {
  check_complex("abs", x);
  return run<AbsBackward>(abs_op, x, real_dtype(x.dtype()), 1);
}

Tensor complex_angle(const Tensor& x) {
  check_complex("angle", x);
  return run<AngleBackward>(angle_op, x, real_dtype(x.dtype()), 1);
}

Tensor complex_sgn(const Tensor& x) {
  check_complex("sgn", x);
  return run<SgnBackward>(sgn_op, x, x.dtype(), 1);
}

Tensor real(const Tensor& x) { return is_complex(x.dtype()) ? select(view_as_real(x), -1, 0) : x; }

Tensor imag(const Tensor& x) {
  TAPEGRAD_CHECK(is_complex(x.dtype()),
                 "imag is not implemented for tensors with non-complex dtypes, got ",
                 name(x.dtype()));
  return select(view_as_real(x), -1, 1);
}

Tensor real_alias(const Tensor& x) {
  if (!is_complex(x.dtype())) return x;
  DimVector sizes(x.sizes()), strides;
  for (int64_t stride : x.strides()) strides.push_back(wrapping_product(stride, 2));
  sizes.push_back(2);
  strides.push_back(1);
  Tensor parts(
      TensorImpl::create(x->storage_ref(), real_dtype(x.dtype()), sizes, strides, x->offset() * 2));
  parts->set_data_alias(x->is_data_alias());
  return parts;
}

Tensor complex_alias(const Tensor& parts) {
  const Sizes whole = parts.sizes().first(parts.sizes().size() - 1);
  DimVector strides;
  for (size_t d = 0; d < whole.size(); ++d) strides.push_back(parts.strides()[d] / 2);
  Tensor numbers(TensorImpl::create(parts->storage_ref(), complex_dtype(parts.dtype()), whole,
                                    strides, parts->offset() / 2));
  numbers->set_data_alias(parts->is_data_alias());
  return numbers;
}

}  // namespace tapegrad
