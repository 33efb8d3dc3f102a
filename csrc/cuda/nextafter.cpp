// nextafter for the 16-bit floats.
#include "core/registry.h"
#include "cuda/elements.h"

namespace tapegrad::cuda {

namespace {

// Operands are contiguous, of the same shape and dtype.
void nextafter_half(const OpCall& call) {
  struct NeighbourArguments {
    int64_t count;
    void* out;
    const void *a, *b;
  };
  const TensorImpl& out = call.out();
  if (out.numel() == 0) return;
  static auto& cache = *new KernelCache;
  const int device = out.device().index;
  const FunctionHandle kernel = cache.find(device, static_cast<uint64_t>(out.dtype()), [&] {
    return concat("file nextafter.cu\nNeighbourArguments\nneighbours<", kernel_type(out.dtype()),
                  ">");
  });
  launch_with(kernel, device, element_blocks(out.numel(), 1), kElementThreads,
              NeighbourArguments{out.numel(), out.data(), call.in(0).data(), call.in(1).data()});
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"nextafter_half", nextafter_half},
};

}  // namespace

}  // namespace tapegrad::cuda
