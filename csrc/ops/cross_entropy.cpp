// The derivative is fused, too: it computes the probabilities again from x and two numbers for each line. When it must
// itself be differentiable, it is composed of recorded ops instead.
#include "ops/cross_entropy.h"

#include <vector>

#include "core/error.h"
#include "graph/record.h"
#include "ops/autocast.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/mask.h"
#include "ops/operand.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/scatter.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const Op cross_entropy_op("cross_entropy",
                          {"reduction", "ignore_index", "label_smoothing", "has_weight"});
const Op cross_entropy_backward_op("cross_entropy_backward",
                                   {"reduction", "ignore_index", "label_smoothing", "has_weight"},
                                   kUnrecorded);

const EntryKind cross_entropy_entry(cross_entropy_op, {"self", "target", "weight", "top", "log_sum",
                                                       "total_weights"});

const CastRule cross_entropy_rule("cross_entropy", Cast::Float32, Cast::Float32);

int64_t class_dim(const Tensor& x) { return x.dim() == 1 ? 0 : 1; }

struct LossSettings {
  LossReduction reduction;
  int64_t ignore_index;
  double label_smoothing;
};

// Saved: x, the target, the weight, of each line the greatest element and the logarithm of the sum of exponentials beside
// it, and sums of weights: over the targets, by which the mean divides, and over the classes.
struct CrossEntropyBackward final : Entry<cross_entropy_entry> {
  CrossEntropyBackward(const LossSettings& settings, bool has_weight)
      : settings(settings), has_weight(has_weight) {}

  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = is_differentiating() ? compose(grads[0]) : run_fused(grads[0]);
  }

  Tensor run_fused(const Tensor& grad) const {
    const Tensor given = saved(0), x = device_operand(given);
    std::vector<Tensor> inputs{kernel_operand(grad), x, saved(1), saved(3), saved(4), saved(5)};
    if (has_weight) inputs.push_back(saved(2));
    const Tensor outputs[] = {empty("cross_entropy", x.sizes(), x.dtype(), x->device())};
    const Scalar attributes[] = {static_cast<int64_t>(settings.reduction), settings.ignore_index,
                                 settings.label_smoothing, has_weight};
    if (x.numel() > 0) dispatch(cross_entropy_backward_op, inputs, attributes, outputs);
    return narrowed(outputs[0], given.dtype());
  }

  Tensor compose(const Tensor& grad) const {
    const Tensor given = saved(0), x = cast(given, kernel_dtype(given.dtype()));
    const Tensor q = distribution(x);
    const int64_t dim = class_dim(x);
    Tensor g = cast(grad, x.dtype());
    if (settings.reduction == LossReduction::Mean) g = g / select(saved(5), 0, 0);
    if (settings.reduction == LossReduction::None) g = unsqueeze(g, dim);
    g = where(ignored_lines(x), 0.0, g);  // where all lines are, the mean divides by zero
    return cast((softmax(x, dim) * sum(q, DimVector{dim}, true) - q) * g, given.dtype());
  }

  Tensor ignored_lines(const Tensor& x) const {
    return unsqueeze(saved(1), class_dim(x)) ==
           scalar_tensor(settings.ignore_index, DType::Int64, x->device());
  }

  // What the probabilities of a line are compared with: q of spec/cross_entropy.h.
  Tensor distribution(const Tensor& x) const {
    const int64_t dim = class_dim(x), classes = x.size(dim);
    const Tensor target = unsqueeze(saved(1), dim);
    const Tensor ignored = ignored_lines(x);
    const Tensor places = where(ignored, zeros({}, DType::Int64, x->device()), target);
    const Tensor weight =
        has_weight ? cast(saved(2), x.dtype()) : ones(DimVector{classes}, x.dtype(), x->device());
    const Tensor own =
        reshape(index_select(weight, 0, reshape(places, DimVector{-1})), places.sizes());
    Tensor q = scatter(zeros(x.sizes(), x.dtype(), x->device()), dim, places,
                       own * (1 - settings.label_smoothing));
    if (settings.label_smoothing > 0) {
      DimVector column(x.dim() - dim, 1);
      column[0] = classes;
      q = q + reshape(weight, column) * (settings.label_smoothing / static_cast<double>(classes));
    }
    return where(ignored, 0.0, q);
  }

  // The probabilities are exponentials of x less the saved numbers.
  SavedReading reading(size_t i, const Tensor&) const override {
    return {i == 0 ? SavedUse::Ratio : SavedUse::Exact};
  }

  LossSettings settings;
  bool has_weight;
};

void check_operands(const Tensor& x, const Tensor& target, const Tensor& weight) {
  // Also a target or a weight of no dimensions: the kernels read them where they lie.
  TAPEGRAD_CHECK(
      target->device() == x->device() && (!weight.defined() || weight->device() == x->device()),
      "cross_entropy: Expected all tensors to be on the same device, but found input on ",
      to_string(x->device()), " and target or weight elsewhere; move them with .to()");
  TAPEGRAD_CHECK_AS(NotImplementedError, is_floating(x.dtype()),
                    "cross_entropy: expected a floating dtype, got ", name(x.dtype()),
                    "; call .float() first");
  TAPEGRAD_CHECK(target.dtype() == DType::Int64,
                 "cross_entropy: expected targets of dtype int64, got ", name(target.dtype()),
                 "; call .long() first");
  TAPEGRAD_CHECK_AS(ValueError, x.dim() >= 1,
                    "cross_entropy: Expected 1 or more dimensions (got 0)");
  DimVector expected;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (d != class_dim(x)) expected.push_back(x.size(d));
  TAPEGRAD_CHECK(same_sizes(target.sizes(), expected), "cross_entropy: Expected target size ",
                 to_string(expected), ", got ", to_string(target.sizes()));
  TAPEGRAD_CHECK(!weight.defined() || (weight.dim() == 1 && weight.size(0) == x.size(class_dim(x))),
                 "cross_entropy: expected a weight for each of ", x.size(class_dim(x)), " classes");
  TAPEGRAD_CHECK_AS(NotImplementedError, !weight.defined() || !should_record(weight),
                    "cross_entropy: there is no derivative with respect to the weight");
}

// The loss is of dtype `result`.
Tensor run(const Tensor& x, const Tensor& target, const Tensor& weight,
           const LossSettings& settings, DType result) {
  check_operands(x, target, weight);
  const Tensor classes = kernel_operand(target);
  const DType dtype = kernel_dtype(x.dtype());
  std::vector<Tensor> inputs{device_operand(x), classes};
  Tensor weights;
  if (weight.defined()) {
    weights = kernel_operand(cast(weight, dtype));
    inputs.push_back(weights);
  }
  const DimVector sizes =
      settings.reduction == LossReduction::None ? DimVector(target.sizes()) : DimVector{};
  const Tensor outputs[] = {empty("cross_entropy", sizes, dtype, x->device()),
                            empty("cross_entropy", target.sizes(), dtype, x->device()),
                            empty("cross_entropy", target.sizes(), dtype, x->device()),
                            empty("cross_entropy", DimVector{2}, dtype, x->device())};
  const Scalar attributes[] = {static_cast<int64_t>(settings.reduction), settings.ignore_index,
                               settings.label_smoothing, weight.defined()};
  dispatch(cross_entropy_op, inputs, attributes, outputs);
  const Tensor loss = narrowed(outputs[0], result);
  if (should_record(x)) {
    auto& node = record<CrossEntropyBackward>({&x}, loss, 6, settings, weight.defined());
    node.save_input(0, x);
    node.save_input(1, classes);
    if (weight.defined()) node.save_input(2, weights);
    for (size_t i = 0; i < 3; ++i) node.save_input(3 + i, outputs[1 + i]);
  }
  return loss;
}

// Whether autocast asks for float32 of what the kernels turn into float32 as they read it: so many classes are not
// worth a copy twice as large, and another one of its gradient.
bool is_widened_by_kernel(const Tensor& x) {
  return is_reduced_float(x.dtype()) && x->device().type == DeviceType::CUDA &&
         (autocast_devices & device_bit(DeviceType::CUDA));
}

}  // namespace

Tensor cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                     LossReduction reduction, int64_t ignore_index, double label_smoothing) {
  const LossSettings settings{reduction, ignore_index, label_smoothing};
  if (!autocast_devices) [[likely]]
    return run(x, target, weight, settings, x.dtype());
  const bool keeps = is_widened_by_kernel(x);
  return run_cast(cross_entropy_rule, [&](auto& cast_x, auto& weight) {
    return run(keeps ? x : cast_x, target, weight, settings,
               keeps ? DType::Float32 : cast_x.dtype());
  }, keeps ? Tensor() : x, weight);
}

}  // namespace tapegrad
