// Depthwise convolutions of two dimensions whose channels lie last: kernels/depthwise.cu tells how they are computed.
//
// cuDNN's engines for these take up to thirty times as long as the memory that they read and write. Windows of 3, 5 and 7
// with strides of 1 and 2 are computed from registers, all others by plain loops.
#include "cuda/depthwise.h"

#include <algorithm>

#include "core/layout.h"
#include "core/tensor.h"
#include "cuda/elements.h"
#include "cuda/launch.h"
#include "cuda/rows.h"

namespace tapegrad::cuda {

namespace {

// ---- as kernels/depthwise.cu has them

struct DepthwiseArguments {
  int64_t batch, channels;
  int64_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
  const void *first, *second, *bias;
  void* result;
  int64_t strips, bands, rows, parts;
  int lanes, chunks, groups, flipped;

  int64_t taps() const { return kernel[0] * kernel[1]; }
  int64_t places() const { return batch * out[0] * out[1]; }
};
struct DepthwisePartsArguments {
  int64_t channels, taps, parts;
  const void* x;
  void* y;
};

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kMostLanes = 64;  // beside each other: weights of their channels are in shared memory
constexpr int kSumLanes = 32;   // where no weights are
constexpr int kAddThreads = 512;  // that add up parts, 32 elements at a time
constexpr int64_t kLeastChannels = 8;
constexpr int64_t kMostTaps = 128;  // for which loops without any reuse are good enough
constexpr int64_t kWantedBlocks = 792;
constexpr int64_t kBandRows = 8;   // of a gradient, of which a thread takes its share at a time
constexpr int64_t kShortSum = 64;  // that is not worth dividing

// The results of a thread.
struct TileShape {
  int64_t columns, rows;

  // Of all tiles, what lies behind the ends of a result included.
  int64_t covered(const int64_t (&out)[2]) const {
    return divide_up(out[0], rows) * rows * divide_up(out[1], columns) * columns;
  }
};

// ---- what a call is

constexpr int64_t kMostSize = 1 << 28;  // of what is computed in 32 bits

bool is_small(const TensorImpl& x) { return x.size(2) < kMostSize && x.size(3) < kMostSize; }

bool lies_last(const TensorImpl& x) { return is_contiguous(x, MemoryFormat::ChannelsLast); }

// Of the op conv(x, w) -> y, whichever is the result.
bool is_depthwise(const OpCall& call, const TensorImpl& x, const TensorImpl& w,
                  const TensorImpl& y) {
  if (x.dim() != 4 || !is_floating(x.dtype())) return false;
  const int64_t groups = call.integer(6);
  return w.size(0) == groups && w.size(1) == 1 && groups >= kLeastChannels &&
         w.size(2) * w.size(3) <= kMostTaps && x.numel() > 0 && y.numel() > 0 && lies_last(x) &&
         lies_last(y) && is_contiguous(w, MemoryFormat::Contiguous) && is_small(x) && is_small(y) &&
         call.integer(2) < kMostSize && call.integer(3) < kMostSize;
}

// `in` is read and `out` is written, or for weights' gradients x and y's gradient.
DepthwiseArguments arguments_of(const OpCall& call, const TensorImpl& w, const TensorImpl& in,
                                const TensorImpl& out) {
  DepthwiseArguments a{};
  a.batch = in.size(0);
  a.channels = in.size(1);
  for (size_t d = 0; d < 2; ++d) {
    a.in[d] = in.size(2 + d);
    a.out[d] = out.size(2 + d);
    a.kernel[d] = w.size(2 + d);
    a.stride[d] = call.integer(d);
    a.padding[d] = call.integer(2 + d);
    a.dilation[d] = call.integer(4 + d);
  }
  a.first = call.in(0).data();
  a.second = call.in(1).data();
  a.bias = call.inputs.size() > 2 ? call.in(2).data() : nullptr;
  a.result = call.out().data();
  return a;
}

// Whether kernels know window and stride.
bool is_common(const DepthwiseArguments& a) {
  const int64_t side = a.kernel[0], stride = a.stride[0];
  return a.kernel[1] == side && (side == 3 || side == 5 || side == 7) && a.stride[1] == stride &&
         (stride == 1 || stride == 2) && a.dilation[0] == 1 && a.dilation[1] == 1;
}

// Channels of a thread: two, where pairs are aligned.
int width_of(const DepthwiseArguments& a, DType dtype,
             std::initializer_list<const void*> pointers) {
  const size_t pair = 2 * itemsize(dtype);
  if (dtype == DType::Float64 || a.channels % 2) return 1;
  for (const void* pointer : pointers)
    if (reinterpret_cast<uintptr_t>(pointer) % pair) return 1;
  return 2;
}

// Shares the channels out to lanes of `width`, and the threads of a block to groups of `each` times the lanes.
void put_lanes(DepthwiseArguments& a, int width, int64_t most, int64_t each) {
  const int64_t pieces = divide_up(a.channels, width);
  a.chunks = static_cast<int>(divide_up(pieces, most));
  a.lanes = static_cast<int>(divide_up(pieces, a.chunks));
  a.groups = static_cast<int>(std::max<int64_t>(1, kThreads / (a.lanes * each)));
}

int threads_of(const DepthwiseArguments& a, int64_t each) {
  return static_cast<int>(divide_up(a.lanes * each * a.groups, kWarp)) * kWarp;
}

// Of `all` equal pieces of work, how many blocks of each chunk share them so that none has more than another by half.
int64_t even_blocks(const DepthwiseArguments& a, int64_t all) {
  const int64_t each = divide_up(all * a.chunks, kWantedBlocks);
  return divide_up(all, each);
}

// A kernel that knows window and stride, and for many elements the number of channels.
FunctionHandle find_common(KernelCache& cache, const char* name, const DepthwiseArguments& a,
                           DType dtype, int width, const TileShape& shape, bool with_rows,
                           int64_t elements, int device) {
  const int64_t channels = elements >= depthwise_many && a.channels < (1 << 16) ? a.channels : 0;
  uint64_t key = static_cast<uint64_t>(channels);
  for (int64_t field : {static_cast<int64_t>(dtype), a.kernel[0], a.stride[0],
                        static_cast<int64_t>(width), shape.columns, shape.rows})
    key = key << 6 | static_cast<uint64_t>(field);
  return cache.find(device, key, [&] {
    return concat("file depthwise.cu\nDepthwiseArguments\n", name, "<", kernel_type(dtype), ", ",
                  a.kernel[0], ", ", a.stride[0], ", ", width, ", ", shape.columns, ", ",
                  with_rows ? concat(shape.rows, ", ") : std::string(), channels, ">\n", kThreads,
                  ", 2");
  });
}

TileShape shape_of(const DepthwiseArguments& a, DType dtype) {
  const TileShape wide{14, 2}, square{7, 4};
  if (a.stride[0] > 1 || dtype == DType::Float64) return {7, 2};  // registers are full
  return wide.covered(a.out) <= square.covered(a.out) ? wide : square;
}

// ---- the kernels

void launch_common(DepthwiseArguments a, DType dtype, int device) {
  const TileShape shape = shape_of(a, dtype);
  const int width = width_of(a, dtype, {a.first, a.result});
  static auto& cache = *new KernelCache;
  a.strips = divide_up(a.out[1], shape.columns);
  a.bands = divide_up(a.out[0], shape.rows);
  put_lanes(a, width, kMostLanes, 1);
  const int64_t blocks = even_blocks(a, divide_up(a.batch * a.strips * a.bands, a.groups));
  const FunctionHandle kernel = find_common(cache, "depthwise", a, dtype, width, shape, true,
                                            a.places() * a.channels, device);
  launch_with(kernel, device, blocks * a.chunks, threads_of(a, 1), a);
}

void launch_any(const DepthwiseArguments& a, bool gradient, DType dtype, int device) {
  static auto& cache = *new KernelCache;
  const uint64_t key = static_cast<uint64_t>(dtype) << 1 | static_cast<uint64_t>(gradient);
  const FunctionHandle kernel = cache.find(device, key, [&] {
    return concat("file depthwise.cu\nDepthwiseArguments\ndepthwise_any<", kernel_type(dtype),
                  gradient ? ", true>" : ", false>");
  });
  launch_with(kernel, device, divide_up(a.places() * a.channels, kElementThreads), kElementThreads,
              a);
}

void conv(const OpCall& call) {
  const TensorImpl& y = call.out();
  const DepthwiseArguments a = arguments_of(call, call.in(1), call.in(0), y);
  if (is_common(a)) return launch_common(a, y.dtype(), y.device().index);
  launch_any(a, false, y.dtype(), y.device().index);
}

// Without stride this is a convolution with the window turned by half a turn.
void conv_grad_input(const OpCall& call) {
  const TensorImpl& x = call.out();
  DepthwiseArguments a = arguments_of(call, call.in(1), call.in(0), x);
  if (!is_common(a) || a.stride[0] != 1) return launch_any(a, true, x.dtype(), x.device().index);
  for (int d = 0; d < 2; ++d) a.padding[d] = a.kernel[d] - 1 - a.padding[d];
  a.flipped = 1;
  launch_common(a, x.dtype(), x.device().index);
}

// Into `parts`, which it makes.
void launch_sums(DepthwiseArguments& a, Tensor& parts, DType dtype, Device where) {
  const int device = where.index;
  static auto &common = *new KernelCache, &any = *new KernelCache;
  const auto make_parts = [&](int64_t blocks) {
    a.parts = blocks * a.groups;
    const DType compute = dtype == DType::Float64 ? dtype : DType::Float32;
    parts = empty("conv", DimVector{a.parts, a.taps() * a.channels}, compute, where);
    a.result = parts->data();
  };
  if (is_common(a)) {
    TileShape shape = shape_of(a, dtype);
    shape.rows = 0;  // one at a time
    const int width = width_of(a, dtype, {a.first, a.second});
    a.strips = divide_up(a.out[1], shape.columns);
    a.bands = divide_up(a.out[0], kBandRows);
    a.rows = divide_up(a.out[0], a.bands);
    put_lanes(a, width, kSumLanes, a.kernel[0]);
    const int64_t blocks = even_blocks(a, divide_up(a.batch * a.strips * a.bands, a.groups));
    make_parts(blocks);
    const FunctionHandle kernel = find_common(common, "depthwise_grad_weight", a, dtype, width,
                                              shape, false, a.places() * a.channels, device);
    return launch_with(kernel, device, blocks * a.chunks, threads_of(a, a.kernel[0]), a);
  }
  put_lanes(a, 1, kSumLanes, 1);
  const int64_t blocks = std::clamp<int64_t>(kWantedBlocks / (a.chunks * a.taps()), 1,
                                             divide_up(a.places(), kShortSum * a.groups));
  make_parts(blocks);
  const FunctionHandle kernel = any.find(device, static_cast<uint64_t>(dtype), [&] {
    return concat("file depthwise.cu\nDepthwiseArguments\ndepthwise_grad_weight_any<",
                  kernel_type(dtype), ">");
  });
  launch_with(kernel, device, blocks * a.taps() * a.chunks, threads_of(a, 1), a);
}

void conv_grad_weight(const OpCall& call) {
  const TensorImpl& w = call.out();
  const int device = w.device().index;
  DepthwiseArguments a = arguments_of(call, w, call.in(0), call.in(1));
  Tensor parts;
  launch_sums(a, parts, w.dtype(), w.device());
  static auto& cache = *new KernelCache;
  const FunctionHandle kernel = cache.find(device, static_cast<uint64_t>(w.dtype()), [&] {
    return concat("file depthwise.cu\nDepthwisePartsArguments\nadd_depthwise_parts<",
                  kernel_type(w.dtype()), ">");
  });
  launch_with(kernel, device, divide_up(w.numel(), kWarp), kAddThreads,
              DepthwisePartsArguments{a.channels, a.taps(), a.parts, parts->data(), w.data()});
}

}  // namespace

bool convolve_depthwise(ConvPart part, const OpCall& call) {
  const bool gives_x = part == ConvPart::GradInput, gives_w = part == ConvPart::GradWeight;
  const TensorImpl& x = gives_x ? call.out() : call.in(0);
  const TensorImpl& w = gives_w ? call.out() : call.in(1);
  const TensorImpl& y = gives_x ? call.in(0) : gives_w ? call.in(1) : call.out();
  if (!uses_depthwise || !is_depthwise(call, x, w, y)) return false;
  if (gives_x) conv_grad_input(call);
  else if (gives_w) conv_grad_weight(call);
  else conv(call);
  ++depthwise_convolutions;
  return true;
}

}  // namespace tapegrad::cuda
