// Binary search in sorted rows, and counting, on CUDA: tapegrad/cuda/kernels/search.cu.
#include <algorithm>

#include "core/registry.h"
#include "cuda/elements.h"
#include "cuda/launch.h"
#include "cuda/meet.h"
#include "cuda/walk.h"

namespace tapegrad::cuda {

namespace {

constexpr int64_t kMostBlocks = 4096;

// As search.cu has them.
struct SearchArguments {
  int64_t count;
  const void* sequence;
  const void* values;
  const void* order;
  void* out;
  int64_t length;
  int64_t per_row;
  int64_t right;
};
struct CountArguments {
  int64_t count;
  const void* places;
  void* counts;
};

int64_t blocks_of(int64_t count) { return (count + kElementThreads - 1) / kElementThreads; }

// Inputs: sorted rows (a vector serves all values), values, and perhaps the order that sorts the rows;
// all contiguous. Attribute: right. Output: int64 or int32.
void searchsorted(const OpCall& call) {
  const TensorImpl &sequence = call.in(0), &values = call.in(1), &out = call.out();
  if (out.numel() == 0) return;
  const bool one_row = sequence.dim() == 1;
  const SearchArguments arguments{out.numel(),
                                  sequence.data(),
                                  values.data(),
                                  call.inputs.size() > 2 ? call.in(2).data() : nullptr,
                                  out.data(),
                                  sequence.sizes().back(),
                                  one_row ? values.numel() : values.sizes().back(),
                                  call.attributes[0].as_bool()};
  static auto& cache = *new KernelCache;
  const int device = out.device().index;
  const uint64_t key =
      static_cast<uint64_t>(sequence.dtype()) << 8 | static_cast<uint64_t>(out.dtype());
  const FunctionHandle kernel = cache.find(device, key, [&] {
    return concat("file search.cu\nSearchArguments\nsearchsorted<", kernel_type(sequence.dtype()),
                  ", ", kernel_type(out.dtype()), ">");
  });
  launch_with(kernel, device, blocks_of(out.numel()), kElementThreads, arguments);
}

// Inputs: contiguous int64 numbers inside the output, and perhaps their weights of its dtype. The
// output comes filled with zeros.
void bincount(const OpCall& call) {
  const TensorImpl &x = call.in(0), &out = call.out();
  if (x.numel() == 0) return;
  if (call.inputs.size() > 1) return add_to_places(call.op.name, out, x, call.in(1));
  static auto& cache = *new KernelCache;
  const int device = out.device().index;
  const FunctionHandle kernel =
      cache.find(device, 0, [] { return std::string("file search.cu\nCountArguments\nbincount"); });
  launch_with(kernel, device, std::min(blocks_of(x.numel()), kMostBlocks), kElementThreads,
              CountArguments{x.numel(), x.data(), out.data()});
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"searchsorted", searchsorted},
    {"bincount", bincount},
};

}  // namespace

}  // namespace tapegrad::cuda
