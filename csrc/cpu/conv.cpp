// Convolution: reads the geometry of a call and chooses a method (conv.h).
//
// Why own kernels and not oneDNN's: see docs/design/0012-convolution.md.
#include "cpu/conv.h"

#include <algorithm>

#include "core/parallel.h"
#include "core/registry.h"
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

// Of x, w and perhaps a bias.
void conv(const OpCall& call) {
  const ConvShape s = shape_of(call, call.in(0), call.in(1), call.out());
  if (call.out().numel() == 0) return;
  with_float_type(call.out().dtype(), [&]<class T>(T) {
    T* y = call.out().data_as<T>();
    const T* bias = bias_of<T>(call);
    if (s.depth() == 0)
      return fill_channels(bias, s.batch, s.groups * s.out_channels, volume(s.out), y);
    run_conv<T>(s, call.in(0).data_as<T>(), call.in(1).data_as<T>(), bias, y);
  });
}

// Of y's gradient, w and perhaps a bias: x's gradient, or the transposed convolution.
void conv_grad_input(const OpCall& call) {
  const ConvShape s = shape_of(call, call.out(), call.in(1), call.in(0));
  if (call.out().numel() == 0) return;
  with_float_type(call.out().dtype(), [&]<class T>(T) {
    T* x = call.out().data_as<T>();
    const T* bias = bias_of<T>(call);
    if (s.out_channels * s.taps() == 0 || volume(s.out) == 0)
      return fill_channels(bias, s.batch, s.groups * s.in_channels, volume(s.in), x);
    run_grad_input<T>(s, call.in(0).data_as<T>(), call.in(1).data_as<T>(), bias, x);
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
    run_grad_weight<T>(s, call.in(0).data_as<T>(), call.in(1).data_as<T>(), w);
  });
}

// Operands are contiguous.
const KernelList<DeviceType::CPU> kKernels = {
    {"conv", conv},
    {"conv_grad_input", conv_grad_input},
    {"conv_grad_weight", conv_grad_weight},
};

}  // namespace

}  // namespace tapegrad::cpu
