// kernels/depthwise.cu tells how: squares of 3, 5 or 7 taps of each of many channels, without stride and dilation, with
// channels that lie last. Tensors in the usual order are copied there and back, which takes less time than
// cuDNN's engines for them.
#include "cuda/depthwise.h"

#include <algorithm>

#include "core/layout.h"
#include "core/tensor.h"
#include "cuda/copy.h"
#include "cuda/elements.h"
#include "cuda/launch.h"
#include "cuda/rows.h"

namespace tapegrad::cuda {

namespace {

// As in tapegrad/cuda/kernels/depthwise.cu.
struct DepthwiseArguments {
  const void *x, *w, *bias;
  void *y, *sums;
  int64_t channels, rows, span, chunks, tiles;
  int height, width, out_height, out_width, padding, reversed;
};
constexpr int64_t kChannels = 32, kPartColumns = 32;
constexpr int kThreads = 256;

constexpr int64_t kManyChannels = 16;  // that are worth laying out anew

// Attributes: stride, padding and dilation of each spatial dimension, then groups.
bool has_kernel(const TensorImpl& x, const TensorImpl& w, const OpCall& call) {
  const bool one_each = x.dim() == 4 && w.size(1) == 1 && w.size(0) == call.integer(6);
  if (!one_each || x.size(1) != w.size(0)) return false;
  const int64_t size = w.size(2);
  const bool square = w.size(3) == size && (size == 3 || size == 5 || size == 7);
  const bool plain = call.integer(0) == 1 && call.integer(1) == 1 && call.integer(4) == 1 &&
                     call.integer(5) == 1 && call.integer(2) == call.integer(3) &&
                     call.integer(2) < size;
  const bool is_known = x.dtype() == DType::Float32 || is_reduced_float(x.dtype());
  return square && plain && is_known && x.size(1) % 2 == 0;
}

// Pairs of elements are read at a time, and counted in 32 bits within a row.
bool fits(const TensorImpl& x) {
  const auto pair = static_cast<uintptr_t>(2 * itemsize(x.dtype()));
  return x.numel() > 0 && x.numel() <= kMostNarrowCount &&
         reinterpret_cast<uintptr_t>(x.data()) % pair == 0;
}

bool is_last(const TensorImpl& x) { return is_contiguous(x, MemoryFormat::ChannelsLast); }

FunctionHandle find_kernel(const char* name, int which, DType dtype, int64_t size, int device) {
  static auto& cache = *new KernelCache;
  const uint64_t key = static_cast<uint64_t>(dtype) << 8 | static_cast<uint64_t>(which) << 4 |
                       static_cast<uint64_t>(size);
  return cache.find(device, key, [&] {
    return concat("file depthwise.cu\nDepthwiseArguments\n", name, "<", kernel_type(dtype), ", ",
                  size, ">");
  });
}

// Of a tensor of images and of outputs, whose rows are shared out to about `blocks`.
DepthwiseArguments arguments_of(const TensorImpl& x, const TensorImpl& y, int64_t blocks) {
  DepthwiseArguments a{};
  a.x = x.data();
  a.channels = x.size(1);
  a.height = static_cast<int>(x.size(2));
  a.width = static_cast<int>(x.size(3));
  a.out_height = static_cast<int>(y.size(2));
  a.out_width = static_cast<int>(y.size(3));
  a.rows = y.size(0) * y.size(2);
  a.tiles = divide_up(a.channels, kChannels);
  a.span = divide_up(a.rows, std::clamp<int64_t>(blocks / a.tiles, 1, a.rows));
  a.chunks = divide_up(a.rows, a.span);
  return a;
}

// y of x, by the taps of w in order or in reverse.
void run(const TensorImpl& x, const TensorImpl& w, const TensorImpl* bias, const TensorImpl& y,
         int64_t padding, bool reversed) {
  DepthwiseArguments a = arguments_of(x, y, kEnoughBlocks);
  a.w = w.data();
  a.bias = bias ? bias->data() : nullptr;
  a.y = y.data();
  a.padding = static_cast<int>(padding);
  a.reversed = reversed;
  const int device = y.device().index;
  launch_with(find_kernel("depthwise", 0, y.dtype(), w.size(2), device), device, a.chunks * a.tiles,
              kThreads, a);
}

void run_weights(const TensorImpl& x, const TensorImpl& grad, const TensorImpl& w,
                 int64_t padding) {
  DepthwiseArguments a = arguments_of(x, grad, kEnoughBlocks / 2);
  const Tensor parts =
      empty("conv_grad_weight", DimVector{a.chunks, w.numel()}, DType::Float32, w.device());
  a.w = grad.data();
  a.y = parts->data();
  a.sums = w.data();
  a.padding = static_cast<int>(padding);
  const int device = w.device().index;
  launch_with(find_kernel("depthwise_weights", 1, w.dtype(), w.size(2), device), device,
              a.chunks * a.tiles, kThreads, a);
  launch_with(find_kernel("depthwise_parts", 2, w.dtype(), w.size(2), device), device,
              divide_up(w.numel(), kPartColumns), kThreads, a);
}

// A tensor like x, with its channels last.
Tensor empty_last(const OpCall& call, const TensorImpl& x) {
  Tensor made = empty(call.op.name, x.sizes(), x.dtype(), x.device());
  made->set_geometry(x.sizes(), format_strides(call.op.name, x.sizes(), MemoryFormat::ChannelsLast),
                     0);
  return made;
}

void copy_to(const OpCall& call, const TensorImpl& from, const TensorImpl& to) {
  TensorImpl* const source[] = {const_cast<TensorImpl*>(&from)};
  TensorImpl* const target[] = {const_cast<TensorImpl*>(&to)};
  copy({call.op, source, {}, target});
}

// The tensor itself where its channels lie last, else a copy.
class Last {
 public:
  Last(const OpCall& call, const TensorImpl& x) : x_(&x) {
    if (is_last(x)) return;
    copy_ = empty_last(call, x);
    copy_to(call, x, *copy_.impl());
    x_ = copy_.impl();
  }
  const TensorImpl& operator*() const { return *x_; }

 private:
  Tensor copy_;
  const TensorImpl* x_;
};

}  // namespace

bool convolve_depthwise(ConvPart part, const OpCall& call) {
  const TensorImpl &first = call.in(0), &second = call.in(1), &out = call.out();
  const TensorImpl& w = part == ConvPart::GradWeight ? out : second;
  if (!has_kernel(first, w, call)) return false;
  for (const TensorImpl* each : {&first, &second, &out})
    if (!fits(*each)) return false;
  const TensorImpl* bias = call.inputs.size() > 2 ? &call.in(2) : nullptr;
  if (bias && !fits(*bias)) return false;
  const TensorImpl& images = part == ConvPart::GradWeight ? second : out;
  const bool all_last = is_last(first) && is_last(images);
  if (!all_last && first.size(1) < kManyChannels) return false;
  const int64_t padding = call.integer(2);
  if (part == ConvPart::GradWeight) {
    run_weights(*Last(call, first), *Last(call, second), w, padding);
    return true;
  }
  const bool reversed = part == ConvPart::GradInput;
  const int64_t before = reversed ? w.size(2) - 1 - padding : padding;
  if (is_last(out)) {
    run(*Last(call, first), w, bias, out, before, reversed);
    return true;
  }
  const Tensor result = empty_last(call, out);
  run(*Last(call, first), w, bias, *result.impl(), before, reversed);
  copy_to(call, *result.impl(), out);
  return true;
}

}  // namespace tapegrad::cuda
