// Convolution: reads the geometry of a call and chooses a method (conv.h).
//
// Why own kernels and not oneDNN's: see docs/design/0012-convolution.md.
#include "cpu/conv.h"

#include <algorithm>

#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/conv_kernels.h"
#include "cpu/gemm.h"

namespace tapegrad::cpu {

namespace {

constexpr Triple kOnes{1, 1, 1}, kZeros{0, 0, 0};
// Below this many places an image's product is too narrow, and images are better joined.
constexpr int64_t kNarrowProduct = 64;

}  // namespace

bool ConvShape::is_pointwise() const {
  return kernel == kOnes && stride == kOnes && padding == kZeros && in == out &&
         volume(in) >= kNarrowProduct;
}

namespace {

// The last `rank` sizes of a tensor, behind ones.
Triple spatial(const TensorImpl& tensor) {
  Triple sizes = kOnes;
  const size_t rank = tensor.dim() - 2;
  for (size_t d = 0; d < rank; ++d) sizes[3 - rank + d] = tensor.size(2 + d);
  return sizes;
}

// Attributes: stride, padding and dilation of each spatial dimension, then groups.
ConvShape shape_of(const OpCall& call, const TensorImpl& x, const TensorImpl& w,
                   const TensorImpl& y) {
  ConvShape s;
  const size_t rank = x.dim() - 2;
  s.groups = call.integer(3 * rank);
  s.batch = x.size(0);
  s.in_channels = w.size(1);
  s.out_channels = w.size(0) / s.groups;
  s.in = spatial(x);
  s.out = spatial(y);
  s.kernel = spatial(w);
  s.stride = s.dilation = kOnes;
  s.padding = kZeros;
  for (size_t d = 0; d < rank; ++d) {
    s.stride[3 - rank + d] = call.integer(d);
    s.padding[3 - rank + d] = call.integer(rank + d);
    s.dilation[3 - rank + d] = call.integer(2 * rank + d);
  }
  return s;
}

template <class T>
void fill_channels(const T* bias, int64_t batch, int64_t channels, int64_t places, T* y) {
  for (int64_t k = 0; k < batch * channels; ++k)
    std::fill_n(y + k * places, places, bias ? bias[k % channels] : T(0));
}

// One product per image and group: y = w x, or its transpose for the gradient of x.
template <class T>
void multiply_images(const ConvShape& s, bool transpose, const T* w, const T* x, const T* bias,
                     T* y) {
  const int64_t places = volume(s.in), m = transpose ? s.in_channels : s.out_channels;
  const int64_t k = transpose ? s.out_channels : s.in_channels;
  if (bias) fill_channels(bias, s.batch, s.groups * m, places, y);
  const int64_t sizes[] = {s.batch, s.groups};
  const int64_t w_strides[] = {0, s.weights()};
  const int64_t x_strides[] = {s.groups * k * places, k * places};
  const int64_t y_strides[] = {s.groups * m * places, m * places};
  batched_gemm<T>({sizes, w_strides, x_strides, y_strides}, transpose, false, m, places, k, T(1), w,
                  s.in_channels, x, places, bias ? T(1) : T(0), y, places);
}

template <class T>
void run_conv(const ConvShape& s, const T* x, const T* w, const T* bias, T* y) {
  if (s.is_pointwise()) return multiply_images(s, false, w, x, bias, y);
  if (prefers_planes<T>(s)) return conv_by_planes(s, x, w, bias, y);
  conv_by_columns(s, x, w, bias, y);
}

template <class T>
void run_grad_input(const ConvShape& s, const T* g, const T* w, const T* bias, T* x) {
  if (s.is_pointwise()) return multiply_images(s, true, w, g, bias, x);
  if (prefers_planes_for_input<T>(s)) return conv_grad_input_by_planes(s, g, w, bias, x);
  conv_grad_input_by_columns(s, g, w, bias, x);
}

template <class T>
void run_grad_weight(const ConvShape& s, const T* x, const T* g, T* w) {
  if (!s.is_pointwise()) {
    if (prefers_planes_for_weight(s)) return conv_grad_weight_by_planes(s, x, g, w);
    return conv_grad_weight_by_columns(s, x, g, w);
  }
  const int64_t places = volume(s.in);
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t k = 0; k < s.groups; ++k)
      gemm<T>(false, true, s.out_channels, s.in_channels, places, T(1),
              g + (n * s.groups + k) * s.result(), places, x + (n * s.groups + k) * s.image(),
              places, n ? T(1) : T(0), w + k * s.weights(), s.in_channels);
}

template <class T>
const T* bias_of(const OpCall& call) {
  return call.inputs.size() > 2 ? call.in(2).data_as<T>() : nullptr;
}

// ---- channels last --------------------------------------------------------------------------------

// Whether the channels of all three lie last. Tensors that are both, because a size is one, are in the
// usual order.
bool are_channels_last(const OpCall& call) {
  bool usual = true;
  for (const TensorImpl* each : {&call.in(0), &call.in(1), &call.out()})
    usual = usual && each->is_contiguous();
  return !usual;
}

// Tensors [batch][rows][columns] with the last two exchanged.
template <class T>
void turn(const T* from, int64_t batch, int64_t rows, int64_t columns, T* to) {
  const int64_t size = rows * columns;
  parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      conv_kernels<T>().transpose(from + n * size, columns, rows, columns, to + n * size, rows);
  });
}

// Runs body(a, b, c) on tensors in the usual order, of which the inputs a and b are copies, and c is copied
// back. Each comes as its size: how many images or output channels, places, channels.
template <class T, class Body>
void in_usual_order(const T* a, const Triple& a_size, const T* b, const Triple& b_size, T* c,
                    const Triple& c_size, Body&& body) {
  Workspace<T> a_copy(volume(a_size)), b_copy(volume(b_size)), result(volume(c_size));
  {
    BlockingSection blocking;
    turn(a, a_size[0], a_size[1], a_size[2], a_copy.get());
    turn(b, b_size[0], b_size[1], b_size[2], b_copy.get());
  }
  body(a_copy.get(), b_copy.get(), result.get());
  BlockingSection blocking;
  turn(result.get(), c_size[0], c_size[2], c_size[1], c);
}

Triple size_of_x(const ConvShape& s) { return {s.batch, volume(s.in), s.groups * s.in_channels}; }
Triple size_of_w(const ConvShape& s) {
  return {s.groups * s.out_channels, s.taps(), s.in_channels};
}
Triple size_of_y(const ConvShape& s) { return {s.batch, volume(s.out), s.groups * s.out_channels}; }

template <class T>
void run_conv_last(const ConvShape& s, const T* x, const T* w, const T* bias, T* y) {
  if (prefers_channels_last<T>(s, s.out_channels)) return conv_channels_last(s, x, w, bias, y);
  in_usual_order(x, size_of_x(s), w, size_of_w(s), y, size_of_y(s),
                 [&](const T* a, const T* b, T* c) { run_conv(s, a, b, bias, c); });
}

template <class T>
void run_grad_input_last(const ConvShape& s, const T* g, const T* w, const T* bias, T* x) {
  if (prefers_channels_last<T>(s, s.in_channels))
    return conv_grad_input_channels_last(s, g, w, bias, x);
  in_usual_order(g, size_of_y(s), w, size_of_w(s), x, size_of_x(s),
                 [&](const T* a, const T* b, T* c) { run_grad_input(s, a, b, bias, c); });
}

template <class T>
void run_grad_weight_last(const ConvShape& s, const T* x, const T* g, T* w) {
  if (prefers_channels_last<T>(s, s.out_channels))
    return conv_grad_weight_channels_last(s, x, g, w);
  in_usual_order(x, size_of_x(s), g, size_of_y(s), w, size_of_w(s),
                 [&](const T* a, const T* b, T* c) { run_grad_weight(s, a, b, c); });
}

// ---- calls ----------------------------------------------------------------------------------------

// What is left where there is nothing to sum: the bias, or zeros.
template <class T>
void fill_with_bias(const OpCall& call, const ConvShape& s, int64_t channels, int64_t places) {
  const T* bias = bias_of<T>(call);
  T* y = call.out().data_as<T>();
  if (!are_channels_last(call)) return fill_channels(bias, s.batch, channels, places, y);
  for (int64_t k = 0; k < s.batch * places; ++k)
    for (int64_t c = 0; c < channels; ++c) y[k * channels + c] = bias ? bias[c] : T(0);
}

// Of x, w and perhaps a bias.
void conv(const OpCall& call) {
  const ConvShape s = shape_of(call, call.in(0), call.in(1), call.out());
  if (call.out().numel() == 0) return;
  with_float_type(call.out().dtype(), [&]<class T>(T) {
    if (s.depth() == 0) return fill_with_bias<T>(call, s, s.groups * s.out_channels, volume(s.out));
    (are_channels_last(call) ? run_conv_last<T>
                             : run_conv<T>)(s, call.in(0).data_as<T>(), call.in(1).data_as<T>(),
                                            bias_of<T>(call), call.out().data_as<T>());
  });
}

// Of y's gradient, w and perhaps a bias: x's gradient, or the transposed convolution.
void conv_grad_input(const OpCall& call) {
  const ConvShape s = shape_of(call, call.out(), call.in(1), call.in(0));
  if (call.out().numel() == 0) return;
  with_float_type(call.out().dtype(), [&]<class T>(T) {
    if (s.out_channels * s.taps() == 0 || volume(s.out) == 0)
      return fill_with_bias<T>(call, s, s.groups * s.in_channels, volume(s.in));
    (are_channels_last(call) ? run_grad_input_last<T>
                             : run_grad_input<T>)(s, call.in(0).data_as<T>(),
                                                  call.in(1).data_as<T>(), bias_of<T>(call),
                                                  call.out().data_as<T>());
  });
}

// Of x and y's gradient: w's gradient.
void conv_grad_weight(const OpCall& call) {
  const ConvShape s = shape_of(call, call.in(0), call.out(), call.in(1));
  if (call.out().numel() == 0) return;
  with_float_type(call.out().dtype(), [&]<class T>(T) {
    T* w = call.out().data_as<T>();
    if (s.batch == 0 || volume(s.out) == 0) {
      std::fill_n(w, call.out().numel(), T(0));
      return;
    }
    (are_channels_last(call)
         ? run_grad_weight_last<T>
         : run_grad_weight<T>)(s, call.in(0).data_as<T>(), call.in(1).data_as<T>(), w);
  });
}

// Operands and result are contiguous, or all of them have their channels last.
const KernelList<DeviceType::CPU> kKernels = {
    {"conv", conv},
    {"conv_grad_input", conv_grad_input},
    {"conv_grad_weight", conv_grad_weight},
};

}  // namespace

}  // namespace tapegrad::cpu
