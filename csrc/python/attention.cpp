// Attention in Python, and who computes it. The public function is in tapegrad/nn/functional/attention.py.
#include "ops/attention.h"

#include <cmath>

#include "cuda/dnn_attention.h"
#include "graph/record.h"
#include "intercept/batch.h"
#include "ops/copy.h"
#include "ops/view.h"
#include "python/binding.h"
#include "python/form.h"

namespace tapegrad::python {

namespace {

// By the numbers of torch.nn.attention.SDPBackend. Flash and Efficient both stand for the kernels of our own.
enum Backend : int { kError = -1, kMath = 0, kFlash = 1, kEfficient = 2, kDnn = 3 };

// Those that may be used, the best first: tapegrad/_attention_backends.py.
std::vector<int>& allowed_backends() {
  static auto& allowed = *new std::vector<int>{kDnn, kFlash, kEfficient, kMath};
  return allowed;
}

struct Request {
  Tensor query, key, value, mask;
  double dropout;
  bool causal;
  double scale;
  bool shares_heads;

  DimVector scores() const { return {query.size(0), query.size(1), query.size(2), key.size(2)}; }
};

// Why no fused kernel takes it; null where they do.
const char* shape_refusal(const Request& r) {
  for (const Tensor* x : {&r.query, &r.key, &r.value})
    if (x->dim() != 4) return "query, key and value do not all have 4 dimensions";
  if (!is_floating(r.query.dtype()) || r.key.dtype() != r.query.dtype() ||
      r.value.dtype() != r.query.dtype())
    return "query, key and value are not of one floating dtype";
  const int64_t heads = r.query.size(1), groups = r.key.size(1);
  const bool fits = r.key.size(0) == r.query.size(0) && r.key.size(3) == r.query.size(3) &&
                    r.value.size(0) == r.key.size(0) && r.value.size(1) == groups &&
                    r.value.size(2) == r.key.size(2);
  if (!fits) return "sizes of query, key and value do not fit without broadcasting";
  if (groups != heads && !(r.shares_heads && groups > 0 && heads % groups == 0))
    return "query and key have different numbers of heads";
  if (!r.mask.defined()) return nullptr;
  if (should_record(r.mask)) return "the mask needs a gradient";
  if (r.mask.dim() > 4 || !can_expand(r.mask.sizes(), r.scores()))
    return "the mask does not broadcast to the scores";
  const DType dtype = r.mask.dtype();
  const bool is_wide = dtype == DType::Float32 && r.query.dtype() != DType::Float64;
  return dtype == DType::Bool || dtype == r.query.dtype() || is_wide
             ? nullptr
             : "the mask is neither of bool nor of float32 nor of the query's dtype";
}

// The same of cuDNN.
std::string dnn_refusal(const Request& r) {
  if (r.dropout >= 1) return "the probability of dropout is 1";
  Tensor mask;
  if (r.mask.defined()) mask = expand(detach(r.mask), r.scores());
  if (mask.defined() && mask.size(3) > 1 && mask.stride(3) != 1)
    return "elements of a row of the mask are not side by side";
  const cuda::DnnAttention call{
      *r.query.impl(), *r.key.impl(), *r.value.impl(), mask.defined() ? mask.impl() : nullptr,
      r.scale,         r.causal,      r.dropout};
  return cuda::dnn_attention_refusal(call, r.dropout > 0);
}

// Entries that are recorded in a vmap and swept outside of it could not draw alike.
bool is_batched(const Request& r) {
  return is_vmap_running() || r.query->storage().is_batched() || r.key->storage().is_batched() ||
         r.value->storage().is_batched();
}

std::string refusal(int backend, const Request& r) {
  if (backend == kMath) return {};
  if (const char* reason = shape_refusal(r)) return reason;
  if (r.dropout > 0 && is_batched(r)) return "dropout differs over a vmap";
  if (backend == kDnn) return dnn_refusal(r);
  return backend == kFlash || backend == kEfficient ? "" : "there is no such backend";
}

int choose(const Request& r) {
  for (const int backend : allowed_backends())
    if (refusal(backend, r).empty()) return backend;
  return kError;
}

// A copy where cuDNN would not take a tensor as it lies in memory, and takes its sizes: our own kernels, which do, are slower by
// far.
Tensor laid_out(const Tensor& x) {
  const bool is_one = x.dim() == 4 && x->device().type == DeviceType::CUDA &&
                      is_reduced_float(x.dtype()) && x.size(3) % 8 == 0 && x.numel() > 0 &&
                      !x->storage().is_batched();
  return is_one && !cuda::lies_for_dnn(*x.impl()) ? clone(x, MemoryFormat::Contiguous) : x;
}

Request request(const Tensor& query, const Tensor& key, const Tensor& value,
                const std::optional<Tensor>& mask, double dropout, bool causal,
                std::optional<double> scale, bool shares_heads) {
  const int64_t width = query.dim() ? query.size(query.dim() - 1) : 1;
  return {laid_out(query),
          laid_out(key),
          laid_out(value),
          mask.value_or(Tensor()),
          std::max(dropout, 0.0),
          causal,
          scale ? *scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(width, 1))),
          shares_heads};
}

// None where no fused kernel is chosen.
std::optional<Tensor> attend(const Tensor& query, const Tensor& key, const Tensor& value,
                             const std::optional<Tensor>& mask, double dropout, bool causal,
                             std::optional<double> scale, bool shares_heads) {
  const Request r = request(query, key, value, mask, dropout, causal, scale, shares_heads);
  if (dropout > 1 || (causal && r.mask.defined())) return std::nullopt;
  const int backend = choose(r);
  if (backend == kMath || backend == kError) return std::nullopt;
  return attention(r.query, r.key, r.value, r.mask, causal, r.scale,
                   backend == kDnn ? AttentionKernel::Dnn : AttentionKernel::Own, r.dropout);
}

}  // namespace

void bind_attention(Binder& b) {
  const auto define = [&](const char* name, auto function, const char* doc) {
    b.function(name, function, "query"_a, "key"_a, "value"_a, "attn_mask"_a.none(), "dropout_p"_a,
               "is_causal"_a, "scale"_a.none(), "enable_gqa"_a, doc);
  };
  define("_attention", attend,
         "Scaled dot product attention of (batch, heads, length, width) without the matrix of all "
         "scores; None where that is not what is to be done.");
  define(
      "_attention_choice",
      [](const Tensor& query, const Tensor& key, const Tensor& value,
         const std::optional<Tensor>& mask, double dropout, bool causal,
         std::optional<double> scale, bool shares_heads) {
    return choose(request(query, key, value, mask, dropout, causal, scale, shares_heads));
  },
      "The number of the backend that would compute it; -1 where none of the allowed ones does.");
  b.function("_attention_refusal",
             [](int backend, const Tensor& query, const Tensor& key, const Tensor& value,
                const std::optional<Tensor>& mask, double dropout, bool causal,
                std::optional<double> scale, bool shares_heads) {
    return refusal(backend, request(query, key, value, mask, dropout, causal, scale, shares_heads));
  },
             "backend"_a, "query"_a, "key"_a, "value"_a, "attn_mask"_a.none(), "dropout_p"_a,
             "is_causal"_a, "scale"_a.none(), "enable_gqa"_a,
             "Why a backend does not compute it; empty where it does.");
  b.function("_cuda_dnn_attentions", [] {
    return std::pair(cuda::dnn_attention_runs, cuda::dnn_attention_backward_runs);
  }, "How many calls of attention cuDNN has computed, and how many derivatives.");
  b.function("_set_attention_backends", [](std::vector<int> backends) {
    attention_choices = 0;
    for (int backend : backends)
      attention_choices = attention_choices * 16 + static_cast<uint64_t>(backend) + 1;
    allowed_backends() = std::move(backends);
  }, "backends"_a, "The numbers of the backends that may be used, the best first.");
}

}  // namespace tapegrad::python
