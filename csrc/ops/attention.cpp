#include "ops/attention.h"

#include <limits>
#include <vector>

#include "core/error.h"
#include "graph/record.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/join.h"
#include "ops/mask.h"
#include "ops/matmul.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const Op attention_op("attention", {"scale", "causal", "masked"}, kContracts);
const Op attention_backward_op("attention_backward", {"scale", "causal", "masked"},
                               kContracts | kUnrecorded);

const EntryKind attention_entry("scaled_dot_product_attention", attention_op,
                                {"query", "key", "value", "output", "logsumexp", "mask"});

// The kernels step through any strides, but elements of a row must be adjacent.
Tensor with_rows(const Tensor& x) {
  if (x.size(3) <= 1 || x.stride(3) == 1) return x;
  Tensor copy = empty_like(x);
  copy_into(copy, x);
  return copy;
}

// (batch, heads, length, width) in the memory order (batch, length, heads, width), in which heads
// are joined again without a copy.
Tensor empty_heads(Sizes sizes, const Tensor& like) {
  const int64_t heads = sizes[1], length = sizes[2], width = sizes[3];
  Tensor memory =
      empty("attention", DimVector{sizes[0], length, heads, width}, like.dtype(), like->device());
  return alias(memory, sizes, DimVector{length * heads * width, width, heads * width, 1}, 0);
}

// The result, and the logarithms of the sums of rows.
std::pair<Tensor, Tensor> run_attention(std::span<const Tensor> inputs, double scale, bool causal,
                                        bool masked) {
  const Tensor &query = inputs[0], &value = inputs[2];
  const DimVector rows{query.size(0), query.size(1), query.size(2)};
  const DimVector sizes{rows[0], rows[1], rows[2], value.size(3)};
  const Tensor outputs[] = {empty_heads(sizes, query),
                            empty("attention", rows, query.dtype(), query->device())};
  const Scalar attributes[] = {scale, causal, masked};
  dispatch(attention_op, inputs, attributes, outputs);
  return {outputs[0], outputs[1]};
}

struct AttentionBackward final : Entry<attention_entry> {
  AttentionBackward(bool causal, double scale, bool masked)
      : causal(causal), scale(scale), masked(masked) {}

  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (is_differentiating()) return composed(grads[0], grad_inputs);
    Tensor query = with_rows(saved(0)), key = with_rows(saved(1)), value = with_rows(saved(2));
    auto [seen, sums] = results(query, key, value);
    std::vector<Tensor> inputs{with_rows(grads[0]), query, key, value, seen, sums};
    if (masked) inputs.push_back(saved(5));
    const Tensor outputs[] = {empty_heads(query.sizes(), query), empty_heads(key.sizes(), key),
                              empty_heads(value.sizes(), value)};
    const Scalar attributes[] = {scale, causal, masked};
    dispatch(attention_backward_op, inputs, attributes, outputs);
    for (size_t i = 0; i < 3; ++i)
      if (needs(i)) grad_inputs[i] = outputs[i];
  }

  // What the op returned, and the sums of rows. Of values that were rounded (graph/coding.h) they are
  // computed again: weights exp(score - sum) with a sum of other scores would not add up to one, and a
  // rounded score in the exponent can make them arbitrarily large.
  std::pair<Tensor, Tensor> results(const Tensor& query, const Tensor& key,
                                    const Tensor& value) const {
    if (!saved_values()[0].coded() && !saved_values()[1].coded()) return {saved(3), saved(4)};
    std::vector<Tensor> inputs{query, key, value};
    if (masked) inputs.push_back(saved(5));
    return run_attention(inputs, scale, causal, masked);
  }

  // Of recorded ops, with the whole matrix of scores: a derivative that can be differentiated.
  void composed(const Tensor& g, Gradients grad_inputs) {
    Tensor q = saved(0), k = saved(1), v = saved(2);
    const DimVector key_sizes(k.sizes()), value_sizes(v.sizes());
    k = for_each_head(k, q.size(1));
    v = for_each_head(v, q.size(1));
    Tensor scores = matmul(q, matrix_transpose(k)) * scale;
    // One where the query sees a key at all, and what its scores get.
    Tensor sees =
        cast(ne(unsqueeze(saved(4), -1), std::numeric_limits<double>::infinity()), q.dtype());
    if (causal || masked) scores = scores + bias(q, k) * sees;
    Tensor weights = softmax(scores, -1) * sees;
    Tensor grad_weights = matmul(g, matrix_transpose(v));
    Tensor grad_scores =
        (grad_weights - sum(grad_weights * weights, DimVector{-1}, true)) * weights * scale;
    if (needs(0)) grad_inputs[0] = matmul(grad_scores, k);
    if (needs(1)) grad_inputs[1] = of_each_key(matmul(matrix_transpose(grad_scores), q), key_sizes);
    if (needs(2)) grad_inputs[2] = of_each_key(matmul(matrix_transpose(weights), g), value_sizes);
  }

  // What is added to the scores: as low as makes the weight zero, but finite.
  Tensor bias(const Tensor& q, const Tensor& k) const {
    const double lowest = q.dtype() == DType::Float32 ? -1e30 : -1e300;
    Tensor added;
    if (masked) {
      Tensor mask = saved(5);
      added = mask.dtype() == DType::Bool ? where(mask, zeros({}, q.dtype(), q->device()),
                                                  full({}, lowest, q.dtype(), q->device()))
                                          : maximum(mask, full({}, lowest, q.dtype(), q->device()));
    }
    if (!causal) return added;
    Tensor future = triu(ones(DimVector{q.size(2), k.size(2)}, q.dtype(), q->device()), 1) * lowest;
    return added.defined() ? added + future : future;
  }

  // The sums of rows and the mask stand in exponents.
  SavedReading reading(size_t i, const Tensor&) const override {
    return {i < 4 ? SavedUse::Smooth : SavedUse::Exact};
  }

  static Tensor for_each_head(const Tensor& x, int64_t heads) {
    if (x.size(1) == heads) return x;
    DimVector sizes{x.size(0), x.size(1), heads / x.size(1), x.size(2), x.size(3)};
    return reshape(expand(unsqueeze(x, 2), sizes),
                   DimVector{x.size(0), heads, x.size(2), x.size(3)});
  }
  static Tensor of_each_key(const Tensor& grad, const DimVector& sizes) {
    if (grad.size(1) == sizes[1]) return grad;
    DimVector split{sizes[0], sizes[1], grad.size(1) / sizes[1], sizes[2], sizes[3]};
    return sum(reshape(grad, split), DimVector{2}, false);
  }

  bool causal;
  double scale;
  bool masked;
};

void check(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask) {
  for (const Tensor* x : {&query, &key, &value})
    TAPEGRAD_CHECK(x->dim() == 4 && x->dtype() == query.dtype() &&
                       (x->dtype() == DType::Float32 || x->dtype() == DType::Float64),
                   "attention: expected query, key and value of 4 dimensions and one dtype, "
                   "float32 or float64");
  const bool fits = key.size(0) == query.size(0) && value.size(0) == query.size(0) &&
                    key.size(1) == value.size(1) && key.size(2) == value.size(2) &&
                    key.size(3) == query.size(3) && key.size(1) > 0 &&
                    query.size(1) % key.size(1) == 0;
  TAPEGRAD_CHECK(fits,
                 "attention: sizes of query, key and value do not fit: ", to_string(query.sizes()),
                 ", ", to_string(key.sizes()), ", ", to_string(value.sizes()));
  if (!mask.defined()) return;
  TAPEGRAD_CHECK(mask.dtype() == DType::Bool || mask.dtype() == query.dtype(),
                 "attention: expected a mask of bool or of the query's dtype, got ",
                 name(mask.dtype()));
}

}  // namespace

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& given,
                 bool causal, double scale) {
  check(query, key, value, given);
  Tensor mask;
  std::vector<Tensor> inputs{with_rows(query), with_rows(key), with_rows(value)};
  if (given.defined()) {
    mask =
        detach(expand(given, DimVector{query.size(0), query.size(1), query.size(2), key.size(2)}));
    if (mask.size(3) > 1 && mask.stride(3) != 1)
      mask = expand(contiguous(detach(given)), mask.sizes());
    if (mask.size(3) > 1 && mask.stride(3) != 1) mask = contiguous(mask);
    inputs.push_back(mask);
  }
  auto [seen, sums] = run_attention(inputs, scale, causal, mask.defined());
  if (should_record(query, key, value)) {
    auto& node =
        record<AttentionBackward>({&query, &key, &value}, seen, 6, causal, scale, mask.defined());
    node.save_input(0, query);
    node.save_input(1, key);
    node.save_input(2, value);
    node.save_output(3, seen);
    node.save_input(4, sums);
    if (mask.defined()) node.save_input(5, mask);
  }
  return seen;
}

}  // namespace tapegrad
