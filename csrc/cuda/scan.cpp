// Scans along a dimension of contiguous tensors: tapegrad/cuda/kernels/scan.cu tells the method.
#include <algorithm>
#include <cmath>

#include "core/registry.h"
#include "cuda/context.h"
#include "cuda/launch.h"
#include "cuda/rows.h"

namespace tapegrad::cuda {

namespace {

constexpr int64_t kEnoughThreads = 64 * 1024;
constexpr int64_t kEnoughParts = 2 * kEnoughBlocks;
constexpr int64_t kShortRow = 512;  // that a warp scans rather than a block
constexpr int64_t kLeastPart = 8 * 1024, kLeastColumnPart = 64;
constexpr int64_t kMostColumnParts = 256;  // every part adds up those before
constexpr int64_t kStateBytes = 16;
constexpr int kThreads = 256, kMostWidth = 4;
// Of scan_tiles; as many blocks as fit into a multiprocessor's shared memory hide what they wait for.
constexpr int64_t kTileBytes = kThreads * 128, kPostedBytes = 16, kLeastGroup = 64;
constexpr const char* kTileBounds = "256, 6";

// As in tapegrad/cuda/kernels/scan.cu.
struct ScanArguments {
  const void* in;
  const void* second;
  void* out;
  int64_t* places;
  void* states;
  int64_t outer, length, inner;
  int64_t parts, part_length;
  int reverse, group;
};

enum class Kind : uint8_t { Sum, Prod, LogSumExp, Max, Min, Recurrence };
enum class Passes : uint8_t { Both, OnlyStates, OnlyResults, Tiles };

struct Scan {
  Kind kind;
  DType dtype;
  Device device;
  bool by_columns, by_warp, reverse;
  int width;
};

FunctionHandle find_kernel(const Scan& scan, Passes passes) {
  static auto& cache = *new KernelCache;
  uint64_t key = static_cast<uint64_t>(scan.dtype) << 4 | static_cast<uint64_t>(scan.kind);
  key = key << 2 | static_cast<uint64_t>(passes);
  key = key << 3 | uint64_t{scan.by_columns} << 2 | uint64_t{scan.by_warp} << 1 | scan.reverse;
  key = key << 4 | static_cast<uint64_t>(scan.width);
  return cache.find(scan.device.index, key, [&] {
    constexpr const char* kRules[] = {"ScanSum", "ScanProd", "ScanLogSumExp",
                                      "ScanMax", "ScanMin",  "ScanRecurrence"};
    constexpr const char* kPasses[] = {"kBoth", "kOnlyStates", "kOnlyResults"};
    const char* type = kernel_type(scan.dtype);
    const char* walk = passes == Passes::Tiles ? "scan_tiles<"
                       : scan.by_columns       ? "scan_columns<"
                                               : "scan_rows<";
    const std::string start = concat("file scan.cu\nScanArguments\n", walk, type, ", ",
                                     kRules[static_cast<int>(scan.kind)], "<", type, ">, ");
    if (passes == Passes::Tiles)
      return concat(start, scan.width, scan.reverse ? ", true>\n" : ", false>\n", kTileBounds);
    const char* which = kPasses[static_cast<int>(passes)];
    if (scan.by_columns) return concat(start, which, ">");
    return concat(start, scan.by_warp ? "true" : "false", ", ", scan.width, ", ", which, ">");
  });
}

// The parts of a recurrence cannot be told from their elements in any order: its lines stay whole.
void cut(ScanArguments& arguments, const Scan& scan, int64_t parts) {
  if (scan.kind == Kind::Recurrence || scan.by_warp || parts < 2) parts = 1;
  arguments.part_length = divide_up(divide_up(arguments.length, parts), scan.width) * scan.width;
  arguments.parts = divide_up(arguments.length, arguments.part_length);
}

int64_t blocks_of(const ScanArguments& arguments, const Scan& scan) {
  if (scan.by_warp) return divide_up(arguments.outer, kThreads / RowShape::kWarp);
  if (scan.by_columns)
    return divide_up(arguments.outer * arguments.inner * arguments.parts, kThreads);
  return arguments.outer * arguments.parts;
}

void run(const Scan& scan, ScanArguments& arguments) {
  const int64_t blocks = blocks_of(arguments, scan);
  const auto launch_passes = [&](Passes passes) {
    launch_with(find_kernel(scan, passes), scan.device.index, blocks, kThreads, arguments);
  };
  if (arguments.parts == 1) return launch_passes(Passes::Both);
  const int64_t lines = arguments.outer * arguments.inner;
  const Tensor states =
      empty("scan", DimVector{lines * arguments.parts * kStateBytes}, DType::UInt8, scan.device);
  arguments.states = states->data();
  launch_passes(Passes::OnlyStates);
  launch_passes(Passes::OnlyResults);
}

// In one launch. The blocks tell each other what their tiles come to.
void run_tiles(const Scan& scan, ScanArguments& arguments) {
  const int64_t tile = kTileBytes / static_cast<int64_t>(itemsize(scan.dtype));
  arguments.parts = divide_up(arguments.length, tile);
  // Tiles of up to two groups are read one by one, others by the group.
  arguments.group = static_cast<int>(
      std::max(kLeastGroup, static_cast<int64_t>(std::sqrt(static_cast<double>(arguments.parts)))));
  const int64_t posted = arguments.parts + divide_up(arguments.parts, int64_t{arguments.group});
  const int64_t nbytes = (1 + arguments.outer * posted) * kPostedBytes;
  const Tensor states = empty("scan", DimVector{nbytes}, DType::UInt8, scan.device);
  arguments.states = states->data();
  {
    const DeviceGuard guard(scan.device.index);
    check(driver().fill_bytes(reinterpret_cast<DevicePointer>(arguments.states), 0,
                              static_cast<size_t>(nbytes), current_stream(scan.device.index)),
          "scan");
  }
  launch_with(find_kernel(scan, Passes::Tiles), scan.device.index,
              arguments.outer * arguments.parts, kThreads, arguments);
}

void run_rows(Scan& scan, ScanArguments& arguments) {
  scan.by_columns = false;
  scan.by_warp = arguments.length <= kShortRow;
  scan.width =
      row_width(arguments.length, scan.dtype, {arguments.in, arguments.second, arguments.out});
  const int64_t most = arguments.length / kLeastPart;
  const int64_t parts = std::min(kEnoughParts / arguments.outer, most);
  const bool is_of_one_word = scan.kind == Kind::Sum || scan.kind == Kind::Prod;
  if (is_of_one_word && parts > 1) return run_tiles(scan, arguments);
  scan.reverse = false;  // in the arguments
  scan.width = std::min(scan.width, kMostWidth);
  cut(arguments, scan, parts);
  run(scan, arguments);
}

void run_columns(Scan& scan, ScanArguments& arguments) {
  scan.by_columns = true;
  scan.by_warp = scan.reverse = false;
  scan.width = 1;
  const int64_t most = std::min(arguments.length / kLeastColumnPart, kMostColumnParts);
  cut(arguments, scan, std::min(kEnoughThreads / (arguments.outer * arguments.inner), most));
  run(scan, arguments);
}

bool has_kernel(Kind kind, DType dtype) {
  if (dtype == DType::Int64) return kind != Kind::LogSumExp && kind != Kind::Recurrence;
  return dtype == DType::Float16 || dtype == DType::BFloat16 || dtype == DType::Float32 ||
         dtype == DType::Float64;
}

// Attributes: dimension, whether to run backwards. Inputs: the elements, or the factors and the terms of a recurrence.
template <Kind kKind>
void scan(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  if (x.numel() == 0) return;
  if (!has_kernel(kKind, x.dtype())) fail_unsupported_dtype(call.op.name, x.dtype());
  ScanArguments arguments{};
  arguments.in = x.data();
  arguments.second = kKind == Kind::Recurrence ? call.in(1).data() : nullptr;
  arguments.out = call.out().data();
  arguments.places = call.outputs.size() > 1 ? static_cast<int64_t*>(call.out(1).data()) : nullptr;
  arguments.outer = arguments.length = arguments.inner = 1;
  const int64_t dim = call.integer(0);
  for (int64_t d = 0; d < x.dim(); ++d)
    (d < dim ? arguments.outer : d == dim ? arguments.length : arguments.inner) *= x.size(d);
  arguments.reverse = call.attributes[1].as_bool();
  Scan plan{kKind, x.dtype(), x.device(), false, false, arguments.reverse != 0, 1};
  if (arguments.inner == 1) run_rows(plan, arguments);
  else run_columns(plan, arguments);
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"cumsum", scan<Kind::Sum>},
    {"cumprod", scan<Kind::Prod>},
    {"logcumsumexp", scan<Kind::LogSumExp>},
    {"cummax", scan<Kind::Max>},
    {"cummin", scan<Kind::Min>},
    {"recurrence", scan<Kind::Recurrence>},
};

}  // namespace

}  // namespace tapegrad::cuda
