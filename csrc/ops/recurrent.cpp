#include "ops/recurrent.h"

#include <algorithm>

#include "core/error.h"
#include "graph/record.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/operand.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "spec/recurrent.h"

namespace tapegrad {

namespace {

const Op recurrent_op("recurrent", {"cell", "reverse", "counts*"}, kContracts);
const Op recurrent_backward_op("recurrent_backward", {"cell", "reverse", "counts*"},
                               kContracts | kUnrecorded);

const std::initializer_list<SavedName> kRecurrentSaved = {
    "input", "weight_ih", "weight_hh", "state", "cell_state_or_bias", "bias", "result", "memory"};
// In the order of Cell.
const EntryKind kRecurrentEntries[] = {{"rnn_tanh", recurrent_op, kRecurrentSaved},
                                       {"rnn_relu", recurrent_op, kRecurrentSaved},
                                       {"lstm", recurrent_op, kRecurrentSaved},
                                       {"gru", recurrent_op, kRecurrentSaved}};

Tensor or_zeros(const Tensor& grad, const Tensor& like) {
  return grad.defined() ? grad : zeros(like.sizes(), like.dtype(), like->device());
}

std::vector<Scalar> attributes_of(Cell cell, bool reverse, Sizes counts) {
  std::vector<Scalar> attributes{static_cast<int64_t>(cell), reverse};
  for (int64_t count : counts) attributes.emplace_back(count);
  return attributes;
}

// ---- the derivative of recorded ops, for derivatives of higher order ------------------------------

// Rows [0, count) of a state, and a state whose first rows are new.
Tensor running(const Tensor& state, int64_t count) {
  return count == state.size(0) ? state : narrow(state, 0, 0, count);
}
Tensor advanced(const Tensor& fresh, const Tensor& state) {
  const int64_t count = fresh.size(0), rest = state.size(0) - count;
  if (rest == 0) return fresh;
  const Tensor parts[] = {fresh, narrow(state, 0, count, rest)};
  return cat(parts, 0);
}

struct Step {
  int64_t offset, count;
  Tensor h, c, i, f, g, o, fresh_c, out;  // r, z, n and what r multiplies are i, f, g and o
};

struct Composed {
  Cell cell;
  Tensor x, w, bias;
  std::vector<Step> steps;  // in the order in which time runs

  std::vector<Tensor> gates(const Tensor& x, int64_t count) const {
    const int64_t n = w.size(1);
    return split_with_sizes(x, DimVector(count, n), 1);
  }

  // Computes the layer again, so that what the derivative reads has a history.
  void recompute(Tensor h, Tensor c) {
    for (Step& step : steps) {
      Tensor own = narrow(x, 0, step.offset, step.count);
      step.h = running(h, step.count);
      Tensor product = matmul(step.h, matrix_transpose(w));
      if (cell == Cell::Lstm) {
        step.c = running(c, step.count);
        auto parts = gates(own + product, 4);
        step.i = sigmoid(parts[0]);
        step.f = sigmoid(parts[1]);
        step.g = tanh(parts[2]);
        step.o = sigmoid(parts[3]);
        step.fresh_c = step.f * step.c + step.i * step.g;
        step.out = step.o * tanh(step.fresh_c);
        c = advanced(step.fresh_c, c);
      } else if (cell == Cell::Gru) {
        auto from_x = gates(own, 3);
        auto from_h = gates(bias.defined() ? product + bias : product, 3);
        step.i = sigmoid(from_x[0] + from_h[0]);
        step.f = sigmoid(from_x[1] + from_h[1]);
        step.o = from_h[2];
        step.g = tanh(from_x[2] + step.i * step.o);
        step.out = (step.h - step.g) * step.f + step.g;
      } else {
        step.out = cell == Cell::Tanh ? tanh(own + product) : relu(own + product);
      }
      h = advanced(step.out, h);
    }
  }

  // The gradients of x's gates and of the hidden state's; gh and gc are those of the state, and
  // become those of the state before.
  std::pair<Tensor, Tensor> step_back(const Step& step, Tensor& gh, Tensor& gc) const {
    if (cell == Cell::Lstm) {
      Tensor level = tanh(step.fresh_c);
      Tensor inner = gc + gh * step.o * (1 - level * level);
      const Tensor parts[] = {
          inner * step.g * step.i * (1 - step.i), inner * step.c * step.f * (1 - step.f),
          inner * step.i * (1 - step.g * step.g), gh * level * step.o * (1 - step.o)};
      Tensor grad = cat(parts, 1);
      gc = inner * step.f;
      gh = Tensor();
      return {grad, grad};
    }
    if (cell == Cell::Gru) {
      Tensor gn = gh * (1 - step.f) * (1 - step.g * step.g);
      Tensor gz = gh * (step.h - step.g) * step.f * (1 - step.f);
      Tensor gr = gn * step.o * step.i * (1 - step.i);
      const Tensor of_x[] = {gr, gz, gn}, of_h[] = {gr, gz, gn * step.i};
      gh = gh * step.f;
      return {cat(of_x, 1), cat(of_h, 1)};
    }
    Tensor grad = cell == Cell::Tanh ? gh * (1 - step.out * step.out)
                                     : gh * cast(gt(step.out, 0.0), gh.dtype());
    gh = Tensor();
    return {grad, grad};
  }
};

// ---- the entry ----------------------------------------------------------------------------------

// Edges: x, w_ih, w_hh, h0, then those that there are of c0, the bias and the state's bias. What x_gates
// were is computed again where it is needed: they are larger than anything else.
struct RecurrentBackward final : VariantEntry {
  enum { kX, kInputWeight, kWeight, kState, kLast, kBias, kOut, kMemory, kSavedCount };

  RecurrentBackward(Cell cell, bool reverse, const DimVector& counts, bool biased)
      : VariantEntry(kRecurrentEntries[static_cast<int>(cell)]),
        cell(cell),
        reverse(reverse),
        biased(biased),
        counts(counts) {}
  bool is_lstm() const { return cell == Cell::Lstm; }
  bool has_state_bias() const { return cell == Cell::Gru && biased; }
  size_t bias_edge() const { return is_lstm() ? 5 : 4; }

  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (is_differentiating()) return composed(grads, grad_inputs);
    Tensor w = kernel_operand(saved(kWeight)), h0 = kernel_operand(saved(kState));
    Tensor out = saved(kOut);
    std::vector<Tensor> inputs{kernel_operand(or_zeros(grads[0], out)),
                               kernel_operand(or_zeros(grads[1], h0))};
    if (is_lstm()) inputs.push_back(kernel_operand(or_zeros(grads[2], h0)));
    for (const Tensor& each : {out, saved(kMemory), w, h0}) inputs.push_back(each);
    if (is_lstm()) inputs.push_back(kernel_operand(saved(kLast)));
    Tensor of_gates = empty("recurrent", DimVector{out.size(0), w.size(0)}, w.dtype(), w->device());
    std::vector<Tensor> outputs{of_gates, empty("recurrent", w.sizes(), w.dtype(), w->device()),
                                empty("recurrent", h0.sizes(), w.dtype(), w->device())};
    if (is_lstm()) outputs.push_back(empty("recurrent", h0.sizes(), w.dtype(), w->device()));
    if (has_state_bias())
      outputs.push_back(empty("recurrent", DimVector{w.size(0)}, w.dtype(), w->device()));
    dispatch(recurrent_backward_op, inputs, attributes_of(cell, reverse, counts), outputs);
    give_back(grad_inputs, of_gates, outputs[1], outputs[2], is_lstm() ? outputs[3] : Tensor(),
              has_state_bias() ? outputs[3] : Tensor());
  }

  // Fills in the gradients of all edges.
  void give_back(Gradients grad_inputs, const Tensor& of_gates, const Tensor& of_weight,
                 const Tensor& of_h, const Tensor& of_c, const Tensor& of_state_bias) {
    if (needs(0)) grad_inputs[0] = matmul(of_gates, saved(kInputWeight));
    if (needs(1)) grad_inputs[1] = matmul(matrix_transpose(of_gates), saved(kX));
    if (needs(2)) grad_inputs[2] = of_weight;
    if (needs(3)) grad_inputs[3] = of_h;
    if (is_lstm() && needs(4)) grad_inputs[4] = of_c;
    const size_t bias = bias_edge();
    if (biased && needs(bias)) grad_inputs[bias] = sum(of_gates, DimVector{0}, false);
    if (has_state_bias() && needs(bias + 1)) grad_inputs[bias + 1] = of_state_bias;
  }

  void composed(Gradients grads, Gradients grad_inputs) {
    const bool lstm = is_lstm();
    Tensor h0 = saved(kState), c0 = lstm ? saved(kLast) : Tensor();
    Tensor gates = linear(saved(kX), saved(kInputWeight), biased ? saved(kBias) : Tensor());
    Composed layer{cell, gates, saved(kWeight), has_state_bias() ? saved(kLast) : Tensor(), {}};
    int64_t offset = 0;
    for (int64_t count : counts) {
      Step step;
      step.offset = offset;
      step.count = count;
      offset += count;
      layer.steps.push_back(std::move(step));
    }
    if (reverse) std::reverse(layer.steps.begin(), layer.steps.end());
    layer.recompute(h0, c0);
    Tensor gout = or_zeros(grads[0], saved(kOut)), gh = or_zeros(grads[1], h0), gc, gw, gb;
    if (lstm) gc = or_zeros(grads[2], h0);
    std::vector<Tensor> gx(layer.steps.size());
    for (size_t t = layer.steps.size(); t-- > 0;) {
      const Step& step = layer.steps[t];
      Tensor own = running(gh, step.count) + narrow(gout, 0, step.offset, step.count);
      Tensor own_c = lstm ? running(gc, step.count) : Tensor();
      auto [of_x, of_h] = layer.step_back(step, own, own_c);
      gx[reverse ? layer.steps.size() - 1 - t : t] = of_x;
      Tensor back = matmul(of_h, layer.w), weight = matmul(matrix_transpose(of_h), step.h);
      gw = gw.defined() ? gw + weight : weight;
      if (layer.bias.defined()) {
        Tensor bias = sum(of_h, DimVector{0}, false);
        gb = gb.defined() ? gb + bias : bias;
      }
      gh = advanced(own.defined() ? own + back : back, gh);
      if (lstm) gc = advanced(own_c, gc);
    }
    give_back(grad_inputs, cat(gx, 0), gw, gh, gc, gb);
  }

  Cell cell;
  bool reverse, biased;
  DimVector counts;
};

Cell cell_of(const std::string& kind) {
  if (kind == "LSTM") return Cell::Lstm;
  if (kind == "GRU") return Cell::Gru;
  if (kind == "RNN_TANH") return Cell::Tanh;
  TAPEGRAD_CHECK(kind == "RNN_RELU", "recurrent: unknown kind of layer '", kind, "'");
  return Cell::Relu;
}

void check(Cell cell, const Tensor& x, const Tensor& w, const std::vector<Tensor>& state,
           const Tensor& bias, Sizes counts) {
  TAPEGRAD_CHECK(state.size() == (cell == Cell::Lstm ? 2u : 1u), "recurrent: got ", state.size(),
                 " states");
  TAPEGRAD_CHECK(!bias.defined() || cell == Cell::Gru, "recurrent: only a GRU has this bias");
  const Tensor& h = state[0];
  TAPEGRAD_CHECK(x.dim() == 2 && w.dim() == 2 && h.dim() == 2,
                 "recurrent: expected matrices, got gates of size ", to_string(x.sizes()),
                 ", weights ", to_string(w.sizes()), " and a state ", to_string(h.sizes()));
  const int64_t n = h.size(1), wide = gates_of(cell) * n;
  TAPEGRAD_CHECK(x.size(1) == wide && w.size(0) == wide && w.size(1) == n &&
                     (!bias.defined() || same_sizes(bias.sizes(), DimVector{wide})),
                 "recurrent: sizes do not fit: gates ", to_string(x.sizes()), ", weights ",
                 to_string(w.sizes()), ", state ", to_string(h.sizes()));
  for (const Tensor* each : {&x, &w, &state.front(), &state.back(), &bias})
    TAPEGRAD_CHECK(
        !each->defined() || (each->dtype() == x.dtype() &&
                             (x.dtype() == DType::Float32 || x.dtype() == DType::Float64)),
        "recurrent: expected one dtype, float32 or float64");
  TAPEGRAD_CHECK(same_sizes(state.back().sizes(), h.sizes()),
                 "recurrent: expected states of one size");
  int64_t rows = 0, before = h.size(0);
  TAPEGRAD_CHECK(!counts.empty() && counts[0] == before,
                 "recurrent: expected the first step to have as many sequences as the state");
  for (int64_t count : counts) {
    TAPEGRAD_CHECK(count <= before && count >= 0,
                   "recurrent: the number of sequences must not grow");
    before = count;
    rows += count;
  }
  TAPEGRAD_CHECK(rows == x.size(0), "recurrent: expected gates of ", rows, " rows, got ",
                 x.size(0));
}

void record_layer(const std::vector<const Tensor*>& inputs, const std::vector<Tensor>& results,
                  Cell cell, bool reverse, bool biased, Sizes counts, const Tensor& last,
                  const Tensor& bias, const Tensor& memory) {
  using Entry = RecurrentBackward;
  auto make = [&](std::initializer_list<const Tensor*> edges) -> Entry& {
    return record<Entry>(edges, results, Entry::kSavedCount, cell, reverse, DimVector(counts),
                         biased);
  };
  const Tensor *x = inputs[0], *w_ih = inputs[1], *w_hh = inputs[2], *h0 = inputs[3];
  Entry& node = inputs.size() == 4   ? make({x, w_ih, w_hh, h0})
                : inputs.size() == 5 ? make({x, w_ih, w_hh, h0, inputs[4]})
                                     : make({x, w_ih, w_hh, h0, inputs[4], inputs[5]});
  node.save_input(Entry::kX, *x);
  node.save_input(Entry::kInputWeight, *w_ih);
  node.save_input(Entry::kWeight, *w_hh);
  node.save_input(Entry::kState, *h0);
  if (last.defined()) node.save_input(Entry::kLast, last);
  if (biased) node.save_input(Entry::kBias, bias);
  node.save_output(Entry::kOut, results[0]);
  node.save_input(Entry::kMemory, memory);
}

}  // namespace

std::vector<Tensor> recurrent(const std::string& kind, const Tensor& x, const Tensor& w_ih,
                              const Tensor& w_hh, const std::vector<Tensor>& state,
                              const Tensor& bias, const Tensor& state_bias, Sizes counts,
                              bool reverse) {
  const Cell cell = cell_of(kind);
  const bool lstm = cell == Cell::Lstm, biased = bias.defined();
  TAPEGRAD_CHECK(state_bias.defined() == (biased && cell == Cell::Gru),
                 "recurrent: a GRU has two biases or none, other layers one at most");
  Tensor gates = linear(detach(x), detach(w_ih), biased ? detach(bias) : bias);
  check(cell, gates, w_hh, state, state_bias, counts);
  const Tensor& h0 = state[0];
  const Tensor last = lstm ? state[1] : state_bias;
  std::vector<Tensor> inputs{gates, kernel_operand(w_hh), kernel_operand(h0)};
  if (last.defined()) inputs.push_back(kernel_operand(last));
  const int64_t rows = gates.size(0), n = h0.size(1);
  Tensor out = empty("recurrent", DimVector{rows, n}, x.dtype(), x->device());
  Tensor memory = empty("recurrent", DimVector{rows, memory_of(cell) * n}, x.dtype(), x->device());
  std::vector<Tensor> results{out, empty("recurrent", h0.sizes(), x.dtype(), x->device())};
  if (lstm) results.push_back(empty("recurrent", h0.sizes(), x.dtype(), x->device()));
  std::vector<Tensor> outputs{out, memory, results[1]};
  if (lstm) outputs.push_back(results[2]);
  dispatch(recurrent_op, inputs, attributes_of(cell, reverse, counts), outputs);
  std::vector<const Tensor*> sources{&x, &w_ih, &w_hh, &h0};
  if (lstm) sources.push_back(&state[1]);
  if (biased) sources.push_back(&bias);
  if (state_bias.defined()) sources.push_back(&state_bias);
  if (std::any_of(sources.begin(), sources.end(), [](auto* each) { return should_record(*each); }))
    record_layer(sources, results, cell, reverse, biased, counts, last, bias, memory);
  return results;
}

}  // namespace tapegrad
