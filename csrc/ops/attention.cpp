#include "ops/attention.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "graph/record.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/join.h"
#include "ops/mask.h"
#include "ops/matmul.h"
#include "ops/operand.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

// Attributes: see spec/attention.h.
const Op attention_op("attention", {"scale", "causal", "masked", "kernel"}, kContracts);
const Op attention_backward_op("attention_backward", {"scale", "causal", "masked", "kernel"},
                               kContracts | kAnyOrder | kUnrecorded);
const Op dropout_op("attention_dropout",
                    {"scale", "causal", "masked", "kernel", "dropout", "seed", "offset"},
                    kContracts | kRandom);
const Op dropout_backward_op("attention_dropout_backward",
                             {"scale", "causal", "masked", "kernel", "dropout", "seed", "offset"},
                             kContracts | kAnyOrder | kUnrecorded);

const EntryKind attention_entry("scaled_dot_product_attention", attention_op,
                                {"query", "key", "value", "output", "logsumexp", "mask"});
const EntryKind dropout_entry("scaled_dot_product_attention", dropout_op,
                              {"query", "key", "value", "output", "logsumexp", "mask"});

// The kernels step through any strides, but elements of a row must be adjacent. Those of CUDA take halves, on the CPU
// they go through float32, outside the tape.
Tensor with_rows(const Tensor& x) {
  const bool is_taken = x.dtype() == DType::Bool || x.dtype() == kernel_dtype(x.dtype()) ||
                        x->device().type == DeviceType::CUDA;
  if (is_taken && (x.size(3) <= 1 || x.stride(3) == 1)) return x;
  Tensor copy = empty_like(x, x.sizes(), is_taken ? x.dtype() : kernel_dtype(x.dtype()));
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

// Whether query, key and value are the thirds of the rows of one tensor, as a projection into all three makes them.
bool are_thirds(const Tensor& query, const Tensor& key, const Tensor& value) {
  const int64_t width = query.size(3), row = query.size(1) * width, length = query.size(2);
  int64_t offset = query->offset();
  for (const Tensor* x : {&query, &key, &value}) {
    const bool is_next = x->impl()->offset() == offset && same_sizes(x->sizes(), query.sizes()) &&
                         x->impl()->storage_ref() == query->storage_ref();
    if (!is_next || x->stride(3) != 1 || x->stride(1) != width || x->stride(2) != 3 * row ||
        x->stride(0) != 3 * row * length)
      return false;
    offset += row;
  }
  return true;
}

// What the gradients are written to. Those of thirds of one tensor are thirds as well, where all of them are wanted: side by
// side they are its gradient (SplitBackward). Those who keep what calls give have an output each, and so has dropout, where
// cuDNN was asked about that.
std::array<Tensor, 3> empty_grads(const Tensor& query, const Tensor& key, const Tensor& value,
                                  bool is_whole) {
  constexpr uint32_t kNotKept =
      kOtherDevice | kLimitedTensors | bit(Interceptor::Profile) | bit(Interceptor::Capture);
  const bool is_kept = (intercepted_here | intercepted_everywhere) & ~kNotKept;
  if (!is_whole || is_kept || !are_thirds(query, key, value))
    return {empty_heads(query.sizes(), query), empty_heads(key.sizes(), key),
            empty_heads(value.sizes(), value)};
  const int64_t row = query.size(1) * query.size(3);
  const Tensor all = empty("attention", DimVector{query.size(0), query.size(2), 3 * row},
                           query.dtype(), query->device());
  return {alias(all, query.sizes(), query.strides(), 0),
          alias(all, query.sizes(), query.strides(), row),
          alias(all, query.sizes(), query.strides(), 2 * row)};
}

// What a call says beside its operands.
struct How {
  double scale;
  bool causal, masked;
  AttentionKernel kernel;
  double dropout;
  RandomStream stream;

  bool drops() const { return dropout > 0; }
  // As spec/attention.h lists them.
  std::vector<Scalar> attributes() const {
    std::vector<Scalar> all{scale, causal, masked, static_cast<int64_t>(kernel)};
    if (drops())
      all.insert(all.end(),
                 {dropout, static_cast<int64_t>(stream.seed), static_cast<int64_t>(stream.offset)});
    return all;
  }
};

// The result, and the logarithms of the sums of rows.
std::pair<Tensor, Tensor> run_attention(std::span<const Tensor> inputs, const How& how) {
  const Tensor &query = inputs[0], &value = inputs[2];
  const DimVector rows{query.size(0), query.size(1), query.size(2)};
  const DimVector sizes{rows[0], rows[1], rows[2], value.size(3)};
  const Tensor outputs[] = {empty_heads(sizes, query),
                            empty("attention", rows, kernel_dtype(query.dtype()), query->device())};
  dispatch(how.drops() ? dropout_op : attention_op, inputs, how.attributes(), outputs);
  return {outputs[0], outputs[1]};
}

template <const EntryKind& kind>
struct AttentionBackward final : Entry<kind> {
  using Entry<kind>::needs;
  using Entry<kind>::saved;

  explicit AttentionBackward(const How& how) : how(how) {}

  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (is_differentiating()) return composed(grads[0], grad_inputs);
    Tensor query = with_rows(saved(0)), key = with_rows(saved(1)), value = with_rows(saved(2));
    auto [seen, sums] = results(query, key, value);
    std::vector<Tensor> inputs{incoming(grads[0]), query, key, value, with_rows(seen), sums};
    if (how.masked) inputs.push_back(saved(5));
    const bool is_whole = needs(0) && needs(1) && needs(2) && !how.drops();
    const std::array<Tensor, 3> outputs = empty_grads(query, key, value, is_whole);
    dispatch(how.drops() ? dropout_backward_op : attention_backward_op, inputs, how.attributes(),
             outputs);
    for (size_t i = 0; i < 3; ++i)
      if (needs(i)) grad_inputs[i] = narrowed(outputs[i], grads[0].dtype());
  }

  // cuDNN takes gradients in an order that heads have, and not those that are one number repeated.
  Tensor incoming(const Tensor& g) const {
    const Tensor rows = with_rows(g);
    if (how.kernel != AttentionKernel::Dnn) return rows;
    const bool is_aligned = rows->offset() % 8 == 0;
    if (is_aligned && rows.is_contiguous()) return rows;
    const Tensor usual = empty_heads(rows.sizes(), rows);
    if (is_aligned && same_sizes(rows.strides(), usual.strides())) return rows;
    copy_into(usual, rows);
    return usual;
  }

  // What the op returned, and the sums of rows. Of values that were rounded (graph/coding.h) they are
  // computed again: weights exp(score - sum) with a sum of other scores would not add up to one, and a
  // rounded score in the exponent can make them arbitrarily large.
  std::pair<Tensor, Tensor> results(const Tensor& query, const Tensor& key,
                                    const Tensor& value) const {
    const auto& values = this->saved_values();
    if (!values[0].coded() && !values[1].coded()) return {saved(3), saved(4)};
    return run_attention(operands(query, key, value), how);
  }

  std::vector<Tensor> operands(const Tensor& query, const Tensor& key, const Tensor& value) const {
    std::vector<Tensor> inputs{query, key, value};
    if (how.masked) inputs.push_back(saved(5));
    return inputs;
  }

  // Of recorded ops, with the whole matrix of scores: a derivative that can be differentiated.
  void composed(const Tensor& g, Gradients grad_inputs) {
    const DType dtype = kernel_dtype(g.dtype());
    Tensor q = cast(saved(0), dtype), k = cast(saved(1), dtype), v = cast(saved(2), dtype);
    const DimVector key_sizes(k.sizes()), value_sizes(v.sizes());
    k = for_each_head(k, q.size(1));
    v = for_each_head(v, q.size(1));
    Tensor scores = matmul(q, matrix_transpose(k)) * how.scale;
    // One where the query sees a key at all, and what its scores get.
    Tensor sees = cast(ne(unsqueeze(saved(4), -1), std::numeric_limits<double>::infinity()), dtype);
    if (how.causal || how.masked) scores = scores + bias(q, k) * sees;
    Tensor weights = softmax(scores, -1) * sees;
    Tensor grad = cast(g, dtype), used = weights;
    Tensor grad_weights = matmul(grad, matrix_transpose(v));
    if (how.drops()) {
      const Tensor kept = cast(kept_weights(), dtype) * (1 / (1 - how.dropout));
      used = used * kept;
      grad_weights = grad_weights * kept;
    }
    Tensor grad_scores =
        (grad_weights - sum(grad_weights * weights, DimVector{-1}, true)) * weights * how.scale;
    if (needs(0)) grad_inputs[0] = cast(matmul(grad_scores, k), g.dtype());
    if (needs(1))
      grad_inputs[1] =
          cast(of_each_key(matmul(matrix_transpose(grad_scores), q), key_sizes), g.dtype());
    if (needs(2))
      grad_inputs[2] =
          cast(of_each_key(matmul(matrix_transpose(used), grad), value_sizes), g.dtype());
  }

  // Which weights were not dropped, as far as they are not zero anyway: what the op gives for the columns of the identity
  // as values, laid out as the values were, so that it does what it did for them.
  Tensor kept_weights() const {
    const Tensor query = with_rows(detach(saved(0))), key = with_rows(detach(saved(1)));
    const Tensor value = with_rows(detach(saved(2)));
    const int64_t keys = key.size(2), width = value.size(3);
    const Tensor identity = eye(keys, keys, value.dtype(), value->device());
    std::vector<Tensor> columns;
    for (int64_t first = 0; first < keys; first += width) {
      const int64_t count = std::min(width, keys - first);
      const Tensor part = empty_like(value);
      copy_into(part, zeros({}, value.dtype(), value->device()));
      copy_into(narrow(part, 3, 0, count), narrow(identity, 1, first, count));
      const Tensor seen = run_attention(operands(query, key, part), how).first;
      columns.push_back(narrow(seen, 3, 0, count));
    }
    return ne(cat(columns, 3), 0.0);
  }

  // What is added to the scores: as low as makes the weight zero, but finite.
  Tensor bias(const Tensor& q, const Tensor& k) const {
    const double lowest = q.dtype() == DType::Float32 ? -1e30 : -1e300;
    Tensor added;
    if (how.masked) {
      Tensor mask = saved(5);
      if (mask.dtype() != DType::Bool) mask = cast(mask, q.dtype());
      added = mask.dtype() == DType::Bool ? where(mask, zeros({}, q.dtype(), q->device()),
                                                  full({}, lowest, q.dtype(), q->device()))
                                          : maximum(mask, full({}, lowest, q.dtype(), q->device()));
    }
    if (!how.causal) return added;
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

  How how;
};

void check(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask) {
  for (const Tensor* x : {&query, &key, &value})
    TAPEGRAD_CHECK(
        x->dim() == 4 && x->dtype() == query.dtype() && is_floating(x->dtype()),
        "attention: expected query, key and value of 4 dimensions and one floating dtype");
  const bool fits = key.size(0) == query.size(0) && value.size(0) == query.size(0) &&
                    key.size(1) == value.size(1) && key.size(2) == value.size(2) &&
                    key.size(3) == query.size(3) && key.size(1) > 0 &&
                    query.size(1) % key.size(1) == 0;
  TAPEGRAD_CHECK(fits,
                 "attention: sizes of query, key and value do not fit: ", to_string(query.sizes()),
                 ", ", to_string(key.sizes()), ", ", to_string(value.sizes()));
  if (!mask.defined()) return;
  TAPEGRAD_CHECK(mask.dtype() == DType::Bool || mask.dtype() == query.dtype() ||
                     (mask.dtype() == DType::Float32 && query.dtype() != DType::Float64),
                 "attention: expected a mask of bool, float32 or the query's dtype, got ",
                 name(mask.dtype()));
}

// Outside the tape, with adjacent elements of a row; halves that the kernel does not know are widened before they are
// repeated.
Tensor expanded_mask(const Tensor& given, DType dtype, Sizes scores) {
  Tensor own = detach(given);
  if (own.dtype() != DType::Bool && own.dtype() != DType::Float32) own = cast(own, dtype);
  Tensor mask = expand(own, scores);
  if (mask.size(3) > 1 && mask.stride(3) != 1) mask = expand(contiguous(own), scores);
  return mask.size(3) > 1 && mask.stride(3) != 1 ? contiguous(mask) : mask;
}

// cuDNN does not say how it counts; PyTorch gives it as many as there are weights.
RandomStream reserve(const Tensor& query, const Tensor& key, AttentionKernel kernel) {
  const int64_t weights = query.size(0) * query.size(1) * query.size(2) * key.size(2);
  return default_generator(query->device())
      .reserve(kernel == AttentionKernel::Dnn ? static_cast<uint64_t>(weights)
                                              : AttentionDropout::counters(weights));
}

}  // namespace

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& given,
                 bool causal, double scale, AttentionKernel kernel, double dropout) {
  check(query, key, value, given);
  Tensor mask;
  std::vector<Tensor> inputs{with_rows(query), with_rows(key), with_rows(value)};
  if (given.defined()) {
    mask = expanded_mask(given, inputs[0].dtype(),
                         DimVector{query.size(0), query.size(1), query.size(2), key.size(2)});
    inputs.push_back(mask);
  }
  How how{scale, causal, mask.defined(), kernel, dropout, {}};
  if (how.drops()) how.stream = reserve(query, key, kernel);
  auto [wide, sums] = run_attention(inputs, how);
  const Tensor seen = narrowed(wide, query.dtype());
  if (!should_record(query, key, value)) return seen;
  const auto save = [&](auto& node) {
    node.save_input(0, query);
    node.save_input(1, key);
    node.save_input(2, value);
    node.save_output(3, seen);
    node.save_input(4, sums);
    if (mask.defined()) node.save_input(5, mask);
  };
  if (how.drops())
    save(record<AttentionBackward<dropout_entry>>({&query, &key, &value}, seen, 6, how));
  else save(record<AttentionBackward<attention_entry>>({&query, &key, &value}, seen, 6, how));
  return seen;
}

}  // namespace tapegrad
