// Masks on CUDA: tapegrad/cuda/kernels/mask.cu.
#include "spec/mask.h"

#include <cstring>

#include "core/registry.h"
#include "cuda/kernel_errors.h"
#include "cuda/launch.h"
#include "cuda/walk.h"

namespace tapegrad::cuda {

namespace {

constexpr int kThreads = 256;

// As mask.cu has it.
struct MaskArguments {
  int64_t count;
  const void* mask;
  void* counts;
  const void* from;
  void* to;
  int64_t total;
  ErrorPlace errors;
  int64_t rank;
  int64_t sizes[kMaxRank];
};
static_assert(kMaxRank == 64);

// One block of threads for each block of the mask.
void run(const char* function, int key, const TensorImpl& mask, MaskArguments arguments) {
  static auto& cache = *new KernelCache;
  if (mask.numel() == 0) return;
  const int device = mask.device().index;
  const FunctionHandle kernel = cache.find(device, static_cast<uint64_t>(key), [&] {
    return concat("file mask.cu\nMaskArguments\n", function);
  });
  arguments.count = mask.numel();
  arguments.mask = mask.data();
  launch_with(kernel, device, (mask.numel() + kMaskBlock - 1) / kMaskBlock, kThreads, arguments);
}

// Output: for each block of the mask the number of its true elements.
void count_mask(const OpCall& call) {
  MaskArguments arguments{};
  arguments.counts = call.out().data();
  run("count_mask", 1, call.in(0), arguments);
}

// Inputs: the mask, its counts. Output: one row of indices for each dimension.
void nonzero(const OpCall& call) {
  const TensorImpl &mask = call.in(0), &out = call.out();
  if (mask.dim() == 0 || out.numel() == 0) return;
  MaskArguments arguments{};
  arguments.counts = call.in(1).data();
  arguments.to = out.data();
  arguments.total = out.size(1);
  arguments.rank = mask.dim();
  for (size_t d = 0; d < mask.sizes().size(); ++d) arguments.sizes[d] = mask.size(d);
  run("nonzero", 2, mask, arguments);
}

int key_of(int function, DType dtype) { return function << 4 | static_cast<int>(itemsize(dtype)); }

// Inputs: the contiguous tensor, the mask, its counts.
void masked_select(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  if (call.out().numel() == 0) return;
  MaskArguments arguments{};
  arguments.counts = call.in(2).data();
  arguments.from = x.data();
  arguments.to = call.out().data();
  run(concat("masked_select<", item_type(x.dtype()), ">").c_str(), key_of(3, x.dtype()), call.in(1),
      arguments);
}

// Inputs: a contiguous tensor, which is also the output, the mask, its counts, the source.
void masked_scatter(const OpCall& call) {
  const TensorImpl& out = call.out();
  MaskArguments arguments{};
  arguments.counts = call.in(2).data();
  arguments.from = call.in(3).data();
  arguments.to = out.data();
  arguments.total = call.in(3).numel();
  arguments.errors = error_place(
      out.device().index, {call.op.name, 0, arguments.total, [](const KernelError& error, int64_t) {
    fail(error.op, ": number of elements of source (", error.size, ") < number of ones in mask");
  }});
  run(concat("masked_scatter<", item_type(out.dtype()), ">").c_str(), key_of(4, out.dtype()),
      call.in(1), arguments);
}

// As mask.cu has it.
struct MaskedFillArguments {
  int64_t count;
  const void* mask;
  const void* from;
  void* to;
  const void* value;
  uint64_t bits;
};

// Inputs: a contiguous tensor, the mask, a value of one element, which may be on the host. The output may be
// the input.
void masked_fill(const OpCall& call) {
  const TensorImpl &x = call.in(0), &mask = call.in(1), &value = call.in(2), &out = call.out();
  if (out.numel() == 0) return;
  const size_t item = itemsize(out.dtype());
  MaskedFillArguments arguments{out.numel(), mask.data(), x.data(), out.data(), nullptr, 0};
  if (value.device().is_cpu()) std::memcpy(&arguments.bits, value.data(), item);
  else arguments.value = value.data();
  int width = static_cast<int>(16 / item);
  auto is_aligned = [&](const TensorImpl& tensor) {
    const size_t nbytes = static_cast<size_t>(width) * itemsize(tensor.dtype());
    return reinterpret_cast<uintptr_t>(tensor.data()) % nbytes == 0;
  };
  if (!is_aligned(x) || !is_aligned(mask) || !is_aligned(out)) width = 1;
  static auto& cache = *new KernelCache;
  const int device = out.device().index;
  const FunctionHandle kernel = cache.find(device, item << 8 | static_cast<uint64_t>(width), [&] {
    return concat("file mask.cu\nMaskedFillArguments\nmasked_fill<", item_type(out.dtype()), ", ",
                  width, ">");
  });
  launch_with(kernel, device, element_blocks(out.numel(), width), kElementThreads, arguments);
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"count_mask", count_mask},         {"nonzero", nonzero},
    {"masked_select", masked_select},   {"masked_fill", masked_fill},
    {"masked_scatter", masked_scatter},
};

}  // namespace

}  // namespace tapegrad::cuda
