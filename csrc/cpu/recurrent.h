// The loops over rows of recurrent layers, compiled once per instruction set.
#pragma once

#include <cstdint>

#include "cpu/isa.h"

namespace tapegrad::cpu {

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
