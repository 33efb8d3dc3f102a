// Normalisation over rows (layer_norm, rms_norm) and over channels of a batch (batch_norm).
//
// Channels: the block is [outer, channels, inner]. Where inner is 1 a channel is a column, and the
// loops would run along the wrong dimension: such a block, which is small, is transposed.
#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/conv_kernels.h"
#include "cpu/normalize_kernels.h"
#include "cpu/workspace.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kRowGrain = 16 * 1024;  // elements that make a second thread pay

template <class T>
T* optional_data(const TensorImpl& tensor, bool there) {
  return there ? tensor.data_as<T>() : nullptr;
}

// ---- rows -------------------------------------------------------------------------------------

// Attributes: eps, whether centred, whether there is a weight, and a bias. Of x, weight, bias: y,
// mean, rstd.
template <class T>
void layer_forward(const OpCall& call) {
  const bool has_weight = call.integer(2), has_bias = call.integer(3);
  const int64_t rows = call.out(1).numel(), n = rows ? call.out(0).numel() / rows : 0;
  const LayerRow<T> row{n, has_weight ? call.in(1).data_as<T>() : nullptr,
                        has_bias ? call.in(1 + has_weight).data_as<T>() : nullptr, T(call.real(0)),
                        call.integer(1) != 0};
  const T* x = call.in(0).data_as<T>();
  T *y = call.out(0).data_as<T>(), *mean = call.out(1).data_as<T>(),
    *rstd = call.out(2).data_as<T>();
  const auto work = [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k)
      normalize_kernels<T>().layer_row(row, x + k * n, y + k * n, mean + k, rstd + k);
  };
  const int64_t grain = std::max<int64_t>(1, kRowGrain / std::max<int64_t>(1, n));
  if (rows <= grain) return work(0, rows);
  BlockingSection blocking;
  parallel_for(0, rows, grain, work);
}

// Attributes: whether centred, whether there is a weight, which gradients are wanted (of x, weight,
// bias). Of grad, x, mean, rstd, weight: grad_x, grad_weight, grad_bias, those not wanted empty.
template <class T>
void layer_backward(const OpCall& call) {
  const int64_t rows = call.in(2).numel(), n = rows ? call.in(0).numel() / rows : 0;
  const bool has_weight = call.integer(1);
  const LayerRow<T> row{n, has_weight ? call.in(4).data_as<T>() : nullptr, nullptr, T(0),
                        call.integer(0) != 0};
  const T *grad = call.in(0).data_as<T>(), *x = call.in(1).data_as<T>();
  const T *mean = call.in(2).data_as<T>(), *rstd = call.in(3).data_as<T>();
  T* grad_x = optional_data<T>(call.out(0), call.integer(2));
  T* grad_weight = optional_data<T>(call.out(1), call.integer(3));
  T* grad_bias = optional_data<T>(call.out(2), call.integer(4));
  // Each part of the rows has sums of its own.
  const int64_t grain = std::max<int64_t>(1, kRowGrain / std::max<int64_t>(1, n));
  const int64_t parts = std::clamp<int64_t>(rows / grain, 1, num_threads());
  Workspace<T> sums(2 * n * parts);
  std::fill_n(sums.get(), 2 * n * parts, T(0));
  const auto work = [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      for (int64_t k = rows * part / parts; k < rows * (part + 1) / parts; ++k)
        normalize_kernels<T>().layer_row_backward(
            row, grad + k * n, x + k * n, mean[k], rstd[k], grad_x ? grad_x + k * n : nullptr,
            grad_weight ? sums.get() + 2 * part * n : nullptr,
            grad_bias ? sums.get() + (2 * part + 1) * n : nullptr);
  };
  if (parts == 1) {
    work(0, 1);
  } else {
    BlockingSection blocking;
    parallel_for(0, parts, 1, work);
  }
  for (int64_t i = 0; i < n; ++i) {
    T weight_sum = 0, bias_sum = 0;
    for (int64_t part = 0; part < parts; ++part) {
      weight_sum += sums.get()[2 * part * n + i];
      bias_sum += sums.get()[(2 * part + 1) * n + i];
    }
    if (grad_weight) grad_weight[i] = weight_sum;
    if (grad_bias) grad_bias[i] = bias_sum;
  }
}

// ---- channels -------------------------------------------------------------------------------

template <class T>
void transpose(const T* from, int64_t rows, int64_t columns, T* to) {
  conv_kernels<T>().transpose(from, columns, rows, columns, to, rows);
}

// The block of a call, its channels in runs.
template <class T>
struct Channels {
  explicit Channels(const TensorImpl& x)
      : outer(x.size(0)),
        count(x.size(1)),
        inner(count && outer ? x.numel() / (outer * count) : 0),
        flat(inner == 1) {}
  ChannelRuns<T> runs() const {
    return flat ? ChannelRuns<T>{1, outer, outer} : ChannelRuns<T>{outer, inner, count * inner};
  }
  int64_t first(int64_t channel) const { return flat ? channel * outer : channel * inner; }
  int64_t per_channel() const { return outer * inner; }

  // body(channel) for each, on threads.
  template <class Body>
  void for_each(Body&& body) const {
    const int64_t grain = std::max<int64_t>(1, kRowGrain / std::max<int64_t>(1, per_channel()));
    const auto work = [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) body(c);
    };
    if (count <= grain) return work(0, count);
    BlockingSection blocking;
    parallel_for(0, count, grain, work);
  }

  int64_t outer, count, inner;
  bool flat;
};

// Attributes: eps, whether statistics are given, whether there is a weight, and a bias. Of x,
// [mean, var], weight, bias: y, mean, variance, rstd.
template <class T>
void batch_forward(const OpCall& call) {
  const Channels<T> channels(call.in(0));
  const NormalizeKernels<T>& kernels = normalize_kernels<T>();
  const bool given = call.integer(1), has_weight = call.integer(2), has_bias = call.integer(3);
  const size_t next = given ? 3 : 1;
  const T* weight = has_weight ? call.in(next).data_as<T>() : nullptr;
  const T* bias = has_bias ? call.in(next + has_weight).data_as<T>() : nullptr;
  const T eps = T(call.real(0));
  T *mean = call.out(1).data_as<T>(), *variance = call.out(2).data_as<T>(),
    *rstd = call.out(3).data_as<T>();
  const int64_t numel = call.in(0).numel();
  Workspace<T> turned(channels.flat ? 2 * numel : 0);
  const T* x = call.in(0).data_as<T>();
  T* y = call.out(0).data_as<T>();
  if (channels.flat) {
    transpose(x, channels.outer, channels.count, turned.get());
    x = turned.get();
    y = turned.get() + numel;
  }
  const ChannelRuns<T> runs = channels.runs();
  const double count = static_cast<double>(channels.per_channel());
  channels.for_each([&](int64_t c) {
    const T* from = x + channels.first(c);
    if (given) {
      mean[c] = call.in(1).data_as<T>()[c];
      variance[c] = call.in(2).data_as<T>()[c];
    } else {
      mean[c] = T(kernels.channel_sum(runs, from) / count);
      variance[c] = T(kernels.channel_square_sum(runs, from, mean[c]) / count);
    }
    rstd[c] = T(1) / std::sqrt(variance[c] + eps);
    kernels.channel_apply(runs, from, mean[c], weight ? weight[c] * rstd[c] : rstd[c],
                          bias ? bias[c] : T(0), y + channels.first(c));
  });
  if (channels.flat) transpose(y, channels.count, channels.outer, call.out(0).data_as<T>());
}

// Attributes: whether statistics were given, whether there is a weight, which gradients are wanted
// (of x, weight, bias). Of grad, x, mean, rstd, weight: grad_x, grad_weight, grad_bias, those
// not wanted empty.
template <class T>
void batch_backward(const OpCall& call) {
  const Channels<T> channels(call.in(0));
  const NormalizeKernels<T>& kernels = normalize_kernels<T>();
  const bool given = call.integer(0), has_weight = call.integer(1), wants_x = call.integer(2);
  const T *mean = call.in(2).data_as<T>(), *rstd = call.in(3).data_as<T>();
  const T* weight = has_weight ? call.in(4).data_as<T>() : nullptr;
  T* grad_weight = optional_data<T>(call.out(1), call.integer(3));
  T* grad_bias = optional_data<T>(call.out(2), call.integer(4));
  const int64_t numel = call.in(0).numel();
  Workspace<T> turned(channels.flat ? 3 * numel : 0);
  const T *grad = call.in(0).data_as<T>(), *x = call.in(1).data_as<T>();
  T* grad_x = optional_data<T>(call.out(0), wants_x);
  if (channels.flat) {
    transpose(grad, channels.outer, channels.count, turned.get());
    transpose(x, channels.outer, channels.count, turned.get() + numel);
    grad = turned.get();
    x = turned.get() + numel;
    if (wants_x) grad_x = turned.get() + 2 * numel;
  }
  const ChannelRuns<T> runs = channels.runs();
  const T count = T(channels.per_channel());
  channels.for_each([&](int64_t c) {
    const int64_t at = channels.first(c);
    double sums[2];
    kernels.channel_backward_sums(runs, grad + at, x + at, mean[c], sums);
    if (grad_weight) grad_weight[c] = T(sums[1]) * rstd[c];
    if (grad_bias) grad_bias[c] = T(sums[0]);
    if (!wants_x) return;
    const T scale = weight ? weight[c] * rstd[c] : rstd[c];
    const T b = given ? T(0) : -scale * rstd[c] * rstd[c] * T(sums[1]) / count;
    const T level = given ? T(0) : -scale * T(sums[0]) / count;
    kernels.channel_backward_apply(runs, grad + at, x + at, mean[c], scale, b, level, grad_x + at);
  });
  if (channels.flat && wants_x)
    transpose(grad_x, channels.count, channels.outer, call.out(0).data_as<T>());
}

void layer_norm(const OpCall& call) {
  with_float_type(call.in(0).dtype(), [&]<class T>(T) { layer_forward<T>(call); });
}
void layer_norm_backward(const OpCall& call) {
  with_float_type(call.in(0).dtype(), [&]<class T>(T) { layer_backward<T>(call); });
}
void batch_norm(const OpCall& call) {
  with_float_type(call.in(0).dtype(), [&]<class T>(T) { batch_forward<T>(call); });
}
void batch_norm_backward(const OpCall& call) {
  with_float_type(call.in(0).dtype(), [&]<class T>(T) { batch_backward<T>(call); });
}

// Operands are contiguous.
const KernelList<DeviceType::CPU> kKernels = {
    {"layer_norm", layer_norm},
    {"layer_norm_backward", layer_norm_backward},
    {"batch_norm", batch_norm},
    {"batch_norm_backward", batch_norm_backward},
};

}  // namespace

}  // namespace tapegrad::cpu
