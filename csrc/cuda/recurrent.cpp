// A layer step by step: a product of the hidden state and the weights, then the cell, one launch each. The order of
// rows, and what is remembered, is as csrc/cpu/recurrent.cpp has it.
#include "spec/recurrent.h"

#include <algorithm>
#include <vector>

#include "core/registry.h"
#include "core/tensor.h"
#include "cuda/elements.h"
#include "cuda/launch.h"
#include "cuda/move.h"
#include "cuda/product.h"

namespace tapegrad::cuda {

namespace {

// ---- as kernels/recurrent.cu has them

struct CellArguments {
  int64_t count, n;
  const void *x, *hidden_gates, *bias;
  void *memory, *out, *h, *c;
};
struct CellBackwardArguments {
  int64_t count, n;
  const void *grad, *memory, *out;
  int64_t count_before;
  const void *out_before, *memory_before, *h_start, *c_start;
  void *grad_x, *grad_hidden_gates, *h_before, *grad_h, *grad_c;
};
struct ColumnSumArguments {
  int64_t rows, columns;
  const void* x;
  void* y;
};
constexpr int kSumColumns = 32, kSumThreads = 256;

// ---- steps

struct Step {
  int64_t count, offset;  // sequences that run, and the first of their rows
};

// What a call says, the same for both directions.
struct Layer {
  Layer(const OpCall& call, const TensorImpl& state)
      : cell(static_cast<Cell>(call.integer(0))),
        dtype(state.dtype()),
        device(state.device().index),
        sequences(state.size(0)),
        n(state.size(1)),
        wide(gates_of(cell) * n),
        remembered(memory_of(cell) * n) {
    for (size_t t = 2; t < call.attributes.size(); ++t) {
      steps.push_back({call.integer(t), rows});
      rows += call.integer(t);
    }
    if (call.integer(1)) std::reverse(steps.begin(), steps.end());
  }

  // A row of a matrix of so many columns.
  void* row(void* data, int64_t index, int64_t columns) const {
    return static_cast<char*>(data) + offset(index, columns);
  }
  const void* row(const void* data, int64_t index, int64_t columns) const {
    return static_cast<const char*>(data) + offset(index, columns);
  }
  int64_t offset(int64_t index, int64_t columns) const {
    return index * columns * static_cast<int64_t>(itemsize(dtype));
  }

  void copy_state(const TensorImpl& to, const TensorImpl& from) const {
    if (sequences * n > 0)
      copy_bytes(to.data(), from.data(), static_cast<size_t>(sequences * n) * itemsize(dtype),
                 device);
  }

  template <class Struct>
  void launch_cell(const char* suffix, const char* struct_name, KernelCache& cache, int64_t count,
                   const Struct& arguments) const {
    constexpr const char* kNames[] = {"tanh", "relu", "lstm", "gru"};
    const uint64_t key = static_cast<uint64_t>(dtype) << 2 | static_cast<uint64_t>(cell);
    const FunctionHandle kernel = cache.find(device, key, [&] {
      return concat("file recurrent.cu\n", struct_name, "\n", kNames[static_cast<int>(cell)],
                    suffix, "<", kernel_type(dtype), ">");
    });
    launch_with(kernel, device, (count * n + kElementThreads - 1) / kElementThreads,
                kElementThreads, arguments);
  }

  Cell cell;
  DType dtype;
  int device;
  int64_t sequences, n, wide, remembered, rows = 0;
  std::vector<Step> steps;  // in the order in which time runs
};

void recurrent(const OpCall& call) {
  const Layer layer(call, call.in(2));
  const bool lstm = layer.cell == Cell::Lstm;
  const bool has_bias = layer.cell == Cell::Gru && call.inputs.size() > 3;
  const TensorImpl& h = call.out(2);
  layer.copy_state(h, call.in(2));
  if (lstm) layer.copy_state(call.out(3), call.in(3));
  const Tensor gates =
      empty("recurrent", DimVector{layer.sequences, layer.wide}, layer.dtype, h.device());
  static auto& cache = *new KernelCache;
  for (const Step& step : layer.steps) {
    if (step.count * layer.n == 0) continue;
    multiply({layer.dtype,
              step.count,
              layer.wide,
              layer.n,
              {h.data(), layer.n},
              {call.in(1).data(), layer.n, true},
              gates->data(),
              layer.wide},
             layer.device);
    layer.launch_cell(
        "_cell", "CellArguments", cache, step.count,
        CellArguments{step.count, layer.n, layer.row(call.in(0).data(), step.offset, layer.wide),
                      gates->data(), has_bias ? call.in(3).data() : nullptr,
                      layer.row(call.out(1).data(), step.offset, layer.remembered),
                      layer.row(call.out(0).data(), step.offset, layer.n), h.data(),
                      lstm ? call.out(3).data() : nullptr});
  }
}

// The operands of the derivative.
struct BackwardOperands {
  BackwardOperands(const OpCall& call, bool lstm)
      : grad(call.in(0).data()),
        out(call.in(lstm ? 3 : 2).data()),
        memory(call.in(lstm ? 4 : 3).data()),
        weight(call.in(lstm ? 5 : 4).data()),
        h_start(call.in(lstm ? 6 : 5).data()),
        c_start(lstm ? call.in(7).data() : nullptr),
        grad_x(call.out(0).data()),
        grad_h(call.out(2).data()),
        grad_c(lstm ? call.out(3).data() : nullptr) {}

  const void *grad, *out, *memory, *weight, *h_start, *c_start;
  void *grad_x, *grad_h, *grad_c;
  void *grad_gates = nullptr, *h_before = nullptr;  // of all rows
};

void step_back(const Layer& layer, const BackwardOperands& o, size_t t) {
  const Step step = layer.steps[t];
  if (step.count * layer.n == 0) return;
  const Step before = t > 0 ? layer.steps[t - 1] : Step{0, 0};
  void* grad_gates = layer.row(o.grad_gates, step.offset, layer.wide);
  static auto& cache = *new KernelCache;
  layer.launch_cell(
      "_cell_backward", "CellBackwardArguments", cache, step.count,
      CellBackwardArguments{step.count, layer.n, layer.row(o.grad, step.offset, layer.n),
                            layer.row(o.memory, step.offset, layer.remembered),
                            layer.row(o.out, step.offset, layer.n), before.count,
                            layer.row(o.out, before.offset, layer.n),
                            layer.row(o.memory, before.offset, layer.remembered), o.h_start,
                            o.c_start, layer.row(o.grad_x, step.offset, layer.wide), grad_gates,
                            layer.row(o.h_before, step.offset, layer.n), o.grad_h, o.grad_c});
  // What goes back through the weights; a GRU's also goes straight.
  multiply({layer.dtype,
            step.count,
            layer.n,
            layer.wide,
            {grad_gates, layer.wide},
            {o.weight, layer.n},
            o.grad_h,
            layer.n,
            1,
            layer.cell == Cell::Gru ? 1 : 0},
           layer.device);
}

void sum_columns(const Layer& layer, const void* x, void* y) {
  static auto& cache = *new KernelCache;
  const FunctionHandle kernel = cache.find(layer.device, static_cast<uint64_t>(layer.dtype), [&] {
    return concat("file recurrent.cu\nColumnSumArguments\ncolumn_sum<", kernel_type(layer.dtype),
                  ">");
  });
  launch_with(kernel, layer.device, (layer.wide + kSumColumns - 1) / kSumColumns, kSumThreads,
              ColumnSumArguments{layer.rows, layer.wide, x, y});
}

void recurrent_backward(const OpCall& call) {
  const auto cell = static_cast<Cell>(call.integer(0));
  const bool lstm = cell == Cell::Lstm, gru = cell == Cell::Gru;
  const Layer layer(call, call.in(lstm ? 6 : 5));
  const Device device = call.out().device();
  BackwardOperands o(call, lstm);
  const Tensor h_before = empty("recurrent", DimVector{layer.rows, layer.n}, layer.dtype, device);
  const Tensor of_gates =
      empty("recurrent", DimVector{gru ? layer.rows : 0, layer.wide}, layer.dtype, device);
  o.h_before = h_before->data();
  o.grad_gates = gru ? of_gates->data() : o.grad_x;
  layer.copy_state(call.out(2), call.in(1));
  if (lstm) layer.copy_state(call.out(3), call.in(2));
  for (size_t t = layer.steps.size(); t-- > 0;) step_back(layer, o, t);
  if (layer.wide == 0) return;
  multiply({layer.dtype,
            layer.wide,
            layer.n,
            layer.rows,
            {o.grad_gates, layer.wide, true},
            {o.h_before, layer.n},
            call.out(1).data(),
            layer.n},
           layer.device);
  if (gru && call.outputs.size() > 3) sum_columns(layer, o.grad_gates, call.out(3).data());
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"recurrent", recurrent},
    {"recurrent_backward", recurrent_backward},
};

}  // namespace

}  // namespace tapegrad::cuda
