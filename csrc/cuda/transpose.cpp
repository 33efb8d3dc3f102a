#include "cuda/transpose.h"

#include <algorithm>

#include "cuda/launch.h"

namespace tapegrad::cuda {

namespace {

constexpr int kThreads = 128, kMostOuter = 6;
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

// How many elements can be moved at a time, on both sides.
int vector_width(const TransposeArguments& arguments, size_t item) {
  const auto width = static_cast<int64_t>(std::min<size_t>(16 / item, 4));
  const auto addresses =
      reinterpret_cast<uintptr_t>(arguments.from) | reinterpret_cast<uintptr_t>(arguments.to);
  bool fits = addresses % (static_cast<size_t>(width) * item) == 0;
  for (const int64_t number :
       {arguments.width, arguments.height, arguments.from_stride, arguments.to_stride})
    fits = fits && number % width == 0;
  for (int64_t d = 0; d < arguments.outer; ++d)
    fits = fits && arguments.from_strides[d] % width == 0 && arguments.to_strides[d] % width == 0;
  return fits ? static_cast<int>(width) : 1;
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
  const size_t item = itemsize(to.dtype());
  const int64_t tile = item <= 2 ? 64 : 32;
  arguments.tiles_across = (arguments.width + tile - 1) / tile;
  arguments.tiles_down = (arguments.height + tile - 1) / tile;
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
  const int device = to.device().index;
  const int width = vector_width(arguments, item);
  const FunctionHandle kernel = cache.find(device, item << 4 | static_cast<size_t>(width), [&] {
    const char* word = item == 1   ? "unsigned char"
                       : item == 2 ? "unsigned short"
                       : item == 4 ? "unsigned"
                                   : "uint64";
    return concat("file transpose.cu\nTransposeArguments\ntranspose<", word, ", ", width, ", ",
                  tile, ">");
  });
  launch_with(kernel, device, blocks, kThreads, arguments);
  return true;
}

}  // namespace tapegrad::cuda
