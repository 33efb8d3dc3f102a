// The inner loops of normalisation, compiled once per instruction set.
#pragma once

#include <cstdint>

#include "cpu/isa.h"

namespace tapegrad::cpu {

// A row of n elements, shifted and scaled to mean 0 and variance 1, or only scaled to mean square 1.
// weight and bias may be null.
template <class T>
struct LayerRow {
  int64_t n;
  const T *weight, *bias;
  T eps;
  bool centred;
};

// A block of `rows` runs of `n` adjacent elements, `stride` apart: one channel of a batch.
template <class T>
struct ChannelRuns {
  int64_t rows, n, stride;
};

template <class T>
struct NormalizeKernels {
  void (*layer_row)(const LayerRow<T>& row, const T* x, T* y, T* mean, T* rstd);
  // grad_weight and grad_bias, which may be null, are added to.
  void (*layer_row_backward)(const LayerRow<T>& row, const T* grad, const T* x, T mean, T rstd,
                             T* grad_x, T* grad_weight, T* grad_bias);
  double (*channel_sum)(const ChannelRuns<T>& runs, const T* x);
  double (*channel_square_sum)(const ChannelRuns<T>& runs, const T* x, T mean);
  // y = (x - mean) * scale + shift.
  void (*channel_apply)(const ChannelRuns<T>& runs, const T* x, T mean, T scale, T shift, T* y);
  // sums = {sum of g, sum of g * (x - mean)}.
  void (*channel_backward_sums)(const ChannelRuns<T>& runs, const T* grad, const T* x, T mean,
                                double* sums);
  // grad_x = a * g + b * (x - mean) + c.
  void (*channel_backward_apply)(const ChannelRuns<T>& runs, const T* grad, const T* x, T mean, T a,
                                 T b, T c, T* grad_x);

  // The same of `rows` rows of `n` channels side by side; what belongs to a channel is an array. Sums are
  // added to.
  void (*columns_sum)(int64_t rows, int64_t n, const T* x, double* sums);
  void (*columns_square_sum)(int64_t rows, int64_t n, const T* x, const T* mean, double* sums);
  void (*columns_apply)(int64_t rows, int64_t n, const T* x, const T* mean, const T* scale,
                        const T* shift, T* y);
  void (*columns_backward_sums)(int64_t rows, int64_t n, const T* grad, const T* x, const T* mean,
                                double* grad_sums, double* product_sums);
  void (*columns_backward_apply)(int64_t rows, int64_t n, const T* grad, const T* x, const T* mean,
                                 const T* a, const T* b, const T* c, T* grad_x);
};

struct NormalizeTable {
  NormalizeKernels<float> float32;
  NormalizeKernels<double> float64;
};
TAPEGRAD_ISA_TABLE(NormalizeTable, normalize_table)

template <class T>
const NormalizeKernels<T>& normalize_kernels() {
  if constexpr (sizeof(T) == 4) return best_normalize_table().float32;
  else return best_normalize_table().float64;
}

}  // namespace tapegrad::cpu
