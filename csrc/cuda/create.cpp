// Values that are made from attributes alone, on CUDA: tapegrad/cuda/kernels/create.cu.
#include "core/registry.h"
#include "cuda/elements.h"
#include "cuda/launch.h"

namespace tapegrad::cuda {

namespace {

// As create.cu has them.
struct StepArguments {
  int64_t count;
  void* out;
  double start, step;
  int64_t whole_start, whole_step;
};
struct LinspaceArguments {
  int64_t count;
  void* out;
  double start, end, base;
};
struct EyeArguments {
  int64_t count;
  void* out;
  int64_t columns;
};

// One thread for each element of a fresh and contiguous output.
template <class Struct>
void run(const TensorImpl& out, const char* function, const char* type, const Struct& arguments) {
  static auto& cache = *new KernelCache;
  if (out.numel() == 0) return;
  const int device = out.device().index;
  const FunctionHandle kernel = cache.find(device, static_cast<uint64_t>(out.dtype()), [&] {
    return concat("file create.cu\n", type, "\n", function, "<", kernel_type(out.dtype()), ">");
  });
  launch_with(kernel, device, (out.numel() + kElementThreads - 1) / kElementThreads,
              kElementThreads, arguments);
}

void arange(const OpCall& call) {
  const TensorImpl& out = call.out();
  const Scalar start = call.attributes[0], step = call.attributes[1];
  const bool integers = is_integral(out.dtype());
  run(out, "arange", "StepArguments",
      StepArguments{out.numel(), out.data(), start.as_double(), step.as_double(),
                    integers ? start.as_int() : 0, integers ? step.as_int() : 0});
}

void linspace(const OpCall& call) {
  const TensorImpl& out = call.out();
  run(out, "linspace", "LinspaceArguments",
      LinspaceArguments{out.numel(), out.data(), call.real(0), call.real(1), call.real(2)});
}

void eye(const OpCall& call) {
  const TensorImpl& out = call.out();
  run(out, "eye", "EyeArguments", EyeArguments{out.numel(), out.data(), out.size(1)});
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"arange", arange},
    {"linspace", linspace},
    {"eye", eye},
};

}  // namespace

}  // namespace tapegrad::cuda
