// Recurrent layers on the CPU: kernels of the ops in ops/recurrent.cpp, and their loops over rows,
// which are compiled once per instruction set.
#pragma once

#include "core/op.h"
#include "cpu/isa.h"

namespace tapegrad::cpu {

enum class Cell { Tanh, Relu, Lstm, Gru };

// How many gates the weights have, and how many numbers per unit a step remembers beside its output.
constexpr int64_t gates_of(Cell cell) { return cell == Cell::Lstm ? 4 : cell == Cell::Gru ? 3 : 1; }
constexpr int64_t memory_of(Cell cell) {
  return cell == Cell::Lstm ? 5 : cell == Cell::Gru ? 4 : 0;
}

// Attributes: the cell, whether time runs backwards, then the number of sequences at each step. Of
// x_gates (steps, gates), w_hh, h0, c0 (of an LSTM) and b_hh (of a GRU): the outputs (steps,
// hidden), what each step remembers, the last h and, of an LSTM, the last c.
void recurrent(const OpCall& call);
// The same attributes. Of grad, grad_h, [grad_c], outputs, memory, w_hh, h0, [c0]: the gradients of
// x_gates, w_hh, h0 and c0 (of an LSTM) or b_hh (of a GRU).
void recurrent_backward(const OpCall& call);

// One row of one step, `n` units. `memory` is what the step remembers.
template <class T>
struct RecurrentKernels {
  // x: the gates so far, from the input; hg: from the hidden state. h and c: before and after.
  void (*lstm)(int64_t n, const T* x, const T* hg, T* memory, T* c, T* h);
  void (*gru)(int64_t n, const T* x, const T* hg, const T* bias, T* memory, T* h);
  void (*tanh)(int64_t n, const T* x, const T* hg, T* h);
  void (*relu)(int64_t n, const T* x, const T* hg, T* h);
  // grad_h comes in; grad_x, and grad_c in place, go out. c is the cell state before.
  void (*lstm_backward)(int64_t n, const T* memory, const T* c, const T* grad_h, T* grad_c,
                        T* grad_x);
  // grad_h becomes the part of the gradient that goes straight to the state before, h.
  void (*gru_backward)(int64_t n, const T* memory, const T* h, T* grad_h, T* grad_x, T* grad_hg);
  void (*tanh_backward)(int64_t n, const T* out, const T* grad_h, T* grad_x);
  void (*relu_backward)(int64_t n, const T* out, const T* grad_h, T* grad_x);
  void (*add)(int64_t n, const T* x, T* sum);
};

struct RecurrentTable {
  RecurrentKernels<float> float32;
  RecurrentKernels<double> float64;
};
TAPEGRAD_ISA_TABLE(RecurrentTable, recurrent_table)

}  // namespace tapegrad::cpu
