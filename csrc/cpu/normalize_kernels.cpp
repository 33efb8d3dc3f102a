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

template <class T>
constexpr NormalizeKernels<T> kernels_of() {
  return {
      layer_row<T>,     layer_row_backward<T>,    channel_sum<T>,           channel_square_sum<T>,
      channel_apply<T>, channel_backward_sums<T>, channel_backward_apply<T>};
}

}  // namespace

extern const NormalizeTable normalize_table;
constinit const NormalizeTable normalize_table = {kernels_of<float>(), kernels_of<double>()};

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
