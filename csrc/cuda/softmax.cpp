// softmax and log_softmax over a contiguous block [outer, length, inner]; the method is told in
// tapegrad/cuda/kernels/softmax.cu.
#include <algorithm>
#include <bit>

#include "core/registry.h"
#include "cuda/launch.h"
#include "cuda/rows.h"

namespace tapegrad::cuda {

namespace {

constexpr int64_t kLeastCut = 64 * 1024;
constexpr int64_t kLeastPart = 8 * 1024;
constexpr int64_t kStateBytes = 16;
constexpr int kLongRowThreads = 512, kColumnThreads = 256, kMostLanes = 32;
constexpr int kMostFloats = 32, kMostDoubles = 16;  // of a row, in the registers of a thread

// As in tapegrad/cuda/kernels/softmax.cu.
struct SoftmaxArguments {
  const void* in;
  const void* second;
  void* out;
  void* states;
  int64_t outer, length, inner;
  int64_t parts, part_length;
  int lanes, unused;
};

enum class Walk : uint8_t { Registers, LongRows, Columns };
enum class Passes : uint8_t { Both, OnlyStates, OnlyResults };

struct Job {
  bool backward, log;
  DType dtype;
  Device device;
  const char* direction() const { return backward ? "Backward<" : "Forward<"; }
  const char* flag() const { return log ? "true" : "false"; }
};

std::string describe(const Job& job, Walk walk, const RowShape& shape, Passes passes) {
  constexpr const char* kPasses[] = {"kBoth", "kOnlyStates", "kOnlyResults"};
  const char* type = kernel_type(job.dtype);
  const std::string start = "file softmax.cu\nSoftmaxArguments\n";
  if (walk == Walk::Registers)
    return concat(start, job.backward ? "softmax_rows_backward<" : "softmax_rows<", type, ", ",
                  job.flag(), ", ", shape.by_warp ? "true" : "false", ", ", shape.width, ", ",
                  shape.items, ">");
  const std::string passed = concat(type, ", ", job.direction(), type, ", ", job.flag(), ">, ");
  const char* which = kPasses[static_cast<int>(passes)];
  if (walk == Walk::Columns) return concat(start, "softmax_columns<", passed, which, ">");
  return concat(start, "softmax_long_rows<", passed, shape.width, ", ", which, ">");
}

FunctionHandle find_kernel(const Job& job, Walk walk, const RowShape& shape, Passes passes) {
  static auto& cache = *new KernelCache;
  uint64_t key = static_cast<uint64_t>(job.dtype) << 2 | uint64_t{job.backward} << 1 | job.log;
  key = key << 2 | static_cast<uint64_t>(walk);
  key = key << 2 | static_cast<uint64_t>(passes);
  key = key << 8 | static_cast<uint64_t>(shape.width);
  key = key << 8 | static_cast<uint64_t>(shape.items) << 1 | shape.by_warp;
  return cache.find(job.device.index, key, [&] { return describe(job, walk, shape, passes); });
}

// One launch, or two where lines are cut.
void run_passes(const Job& job, SoftmaxArguments& arguments, Walk walk, const RowShape& shape,
                int64_t blocks, int threads) {
  const int64_t lines = arguments.outer * arguments.inner;
  int64_t parts = 1;
  if (blocks < kEnoughBlocks / 4 && lines * arguments.length >= kLeastCut)
    parts = std::clamp<int64_t>(kEnoughBlocks / blocks, 1,
                                divide_up(arguments.length * lines, kLeastPart * blocks));
  arguments.part_length = divide_up(divide_up(arguments.length, parts), shape.width) * shape.width;
  arguments.parts = divide_up(arguments.length, arguments.part_length);
  blocks *= arguments.parts;
  if (arguments.parts == 1)
    return launch_with(find_kernel(job, walk, shape, Passes::Both), job.device.index, blocks,
                       threads, arguments);
  const Tensor states =
      empty("softmax", DimVector{lines * arguments.parts * kStateBytes}, DType::UInt8, job.device);
  arguments.states = states->data();
  for (const Passes passes : {Passes::OnlyStates, Passes::OnlyResults})
    launch_with(find_kernel(job, walk, shape, passes), job.device.index, blocks, threads,
                arguments);
}

void run_rows(const Job& job, SoftmaxArguments& arguments) {
  const int width =
      row_width(arguments.length, job.dtype, {arguments.in, arguments.second, arguments.out});
  RowShape shape = RowShape::of(arguments.length, width,
                                job.dtype == DType::Float64 ? kMostDoubles : kMostFloats);
  if (shape.fits())
    return launch_with(find_kernel(job, Walk::Registers, shape, Passes::Both), job.device.index,
                       shape.blocks(arguments.outer), shape.threads, arguments);
  shape.by_warp = false;
  run_passes(job, arguments, Walk::LongRows, shape, arguments.outer, kLongRowThreads);
}

void run_columns(const Job& job, SoftmaxArguments& arguments) {
  const auto lanes =
      std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(arguments.inner, kMostLanes)));
  arguments.lanes = static_cast<int>(lanes);
  const int64_t blocks = arguments.outer * divide_up(arguments.inner, arguments.lanes);
  run_passes(job, arguments, Walk::Columns, RowShape(), blocks, kColumnThreads);
}

// Attribute: the dimension. Operands are contiguous.
template <bool kBackward, bool kLog>
void softmax(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  if (!is_floating(x.dtype())) fail_unsupported_dtype(call.op.name, x.dtype());
  if (call.out().numel() == 0) return;
  SoftmaxArguments arguments{};
  arguments.in = x.data();
  arguments.second = kBackward ? call.in(1).data() : nullptr;
  arguments.out = call.out().data();
  arguments.outer = arguments.length = arguments.inner = 1;
  const int64_t dim = call.integer(0);
  for (int64_t d = 0; d < x.dim(); ++d)
    (d < dim ? arguments.outer : d == dim ? arguments.length : arguments.inner) *= x.size(d);
  const Job job{kBackward, kLog, x.dtype(), x.device()};
  if (arguments.inner == 1) run_rows(job, arguments);
  else run_columns(job, arguments);
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"softmax", softmax<false, false>},
    {"log_softmax", softmax<false, true>},
    {"softmax_backward", softmax<true, false>},
    {"log_softmax_backward", softmax<true, true>},
};

}  // namespace

}  // namespace tapegrad::cuda
