#include "ops/softmax.h"

#include "core/error.h"
#include "graph/record.h"
#include "ops/autocast.h"
#include "ops/operand.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"

namespace tapegrad {

namespace {

const Op softmax_op("softmax", {"dim"});
const Op log_softmax_op("log_softmax", {"dim"});
const Op softmax_backward_op("softmax_backward", {"dim"});
const Op log_softmax_backward_op("log_softmax_backward", {"dim"});

const CastRule softmax_rule("softmax", Cast::None, Cast::Total);
const CastRule log_softmax_rule("log_softmax", Cast::None, Cast::Total);

const EntryKind softmax_entry(softmax_op, {"result"});
const EntryKind log_softmax_entry(log_softmax_op, {"result"});
const EntryKind softmax_backward_entry("softmax_backward_data", softmax_backward_op,
                                       {{"grad_output", {1}}, "output"});
const EntryKind log_softmax_backward_entry("log_softmax_backward_data", log_softmax_backward_op,
                                           {{"grad_output", {1}}, "output"});

struct SoftmaxBackward final : Entry<softmax_entry> {
  explicit SoftmaxBackward(int64_t dim) : dim(dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = softmax_backward(grads[0], saved(0), dim);
  }
  std::vector<Attribute> attributes() const override { return {{"dim", dim}}; }
  int64_t dim;
};

struct LogSoftmaxBackward final : Entry<log_softmax_entry> {
  explicit LogSoftmaxBackward(int64_t dim) : dim(dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = log_softmax_backward(grads[0], saved(0), dim);
  }
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Ratio}; }
  int64_t dim;
};

Tensor sum_along(const Tensor& x, int64_t dim) { return sum(x, DimVector{dim}, true); }

// Inputs: the gradient and y.
struct SoftmaxBackwardDataBackward final : Entry<softmax_backward_entry> {
  explicit SoftmaxBackwardDataBackward(int64_t dim) : dim(dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    const Tensor& u = grads[0];
    Tensor g = saved(0), y = saved(1);
    if (needs(0)) grad_inputs[0] = softmax_backward(u, y, dim);
    if (needs(1)) grad_inputs[1] = u * (g - sum_along(g * y, dim)) - g * sum_along(u * y, dim);
  }
  int64_t dim;
};

struct LogSoftmaxBackwardDataBackward final : Entry<log_softmax_backward_entry> {
  explicit LogSoftmaxBackwardDataBackward(int64_t dim) : dim(dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    const Tensor& u = grads[0];
    Tensor g = saved(0), probabilities = exp(saved(1));
    if (needs(0)) grad_inputs[0] = u - sum_along(u * probabilities, dim);
    if (needs(1)) grad_inputs[1] = -(u * probabilities * sum_along(g, dim));
  }
  SavedReading reading(size_t i, const Tensor&) const override {
    return {i == 1 ? SavedUse::Ratio : SavedUse::Smooth};
  }
  int64_t dim;
};

Tensor run(const Op& op, std::initializer_list<const Tensor*> inputs, int64_t dim) {
  Tensor operands[2];
  TensorImpl* impls[2];
  size_t count = 0;
  for (const Tensor* input : inputs) {
    operands[count] = device_operand(*input);
    impls[count] = operands[count].impl();
    ++count;
  }
  const Tensor& first = **inputs.begin();
  Tensor y = empty_like(operands[0], first.sizes(), operands[0].dtype());
  TensorImpl* outputs[] = {y.impl()};
  Scalar attribute(dim);
  dispatch(op, {impls, count}, {&attribute, 1}, outputs);
  return narrowed(y, first.dtype());
}

template <class N>
Tensor forward(const Op& op, const Tensor& input, int64_t dim, std::optional<DType> dtype) {
  Tensor x = dtype ? cast(input, *dtype) : input;
  dim = wrap_dim(op.name, dim, x.dim());
  TAPEGRAD_CHECK_AS(NotImplementedError, is_floating(x.dtype()), op.name,
                    ": expected a floating dtype, got ", name(x.dtype()),
                    "; call .float() first, or pass dtype=");
  Tensor y = run(op, {&x}, dim);
  if (should_record(x)) record<N>({&x}, y, 1, dim).save_output(0, y);
  return y;
}

template <class N>
Tensor backward(const Op& op, const Tensor& grad, const Tensor& y, int64_t dim) {
  Tensor grad_x = run(op, {&grad, &y}, dim);
  if (should_record(grad, y)) {
    auto& node = record<N>({&grad, &y}, grad_x, 2, dim);
    node.save_input(0, grad);
    node.save_input(1, y);
  }
  return grad_x;
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t dim, std::optional<DType> dtype) {
  if (autocast_devices) [[unlikely]]
    dtype = total_dtype(softmax_rule, x, dtype);
  return forward<SoftmaxBackward>(softmax_op, x, dim, dtype);
}
Tensor log_softmax(const Tensor& x, int64_t dim, std::optional<DType> dtype) {
  if (autocast_devices) [[unlikely]]
    dtype = total_dtype(log_softmax_rule, x, dtype);
  return forward<LogSoftmaxBackward>(log_softmax_op, x, dim, dtype);
}
Tensor softmax_backward(const Tensor& grad, const Tensor& y, int64_t dim) {
  return backward<SoftmaxBackwardDataBackward>(softmax_backward_op, grad, y, dim);
}
Tensor log_softmax_backward(const Tensor& grad, const Tensor& y, int64_t dim) {
  return backward<LogSoftmaxBackwardDataBackward>(log_softmax_backward_op, grad, y, dim);
}

}  // namespace tapegrad
