// Normalisation over rows (layer_norm, rms_norm) and over channels of a batch (batch_norm).
//
// Channels: the block is [outer, channels, inner]. Where inner is 1, or channels lie last in memory, a channel
// is a column, and loops run along the channels, row by row.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/normalize_kernels.h"
#include "cpu/tile.h"
#include "cpu/workspace.h"
#include "spec/row_sums.h"

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

// lines[0] + lines[1] + ..., in order.
template <class T>
void add_lines(const T* lines, int64_t count, int64_t n, T* out) {
  std::fill_n(out, n, T(0));
  for (int64_t k = 0; k < count; ++k, lines += n)
    for (int64_t i = 0; i < n; ++i) out[i] += lines[i];
}

// What a backward call computes with. Attributes: whether centred, whether there is a weight, which gradients are
// wanted (of x, weight, bias). Of grad, x, mean, rstd, weight: grad_x, grad_weight, grad_bias, those not wanted empty.
template <class T>
struct LayerBackward {
  explicit LayerBackward(const OpCall& call)
      : rows(call.in(2).numel()),
        n(rows ? call.in(0).numel() / rows : 0),
        row{n, call.integer(1) ? call.in(4).data_as<T>() : nullptr, nullptr, T(0),
            call.integer(0) != 0},
        grad(call.in(0).data_as<T>()),
        x(call.in(1).data_as<T>()),
        mean(call.in(2).data_as<T>()),
        rstd(call.in(3).data_as<T>()),
        grad_x(optional_data<T>(call.out(0), call.integer(2))),
        grad_weight(optional_data<T>(call.out(1), call.integer(3))),
        grad_bias(optional_data<T>(call.out(2), call.integer(4))) {}

  // Adds the sums of some rows to lines, which may be null.
  void run(int64_t begin, int64_t end, T* weight_line, T* bias_line) const {
    for (int64_t k = begin; k < end; ++k)
      normalize_kernels<T>().layer_row_backward(row, grad + k * n, x + k * n, mean[k], rstd[k],
                                                grad_x ? grad_x + k * n : nullptr, weight_line,
                                                bias_line);
  }

  int64_t rows, n;
  LayerRow<T> row;
  const T *grad, *x, *mean, *rstd;
  T *grad_x, *grad_weight, *grad_bias;
};

// See Note [Sums over rows] in spec/row_sums.h.
template <class T>
void layer_backward(const OpCall& call) {
  const LayerBackward<T> f(call);
  if (is_tile(call)) {
    if (first_of_tile(call) == 0) {
      if (f.grad_weight) std::fill_n(f.grad_weight, f.n, T(0));
      if (f.grad_bias) std::fill_n(f.grad_bias, f.n, T(0));
    }
    return f.run(0, f.rows, f.grad_weight, f.grad_bias);
  }
  const int64_t size = rows_of_part(f.rows, f.n), parts = (f.rows + size - 1) / size;
  const int64_t in_lines = f.grad_weight || f.grad_bias ? parts * f.n : 0;
  Workspace<T> lines(2 * in_lines);
  T *weight_lines = lines.get(), *bias_lines = weight_lines + in_lines;
  const auto work = [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      T* weight_line = f.grad_weight ? weight_lines + part * f.n : nullptr;
      T* bias_line = f.grad_bias ? bias_lines + part * f.n : nullptr;
      if (weight_line) std::fill_n(weight_line, f.n, T(0));
      if (bias_line) std::fill_n(bias_line, f.n, T(0));
      f.run(part * size, std::min(f.rows, (part + 1) * size), weight_line, bias_line);
    }
  };
  if (f.rows * f.n <= kRowGrain) {
    work(0, parts);
  } else {
    BlockingSection blocking;
    parallel_for(0, parts, 1, work);
  }
  if (f.grad_weight) add_lines(weight_lines, parts, f.n, f.grad_weight);
  if (f.grad_bias) add_lines(bias_lines, parts, f.n, f.grad_bias);
}

// Of lines, their sum.
void add_parts(const OpCall& call) {
  with_float_type(call.in(0).dtype(), [&]<class T>(T) {
    const int64_t n = call.out().numel(), count = n ? call.in(0).numel() / n : 0;
    add_lines(call.in(0).data_as<T>(), count, n, call.out().data_as<T>());
  });
}

// ---- channels -------------------------------------------------------------------------------

// The block of a call: how the channels of a batch lie. Tensors that are in both orders, because a size is
// one, are in the usual one.
struct Channels {
  explicit Channels(const TensorImpl& x, const TensorImpl& y)
      : outer(x.size(0)),
        count(x.size(1)),
        inner(count && outer ? x.numel() / (outer * count) : 0),
        are_columns(inner == 1 || !x.is_contiguous() || !y.is_contiguous()) {}
  template <class T>
  ChannelRuns<T> runs() const {
    return {outer, inner, count * inner};
  }
  int64_t per_channel() const { return outer * inner; }

  // body(channel) for each, on threads.
  template <class Body>
  void for_each(Body&& body) const {
    const int64_t grain = std::max<int64_t>(1, kRowGrain / std::max<int64_t>(1, per_channel()));
    share(count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) body(c);
    });
  }

  // body(first row, rows) for parts of the columns' rows, on threads.
  template <class Body>
  void for_rows(Body&& body) const {
    const int64_t grain = std::max<int64_t>(1, kRowGrain / std::max<int64_t>(1, count));
    share(per_channel(), grain, [&](int64_t begin, int64_t end) { body(begin, end - begin); });
  }

  // Sums over the rows: body(first row, rows, sums) adds those of a part, of which each has `lists` lists of
  // sums. The parts follow from the sizes alone, and so does the result.
  template <class Body>
  std::vector<double> sum_rows(int64_t lists, Body&& body) const {
    const int64_t rows = per_channel(), size = lists * count;
    const int64_t parts = std::clamp<int64_t>(rows * count / kPartOfSums, 1, kMostParts);
    std::vector<double> sums(static_cast<size_t>(parts * size));
    share(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        const int64_t first = rows * part / parts;
        body(first, rows * (part + 1) / parts - first, sums.data() + part * size);
      }
    });
    for (int64_t part = 1; part < parts; ++part)
      for (int64_t k = 0; k < size; ++k)
        sums[static_cast<size_t>(k)] += sums[static_cast<size_t>(part * size + k)];
    return sums;
  }

  int64_t outer, count, inner;
  bool are_columns;

 private:
  static constexpr int64_t kPartOfSums = 64 * 1024, kMostParts = 64;

  template <class Work>
  static void share(int64_t units, int64_t grain, Work&& work) {
    if (units <= grain) return work(int64_t{0}, units);
    BlockingSection blocking;
    parallel_for(0, units, grain, work);
  }
};

// What a forward call computes with, by channel. Attributes: eps, whether statistics are given, whether
// there is a weight, and a bias. Of x, [mean, var], weight, bias: y, mean, variance, rstd.
template <class T>
struct BatchForward {
  explicit BatchForward(const OpCall& call)
      : channels(call.in(0), call.out(0)),
        given(call.integer(1)),
        x(call.in(0).data_as<T>()),
        y(call.out(0).data_as<T>()),
        mean(call.out(1).data_as<T>()),
        variance(call.out(2).data_as<T>()),
        rstd(call.out(3).data_as<T>()),
        eps(T(call.real(0))) {
    const size_t next = given ? 3 : 1;
    const bool has_weight = call.integer(2), has_bias = call.integer(3);
    weight = has_weight ? call.in(next).data_as<T>() : nullptr;
    bias = has_bias ? call.in(next + has_weight).data_as<T>() : nullptr;
    if (!given) return;
    std::copy_n(call.in(1).data_as<T>(), channels.count, mean);
    std::copy_n(call.in(2).data_as<T>(), channels.count, variance);
  }
  T scale(int64_t c) const { return weight ? weight[c] * rstd[c] : rstd[c]; }
  T shift(int64_t c) const { return bias ? bias[c] : T(0); }
  void settle(int64_t c) const { rstd[c] = T(1) / std::sqrt(variance[c] + eps); }

  Channels channels;
  bool given;
  const T *x, *weight, *bias;
  T *y, *mean, *variance, *rstd;
  T eps;
};

template <class T>
void forward_columns(const BatchForward<T>& f) {
  const NormalizeKernels<T>& kernels = normalize_kernels<T>();
  const int64_t n = f.channels.count;
  const double count = static_cast<double>(f.channels.per_channel());
  if (!f.given) {
    std::vector<double> sums = f.channels.sum_rows(1, [&](int64_t first, int64_t rows, double* to) {
      kernels.columns_sum(rows, n, f.x + first * n, to);
    });
    for (int64_t c = 0; c < n; ++c) f.mean[c] = T(sums[static_cast<size_t>(c)] / count);
    sums = f.channels.sum_rows(1, [&](int64_t first, int64_t rows, double* to) {
      kernels.columns_square_sum(rows, n, f.x + first * n, f.mean, to);
    });
    for (int64_t c = 0; c < n; ++c) f.variance[c] = T(sums[static_cast<size_t>(c)] / count);
  }
  std::vector<T> factors(static_cast<size_t>(2 * n));
  T *scale = factors.data(), *shift = factors.data() + n;
  for (int64_t c = 0; c < n; ++c) {
    f.settle(c);
    scale[c] = f.scale(c);
    shift[c] = f.shift(c);
  }
  f.channels.for_rows([&](int64_t first, int64_t rows) {
    kernels.columns_apply(rows, n, f.x + first * n, f.mean, scale, shift, f.y + first * n);
  });
}

template <class T>
void batch_forward(const OpCall& call) {
  const BatchForward<T> f(call);
  if (f.channels.are_columns) return forward_columns(f);
  const NormalizeKernels<T>& kernels = normalize_kernels<T>();
  const ChannelRuns<T> runs = f.channels.template runs<T>();
  const double count = static_cast<double>(f.channels.per_channel());
  f.channels.for_each([&](int64_t c) {
    const int64_t at = c * f.channels.inner;
    if (!f.given) {
      f.mean[c] = T(kernels.channel_sum(runs, f.x + at) / count);
      f.variance[c] = T(kernels.channel_square_sum(runs, f.x + at, f.mean[c]) / count);
    }
    f.settle(c);
    kernels.channel_apply(runs, f.x + at, f.mean[c], f.scale(c), f.shift(c), f.y + at);
  });
}

// What a backward call computes with. Attributes: whether statistics were given, whether there is a weight,
// which gradients are wanted (of x, weight, bias). Of grad, x, mean, rstd, weight: grad_x, grad_weight,
// grad_bias, those not wanted empty.
template <class T>
struct BatchBackward {
  explicit BatchBackward(const OpCall& call)
      : channels(call.in(0), call.in(1)),
        given(call.integer(0)),
        grad(call.in(0).data_as<T>()),
        x(call.in(1).data_as<T>()),
        mean(call.in(2).data_as<T>()),
        rstd(call.in(3).data_as<T>()),
        weight(call.integer(1) ? call.in(4).data_as<T>() : nullptr),
        grad_x(optional_data<T>(call.out(0), call.integer(2))),
        grad_weight(optional_data<T>(call.out(1), call.integer(3))),
        grad_bias(optional_data<T>(call.out(2), call.integer(4))),
        count(T(channels.per_channel())) {}

  // grad_x = a * g + b * (x - mean) + c, of one channel.
  struct Factors {
    T a, b, c;
  };
  // From the sums of g and of g * (x - mean): also writes the gradients of weight and bias.
  Factors settle(int64_t c, double grad_sum, double product_sum) const {
    if (grad_weight) grad_weight[c] = T(product_sum) * rstd[c];
    if (grad_bias) grad_bias[c] = T(grad_sum);
    const T scale = weight ? weight[c] * rstd[c] : rstd[c];
    if (given) return {scale, T(0), T(0)};
    return {scale, -scale * rstd[c] * rstd[c] * T(product_sum) / count,
            -scale * T(grad_sum) / count};
  }

  Channels channels;
  bool given;
  const T *grad, *x, *mean, *rstd, *weight;
  T *grad_x, *grad_weight, *grad_bias;
  T count;
};

template <class T>
void backward_columns(const BatchBackward<T>& f) {
  const NormalizeKernels<T>& kernels = normalize_kernels<T>();
  const int64_t n = f.channels.count;
  const std::vector<double> sums =
      f.channels.sum_rows(2, [&](int64_t first, int64_t rows, double* to) {
    kernels.columns_backward_sums(rows, n, f.grad + first * n, f.x + first * n, f.mean, to, to + n);
  });
  std::vector<T> factors(static_cast<size_t>(3 * n));
  T *a = factors.data(), *b = a + n, *c = b + n;
  for (int64_t k = 0; k < n; ++k) {
    const auto factor = f.settle(k, sums[static_cast<size_t>(k)], sums[static_cast<size_t>(n + k)]);
    a[k] = factor.a;
    b[k] = factor.b;
    c[k] = factor.c;
  }
  if (!f.grad_x) return;
  f.channels.for_rows([&](int64_t first, int64_t rows) {
    kernels.columns_backward_apply(rows, n, f.grad + first * n, f.x + first * n, f.mean, a, b, c,
                                   f.grad_x + first * n);
  });
}

template <class T>
void batch_backward(const OpCall& call) {
  const BatchBackward<T> f(call);
  if (f.channels.are_columns) return backward_columns(f);
  const NormalizeKernels<T>& kernels = normalize_kernels<T>();
  const ChannelRuns<T> runs = f.channels.template runs<T>();
  f.channels.for_each([&](int64_t c) {
    const int64_t at = c * f.channels.inner;
    double sums[2];
    kernels.channel_backward_sums(runs, f.grad + at, f.x + at, f.mean[c], sums);
    const auto factor = f.settle(c, sums[0], sums[1]);
    if (f.grad_x)
      kernels.channel_backward_apply(runs, f.grad + at, f.x + at, f.mean[c], factor.a, factor.b,
                                     factor.c, f.grad_x + at);
  });
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

// Operands are contiguous; those of batch_norm may all have their channels last.
const KernelList<DeviceType::CPU> kKernels = {
    {"layer_norm", layer_norm},
    {"layer_norm_backward", layer_norm_backward},
    {"add_parts", add_parts},
    {"batch_norm", batch_norm},
    {"batch_norm_backward", batch_norm_backward},
};

}  // namespace

}  // namespace tapegrad::cpu
