// Normalisation over rows (layer_norm, rms_norm) and over channels of a batch (batch_norm). Operands are contiguous;
// those of batch_norm may have their channels last, all of them, and may be halves, whose channels have numbers of
// float32.
#include <algorithm>
#include <bit>

#include "core/registry.h"
#include "cuda/launch.h"
#include "cuda/normalize.h"
#include "cuda/reduce.h"
#include "cuda/rows.h"

namespace tapegrad::cuda {

namespace {

void check_dtype(const OpCall& call) {
  const DType dtype = call.in(0).dtype();
  if (!is_floating(dtype)) fail_unsupported_dtype(call.op.name, dtype);
}
// Of statistics and sums.
DType compute_dtype(const TensorImpl& x) {
  return is_reduced_float(x.dtype()) ? DType::Float32 : x.dtype();
}
// Null where it is not there.
void* optional_data(const TensorImpl& tensor, bool there) {
  return there ? tensor.data() : nullptr;
}

// ---- rows -------------------------------------------------------------------------------------

constexpr int kLongRowThreads = 512, kColumnThreads = 256, kColumnLanes = 32;
constexpr int kSumThreads = 1024;
// That run at a time, at the registers that the derivative takes with 16 elements for a thread, and with 8.
constexpr int64_t kEnoughThreads = 132 * 448, kManyThreads = 132 * 768;
constexpr int64_t kLeastRows = 64;  // of a group that adds up columns

// As in tapegrad/cuda/kernels/layer_norm.cu.
struct LayerArguments {
  const void* x;
  const void* grad;
  const void* weight;
  const void* bias;
  const void* given_mean;
  const void* given_rstd;
  void* out;
  void* mean;
  void* rstd;
  void* sums;
  void* grad_weight;
  void* grad_bias;
  const void* addend;
  void* sum;
  void* narrow;
  int64_t rows, length, groups;
  double eps;
  int centred, adds;
};

enum class LayerKernel : uint8_t {
  Rows,
  BackwardRows,
  BackwardRowsAndSums,
  LongRows,
  BackwardLongRows,
  ColumnSums,
  Sums
};

// What kernels of the derivative are told beside the shape of a row, where it is unusual.
struct Incoming {
  DType dtype;         // of the gradient
  bool adds;           // to what is there
  bool casts = false;  // and writes what it gives in another dtype as well
  DType narrow = dtype;
};

std::string arguments_of(const Incoming& incoming, LayerKernel which, DType dtype) {
  const bool is_usual = incoming.dtype == dtype;
  const std::string type = concat(", ", kernel_type(incoming.dtype));
  switch (which) {
    case LayerKernel::BackwardRows:
    case LayerKernel::BackwardRowsAndSums:
      if (is_usual && !incoming.adds && !incoming.casts) return "";
      return concat(incoming.adds ? ", true" : ", false", type,
                    incoming.casts ? concat(", true, ", kernel_type(incoming.narrow)) : "");
    case LayerKernel::BackwardLongRows:
    case LayerKernel::ColumnSums:
      return is_usual ? "" : type;
    default:
      return "";
  }
}

FunctionHandle find_layer_kernel(const TensorImpl& x, LayerKernel which, const RowShape& shape,
                                 const Incoming& incoming) {
  static auto& cache = *new KernelCache;
  uint64_t key = static_cast<uint64_t>(x.dtype()) << 4 | static_cast<uint64_t>(which);
  key = key << 5 | static_cast<uint64_t>(incoming.dtype) << 1 | uint64_t{incoming.adds};
  key = key << 5 | static_cast<uint64_t>(incoming.narrow) << 1 | uint64_t{incoming.casts};
  if (shape.fits())
    key = key << 16 | static_cast<uint64_t>(shape.width) << 8 |
          static_cast<uint64_t>(shape.items) << 1 | shape.by_warp;
  return cache.find(x.device().index, key, [&] {
    constexpr const char* kNames[] = {
        "layer_norm_rows",      "layer_norm_backward_rows",      "layer_norm_backward_rows",
        "layer_norm_long_rows", "layer_norm_backward_long_rows", "layer_norm_column_sums",
        "layer_norm_sums"};
    std::string of_shape;
    if (shape.fits())
      of_shape =
          concat(", ", shape.by_warp ? "true" : "false", ", ", shape.width, ", ", shape.items);
    if (which == LayerKernel::BackwardRows) of_shape += ", false";
    if (which == LayerKernel::BackwardRowsAndSums) of_shape += ", true";
    of_shape += arguments_of(incoming, which, x.dtype());
    // Its threads have few numbers to keep beside their row: fewer registers let more blocks run.
    const bool bounded = which == LayerKernel::BackwardRows && !shape.by_warp;
    return concat("file layer_norm.cu\nLayerArguments\n", kNames[static_cast<int>(which)], "<",
                  kernel_type(x.dtype()), of_shape, ">", bounded ? "\n384, 2" : "");
  });
}

void launch_layer(const TensorImpl& x, LayerKernel which, int64_t blocks, int threads,
                  const LayerArguments& arguments, const Incoming& incoming,
                  const RowShape& shape = {}) {
  launch_with(find_layer_kernel(x, which, shape, incoming), x.device().index, blocks, threads,
              arguments);
}

// Everything but x and y.
LayerArguments forward_arguments(const OpCall& call) {
  const bool has_weight = call.integer(2), has_bias = call.integer(3);
  LayerArguments arguments{};
  arguments.weight = has_weight ? call.in(1).data() : nullptr;
  arguments.bias = has_bias ? call.in(1 + has_weight).data() : nullptr;
  arguments.mean = call.out(1).data();
  arguments.rstd = call.out(2).data();
  arguments.rows = call.out(1).numel();
  arguments.length = call.in(0).numel() / arguments.rows;
  arguments.eps = call.real(0);
  arguments.centred = call.integer(1) != 0;
  return arguments;
}

RowShape forward_shape(const LayerArguments& arguments, DType dtype) {
  const int width = row_width(arguments.length, dtype,
                              {arguments.x, arguments.weight, arguments.bias, arguments.out,
                               arguments.addend, arguments.sum, arguments.narrow});
  return RowShape::of(arguments.length, width, dtype == DType::Float64 ? 8 : 16);
}

// Attributes: eps, whether centred, whether there is a weight, and a bias. Of x, weight, bias: y, mean, rstd.
void layer_norm(const OpCall& call) {
  check_dtype(call);
  const TensorImpl& x = call.in(0);
  if (x.numel() == 0) return;
  LayerArguments arguments = forward_arguments(call);
  arguments.x = x.data();
  arguments.out = call.out(0).data();
  const RowShape shape = forward_shape(arguments, x.dtype());
  if (shape.fits())
    return launch_layer(x, LayerKernel::Rows, shape.blocks(arguments.rows), shape.threads,
                        arguments, {x.dtype(), false}, shape);
  launch_layer(x, LayerKernel::LongRows, arguments.rows, kLongRowThreads, arguments,
               {x.dtype(), false});
}

// The gradients of weight and bias from the sums of groups.
void add_up_groups(const TensorImpl& x, const LayerArguments& arguments) {
  launch_layer(x, LayerKernel::Sums, divide_up(arguments.length, kColumnLanes), kSumThreads,
               arguments, {x.dtype(), false});
}

Tensor make_sums(const TensorImpl& x, LayerArguments& arguments) {
  Tensor sums = empty("layer_norm_backward", DimVector{arguments.groups, 2, arguments.length},
                      compute_dtype(x), x.device());
  arguments.sums = sums->data();
  return sums;
}

void backward_in_registers(const TensorImpl& x, LayerArguments& arguments, const RowShape& shape,
                           const Incoming& incoming, bool wants_sums) {
  int64_t blocks = shape.blocks(arguments.rows);
  if (!wants_sums)
    return launch_layer(x, LayerKernel::BackwardRows, blocks, shape.threads, arguments, incoming,
                        shape);
  const bool fits_often = !shape.by_warp && shape.items * shape.width <= 8;
  blocks = std::min(blocks, (fits_often ? kManyThreads : kEnoughThreads) / shape.threads);
  arguments.groups = shape.by_warp ? blocks * (shape.threads / RowShape::kWarp) : blocks;
  const Tensor sums = make_sums(x, arguments);
  launch_layer(x, LayerKernel::BackwardRowsAndSums, blocks, shape.threads, arguments, incoming,
               shape);
  add_up_groups(x, arguments);
}

void backward_of_long_rows(const TensorImpl& x, LayerArguments& arguments, const Incoming& incoming,
                           bool wants_sums) {
  if (arguments.out)
    launch_layer(x, LayerKernel::BackwardLongRows, arguments.rows, kLongRowThreads, arguments,
                 incoming);
  if (!wants_sums) return;
  const int64_t strips = divide_up(arguments.length, kColumnLanes);
  arguments.groups =
      std::clamp<int64_t>(kEnoughBlocks / strips, 1, divide_up(arguments.rows, kLeastRows));
  const Tensor sums = make_sums(x, arguments);
  launch_layer(x, LayerKernel::ColumnSums, strips * arguments.groups, kColumnThreads, arguments,
               incoming);
  add_up_groups(x, arguments);
}

// Attributes: whether centred, whether there is a weight, which gradients are wanted (of x, weight, bias), whether that
// of x is added to what the first output holds, which is then the last input. Of grad, x, mean, rstd, weight: grad_x,
// grad_weight, grad_bias, those not wanted empty. Where `narrow` is given it takes grad_x, too; false if rows are too long
// for that.
bool run_backward(const OpCall& call, const TensorImpl* narrow) {
  const TensorImpl &grad = call.in(0), &x = call.in(1);
  LayerArguments arguments{};
  arguments.x = x.data();
  arguments.grad = grad.data();
  arguments.weight = call.integer(1) ? call.in(4).data() : nullptr;
  arguments.given_mean = call.in(2).data();
  arguments.given_rstd = call.in(3).data();
  arguments.out = optional_data(call.out(0), call.integer(2));
  arguments.grad_weight = optional_data(call.out(1), call.integer(3));
  arguments.grad_bias = optional_data(call.out(2), call.integer(4));
  arguments.narrow = narrow ? narrow->data() : nullptr;
  arguments.rows = call.in(2).numel();
  arguments.length = x.numel() / arguments.rows;
  arguments.centred = call.integer(0) != 0;
  arguments.adds = call.integer(5) != 0;
  const Incoming incoming{grad.dtype(), arguments.adds != 0, narrow != nullptr,
                          narrow ? narrow->dtype() : grad.dtype()};
  const bool wants_sums = arguments.grad_weight || arguments.grad_bias;
  const int width =
      row_width(arguments.length, x.dtype(),
                {arguments.x, arguments.grad, arguments.weight, arguments.out, arguments.narrow});
  constexpr int kMostThreads = 384;  // each takes up to 128 registers
  constexpr int kFew = 8;            // elements of a thread: with more, fewer blocks fit at a time
  const RowShape shape = RowShape::of(arguments.length, width, x.dtype() == DType::Float64 ? 4 : 16,
                                      kMostThreads, kFew);
  if (!shape.fits() && narrow) return false;
  if (shape.fits()) backward_in_registers(x, arguments, shape, incoming, wants_sums);
  else backward_of_long_rows(x, arguments, incoming, wants_sums);
  return true;
}

void layer_norm_backward(const OpCall& call) {
  check_dtype(call);
  if (call.in(1).numel() > 0) run_backward(call, nullptr);
}

// ---- channels -------------------------------------------------------------------------------

constexpr int kElementThreads = 256, kPieces = 4;

// As in tapegrad/cuda/kernels/batch_norm.cu.
struct BatchArguments {
  const void* x;
  const void* grad;
  const void* mean;
  const void* variance;
  const void* given_rstd;
  const void* weight;
  const void* bias;
  const void* sums[2];
  void* out;
  void* channel_outs[3];
  int64_t count, channels, inner;
  int64_t strips, rows;
  double per_channel, eps;
  int given, lanes;
};

// Every dimension but that of the channels.
constexpr uint64_t kAllButChannels = ~uint64_t{2};

DType channel_dtype(DType dtype) { return is_reduced_float(dtype) ? DType::Float32 : dtype; }

void put_shape(BatchArguments& arguments, const TensorImpl& x) {
  arguments.count = x.numel();
  arguments.channels = x.size(1);
  const int64_t planes = x.size(0) * x.size(1);
  const bool channels_last = !x.is_contiguous();
  arguments.inner = planes && !channels_last ? std::max<int64_t>(1, x.numel() / planes) : 1;
  arguments.per_channel = static_cast<double>(x.numel()) / static_cast<double>(arguments.channels);
}

// How the rows of a block with its channels last are shared out; returns the number of blocks.
int64_t put_rows(BatchArguments& arguments, int width) {
  constexpr int kRows = 4, kMostLanes = 32;  // as the kernel reads them
  const int64_t vectors = arguments.channels / width, rows = arguments.count / arguments.channels;
  arguments.lanes = static_cast<int>(
      std::min<uint64_t>(std::bit_ceil(static_cast<uint64_t>(vectors)), kMostLanes));
  arguments.strips = divide_up(vectors, arguments.lanes);
  const int64_t at_a_time = int64_t{kRows} * (kElementThreads / arguments.lanes);
  const int64_t chunks =
      std::clamp<int64_t>(2 * kEnoughBlocks / arguments.strips, 1, divide_up(rows, at_a_time));
  arguments.rows = divide_up(rows, chunks);
  return arguments.strips * divide_up(rows, arguments.rows);
}

// Of elements, or of channels alone where no element is wanted.
void launch_batch(const TensorImpl& x, bool backward, BatchArguments arguments) {
  static auto& cache = *new KernelCache;
  enum Walk : uint8_t { kChannels, kPlanes, kRows };
  const bool elements = arguments.out != nullptr && arguments.count > 0;
  const Walk walk = !elements ? kChannels : arguments.inner > 1 ? kPlanes : kRows;
  const int64_t run = walk == kPlanes ? arguments.inner : arguments.channels;
  const int width = row_width(run, x.dtype(), {arguments.x, arguments.grad, arguments.out});
  const uint64_t key = static_cast<uint64_t>(x.dtype()) << 8 | static_cast<uint64_t>(width) << 3 |
                       static_cast<uint64_t>(walk) << 1 | backward;
  const FunctionHandle kernel = cache.find(x.device().index, key, [&] {
    const std::string norm = concat(backward ? "NormBackward<" : "NormForward<",
                                    kernel_type(channel_dtype(x.dtype())), ">");
    const std::string start = "file batch_norm.cu\nBatchArguments\n";
    if (walk == kChannels) return concat(start, "batch_norm_channels<", norm, ">");
    return concat(start, walk == kRows ? "batch_norm_rows<" : "batch_norm_planes<",
                  kernel_type(x.dtype()), ", ", norm, ", ", width, ">");
  });
  int64_t blocks = divide_up(arguments.channels, kElementThreads);
  if (walk == kPlanes)
    blocks = divide_up(arguments.count, int64_t{kElementThreads} * kPieces * width);
  if (walk == kRows) blocks = put_rows(arguments, width);
  launch_with(kernel, x.device().index, blocks, kElementThreads, arguments);
}

// Attributes: eps, whether statistics are given, whether there is a weight, and a bias. Of x, [mean, var], weight,
// bias: y, mean, variance, rstd.
void batch_norm(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  if (x.size(1) == 0) return;
  const bool given = call.integer(1), has_weight = call.integer(2), has_bias = call.integer(3);
  const size_t next = given ? 3 : 1;
  BatchArguments arguments{};
  put_shape(arguments, x);
  if (!given) {
    static auto& cache = *new KernelCache;
    const bool is_half = is_reduced_float(x.dtype());
    Reduction moments{x,
                      kAllButChannels,
                      is_half ? "batch_norm.cu" : "reduce.cu",
                      is_half ? "HalfMoments" : "Moments",
                      0,
                      channel_dtype(x.dtype())};
    moments.outs[0] = call.out(2).data();
    moments.outs[1] = call.out(1).data();
    reduce(cache, moments, arguments.channels);
  }
  arguments.x = x.data();
  arguments.mean = (given ? call.in(1) : call.out(1)).data();
  arguments.variance = (given ? call.in(2) : call.out(2)).data();
  arguments.weight = has_weight ? call.in(next).data() : nullptr;
  arguments.bias = has_bias ? call.in(next + has_weight).data() : nullptr;
  arguments.out = call.out(0).data();
  for (size_t k = 0; k < 3; ++k) arguments.channel_outs[k] = call.out(k + 1).data();
  arguments.eps = call.real(0);
  arguments.given = given;
  launch_batch(x, false, arguments);
}

// Attributes: whether statistics were given, whether there is a weight, which gradients are wanted (of x, weight,
// bias). Of grad, x, mean, rstd, weight: grad_x, grad_weight, grad_bias, those not wanted empty.
void batch_norm_backward(const OpCall& call) {
  const TensorImpl &grad = call.in(0), &x = call.in(1);
  if (x.size(1) == 0) return;
  BatchArguments arguments{};
  put_shape(arguments, x);
  const DType wide = channel_dtype(x.dtype());
  const Tensor sums =
      empty("batch_norm_backward", DimVector{2, arguments.channels}, wide, x.device());
  auto* first = static_cast<char*>(sums->data());
  char* second = first + arguments.channels * static_cast<int64_t>(itemsize(wide));
  static auto& cache = *new KernelCache;
  Reduction reduction{grad, kAllButChannels, "batch_norm.cu", "BatchSums", 0, wide};
  reduction.outs[0] = first;
  reduction.outs[1] = second;
  reduction.second = x.data();
  reduction.levels = call.in(2).data();
  reduce(cache, reduction, arguments.channels);

  arguments.x = x.data();
  arguments.grad = grad.data();
  arguments.mean = call.in(2).data();
  arguments.given_rstd = call.in(3).data();
  arguments.weight = call.integer(1) ? call.in(4).data() : nullptr;
  arguments.sums[0] = first;
  arguments.sums[1] = second;
  arguments.out = optional_data(call.out(0), call.integer(2));
  arguments.channel_outs[0] = optional_data(call.out(1), call.integer(3));
  arguments.channel_outs[1] = optional_data(call.out(2), call.integer(4));
  arguments.given = call.integer(0) != 0;
  launch_batch(x, true, arguments);
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"layer_norm", layer_norm},
    {"layer_norm_backward", layer_norm_backward},
    {"batch_norm", batch_norm},
    {"batch_norm_backward", batch_norm_backward},
};

}  // namespace

bool run_merged_norm_backward(const OpCall& call, const TensorImpl& narrow) {
  return run_backward(call, &narrow);
}

bool run_merged_norm(const OpCall& call, const NormNeighbours& neighbours) {
  const auto& [first, second, narrow, wants_result] = neighbours;
  const TensorImpl& x = call.in(0);
  LayerArguments arguments = forward_arguments(call);
  arguments.x = first ? first->data() : x.data();
  if (first) arguments.addend = second->data();
  if (first) arguments.sum = x.data();
  if (wants_result) arguments.out = call.out(0).data();
  if (narrow) arguments.narrow = narrow->data();
  const RowShape shape = forward_shape(arguments, x.dtype());
  if (!shape.fits()) return false;
  const DType addend = first ? second->dtype() : x.dtype();
  const DType rounded = narrow ? narrow->dtype() : x.dtype();
  static auto& cache = *new KernelCache;
  uint64_t key = static_cast<uint64_t>(x.dtype()) << 8 | static_cast<uint64_t>(addend) << 4 |
                 static_cast<uint64_t>(rounded);
  key = key << 2 | uint64_t{first != nullptr} << 1 | uint64_t{narrow != nullptr};
  key = key << 16 | static_cast<uint64_t>(shape.width) << 8 |
        static_cast<uint64_t>(shape.items) << 1 | shape.by_warp;
  const FunctionHandle kernel = cache.find(x.device().index, key, [&] {
    return concat("file layer_norm.cu\nLayerArguments\nmerged_layer_norm_rows<",
                  kernel_type(x.dtype()), ", ", shape.by_warp ? "true" : "false", ", ", shape.width,
                  ", ", shape.items, ", ", first ? "true" : "false", ", ", kernel_type(addend),
                  ", ", narrow ? "true" : "false", ", ", kernel_type(rounded), ">");
  });
  launch_with(kernel, x.device().index, shape.blocks(arguments.rows), shape.threads, arguments);
  return true;
}

}  // namespace tapegrad::cuda
