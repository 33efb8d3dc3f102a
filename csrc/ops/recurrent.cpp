#include "ops/recurrent.h"

#include <algorithm>

#include "core/error.h"
#include "cpu/recurrent.h"
#include "graph/record.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/operand.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

using cpu::Cell;

const Op recurrent_op{"recurrent", {cpu::recurrent, nullptr}};
const Op recurrent_backward_op{"recurrent_backward", {cpu::recurrent_backward, nullptr}};

Tensor or_zeros(const Tensor& grad, const Tensor& like) {
  return grad.defined() ? grad : zeros(like.sizes(), like.dtype());
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

// Edges: x_gates, w_hh, h0, then c0 or the bias. Saved: these, the outputs, the memory.
struct RecurrentBackward final : Node {
  RecurrentBackward(Cell cell, bool reverse, const DimVector& counts, bool extra)
      : cell(cell), reverse(reverse), counts(counts), extra(extra) {}
  const char* name() const override {
    static constexpr const char* kNames[] = {"RnnTanhBackward0", "RnnReluBackward0",
                                             "LstmBackward0", "GruBackward0"};
    return kNames[static_cast<int>(cell)];
  }

  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (is_differentiating()) return composed(grads, grad_inputs);
    Tensor x = saved(0), w = kernel_operand(saved(1)), h0 = kernel_operand(saved(2));
    Tensor last = extra ? kernel_operand(saved(3)) : Tensor();
    const bool lstm = cell == Cell::Lstm;
    Tensor out = saved(4);
    std::vector<Tensor> inputs{kernel_operand(or_zeros(grads[0], out)),
                               kernel_operand(or_zeros(grads[1], h0))};
    if (lstm) inputs.push_back(kernel_operand(or_zeros(grads[2], h0)));
    for (const Tensor& each : {out, saved(5), w, h0}) inputs.push_back(each);
    if (lstm) inputs.push_back(last);
    std::vector<Tensor> outputs;
    for (const Tensor& like : {x, w, h0})
      outputs.push_back(empty("recurrent", like.sizes(), like.dtype()));
    if (extra) outputs.push_back(empty("recurrent", last.sizes(), last.dtype()));
    dispatch(recurrent_backward_op, inputs, attributes_of(cell, reverse, counts), outputs);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (needs(i)) grad_inputs[i] = outputs[i];
  }

  void composed(Gradients grads, Gradients grad_inputs) {
    const bool lstm = cell == Cell::Lstm;
    Tensor h0 = saved(2), c0 = lstm ? saved(3) : Tensor();
    Composed layer{cell, saved(0), saved(1), extra && !lstm ? saved(3) : Tensor(), {}};
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
    Tensor gout = or_zeros(grads[0], saved(4)), gh = or_zeros(grads[1], h0), gc, gw, gb;
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
    if (needs(0)) grad_inputs[0] = cat(gx, 0);
    if (needs(1)) grad_inputs[1] = gw;
    if (needs(2)) grad_inputs[2] = gh;
    if (extra && needs(3)) grad_inputs[3] = lstm ? gc : gb;
  }

  Cell cell;
  bool reverse;
  DimVector counts;
  bool extra;
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
  const int64_t n = h.size(1), wide = cpu::gates_of(cell) * n;
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

}  // namespace

std::vector<Tensor> recurrent(const std::string& kind, const Tensor& x, const Tensor& w,
                              const std::vector<Tensor>& state, const Tensor& bias, Sizes counts,
                              bool reverse) {
  const Cell cell = cell_of(kind);
  check(cell, x, w, state, bias, counts);
  const Tensor& h0 = state[0];
  const bool lstm = cell == Cell::Lstm, extra = lstm || bias.defined();
  const Tensor& last = lstm ? state[1] : bias;
  std::vector<Tensor> inputs{kernel_operand(x), kernel_operand(w), kernel_operand(h0)};
  if (extra) inputs.push_back(kernel_operand(last));
  const int64_t rows = x.size(0), n = h0.size(1);
  Tensor out = empty("recurrent", DimVector{rows, n}, x.dtype());
  Tensor memory = empty("recurrent", DimVector{rows, cpu::memory_of(cell) * n}, x.dtype());
  std::vector<Tensor> results{out, empty("recurrent", h0.sizes(), x.dtype())};
  if (lstm) results.push_back(empty("recurrent", h0.sizes(), x.dtype()));
  std::vector<Tensor> outputs{out, memory, results[1]};
  if (lstm) outputs.push_back(results[2]);
  dispatch(recurrent_op, inputs, attributes_of(cell, reverse, counts), outputs);
  if (should_record(x, w, h0) || (extra && should_record(last))) {
    auto& node = extra ? record<RecurrentBackward>({&x, &w, &h0, &last}, results, 6, cell, reverse,
                                                   DimVector(counts), extra)
                       : record<RecurrentBackward>({&x, &w, &h0}, results, 6, cell, reverse,
                                                   DimVector(counts), extra);
    node.save_input(0, x);
    node.save_input(1, w);
    node.save_input(2, h0);
    if (extra) node.save_input(3, last);
    node.save_output(4, out);
    node.save_input(5, memory);
  }
  return results;
}

}  // namespace tapegrad
