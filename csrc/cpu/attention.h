// The loops over rows of attention, compiled once per instruction set.
#pragma once

#include <cstdint>

#include "cpu/isa.h"
#include "spec/attention.h"

namespace tapegrad::cpu {

// A row of scores, with what a mask says of it: null, a bool per key, or a number to be added.
template <class T>
struct ScoreRow {
  int64_t n;        // keys
  int64_t visible;  // of which the first ones may be seen
  const bool* seen;
  const T* added;
};

template <class T>
struct AttentionKernels {
  // Turns scores into weights exp(score - top), where top is the largest so far; adds them to sum.
  // Returns what earlier weights must be multiplied by.
  T (*weigh)(const ScoreRow<T>& row, T* scores, T* top, T* sum);
  // Scores become weights exp(score - log_sum), grads of weights become grads of scores.
  void (*weigh_backward)(const ScoreRow<T>& row, T* scores, T* grads, T log_sum, T delta);
  // Drops of the weights from number `first` on, and scales the others: see Note [Dropped weights].
  void (*drop)(const AttentionDropout& how, int64_t first, T* x, int64_t n);
  void (*scale)(T* x, int64_t n, T factor);
  T (*dot)(const T* a, const T* b, int64_t n);
};

struct AttentionTable {
  AttentionKernels<float> float32;
  AttentionKernels<double> float64;
};
TAPEGRAD_ISA_TABLE(AttentionTable, attention_table)

}  // namespace tapegrad::cpu
