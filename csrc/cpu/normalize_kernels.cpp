// Compiled once per instruction set.
#include "cpu/normalize_kernels.h"

#include "cpu/lanes.h"
#include "cpu/math.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

// ---- rows -----------------------------------------------------------------------------------

template <class T>
void layer_row(const LayerRow<T>& row, const T* x, T* y, T* mean_out, T* rstd_out) {
  const int64_t n = row.n;
  const double count = static_cast<double>(n);
  const T mean = row.centred ? T(add_up_blocks(n, [=](int64_t i) { return x[i]; }) / count) : T(0);
  const T square =
      T(add_up_blocks(n, [=](int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / count);
  const T rstd = T(1) / math::sqrt(square + row.eps);
  *mean_out = mean;
  *rstd_out = rstd;
  const T *weight = row.weight, *bias = row.bias;
  if (weight && bias)
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
  else if (weight)
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * weight[i];
  else if (bias)
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd + bias[i];
  else
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd;
}

// grad_x = rstd * (g - mean(g) - z * mean(g z)), where z is the normalised x and g counts the
// weight.
template <class T, bool kWeight>
void row_backward(const LayerRow<T>& row, const T* grad, const T* x, T mean, T rstd, T* grad_x,
                  T* grad_weight, T* grad_bias) {
  const int64_t n = row.n;
  const double count = static_cast<double>(n);
  [[maybe_unused]] const T* weight = row.weight;
  const auto g = [=](int64_t i) { return kWeight ? grad[i] * weight[i] : grad[i]; };
  if (grad_x) {
    const T along =
        T(rstd * add_up_blocks(n, [=](int64_t i) { return g(i) * (x[i] - mean); }) / count);
    const T level = row.centred ? T(add_up_blocks(n, g) / count) : T(0);
    for (int64_t i = 0; i < n; ++i)
      grad_x[i] = rstd * (g(i) - level - (x[i] - mean) * rstd * along);
  }
  if (grad_weight)
    for (int64_t i = 0; i < n; ++i) grad_weight[i] += grad[i] * ((x[i] - mean) * rstd);
  if (grad_bias)
    for (int64_t i = 0; i < n; ++i) grad_bias[i] += grad[i];
}

template <class T>
void layer_row_backward(const LayerRow<T>& row, const T* grad, const T* x, T mean, T rstd,
                        T* grad_x, T* grad_weight, T* grad_bias) {
  if (row.weight) row_backward<T, true>(row, grad, x, mean, rstd, grad_x, grad_weight, grad_bias);
  else row_backward<T, false>(row, grad, x, mean, rstd, grad_x, grad_weight, grad_bias);
}

// ---- channels -----------------------------------------------------------------------------------

// Rounding stays that of one block: the sums of runs are added in double.
template <class T, class Term>
TAPEGRAD_INLINE double sum_of_runs(const ChannelRuns<T>& runs, Term term) {
  double sum = 0;
  for (int64_t r = 0; r < runs.rows; ++r) {
    const int64_t at = r * runs.stride;
    sum += add_up_blocks(runs.n, [=](int64_t i) { return term(at + i); });
  }
  return sum;
}

template <class T>
double channel_sum(const ChannelRuns<T>& runs, const T* x) {
  return sum_of_runs(runs, [=](int64_t i) { return x[i]; });
}

template <class T>
double channel_square_sum(const ChannelRuns<T>& runs, const T* x, T mean) {
  return sum_of_runs(runs, [=](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
}

template <class T>
void channel_apply(const ChannelRuns<T>& runs, const T* x, T mean, T scale, T shift, T* y) {
  for (int64_t r = 0; r < runs.rows; ++r, x += runs.stride, y += runs.stride)
    for (int64_t i = 0; i < runs.n; ++i) y[i] = (x[i] - mean) * scale + shift;
}

template <class T>
void channel_backward_sums(const ChannelRuns<T>& runs, const T* grad, const T* x, T mean,
                           double* sums) {
  sums[0] = sum_of_runs(runs, [=](int64_t i) { return grad[i]; });
  sums[1] = sum_of_runs(runs, [=](int64_t i) { return grad[i] * (x[i] - mean); });
}

template <class T>
void channel_backward_apply(const ChannelRuns<T>& runs, const T* grad, const T* x, T mean, T a, T b,
                            T c, T* grad_x) {
  for (int64_t r = 0; r < runs.rows; ++r) {
    const int64_t at = r * runs.stride;
    for (int64_t i = 0; i < runs.n; ++i)
      grad_x[at + i] = a * grad[at + i] + b * (x[at + i] - mean) + c;
  }
}

// ---- channels side by side ------------------------------------------------------------------

// sums[c] += the sum over the rows of term(c, element), for kSums sums at once. Some rows and some channels
// at a time are added up in T, and these sums in double.
template <class T, int kSums, class Term>
TAPEGRAD_INLINE void sum_of_columns(int64_t rows, int64_t n, double* const (&sums)[kSums],
                                    Term term) {
  constexpr int64_t kRows = 64, kColumns = 64;
  for (int64_t r = 0; r < rows; r += kRows) {
    const int64_t end = r + kRows < rows ? r + kRows : rows;
    for (int64_t c = 0; c < n; c += kColumns) {
      T part[kSums][kColumns] = {};
      const int64_t width = n - c < kColumns ? n - c : kColumns;
      const auto add = [&](int64_t row, int64_t columns) __attribute__((always_inline)) {
        for (int64_t k = 0; k < columns; ++k) {
          T values[kSums];
          term(c + k, row * n + c + k, values);
          for (int s = 0; s < kSums; ++s) part[s][k] += values[s];
        }
      };
      if (width == kColumns)
        for (int64_t row = r; row < end; ++row) add(row, kColumns);
      else
        for (int64_t row = r; row < end; ++row) add(row, width);
      for (int s = 0; s < kSums; ++s)
        for (int64_t k = 0; k < width; ++k) sums[s][c + k] += static_cast<double>(part[s][k]);
    }
  }
}

template <class T>
void columns_sum(int64_t rows, int64_t n, const T* x, double* sums) {
  double* const list[] = {sums};
  sum_of_columns<T>(rows, n, list, [=](int64_t, int64_t i, T* values) { values[0] = x[i]; });
}

template <class T>
void columns_square_sum(int64_t rows, int64_t n, const T* x, const T* mean, double* sums) {
  double* const list[] = {sums};
  sum_of_columns<T>(rows, n, list, [=](int64_t c, int64_t i, T* values) {
    values[0] = (x[i] - mean[c]) * (x[i] - mean[c]);
  });
}

template <class T>
void columns_apply(int64_t rows, int64_t n, const T* x, const T* mean, const T* scale,
                   const T* shift, T* __restrict y) {
  for (int64_t r = 0; r < rows; ++r, x += n, y += n)
    for (int64_t c = 0; c < n; ++c) y[c] = (x[c] - mean[c]) * scale[c] + shift[c];
}

template <class T>
void columns_backward_sums(int64_t rows, int64_t n, const T* grad, const T* x, const T* mean,
                           double* grad_sums, double* product_sums) {
  double* const list[] = {grad_sums, product_sums};
  sum_of_columns<T>(rows, n, list, [=](int64_t c, int64_t i, T* values) {
    values[0] = grad[i];
    values[1] = grad[i] * (x[i] - mean[c]);
  });
}

template <class T>
void columns_backward_apply(int64_t rows, int64_t n, const T* grad, const T* x, const T* mean,
                            const T* a, const T* b, const T* c, T* __restrict grad_x) {
  for (int64_t r = 0; r < rows; ++r, grad += n, x += n, grad_x += n)
    for (int64_t k = 0; k < n; ++k) grad_x[k] = a[k] * grad[k] + b[k] * (x[k] - mean[k]) + c[k];
}

template <class T>
constexpr NormalizeKernels<T> kernels_of() {
  return {layer_row<T>,
          layer_row_backward<T>,
          channel_sum<T>,
          channel_square_sum<T>,
          channel_apply<T>,
          channel_backward_sums<T>,
          channel_backward_apply<T>,
          columns_sum<T>,
          columns_square_sum<T>,
          columns_apply<T>,
          columns_backward_sums<T>,
          columns_backward_apply<T>};
}

}  // namespace

extern const NormalizeTable normalize_table;
constinit const NormalizeTable normalize_table = {kernels_of<float>(), kernels_of<double>()};

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
