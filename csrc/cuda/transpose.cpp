#include "cuda/transpose.h"

#include "cuda/launch.h"

namespace tapegrad::cuda {

namespace {

constexpr int kTile = 64, kThreads = 256, kMostOuter = 6;
constexpr int64_t kShortest = 16;  // a dimension that tiles pay for

// As in tapegrad/cuda/kernels/transpose.cu.
struct TransposeArguments {
  const void* from;
  void* to;
  int64_t width, height;
  int64_t from_stride, to_stride;
  int64_t tiles_across, tiles_down;
  int64_t outer;
  int64_t sizes[kMostOuter], from_strides[kMostOuter], to_strides[kMostOuter];
};

// The dimension along which the source lies in order; -1 if it is that of the result, or none.
int source_order(const LoopNest& nest) {
  if (nest.stride(0, 0) != 1 || nest.stride(1, 0) == 1 || nest.size(0) < kShortest) return -1;
  for (int d = 1; d < nest.rank(); ++d)
    if (nest.stride(1, d) == 1 && nest.size(d) >= kShortest) return d;
  return -1;
}

}  // namespace

bool copy_transposed(const TensorImpl& to, const TensorImpl& from, const LoopNest& nest) {
  const int second = source_order(nest);
  if (second < 0 || nest.rank() - 2 > kMostOuter) return false;
  TransposeArguments arguments{from.data(),
                               to.data(),
                               nest.size(0),
                               nest.size(second),
                               nest.stride(1, 0),
                               nest.stride(0, second),
                               0,
                               0,
                               0,
                               {},
                               {},
                               {}};
  arguments.tiles_across = (arguments.width + kTile - 1) / kTile;
  arguments.tiles_down = (arguments.height + kTile - 1) / kTile;
  int64_t blocks = arguments.tiles_across * arguments.tiles_down;
  for (int d = 1; d < nest.rank(); ++d) {
    if (d == second) continue;
    const int64_t place = arguments.outer++;
    arguments.sizes[place] = nest.size(d);
    arguments.to_strides[place] = nest.stride(0, d);
    arguments.from_strides[place] = nest.stride(1, d);
    blocks *= nest.size(d);
  }
  if (blocks > INT32_MAX) return false;
  static auto& cache = *new KernelCache;
  const size_t item = itemsize(to.dtype());
  const int device = to.device().index;
  const FunctionHandle kernel = cache.find(device, item, [&] {
    const char* word = item == 1   ? "unsigned char"
                       : item == 2 ? "unsigned short"
                       : item == 4 ? "unsigned"
                                   : "uint64";
    return concat("file transpose.cu\nTransposeArguments\ntranspose<", word, ">");
  });
  launch_with(kernel, device, blocks, kThreads, arguments);
  return true;
}

}  // namespace tapegrad::cuda
