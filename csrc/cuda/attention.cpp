// Attention: csrc/cpu/attention.cpp tells the method, kernels/attention.cu how it is computed. Where cuDNN may be used and
// has a plan, it computes float16 and bfloat16 (cuda/dnn_attention.h).
#include <algorithm>

#include "core/registry.h"
#include "core/tensor.h"
#include "cuda/dnn_attention.h"
#include "cuda/launch.h"
#include "cuda/random_source.h"
#include "spec/attention.h"

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
  RandomSource source;
  uint64_t threshold;
  double kept_scale;
  int32_t causal, mask_kind;
};
enum MaskKind : int32_t { kNoMask, kSeenMask, kAddedMask, kWideMask };

MaskKind mask_kind(const TensorImpl* mask, DType dtype) {
  if (!mask) return kNoMask;
  if (mask->dtype() == DType::Bool) return kSeenMask;
  return mask->dtype() == dtype ? kAddedMask : kWideMask;
}

constexpr int kBlockThreads = 128;
constexpr int64_t kBlockRows = 16;
constexpr int kMostParts = 8;  // 32 elements of a result each

bool drops(const OpCall& call) { return call.attributes.size() > kAttentionDropout; }

RandomStream stream_of(const OpCall& call) {
  return {static_cast<uint64_t>(call.integer(kAttentionSeed)),
          static_cast<uint64_t>(call.integer(kAttentionOffset))};
}

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
  a.scale = call.real(kAttentionScale);
  a.causal = call.integer(kAttentionCausal) != 0;
  a.mask_kind = mask_kind(mask, query.dtype());
  if (!drops(call)) return a;
  const RandomStream stream = stream_of(call);
  const AttentionDropout dropout(call.real(kAttentionDropout), stream.seed, stream.offset);
  a.source = random_source(call.op.name, query.device().index, stream.seed, stream.offset);
  a.threshold = dropout.threshold;
  a.kept_scale = dropout.scale;
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

// ---- by cuDNN, where the call asks for it

const TensorImpl* mask_of(const OpCall& call, size_t place) {
  return call.integer(kAttentionMasked) ? &call.in(place) : nullptr;
}

bool asks_for_dnn(const OpCall& call) {
  return call.integer(kAttentionKernel) == static_cast<int64_t>(AttentionKernel::Dnn);
}

// `first` is the place of the query among the operands.
DnnAttention dnn_call(const OpCall& call, size_t first, const TensorImpl* mask) {
  DnnAttention dnn{call.in(first), call.in(first + 1),         call.in(first + 2),
                   mask,           call.real(kAttentionScale), call.integer(kAttentionCausal) != 0};
  if (drops(call)) {
    dnn.dropout = call.real(kAttentionDropout);
    dnn.stream = stream_of(call);
  }
  return dnn;
}

// What cuDNN does not compute is left to our own kernels, but for dropout: see AttentionKernel.
bool is_left(const OpCall& call, const DnnAttention& dnn) {
  if (!drops(call)) return true;
  const std::string reason = dnn_attention_refusal(dnn, true);
  fail(call.op.name,
       ": was recorded with the random numbers of cuDNN, which does not compute it here",
       reason.empty() ? "" : ": ", reason);
}

bool is_done_by_dnn(const OpCall& call, const TensorImpl* mask) {
  if (!asks_for_dnn(call)) return false;
  const DnnAttention dnn = dnn_call(call, 0, mask);
  return run_dnn_attention(dnn, call.out(0), call.out(1)) || !is_left(call, dnn);
}

bool is_backward_done_by_dnn(const OpCall& call, const TensorImpl* mask) {
  if (!asks_for_dnn(call)) return false;
  const DnnAttention dnn = dnn_call(call, 1, mask);
  return run_dnn_attention_backward(dnn, call.in(0), call.in(4), call.in(5), call.out(0),
                                    call.out(1), call.out(2)) ||
         !is_left(call, dnn);
}

// ---- kernels

void attention(const OpCall& call) {
  const TensorImpl* mask = mask_of(call, 3);
  if (is_done_by_dnn(call, mask)) return;
  AttentionArguments a = arguments_of(call, call.in(0), call.in(1), call.in(2), mask);
  a.out = AttentionOperand(call.out(0));
  a.log_sums = call.out(1).data();
  static auto& cache = *new KernelCache;
  run("attention", cache, a, call.out().dtype(), call.out().device().index, a.heads, a.queries,
      a.value_width);
}

void attention_backward(const OpCall& call) {
  const TensorImpl* mask = mask_of(call, 6);
  if (is_backward_done_by_dnn(call, mask)) return;
  AttentionArguments a = arguments_of(call, call.in(1), call.in(2), call.in(3), mask);
  a.grad = AttentionOperand(call.in(0));
  a.out = AttentionOperand(call.in(4));
  a.log_sums = call.in(5).data();
  a.grad_query = AttentionOperand(call.out(0));
  a.grad_key = AttentionOperand(call.out(1));
  a.grad_value = AttentionOperand(call.out(2));
  const DType dtype = call.out().dtype();
  const Device device = call.out().device();
  const Tensor deltas = empty("attention", call.in(5).sizes(), call.in(5).dtype(), device);
  a.deltas = deltas->data();
  static auto &of_queries = *new KernelCache, &of_keys = *new KernelCache;
  run("attention_backward_query", of_queries, a, dtype, device.index, a.heads, a.queries, a.width);
  run("attention_backward_key", of_keys, a, dtype, device.index, a.key_heads, a.keys,
      std::max(a.width, a.value_width));
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"attention", attention},
    {"attention_backward", attention_backward},
    {"attention_dropout", attention},
    {"attention_dropout_backward", attention_backward},
};

}  // namespace

}  // namespace tapegrad::cuda
