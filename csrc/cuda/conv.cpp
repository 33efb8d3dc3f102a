// Convolution: csrc/cpu/conv.cpp tells what the ops are. cuDNN computes them (conv_dnn.h), but for depthwise ones whose
// channels lie last (depthwise.h), and where it does not, kernels/conv.cu; of those, kernels of one tap without
// stride are plain products.
//
// All tensors of a call are in the usual order, or have their channels last. Kernels of our own know the
// usual order, and float32 and float64, alone: copies are made for them.
#include <algorithm>

#include "core/registry.h"
#include "core/tensor.h"
#include "cuda/conv_dnn.h"
#include "cuda/depthwise.h"
#include "cuda/elements.h"
#include "cuda/launch.h"
#include "cuda/plain.h"
#include "cuda/product.h"

namespace tapegrad::cuda {

namespace {

// ---- as kernels/conv.cu has them

struct ConvArguments {
  int64_t batch, groups, in_channels, out_channels;
  int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
  const void *first, *second, *bias;
  void* result;
  int64_t tile_rows, tile_columns, splits;

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t in_places() const { return in[0] * in[1] * in[2]; }
  int64_t out_places() const { return out[0] * out[1] * out[2]; }
  int64_t weights() const { return groups * out_channels * in_channels * taps(); }
};
struct PartsArguments {
  int64_t count, parts;
  const void* x;
  void* y;
};

constexpr int64_t kTileSide = 16;
constexpr int kTileThreads = 256;
constexpr int kManyPerThread = 4;
constexpr int64_t kFewChannels = 4;  // for which a tile is mostly empty
constexpr int64_t kWantedBlocks = 256;
constexpr int64_t kShortSum = 256;  // that is not worth dividing

int64_t divided(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The spatial sizes of a tensor, behind ones.
void put_spatial(const TensorImpl& x, int64_t (&sizes)[3]) {
  const auto rank = static_cast<size_t>(x.dim()) - 2;
  std::fill_n(sizes, 3, 1);
  for (size_t d = 0; d < rank; ++d) sizes[3 - rank + d] = x.size(2 + d);
}

// Attributes: stride, padding and dilation of each spatial dimension, then groups.
ConvArguments arguments_of(const OpCall& call, const TensorImpl& x, const TensorImpl& w,
                           const TensorImpl& y) {
  ConvArguments a{};
  const auto rank = static_cast<size_t>(x.dim()) - 2;
  a.groups = call.integer(3 * rank);
  a.batch = x.size(0);
  a.in_channels = w.size(1);
  a.out_channels = w.size(0) / a.groups;
  put_spatial(x, a.in);
  put_spatial(y, a.out);
  put_spatial(w, a.kernel);
  std::fill_n(a.stride, 3, 1);
  std::fill_n(a.dilation, 3, 1);
  for (size_t d = 0; d < rank; ++d) {
    a.stride[3 - rank + d] = call.integer(d);
    a.padding[3 - rank + d] = call.integer(rank + d);
    a.dilation[3 - rank + d] = call.integer(2 * rank + d);
  }
  a.first = call.in(0).data();
  a.second = call.in(1).data();
  a.bias = call.inputs.size() > 2 ? call.in(2).data() : nullptr;
  a.result = call.out().data();
  a.splits = 1;
  return a;
}

// Whether everything that is computed of places fits into 32 bits.
bool is_narrow(const ConvArguments& a) {
  const int64_t channels = a.groups * std::max<int64_t>(a.in_channels, a.out_channels);
  bool fits = a.batch * channels * std::max(a.in_places(), a.out_places()) <= kMostNarrowCount &&
              a.weights() <= kMostNarrowCount;
  for (int d = 0; d < 3; ++d)
    fits = fits && a.out[d] * a.stride[d] + a.kernel[d] * a.dilation[d] + a.in[d] + a.padding[d] <
                       kMostNarrowCount / 2;
  return fits;
}

FunctionHandle find_kernel(KernelCache& cache, const char* name, DType dtype, bool narrow, int per,
                           int device) {
  const uint64_t key = static_cast<uint64_t>(dtype) << 8 | static_cast<uint64_t>(narrow) << 4 |
                       static_cast<uint64_t>(per);
  return cache.find(device, key, [&] {
    return concat("file conv.cu\nConvArguments\n", name, per ? "" : "_few", "<", kernel_type(dtype),
                  ", ", narrow ? "int" : "int64", per ? concat(", ", per) : std::string(), ">");
  });
}

// In each direction of a tile: few where tiles are few.
int per_thread(const ConvArguments& a, int64_t rows, int64_t columns) {
  const int64_t tile = kTileSide * kManyPerThread;
  const int64_t tiles = divided(rows, tile) * divided(columns, tile) * a.groups * a.splits;
  return rows > kTileSide && columns > kTileSide && tiles >= kWantedBlocks / 4 ? kManyPerThread : 1;
}

// A product of rows x columns for each group.
void launch_tiles(KernelCache& cache, const char* name, ConvArguments a, int64_t rows,
                  int64_t columns, DType dtype, int device) {
  const int per = per_thread(a, rows, columns);
  a.tile_rows = divided(rows, kTileSide * per);
  a.tile_columns = divided(columns, kTileSide * per);
  launch_with(find_kernel(cache, name, dtype, is_narrow(a), per, device), device,
              a.tile_rows * a.tile_columns * a.groups * a.splits, kTileThreads, a);
}

void launch_few(KernelCache& cache, const char* name, const ConvArguments& a, int64_t blocks,
                DType dtype, int device) {
  launch_with(find_kernel(cache, name, dtype, is_narrow(a), 0, device), device, blocks,
              kTileThreads, a);
}

// ---- kernels of one tap

bool is_pointwise(const ConvArguments& a) {
  bool is = a.bias == nullptr && a.groups == 1;
  for (int d = 0; d < 3; ++d)
    is = is && a.kernel[d] == 1 && a.stride[d] == 1 && a.padding[d] == 0 && a.in[d] == a.out[d];
  return is;
}

// The images of result = w x, or of transposed w times x.
void multiply_images(const ConvArguments& a, bool transposed, DType dtype, int device) {
  const int64_t places = a.in_places(), m = transposed ? a.in_channels : a.out_channels;
  const int64_t k = transposed ? a.out_channels : a.in_channels;
  Product p{dtype,    m,     places, k, {a.second, a.in_channels, transposed}, {a.first, places},
            a.result, places};
  p.batch = a.batch;
  p.b.batch_stride = k * places;
  p.c_batch_stride = m * places;
  multiply(p, device);
}

// ---- by kernels of our own: operands are contiguous, of float32 or float64

void conv_plain(const OpCall& call) {
  const TensorImpl& y = call.out();
  const ConvArguments a = arguments_of(call, call.in(0), call.in(1), y);
  const int device = y.device().index;
  if (is_pointwise(a)) return multiply_images(a, false, y.dtype(), device);
  static auto& cache = *new KernelCache;
  if (a.out_channels < kFewChannels)
    return launch_few(cache, "conv", a, divided(y.numel(), kTileThreads), y.dtype(), device);
  launch_tiles(cache, "conv", a, a.out_channels, a.batch * a.out_places(), y.dtype(), device);
}

// Of y's gradient, w and perhaps a bias: x's gradient, or the transposed convolution.
void conv_grad_input_plain(const OpCall& call) {
  const TensorImpl& x = call.out();
  const ConvArguments a = arguments_of(call, x, call.in(1), call.in(0));
  const int device = x.device().index;
  if (is_pointwise(a)) return multiply_images(a, true, x.dtype(), device);
  static auto& cache = *new KernelCache;
  if (a.in_channels < kFewChannels)
    return launch_few(cache, "conv_grad_input", a, divided(x.numel(), kTileThreads), x.dtype(),
                      device);
  launch_tiles(cache, "conv_grad_input", a, a.in_channels, a.batch * a.in_places(), x.dtype(),
               device);
}

// Of x and y's gradient: w's gradient.
void conv_grad_weight_plain(const OpCall& call) {
  const TensorImpl& w = call.out();
  ConvArguments a = arguments_of(call, call.in(0), w, call.in(1));
  const int device = w.device().index;
  static auto &cache = *new KernelCache, &adding = *new KernelCache;
  if (a.out_channels < kFewChannels)
    return launch_few(cache, "conv_grad_weight", a, w.numel(), w.dtype(), device);
  const int64_t columns = a.in_channels * a.taps(), depth = a.batch * a.out_places();
  const int64_t tile = kTileSide * kManyPerThread;
  const int64_t tiles = divided(a.out_channels, tile) * divided(columns, tile) * a.groups;
  a.splits = std::clamp<int64_t>(kWantedBlocks / tiles, 1,
                                 std::max<int64_t>(1, divided(depth, kShortSum)));
  if (a.splits == 1)
    return launch_tiles(cache, "conv_grad_weight", a, a.out_channels, columns, w.dtype(), device);
  const Tensor parts = empty("conv", DimVector{a.splits, w.numel()}, w.dtype(), w.device());
  a.result = parts->data();
  launch_tiles(cache, "conv_grad_weight", a, a.out_channels, columns, w.dtype(), device);
  const FunctionHandle kernel = adding.find(device, static_cast<uint64_t>(w.dtype()), [&] {
    return concat("file conv.cu\nPartsArguments\nadd_parts<", kernel_type(w.dtype()), ">");
  });
  launch_with(kernel, device, divided(w.numel(), kElementThreads), kElementThreads,
              PartsArguments{w.numel(), a.splits, parts->data(), w.data()});
}

// ---- the ops

template <ConvPart part, Kernel plain>
void convolve(const OpCall& call) {
  if (call.out().numel() > 0 && !convolve_depthwise(part, call) && !convolve_with_dnn(part, call))
    run_plain(plain, call);
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"conv", convolve<ConvPart::Forward, conv_plain>},
    {"conv_grad_input", convolve<ConvPart::GradInput, conv_grad_input_plain>},
    {"conv_grad_weight", convolve<ConvPart::GradWeight, conv_grad_weight_plain>},
};

}  // namespace

}  // namespace tapegrad::cuda
