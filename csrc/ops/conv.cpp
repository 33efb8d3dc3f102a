// Convolution is bilinear, and three ops are closed under differentiation:
//
//   y(x, w)    the convolution            conv
//   x(g, w)    its transpose              conv_grad_input, also the transposed convolution
//   w(x, g)    the gradient of w          conv_grad_weight
//
// The derivatives of each are the other two, so gradients of any order need nothing else.
#include "ops/conv.h"

#include <vector>

#include "core/error.h"
#include "core/torch_names.h"
#include "graph/record.h"
#include "ops/autocast.h"
#include "ops/complex.h"
#include "ops/complex_composed.h"
#include "ops/operand.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const Op conv_op("conv", {"stride*", "padding*", "dilation*", "groups"}, kContracts);
const Op conv_grad_input_op("conv_grad_input", {"stride*", "padding*", "dilation*", "groups"},
                            kContracts);
const Op conv_grad_weight_op("conv_grad_weight", {"stride*", "padding*", "dilation*", "groups"},
                             kContracts);

// One factor is kept for the gradient of the other.
const EntryKind conv_entry("convolution", conv_op, {{"input", {1}}, {"weight", {0}}});
const EntryKind conv_grad_input_entry("convolution", conv_grad_input_op,
                                      {{"input", {1}}, {"weight", {0}}});
const EntryKind conv_grad_weight_entry("convolution", conv_grad_weight_op,
                                       {{"input", {1}}, {"grad_output", {0}}});

const CastRule cast_rules[] = {
    {"conv1d", Cast::Lower, Cast::Lower},           {"conv2d", Cast::Lower, Cast::Lower},
    {"conv3d", Cast::Lower, Cast::Lower},           {"conv_transpose1d", Cast::Lower, Cast::Lower},
    {"conv_transpose2d", Cast::Lower, Cast::Lower}, {"conv_transpose3d", Cast::Lower, Cast::Lower},
    {"convolution", Cast::None, Cast::Lower},
};

const CastRule& rule_of(std::string_view function) {
  for (const CastRule& rule : cast_rules)
    if (function == rule.function) return rule;
  fail("autocast: there is no rule for ", function);
}

// Sizes and steps beyond this are refused, so that no sum of products of them overflows.
constexpr int64_t kLargest = int64_t{1} << 31;

Tensor run(const Op& op, std::initializer_list<const Tensor*> inputs, Sizes sizes,
           const Convolution& how) {
  const Device device = (**inputs.begin())->device();
  const MemoryFormat format =
      how.channels_last ? MemoryFormat::ChannelsLast : MemoryFormat::Contiguous;
  const DType dtype = (*inputs.begin())->dtype(), compute = kernel_dtype(dtype, device);
  std::vector<Tensor> operands;
  for (const Tensor* input : inputs)
    if (input->defined()) operands.push_back(operand_in(*input, compute, format));
  std::vector<Scalar> attributes;
  for (const DimVector* list : {&how.stride, &how.padding, &how.dilation})
    for (int64_t value : *list) attributes.emplace_back(value);
  attributes.emplace_back(how.groups);
  Tensor out = empty_in(op.name, sizes, compute, device, format);
  dispatch(op, operands, attributes, std::span<const Tensor>(&out, 1));
  return narrowed(out, dtype);
}

Tensor forward(const Tensor& x, const Tensor& w, const Tensor& bias, Sizes sizes,
               const Convolution& how);
Tensor grad_input(const Tensor& g, const Tensor& w, const Tensor& bias, Sizes sizes,
                  const Convolution& how);
Tensor grad_weight(const Tensor& x, const Tensor& g, Sizes sizes, const Convolution& how);

// Of g (batch, channels, ...): a sum per channel.
Tensor grad_bias(const Tensor& g) {
  DimVector dims{0};
  for (int64_t d = 2; d < g.dim(); ++d) dims.push_back(d);
  return sum(g, dims, false);
}

// Edges: the two factors, then the bias where there is one. Saved: the factors, those that a wanted
// gradient reads.
struct ConvNode : Node {
  ConvNode(const Convolution& how, Sizes first, Sizes second)
      : how(how), first_sizes(first), second_sizes(second) {}
  bool needs_bias() const { return edges().size() > 2 && needs(2); }
  std::vector<Attribute> attributes() const override {
    return {{"stride", how.stride},
            {"padding", how.padding},
            {"dilation", how.dilation},
            {"transposed", how.transposed},
            {"groups", how.groups}};
  }
  Convolution how;
  DimVector first_sizes, second_sizes;  // of the factors
};

// y(x, w, bias)
struct ConvBackward final : ConvNode {
  using ConvNode::ConvNode;
  const EntryKind& kind() const override { return conv_entry; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    const Tensor& g = grads[0];
    if (needs(0)) grad_inputs[0] = grad_input(g, saved(1), Tensor(), first_sizes, how);
    if (needs(1)) grad_inputs[1] = grad_weight(saved(0), g, second_sizes, how);
    if (needs_bias()) grad_inputs[2] = grad_bias(g);
  }
};

// x(g, w, bias)
struct ConvInputBackward final : ConvNode {
  using ConvNode::ConvNode;
  const EntryKind& kind() const override { return conv_grad_input_entry; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    const Tensor& u = grads[0];
    if (needs(0)) grad_inputs[0] = forward(u, saved(1), Tensor(), first_sizes, how);
    if (needs(1)) grad_inputs[1] = grad_weight(u, saved(0), second_sizes, how);
    if (needs_bias()) grad_inputs[2] = grad_bias(u);
  }
};

// w(x, g)
struct ConvWeightBackward final : ConvNode {
  using ConvNode::ConvNode;
  const EntryKind& kind() const override { return conv_grad_weight_entry; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    const Tensor& v = grads[0];
    if (needs(0)) grad_inputs[0] = grad_input(saved(1), v, Tensor(), first_sizes, how);
    if (needs(1)) grad_inputs[1] = forward(saved(0), v, Tensor(), second_sizes, how);
  }
};

template <class N>
void record_product(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                    const Convolution& how) {
  N& node = bias.defined() ? record<N>({&a, &b, &bias}, out, 2, how, a.sizes(), b.sizes())
                           : record<N>({&a, &b}, out, 2, how, a.sizes(), b.sizes());
  if (node.needs(1)) node.save_input(0, a);
  if (node.needs(0)) node.save_input(1, b);
}

bool should_record_all(const Tensor& a, const Tensor& b, const Tensor& bias) {
  return bias.defined() ? should_record(a, b, bias) : should_record(a, b);
}

Tensor forward(const Tensor& x, const Tensor& w, const Tensor& bias, Sizes sizes,
               const Convolution& how) {
  Tensor y = run(conv_op, {&x, &w, &bias}, sizes, how);
  if (should_record_all(x, w, bias)) record_product<ConvBackward>(x, w, bias, y, how);
  return y;
}

Tensor grad_input(const Tensor& g, const Tensor& w, const Tensor& bias, Sizes sizes,
                  const Convolution& how) {
  Tensor x = run(conv_grad_input_op, {&g, &w, &bias}, sizes, how);
  if (should_record_all(g, w, bias)) record_product<ConvInputBackward>(g, w, bias, x, how);
  return x;
}

Tensor grad_weight(const Tensor& x, const Tensor& g, Sizes sizes, const Convolution& how) {
  Tensor w = run(conv_grad_weight_op, {&x, &g}, sizes, how);
  if (should_record(x, g)) record_product<ConvWeightBackward>(x, g, Tensor(), w, how);
  return w;
}

// ---- checks -------------------------------------------------------------------------------------

DimVector per_dim(const char* op, const char* what, const DimVector& values, size_t rank,
                  int64_t least) {
  TAPEGRAD_CHECK(values.size() == rank || values.size() == 1, op, ": expected ", what,
                 " to be a single integer value or a list of ", rank, " values to match the ",
                 "convolution dimensions, but got ", what, "=", to_string(values));
  for (int64_t value : values) {
    if (least == 1)
      TAPEGRAD_CHECK(value >= 1, op, ": non-positive ", what, " is not supported, got ",
                     to_string(values));
    TAPEGRAD_CHECK(value >= least, op, ": negative ", what, " is not supported, got ",
                   to_string(values));
    TAPEGRAD_CHECK(value < kLargest, op, ": ", what, " is too large, got ", to_string(values));
  }
  return values.size() == rank ? values : DimVector(rank, values[0]);
}

void check_types(const char* op, const Tensor& x, const Tensor& w, const Tensor& bias) {
  TAPEGRAD_CHECK(x.dtype() == w.dtype(), op, ": Input type (", name(x.dtype()),
                 ") and weight type (", name(w.dtype()),
                 ") should be the same; cast one with .to()");
  if (bias.defined())
    TAPEGRAD_CHECK(x.dtype() == bias.dtype(), op, ": Input type (", name(x.dtype()),
                   ") and bias type (", name(bias.dtype()),
                   ") should be the same; cast one with .to()");
  TAPEGRAD_CHECK(is_floating(x.dtype()) || is_complex(x.dtype()), op, ": not implemented for ",
                 name(x.dtype()), "; call .float() first");
}

void check_channels(const char* op, const Tensor& x, const Tensor& w, const Tensor& bias,
                    const Convolution& how) {
  const int64_t groups = how.groups;
  TAPEGRAD_CHECK(
      groups > 0, op,
      ": non-positive groups is not supported, expected groups to be greater than 0, but got groups=",
      groups);
  TAPEGRAD_CHECK(w.size(0) % groups == 0 && w.size(0) >= groups, op, ": Given groups=", groups,
                 ", expected weight to be at least ", groups,
                 " at dimension 0 and divisible by it, ", "but got weight of size ",
                 to_string(w.sizes()));
  const int64_t expected = how.transposed ? w.size(0) : w.size(1) * groups;
  TAPEGRAD_CHECK(x.size(1) == expected, op, ": Given groups=", groups, ", weight of size ",
                 to_string(w.sizes()), ", expected input", to_string(x.sizes()), " to have ",
                 expected, " channels, but got ", x.size(1), " channels instead");
  const int64_t out = how.transposed ? w.size(1) * groups : w.size(0);
  if (bias.defined())
    TAPEGRAD_CHECK(bias.dim() == 1 && bias.size(0) == out, op, ": Given weight of size ",
                   to_string(w.sizes()), ", expected bias to be 1-dimensional with ", out,
                   " elements, but got bias of size ", to_string(bias.sizes()), " instead");
}

DimVector forward_sizes(const char* op, const Tensor& x, const Tensor& w, const Convolution& how) {
  DimVector sizes{x.size(0), w.size(0)}, padded, kernel;
  bool fits = true;
  for (size_t d = 0; d < how.stride.size(); ++d) {
    TAPEGRAD_CHECK(w.size(2 + d) > 0 && w.size(2 + d) < kLargest && x.size(2 + d) < kLargest, op,
                   ": kernel size must be positive, got weight of size ", to_string(w.sizes()));
    padded.push_back(x.size(2 + d) + 2 * how.padding[d]);
    kernel.push_back(how.dilation[d] * (w.size(2 + d) - 1) + 1);
    fits = fits && kernel.back() <= padded.back();
    sizes.push_back((padded.back() - kernel.back()) / how.stride[d] + 1);
  }
  TAPEGRAD_CHECK(fits, op, ": Calculated padded input size per channel: (", joined(padded, " x "),
                 "). Kernel size: (", joined(kernel, " x "),
                 "). Kernel size can't be greater than actual input size");
  return sizes;
}

DimVector transposed_sizes(const char* op, const Tensor& x, const Tensor& w,
                           const Convolution& how) {
  DimVector sizes{x.size(0), w.size(1) * how.groups};
  for (size_t d = 0; d < how.stride.size(); ++d) {
    const int64_t extra = how.output_padding[d];
    TAPEGRAD_CHECK(extra < how.stride[d] || extra < how.dilation[d], op,
                   ": output padding must be smaller than either stride or dilation, but got ",
                   "output_padding=", to_string(how.output_padding),
                   ", stride=", to_string(how.stride), ", dilation=", to_string(how.dilation));
    TAPEGRAD_CHECK(x.size(2 + d) > 0 && x.size(2 + d) < kLargest && w.size(2 + d) > 0 &&
                       w.size(2 + d) < kLargest,
                   op, ": sizes must be positive, got input of size ", to_string(x.sizes()),
                   " and weight of size ", to_string(w.sizes()));
    const int64_t size = (x.size(2 + d) - 1) * how.stride[d] - 2 * how.padding[d] +
                         how.dilation[d] * (w.size(2 + d) - 1) + extra + 1;
    TAPEGRAD_CHECK(size > 0 && size < kLargest, op,
                   ": Given input size per channel: ", to_string(x.sizes().subspan(2)),
                   ". Calculated output size in dimension ", d, " is ", size,
                   ". Output size is too small");
    sizes.push_back(size);
  }
  return sizes;
}

// In a result, and in gradients, the channels lie last where they do in a factor, as in PyTorch.
bool lie_channels_last(const Tensor& x, const Tensor& w) {
  return x.dim() == 4 && (suggested_format(*x.impl()) == MemoryFormat::ChannelsLast ||
                          suggested_format(*w.impl()) == MemoryFormat::ChannelsLast);
}

// Three convolutions of real numbers in the place of four: the imaginary part of (a + ib)(c + id) is
// (a + b)(c + d) - ac - bd.
Tensor complex_convolution(const char* op, const Tensor& x, const Tensor& w, const Tensor& bias,
                           const Convolution& how) {
  const WithoutAutocast lifted;
  const Tensor x_real = real(x), x_imag = imag(x), w_real = real(w), w_imag = imag(w);
  Tensor bias_real, bias_both;
  if (bias.defined()) {
    bias_real = real(bias);
    bias_both = bias_real + imag(bias);
  }
  Tensor first = convolution(op, x_real, w_real, bias_real, how);
  Tensor second = convolution(op, x_imag, w_imag, {}, how);
  Tensor both = convolution(op, x_real + x_imag, w_real + w_imag, bias_both, how);
  return complex_of(first - second, both - first - second);
}

}  // namespace

Tensor convolution(const char* op, const Tensor& input, const Tensor& weight, const Tensor& bias,
                   const Convolution& given) {
  if (autocast_devices) [[unlikely]]
    return run_cast(rule_of(op), [&](auto&... operands) {
      return convolution(op, operands..., given);
    }, input, weight, bias);
  const int64_t rank = weight.dim() - 2;
  TAPEGRAD_CHECK(rank >= 1 && rank <= 3, op,
                 ": expected a weight of 3, 4 or 5 dimensions, got weight of size ",
                 to_string(weight.sizes()));
  TAPEGRAD_CHECK(input.dim() == rank + 1 || input.dim() == rank + 2, op, ": Expected ", rank + 1,
                 "D (unbatched) or ", rank + 2, "D (batched) input to ", op,
                 ", but got input of size: ", to_string(input.sizes()));
  const bool unbatched = input.dim() == rank + 1;
  Tensor x = unbatched ? unsqueeze(input, 0) : input;
  Convolution how;
  how.stride = per_dim(op, "stride", given.stride, rank, 1);
  how.padding = per_dim(op, "padding", given.padding, rank, 0);
  how.dilation = per_dim(op, "dilation", given.dilation, rank, 1);
  how.transposed = given.transposed;
  how.output_padding = per_dim(op, "output_padding", given.output_padding, rank, 0);
  how.groups = given.groups;
  check_types(op, x, weight, bias);
  check_channels(op, x, weight, bias, how);
  if (is_complex(x.dtype())) return complex_convolution(op, input, weight, bias, given);
  how.channels_last = lie_channels_last(x, weight);
  Tensor y = how.transposed ? grad_input(x, weight, bias, transposed_sizes(op, x, weight, how), how)
                            : forward(x, weight, bias, forward_sizes(op, x, weight, how), how);
  return unbatched ? squeeze(y, DimVector{0}) : y;
}

}  // namespace tapegrad
