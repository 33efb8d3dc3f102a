#include "cuda/prefix.h"

#include <algorithm>

#include "core/registry.h"
#include "cuda/launch.h"
#include "cuda/radix.h"

namespace tapegrad::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kTile = kThreads * 8;  // as in prefix.cu
constexpr int64_t kMostBlocks = 1024;

// As prefix.cu has them.
struct PrefixArguments {
  int64_t count;
  const void* x;
  int64_t columns;
  void* tiles;
  void* out;
};
struct RunArguments {
  int64_t count;
  const void* numbers;
  void* starts;
  int64_t runs;
};
struct WholeArguments {
  int64_t count;
  const void* a;
  const void* b;
  int64_t* out_a;
  int64_t* out_b;
};

FunctionHandle find_kernel(int device, uint64_t key, const char* arguments,
                           const std::string& function) {
  static auto& cache = *new KernelCache;
  return cache.find(device, key,
                    [&] { return concat("file prefix.cu\n", arguments, "\n", function); });
}

// What a function makes of all numbers, twice: into two places.
void whole(const char* function, uint64_t key, const TensorImpl& x, int64_t* out_a,
           int64_t* out_b) {
  const int device = x.device().index;
  const FunctionHandle kernel = find_kernel(device, key, "WholeArguments", function);
  const int64_t blocks = std::clamp<int64_t>(x.numel() / kTile, 1, kMostBlocks);
  WholeArguments arguments{x.numel(), x.data(), x.data(), out_a, out_b};
  if (blocks == 1) return launch_with(kernel, device, 1, kThreads, arguments);
  const Tensor parts = scratch(2 * blocks * 8, x.device());
  arguments.out_a = parts->data_as<int64_t>();
  arguments.out_b = arguments.out_a + blocks;
  launch_with(kernel, device, blocks, kThreads, arguments);
  const WholeArguments last{blocks, arguments.out_a, arguments.out_b, out_a, out_b};
  launch_with(kernel, device, 1, kThreads, last);
}

// The smallest and the largest of contiguous int64 numbers.
void bounds(const OpCall& call) {
  auto* out = call.out().data_as<int64_t>();
  whole("bounds", 1, call.in(0), out, out + 1);
}

// The sum of repeats, or -1 if one of them is negative.
void total_repeats(const OpCall& call) {
  auto* out = call.out().data_as<int64_t>();
  whole("total_repeats", 2, call.in(0), out, out);
}

// Input: a contiguous matrix, or a vector as a matrix of one column. Output: for each row the number of rows up to it
// that differ from the one before.
void run_numbers(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  const int64_t rows = x.size(0);
  if (rows == 0) return;
  prefix_sums({.numbers = concat("Changes<", kernel_type(x.dtype()), ">"),
               .key = 1 + static_cast<uint64_t>(x.dtype()),
               .count = rows,
               .x = x.data(),
               .columns = x.numel() / rows},
              x.device(), call.out().data());
}

// Input: run numbers. Output: where each run begins, and at last where the last one ends.
void run_starts(const OpCall& call) {
  const TensorImpl &numbers = call.in(0), &starts = call.out();
  const int device = starts.device().index;
  const RunArguments arguments{numbers.numel(), numbers.data(), starts.data(), starts.numel() - 1};
  launch_with(find_kernel(device, 3, "RunArguments", "run_starts"), device,
              (numbers.numel() + kThreads) / kThreads, kThreads, arguments);
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"bounds", bounds},
    {"total_repeats", total_repeats},
    {"run_numbers", run_numbers},
    {"run_starts", run_starts},
};

}  // namespace

void prefix_sums(const Prefix& prefix, Device device, void* out) {
  const int64_t tiles = (prefix.count + kTile - 1) / kTile;
  const uint64_t key = prefix.key << 8;
  PrefixArguments arguments{prefix.count, prefix.x, prefix.columns, nullptr, out};
  Tensor sums;
  if (tiles > 1) {
    sums = scratch(tiles * 8, device);
    arguments.tiles = sums->data();
    launch_with(find_kernel(device.index, key | 4, "PrefixArguments",
                            concat("prefix_tiles<", prefix.numbers, ">")),
                device.index, tiles, kThreads, arguments);
    PrefixArguments of_tiles = arguments;
    of_tiles.count = tiles;
    launch_with(find_kernel(device.index, 5, "PrefixArguments", "prefix_of_tiles"), device.index, 1,
                kThreads, of_tiles);
  }
  launch_with(
      find_kernel(device.index, key | 6, "PrefixArguments", concat("prefix<", prefix.numbers, ">")),
      device.index, tiles, kThreads, arguments);
}

}  // namespace tapegrad::cuda
