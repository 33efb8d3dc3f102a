// Attention: csrc/cpu/attention.cpp tells the method, kernels/attention.cu how it is computed.
#include <algorithm>

#include "core/registry.h"
#include "core/tensor.h"
#include "cuda/launch.h"

namespace tapegrad::cuda {

namespace {

// ---- as kernels/attention.cu has them

struct AttentionOperand {
  void* data = nullptr;
  int64_t strides[3] = {};

  AttentionOperand() = default;
  explicit AttentionOperand(const TensorImpl& x)
      : data(x.data()), strides{x.stride(0), x.stride(1), x.stride(2)} {}
};
struct AttentionArguments {
  AttentionOperand query, key, value, out, grad, grad_query, grad_key, grad_value, mask;
  void *log_sums, *deltas;
  int64_t batch, heads, key_heads, shared, queries, keys, width, value_width;
  int64_t row_blocks, slices;
  double scale;
  int32_t causal, mask_kind;
};
enum MaskKind : int32_t { kNoMask, kSeenMask, kAddedMask };

constexpr int kBlockThreads = 128;
constexpr int64_t kBlockRows = 16;
constexpr int kMostParts = 8;  // 32 elements of a result each

AttentionArguments arguments_of(const OpCall& call, const TensorImpl& query, const TensorImpl& key,
                                const TensorImpl& value, const TensorImpl* mask) {
  AttentionArguments a{};
  a.query = AttentionOperand(query);
  a.key = AttentionOperand(key);
  a.value = AttentionOperand(value);
  if (mask) a.mask = AttentionOperand(*mask);
  a.batch = query.size(0);
  a.heads = query.size(1);
  a.key_heads = key.size(1);
  a.shared = a.heads / a.key_heads;
  a.queries = query.size(2);
  a.keys = key.size(2);
  a.width = query.size(3);
  a.value_width = value.size(3);
  a.scale = call.real(0);
  a.causal = call.integer(1) != 0;
  a.mask_kind = !mask ? kNoMask : mask->dtype() == DType::Bool ? kSeenMask : kAddedMask;
  return a;
}

// Of rows that have results of so many elements.
void run(const char* name, KernelCache& cache, AttentionArguments a, DType dtype, int device,
         int64_t heads, int64_t rows, int64_t width) {
  if (a.batch * heads * rows == 0) return;
  int parts = 1;
  while (parts < kMostParts && parts * 32 < width) parts *= 2;
  a.row_blocks = (rows + kBlockRows - 1) / kBlockRows;
  a.slices = std::max<int64_t>(1, (width + parts * 32 - 1) / (parts * 32));
  const uint64_t key = static_cast<uint64_t>(dtype) << 8 | static_cast<uint64_t>(parts);
  const FunctionHandle kernel = cache.find(device, key, [&] {
    return concat("file attention.cu\nAttentionArguments\n", name, "<", kernel_type(dtype), ", ",
                  parts, ">");
  });
  launch_with(kernel, device, a.batch * heads * a.row_blocks * a.slices, kBlockThreads, a);
}

void attention(const OpCall& call) {
  const TensorImpl* mask = call.integer(2) ? &call.in(3) : nullptr;
  AttentionArguments a = arguments_of(call, call.in(0), call.in(1), call.in(2), mask);
  a.out = AttentionOperand(call.out(0));
  a.log_sums = call.out(1).data();
  static auto& cache = *new KernelCache;
  run("attention", cache, a, call.out().dtype(), call.out().device().index, a.heads, a.queries,
      a.value_width);
}

void attention_backward(const OpCall& call) {
  const TensorImpl* mask = call.integer(2) ? &call.in(6) : nullptr;
  AttentionArguments a = arguments_of(call, call.in(1), call.in(2), call.in(3), mask);
  a.grad = AttentionOperand(call.in(0));
  a.out = AttentionOperand(call.in(4));
  a.log_sums = call.in(5).data();
  a.grad_query = AttentionOperand(call.out(0));
  a.grad_key = AttentionOperand(call.out(1));
  a.grad_value = AttentionOperand(call.out(2));
  const DType dtype = call.out().dtype();
  const Device device = call.out().device();
  const Tensor deltas = empty("attention", call.in(5).sizes(), dtype, device);
  a.deltas = deltas->data();
  static auto &of_queries = *new KernelCache, &of_keys = *new KernelCache;
  run("attention_backward_query", of_queries, a, dtype, device.index, a.heads, a.queries, a.width);
  run("attention_backward_key", of_keys, a, dtype, device.index, a.key_heads, a.keys,
      std::max(a.width, a.value_width));
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"attention", attention},
    {"attention_backward", attention_backward},
};

}  // namespace

}  // namespace tapegrad::cuda
