// Cross entropy with classes as targets: the method is told in tapegrad/cuda/kernels/cross_entropy.cu.
#include "spec/cross_entropy.h"

#include "core/error.h"
#include "core/registry.h"
#include "cuda/kernel_errors.h"
#include "cuda/launch.h"
#include "cuda/rows.h"

namespace tapegrad::cuda {

namespace {

constexpr int kThreads = 256, kMostThreads = 1024;
constexpr int kPieces = 4;  // as in cross_entropy.cu
constexpr int64_t kFewLines = 256, kFewClasses = 1024;
constexpr int64_t kOneBlockAdds = 8 * 1024;  // losses; more are added up by kParts blocks
constexpr int kParts = 256;
constexpr int64_t kEnoughLines = 16 * 1024;  // for a thread to take each
constexpr int64_t kLongRow = 512;
// Of a row, in the registers of a thread. The longer its part, the less it waits for others: a warp for no other.
constexpr int kMostFloats = 128, kMostDoubles = 16;
constexpr int kHoldingThreads = 256;  // of a block, at so many registers

// As in tapegrad/cuda/kernels/cross_entropy.cu.
struct LossArguments {
  const void* x;
  const void* target;
  const void* weight;
  const void* grad;
  void* losses;
  void* loss;
  void* top;
  void* log_sum;
  void* totals;
  void* parts;
  void* out;
  int64_t lines, classes, inner;
  int64_t ignore_index;
  double smoothing;
  ErrorPlace errors;
  int is_mean, is_single;
};

enum class LossKernel : uint8_t { Few, Rows, Lines, Columns, Total, Parts, BackwardRows, Backward };

FunctionHandle find_kernel(const TensorImpl& x, LossKernel which, const RowShape& shape = {}) {
  static auto& cache = *new KernelCache;
  uint64_t key = static_cast<uint64_t>(x.dtype()) << 4 | static_cast<uint64_t>(which);
  key = key << 16 | static_cast<uint64_t>(shape.width) << 8 |
        static_cast<uint64_t>(shape.items) << 1 | shape.by_warp;
  return cache.find(x.device().index, key, [&] {
    constexpr const char* kNames[] = {
        "loss_of_few", "loss_of_rows",  "loss_of_lines",      "loss_of_lines",
        "loss_total",  "loss_of_parts", "loss_backward_rows", "loss_backward_elements"};
    std::string rest;
    if (which == LossKernel::Rows)
      rest = concat(", ", shape.by_warp ? "true" : "false", ", ", shape.width, ", ", shape.items);
    if (which == LossKernel::Lines) rest = concat(", true, ", shape.width);
    if (which == LossKernel::Columns) rest = ", false, 1";
    if (which == LossKernel::BackwardRows) rest = concat(", ", shape.width);
    const char* bounds = "";
    if (which == LossKernel::Few || which == LossKernel::Total) bounds = "\n1024";
    if (which == LossKernel::Lines) bounds = "\n256, 3";  // one block computes while others read
    return concat("file cross_entropy.cu\nLossArguments\n", kNames[static_cast<int>(which)], "<",
                  kernel_type(x.dtype()), rest, ">", bounds);
  });
}

[[noreturn]] void fail_target(const KernelError& error, int64_t element) {
  fail<IndexError>(error.op, ": Target ", element, " is out of bounds. There are ", error.size,
                   " classes");
}

// What both directions have in common.
LossArguments arguments_of(const OpCall& call, size_t x_at, size_t weight_at) {
  const TensorImpl& x = call.in(x_at);
  if (!is_floating(x.dtype())) fail_unsupported_dtype(call.op.name, x.dtype());
  LossArguments arguments{};
  arguments.x = x.data();
  arguments.target = call.in(x_at + 1).data();
  arguments.weight = call.integer(3) ? call.in(weight_at).data() : nullptr;
  arguments.lines = call.in(x_at + 1).numel();
  arguments.classes = x.size(x.dim() == 1 ? 0 : 1);
  arguments.inner = 1;
  for (size_t d = 2; d < static_cast<size_t>(x.dim()); ++d) arguments.inner *= x.size(d);
  arguments.ignore_index = call.integer(1);
  arguments.smoothing = call.real(2);
  const auto reduction = static_cast<LossReduction>(call.integer(0));
  arguments.is_mean = reduction == LossReduction::Mean;
  arguments.is_single = reduction == LossReduction::None;
  return arguments;
}

void find_losses(const TensorImpl& x, const LossArguments& arguments) {
  const int device = x.device().index;
  RowShape shape;
  if (arguments.inner == 1) {
    shape.width = row_width(arguments.classes, x.dtype(), {arguments.x});
    const int most = x.dtype() == DType::Float64 ? kMostDoubles : kMostFloats;
    const RowShape held = RowShape::of(arguments.classes, shape.width, most, kHoldingThreads, most);
    if (held.fits())
      return launch_with(find_kernel(x, LossKernel::Rows, held), device,
                         held.blocks(arguments.lines), held.threads, arguments);
  } else if (arguments.lines >= kEnoughLines) {
    return launch_with(find_kernel(x, LossKernel::Columns), device,
                       divide_up(arguments.lines, kThreads), kThreads, arguments);
  }
  launch_with(find_kernel(x, LossKernel::Lines, shape), device, arguments.lines, kThreads,
              arguments);
}

void add_up(const TensorImpl& x, LossArguments& arguments) {
  const int device = x.device().index;
  if (arguments.lines <= kOneBlockAdds)
    return launch_with(find_kernel(x, LossKernel::Total), device, 1, kMostThreads, arguments);
  const Tensor parts = empty("cross_entropy", DimVector{kParts, 2}, DType::Float64, x.device());
  arguments.parts = parts->data();
  launch_with(find_kernel(x, LossKernel::Total), device, kParts, kThreads, arguments);
  launch_with(find_kernel(x, LossKernel::Parts), device, 1, kParts, arguments);
}

// Inputs, attributes and outputs are those of csrc/cpu/cross_entropy.cpp.
void cross_entropy(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  LossArguments arguments = arguments_of(call, 0, 2);
  const int device = x.device().index;
  arguments.loss = call.out(0).data();
  arguments.top = call.out(1).data();
  arguments.log_sum = call.out(2).data();
  arguments.totals = call.out(3).data();
  arguments.errors = error_place(device, {call.op.name, 0, arguments.classes, fail_target});
  if (arguments.is_single) arguments.losses = arguments.loss;
  if (arguments.lines <= kFewLines && arguments.classes <= kFewClasses) {
    const auto threads = std::clamp<int64_t>(arguments.lines * 32, 32, kMostThreads);
    return launch_with(find_kernel(x, LossKernel::Few), device, 1, static_cast<int>(threads),
                       arguments);
  }
  Tensor losses;
  if (!arguments.is_single) {
    losses = empty("cross_entropy", DimVector{arguments.lines}, call.out(1).dtype(), x.device());
    arguments.losses = losses->data();
  }
  if (arguments.lines > 0) find_losses(x, arguments);
  add_up(x, arguments);
}

void cross_entropy_backward(const OpCall& call) {
  const TensorImpl& x = call.in(1);
  LossArguments arguments = arguments_of(call, 1, 6);
  arguments.grad = call.in(0).data();
  arguments.top = call.in(3).data();
  arguments.log_sum = call.in(4).data();
  arguments.totals = call.in(5).data();
  arguments.out = call.out().data();
  const int device = x.device().index;
  if (x.numel() == 0) return;
  RowShape shape;
  if (arguments.inner > 1 || arguments.classes < kLongRow)
    return launch_with(find_kernel(x, LossKernel::Backward), device,
                       divide_up(x.numel(), int64_t{kThreads} * kPieces), kThreads, arguments);
  shape.width = row_width(arguments.classes, x.dtype(), {arguments.x, arguments.out});
  const int64_t chunk = int64_t{kThreads} * kPieces * shape.width;
  launch_with(find_kernel(x, LossKernel::BackwardRows, shape), device,
              arguments.lines * divide_up(arguments.classes, chunk), kThreads, arguments);
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"cross_entropy", cross_entropy},
    {"cross_entropy_backward", cross_entropy_backward},
};

}  // namespace

}  // namespace tapegrad::cuda
