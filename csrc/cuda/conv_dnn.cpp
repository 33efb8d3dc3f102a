// Convolution by cuDNN: y, x or w are what one node makes of the other two. See Note [Graphs of cuDNN].
//
// All tensors of a call lie in the usual order or with their channels last, and are told to the library as
// they lie. One spatial dimension is two, the first of size one.
//
// A bias is added by the plan where the library has one that does so, else by a kernel of its own. Engines that give
// other bits from run to run are not used for results: a checkpoint or a budget computes those again, and expects
// the same.
#include "cuda/conv_dnn.h"

#include "core/layout.h"
#include "core/registry.h"
#include "core/tensor.h"
#include "cuda/dnn.h"
#include "cuda/settings.h"

namespace tapegrad::cuda {

namespace {

using dnn::alignment_of;

constexpr size_t kMostDims = 5;
constexpr int64_t kMostElements = (int64_t{1} << 31) - 1;  // that engines count

// A tensor as the library is told of it: (batch, channels, spatial...), two or three spatial dimensions.
struct Operand {
  void* data;
  size_t rank;
  int64_t sizes[kMostDims], strides[kMostDims];

  Operand(const TensorImpl& x, bool channels_last) : data(x.data()) {
    rank = 0;
    for (size_t d = 0; d < static_cast<size_t>(x.dim()); ++d) {
      if (d == 2 && x.dim() == 3) sizes[rank++] = 1;
      sizes[rank++] = x.size(d);
    }
    int64_t stride = 1;
    if (channels_last) {
      strides[1] = 1;
      stride = sizes[1];
    }
    for (size_t d = rank; d-- > 0;) {
      if (channels_last && d == 1) continue;
      strides[d] = stride;
      stride *= sizes[d];
    }
  }
  std::span<const int64_t> all_sizes() const { return {sizes, rank}; }
  std::span<const int64_t> all_strides() const { return {strides, rank}; }
};

// A call: the convolution is y(x, w), whichever of them is the result.
struct Call {
  ConvPart part;
  DType dtype;
  int device;
  const TensorImpl *x_of, *w_of, *y_of;
  const TensorImpl* bias;
  bool channels_last;
  Operand x, w, y;
  int64_t stride[3], padding[3], dilation[3];
  size_t spatial;

  Call(ConvPart part, const OpCall& call)
      : part(part),
        dtype(call.out().dtype()),
        device(call.out().device().index),
        x_of(part == ConvPart::GradInput ? &call.out() : &call.in(0)),
        w_of(part == ConvPart::GradWeight ? &call.out() : &call.in(1)),
        y_of(part == ConvPart::Forward     ? &call.out()
             : part == ConvPart::GradInput ? &call.in(0)
                                           : &call.in(1)),
        bias(call.inputs.size() > 2 ? &call.in(2) : nullptr),
        channels_last(!is_plain(*x_of) || !is_plain(*w_of) || !is_plain(*y_of)),
        x(*x_of, channels_last),
        w(*w_of, channels_last),
        y(*y_of, channels_last),
        spatial(x.rank - 2) {
    // Attributes: stride, padding and dilation of each spatial dimension, then groups.
    const auto given = static_cast<size_t>(x_of->dim()) - 2;
    stride[0] = dilation[0] = 1;
    padding[0] = 0;
    for (size_t d = 0; d < given; ++d) {
      const size_t to = spatial - given + d;
      stride[to] = call.integer(d);
      padding[to] = call.integer(given + d);
      dilation[to] = call.integer(2 * given + d);
    }
  }

  static bool is_plain(const TensorImpl& x) { return is_contiguous(x, MemoryFormat::Contiguous); }

  const Operand& result() const {
    return part == ConvPart::Forward ? y : part == ConvPart::GradInput ? x : w;
  }
};

bool is_supported(const Call& c) {
  for (const TensorImpl* t : {c.x_of, c.w_of, c.y_of})
    if (t->numel() == 0 || t->numel() > kMostElements) return false;
  return is_floating(c.dtype);
}

bool must_repeat(ConvPart part) {
  return part != ConvPart::GradWeight || dnn_settings.deterministic || deterministic_algorithms;
}

dnn::Key key_of(const Call& c, bool with_bias) {
  dnn::Key key;
  int64_t flags = static_cast<int64_t>(c.part) << 8 | static_cast<int64_t>(c.dtype);
  for (bool flag : {c.channels_last, with_bias, must_repeat(c.part), dnn_settings.allow_tf32,
                    dnn_settings.benchmark})
    flags = flags << 1 | flag;
  for (const Operand* operand : {&c.x, &c.w, &c.y})
    flags = flags << 5 | alignment_of(operand->data);
  if (with_bias) flags = flags << 5 | alignment_of(c.bias->data());
  key.put(flags);
  key.put(dnn_settings.benchmark ? dnn_settings.benchmark_limit : 1);
  for (const Operand* operand : {&c.x, &c.w, &c.y}) key.put(operand->all_sizes());
  for (const int64_t* list : {c.stride, c.padding, c.dilation}) key.put({list, c.spatial});
  return key;
}

// The numbers of the node's attributes: they stand in the same order for all three.
struct NodeNumbers {
  int type, alpha, w, x, y;
};
constexpr NodeNumbers kNumbers[] = {
    {dnn::kConvolutionForward, dnn::kForwardAlpha, dnn::kForwardW, dnn::kForwardX, dnn::kForwardY},
    {dnn::kConvolutionGradInput, dnn::kGradInputAlpha, dnn::kGradInputW, dnn::kGradInputX,
     dnn::kGradInputY},
    {dnn::kConvolutionGradWeight, dnn::kGradWeightAlpha, dnn::kGradWeightW, dnn::kGradWeightX,
     dnn::kGradWeightY},
};

// Tensors in the order in which addresses_of() has them.
dnn::Graph graph_of(const Call& c, bool with_bias) {
  using namespace dnn;
  Graph graph;
  const dnn::DataType type = data_type(c.dtype);
  const dnn::DataType compute = c.dtype == DType::Float64 ? kDouble : kFloat;
  const auto tensor_of = [&](const Operand& operand) {
    return graph.tensor(operand.all_sizes(), operand.all_strides(), type,
                        {.alignment = alignment_of(operand.data)});
  };
  int64_t x = tensor_of(c.x), w = tensor_of(c.w), y = tensor_of(c.y);
  int64_t& result = c.part == ConvPart::Forward ? y : c.part == ConvPart::GradInput ? x : w;
  const int64_t sum = result;
  if (with_bias)
    result = graph.tensor(c.result().all_sizes(), c.result().all_strides(), compute,
                          {.is_virtual = true});
  const auto list = [&](const int64_t* values) {
    return integers(std::vector<int64_t>(values, values + c.spatial));
  };
  const int64_t how = graph.inner(
      kConvolution, {{kConvolutionRank, integer(static_cast<int64_t>(c.spatial))},
                     {kConvolutionPrecision, data_type_value(compute)},
                     {kConvolutionMode, choice(Type::ConvolutionMode, kCrossCorrelation)},
                     {kConvolutionPaddingBefore, list(c.padding)},
                     {kConvolutionPaddingAfter, list(c.padding)},
                     {kConvolutionStrides, list(c.stride)},
                     {kConvolutionDilations, list(c.dilation)}});
  const NodeNumbers& numbers = kNumbers[static_cast<int>(c.part)];
  const Type scale = compute == kDouble ? Type::Double : Type::Float;
  graph.node(numbers.type, {{numbers.alpha, real(1, scale)},
                            {numbers.alpha + 1, real(0, scale)},  // what is kept of the result
                            {numbers.alpha + 2, inner(how)},
                            {numbers.w, tensor(w)},
                            {numbers.x, tensor(x)},
                            {numbers.y, tensor(y)}});
  if (with_bias) {
    int64_t sizes[kMostDims], strides[kMostDims];
    const int64_t channels = c.bias->numel();
    for (size_t d = 0; d < c.x.rank; ++d) {
      sizes[d] = d == 1 ? channels : 1;
      strides[d] = d == 0 || c.channels_last ? channels : 1;
    }
    strides[1] = 1;
    const int64_t bias = graph.tensor({sizes, c.x.rank}, {strides, c.x.rank}, type,
                                      {.alignment = alignment_of(c.bias->data())});
    graph.pointwise(kAdd, result, bias, sum);
  }
  return graph;
}

std::vector<void*> addresses_of(const Call& c, bool with_bias) {
  std::vector<void*> addresses{c.x.data, c.w.data, c.y.data};
  if (with_bias) addresses.push_back(c.bias->data());
  return addresses;
}

dnn::Plan plan_of(const Call& c, bool with_bias, const dnn::Key& key) {
  dnn::Choice choice;
  choice.family = "conv";
  choice.key = &key;
  // It takes a second or two. For groups there may be no other fast engine, and for plans with a bias there is
  // another way.
  choice.avoids_compiling = with_bias;
  choice.avoided.push_back(dnn::kReducesInLessPrecision);
  if (must_repeat(c.part)) choice.avoided.push_back(dnn::kNondeterministic);
  if (c.dtype == DType::Float32) {
    choice.avoided.push_back(dnn::kConvertsInputsDown);
    if (!dnn_settings.allow_tf32) choice.avoided.push_back(dnn::kUsesTensorCores);
  }
  int64_t nbytes = 0;
  for (const TensorImpl* t : {c.x_of, c.w_of, c.y_of})
    nbytes += t->numel() * static_cast<int64_t>(itemsize(c.dtype));
  choice.most_workspace += 2 * nbytes;
  if (dnn_settings.benchmark) {
    choice.timed = dnn_settings.benchmark_limit;
    choice.addresses = addresses_of(c, with_bias);
  }
  return dnn::make_plan(graph_of(c, with_bias), c.device, choice);
}

const dnn::Plan& find_plan(const Call& c, bool with_bias) {
  static auto& plans = *new dnn::PlanCache;
  const dnn::Key key = key_of(c, with_bias);
  return plans.find(c.device, key, [&] { return plan_of(c, with_bias, key); });
}

// result += bias, one number for each channel.
void add_bias(const OpCall& call) {
  static const Op& add = *find_op("add");
  const TensorImpl &out = call.out(), &bias = call.in(2);
  DimVector strides(static_cast<size_t>(out.dim()), 0);
  strides[1] = 1;
  const Tensor wide =
      alias(Tensor(const_cast<TensorImpl*>(&bias)), out.sizes(), strides, bias.offset());
  TensorImpl* const inputs[] = {call.outputs[0], wide.impl()};
  const Scalar attributes[] = {out.dtype()};
  add.kernels[static_cast<int>(DeviceType::CUDA)]({add, inputs, attributes, call.outputs});
}

}  // namespace

bool convolve_with_dnn(ConvPart part, const OpCall& call) {
  dnn_refusal.clear();
  if (!goes_to_dnn()) return false;
  const Call c(part, call);
  if (!is_supported(c)) return false;
  // Of gradients the library has none with a bias, and of groups slow ones.
  const bool is_grouped = c.x.sizes[1] != c.w.sizes[1];
  if (c.bias && part == ConvPart::Forward && !is_grouped && dnn_adds_bias) {
    const dnn::Plan& fused = find_plan(c, true);
    if (fused.is_usable()) {
      fused.run(call.op.name, c.device, {c.x.data, c.w.data, c.y.data, c.bias->data()});
      ++dnn_convolutions;
      return true;
    }
  }
  const dnn::Plan& plan = find_plan(c, false);
  if (!plan.is_usable()) {
    dnn_refusal = plan.reason();
    return false;
  }
  plan.run(call.op.name, c.device, {c.x.data, c.w.data, c.y.data});
  if (c.bias) add_bias(call);
  ++dnn_convolutions;
  return true;
}

}  // namespace tapegrad::cuda
