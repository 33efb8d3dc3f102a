// Each op has a fused derivative. When the derivative must itself be differentiable, it is composed
// of recorded ops instead, from x: statistics included.
#include "ops/normalize.h"

#include <vector>

#include "core/error.h"
#include "graph/record.h"
#include "ops/create.h"
#include "ops/operand.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const Op layer_norm_op("layer_norm", {"eps", "centred", "has_weight", "has_bias"});
// On CUDA its first input may be of a half type beside others of float32, and its last input may be a tensor that it
// adds the gradient of x to, which is also its first output.
const Op layer_norm_backward_op("layer_norm_backward",
                                {"centred", "has_weight", "wants_input", "wants_weight",
                                 "wants_bias", "adds"},
                                kUnrecorded);
// Of the lines that parts of a plan leave, their sum: Note [Sums over rows] in spec/row_sums.h.
const Op add_parts_op("add_parts", {}, kUnrecorded);
const Op batch_norm_op("batch_norm", {"eps", "given", "has_weight", "has_bias"}, kOverwrites);
const Op batch_norm_backward_op("batch_norm_backward",
                                {"given", "has_weight", "wants_input", "wants_weight", "wants_bias",
                                 "unused"},
                                kUnrecorded);

const std::initializer_list<SavedName> kNormSaved = {"input", "weight", "mean", "rstd"};
const EntryKind layer_norm_entry("native_layer_norm", layer_norm_op, kNormSaved);
const EntryKind rms_norm_entry("rms_norm", layer_norm_op, kNormSaved);
const EntryKind batch_norm_entry("native_batch_norm", batch_norm_op, kNormSaved);

void check(const char* op, const Tensor& x, std::initializer_list<const Tensor*> others) {
  TAPEGRAD_CHECK_AS(NotImplementedError, is_floating(x.dtype()), op,
                    ": expected a floating dtype, got ", name(x.dtype()), "; call .float() first");
  for (const Tensor* other : others)
    TAPEGRAD_CHECK(!other->defined() || other->dtype() == x.dtype(), op,
                   ": expected all tensors to have the dtype of the input, ", name(x.dtype()),
                   ", but got ", name(other->dtype()), "; cast one with .to()");
}

// On CUDA x may be of a half type; the others are float32 then.
void check_batch(const Tensor& x, std::initializer_list<const Tensor*> others) {
  const bool is_half = is_reduced_float(x.dtype()) && x->device().type == DeviceType::CUDA;
  TAPEGRAD_CHECK_AS(NotImplementedError, is_half || !is_reduced_float(x.dtype()),
                    "batch_norm: expected float32 or float64, got ", name(x.dtype()));
  if (!is_half) return check("batch_norm", x, others);
  for (const Tensor* other : others)
    TAPEGRAD_CHECK(!other->defined() || other->dtype() == DType::Float32,
                   "batch_norm: expected weight, bias and statistics of float32 for an input of ",
                   name(x.dtype()), ", but got ", name(other->dtype()), "; cast them with .to()");
}

// In the shape of a tensor that lies without gaps, and in its order.
Tensor output(bool wanted, const Tensor& like, DType dtype) {
  return wanted ? empty_like_layout(like, dtype)
                : empty("normalize", DimVector{0}, dtype, like->device());
}

// By recorded ops, in the dtype that is computed in; nothing where there is nothing.
Tensor widened(const Tensor& x) { return x.defined() ? cast(x, kernel_dtype(x.dtype())) : x; }

// Edges: x, then weight and bias where they are. Saved: x, weight, mean, rstd. Statistics are of the dtype that is
// computed in, and so are weight and bias of batch_norm; everything else is of the dtype of x.
struct NormNode : VariantEntry {
  NormNode(const EntryKind& kind, double eps, bool has_weight, bool has_bias)
      : VariantEntry(kind), eps(eps), has_weight(has_weight), has_bias(has_bias) {}
  bool wants_weight() const { return has_weight && needs(1); }
  bool wants_bias() const { return has_bias && needs(1 + has_weight); }
  Tensor weight() const { return has_weight ? saved(1) : Tensor(); }
  void fill(Gradients grad_inputs, const Tensor& x, const Tensor& weight, const Tensor& bias) {
    if (needs(0)) grad_inputs[0] = x;
    if (wants_weight()) grad_inputs[1] = weight;
    if (wants_bias()) grad_inputs[1 + has_weight] = bias;
  }
  // By the fused kernel; `kind` is what the op's first attribute says. The gradient of x lies in `wanted`.
  void run_fused(const Op& op, bool kind, const Tensor& grad, Gradients grad_inputs,
                 MemoryFormat wanted) {
    const Tensor given = saved(0), w = weight();
    const Tensor x = device_operand(given, wanted), g = device_operand(grad, wanted);
    if (x.numel() == 0) return fill_zeros(grad_inputs, given, w);
    std::vector<Tensor> inputs{g, x, saved(2), saved(3)};
    if (w.defined()) inputs.push_back(device_operand(w));
    const Tensor affine = w.defined() ? w : inputs[2];
    const DType of_affine = affine_dtype(x.dtype());
    const Tensor waiting = needs(0) && adds_up(x) ? take_waiting(*this, 0) : Tensor();
    if (waiting.defined()) inputs.push_back(waiting);
    Tensor grads[] = {waiting.defined() ? waiting : output(needs(0), x, x.dtype()),
                      output(wants_weight(), affine, of_affine),
                      output(wants_bias(), bias_like(affine), of_affine)};
    const Scalar attributes[] = {kind,           w.defined(),  needs(0),
                                 wants_weight(), wants_bias(), waiting.defined()};
    dispatch(op, inputs, attributes, grads);
    for (size_t i = 0; i < 3; ++i)
      grads[i] = narrowed(grads[i], i == 0 ? given.dtype() : affine_dtype(given.dtype()));
    fill(grad_inputs, grads[0], grads[1], grads[2]);
  }
  // Of no elements, every sum is zero.
  void fill_zeros(Gradients grad_inputs, const Tensor& x, const Tensor& w) {
    const Tensor affine = w.defined() ? w : saved(2);
    const Tensor bias = bias_like(affine);
    const DType dtype = affine_dtype(x.dtype());
    fill(grad_inputs, zeros(x.sizes(), x.dtype(), x->device()),
         zeros(affine.sizes(), dtype, x->device()), zeros(bias.sizes(), dtype, x->device()));
  }
  SavedReading reading(size_t i, const Tensor&) const override {
    return {i == 0 ? SavedUse::Smooth : SavedUse::Exact};
  }
  // Of weight and bias, beside an x of a dtype.
  virtual DType affine_dtype(DType dtype) const { return dtype; }
  // Whether the kernel can add the gradient of x to another one.
  virtual bool adds_up(const Tensor&) const { return false; }
  // A tensor of the bias's shape.
  virtual Tensor bias_like(const Tensor& affine) const { return affine; }

  double eps;
  bool has_weight, has_bias;
};

struct LayerNormBackward final : NormNode {
  LayerNormBackward(double eps, bool has_weight, bool has_bias, int64_t dims, bool centred,
                    bool reads_halves)
      : NormNode(centred ? layer_norm_entry : rms_norm_entry, eps, has_weight, has_bias),
        dims(dims),
        centred(centred) {
    if (reads_halves) set_gradient_dtypes(GradientDtypes::Halves);
  }
  DimVector normalized() const {
    DimVector list;
    for (int64_t d = -dims; d < 0; ++d) list.push_back(d);
    return list;
  }
  bool adds_up(const Tensor& x) const override { return x->device().type == DeviceType::CUDA; }
  Tensor bias_like(const Tensor& affine) const override {
    if (has_weight) return affine;
    return empty("layer_norm", output_sizes(0).last(dims), affine.dtype(), affine->device());
  }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (!is_differentiating())
      return run_fused(layer_norm_backward_op, centred, grads[0], grad_inputs,
                       MemoryFormat::Contiguous);
    const DimVector over = normalized();
    const DType dtype = saved(0).dtype();
    const Tensor x = widened(saved(0)), w = widened(weight()), g = widened(grads[0]);
    Tensor shifted = centred ? x - mean(x, over, true) : x;
    Tensor scale = rsqrt(mean(shifted * shifted, over, true) + eps);
    Tensor z = shifted * scale, gw = w.defined() ? g * w : g;
    Tensor inner = gw - z * mean(gw * z, over, true);
    if (centred) inner = inner - mean(gw, over, true);
    DimVector sizes(x.sizes().last(dims));
    fill(grad_inputs, cast(inner * scale, dtype),
         wants_weight() ? cast(sum_to_size(g * z, sizes), dtype) : Tensor(),
         wants_bias() ? cast(sum_to_size(g, sizes), dtype) : Tensor());
  }
  int64_t dims;
  bool centred;
};

struct BatchNormBackward final : NormNode {
  BatchNormBackward(double eps, bool has_weight, bool has_bias, bool given)
      : NormNode(batch_norm_entry, eps, has_weight, has_bias), given(given) {}
  DType affine_dtype(DType dtype) const override { return kernel_dtype(dtype); }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (!is_differentiating())
      return run_fused(batch_norm_backward_op, given, grads[0], grad_inputs,
                       suggested_format(*saved(0).impl()));
    const DType dtype = saved(0).dtype();
    const Tensor x = widened(saved(0)), w = weight(), g = widened(grads[0]);
    DimVector over{0}, column(x.dim(), 1);
    for (int64_t d = 2; d < x.dim(); ++d) over.push_back(d);
    column[1] = x.size(1);
    Tensor shifted = x - (given ? reshape(saved(2), column) : mean(x, over, true));
    Tensor scale =
        given ? reshape(saved(3), column) : rsqrt(mean(shifted * shifted, over, true) + eps);
    Tensor z = shifted * scale, gw = w.defined() ? g * reshape(w, column) : g;
    Tensor inner = given ? gw : gw - mean(gw, over, true) - z * mean(gw * z, over, true);
    fill(grad_inputs, cast(inner * scale, dtype),
         wants_weight() ? sum(g * z, over, false) : Tensor(),
         wants_bias() ? sum(g, over, false) : Tensor());
  }
  bool given;
};

template <class N, class... Arguments>
void record_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
                 const Tensor& mean, const Tensor& rstd, double eps, Arguments... arguments) {
  const bool w = weight.defined(), b = bias.defined();
  N* node;
  if (w && b) node = &record<N>({&x, &weight, &bias}, y, 4, eps, w, b, arguments...);
  else if (w) node = &record<N>({&x, &weight}, y, 4, eps, w, b, arguments...);
  else if (b) node = &record<N>({&x, &bias}, y, 4, eps, w, b, arguments...);
  else node = &record<N>({&x}, y, 4, eps, w, b, arguments...);
  node->save_input(0, x);
  if (w) node->save_input(1, weight);
  node->save_input(2, mean);
  node->save_input(3, rstd);
}

bool wants_record(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return should_record(x) || (weight.defined() && should_record(weight)) ||
         (bias.defined() && should_record(bias));
}

}  // namespace

Tensor layer_norm(const Tensor& x, int64_t dims, const Tensor& weight, const Tensor& bias,
                  double eps, bool centred) {
  check("layer_norm", x, {&weight, &bias});
  TAPEGRAD_CHECK(dims >= 1 && dims <= x.dim(), "layer_norm: expected 1 to ", x.dim(),
                 " dimensions, got ", dims);
  const Sizes normalized = x.sizes().last(dims);
  for (const Tensor* affine : {&weight, &bias})
    TAPEGRAD_CHECK(!affine->defined() || same_sizes(affine->sizes(), normalized),
                   "layer_norm: expected weight and bias of shape ", to_string(normalized),
                   ", got ", to_string(affine->sizes()));
  std::vector<Tensor> inputs{device_operand(x)};
  for (const Tensor* affine : {&weight, &bias})
    if (affine->defined()) inputs.push_back(device_operand(*affine));
  DimVector rows(x.sizes().first(x.dim() - dims));
  const DType statistics = kernel_dtype(x.dtype());
  Tensor outputs[] = {empty("layer_norm", x.sizes(), inputs[0].dtype(), x->device()),
                      empty("layer_norm", rows, statistics, x->device()),
                      empty("layer_norm", rows, statistics, x->device())};
  const Scalar attributes[] = {eps, centred, weight.defined(), bias.defined()};
  if (x.numel() > 0) dispatch(layer_norm_op, inputs, attributes, outputs);
  outputs[0] = narrowed(outputs[0], x.dtype());
  if (wants_record(x, weight, bias))
    record_norm<LayerNormBackward>(x, weight, bias, outputs[0], outputs[1], outputs[2], eps, dims,
                                   centred, x->device().type == DeviceType::CUDA);
  return outputs[0];
}

std::tuple<Tensor, Tensor, Tensor> batch_norm(const Tensor& x, const Tensor& mean,
                                              const Tensor& variance, const Tensor& weight,
                                              const Tensor& bias, double eps) {
  check_batch(x, {&mean, &variance, &weight, &bias});
  TAPEGRAD_CHECK(x.dim() >= 2, "batch_norm: expected an input of shape (N, C, ...), got ",
                 to_string(x.sizes()));
  const DimVector channels{x.size(1)};
  const bool given = mean.defined();
  TAPEGRAD_CHECK(given == variance.defined(), "batch_norm: mean and variance come together");
  for (const Tensor* each : {&mean, &variance, &weight, &bias})
    TAPEGRAD_CHECK(!each->defined() || same_sizes(each->sizes(), channels),
                   "batch_norm: expected one number per channel, of shape ", to_string(channels),
                   ", got ", to_string(each->sizes()));
  const MemoryFormat format = suggested_format(*x.impl());
  const DType wide = kernel_dtype(x.dtype());
  std::vector<Tensor> inputs{operand_in(x, x.dtype(), format)};
  for (const Tensor* each : {&mean, &variance, &weight, &bias})
    if (each->defined()) inputs.push_back(kernel_operand(*each));
  Tensor outputs[] = {empty_in("batch_norm", x.sizes(), x.dtype(), x->device(), format),
                      empty("batch_norm", channels, wide, x->device()),
                      empty("batch_norm", channels, wide, x->device()),
                      empty("batch_norm", channels, wide, x->device())};
  const Scalar attributes[] = {eps, given, weight.defined(), bias.defined()};
  dispatch(batch_norm_op, inputs, attributes, outputs);
  if (wants_record(x, weight, bias))
    record_norm<BatchNormBackward>(x, weight, bias, outputs[0], outputs[1], outputs[3], eps, given);
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace tapegrad
