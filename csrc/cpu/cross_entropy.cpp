// Cross entropy with classes as targets: what is computed stands in spec/cross_entropy.h, the loops over elements are
// those of softmax. Losses are added up in double, in an order that depends on their number alone.
#include "spec/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/error.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/softmax_kernels.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 4096;
constexpr int64_t kAddedTogether = 256;  // losses, whose sum is then added to that of the others

// What both directions read. Lines are numbered [outer, inner].
template <class T>
struct Lines {
  const SoftmaxKernels& kernels = best_softmax_table().kernels[true][sizeof(T) == sizeof(double)];
  int64_t outer = 1, classes = 1, inner = 1;
  LossReduction reduction;
  int64_t ignore_index;
  T smoothing;
  const T* x;
  const int64_t* target;
  const T* weight;  // null where there is none

  Lines(const OpCall& call, size_t x_at, size_t weight_at)
      : reduction(static_cast<LossReduction>(call.integer(0))),
        ignore_index(call.integer(1)),
        smoothing(static_cast<T>(call.real(2))),
        x(call.in(x_at).data_as<T>()),
        target(call.in(x_at + 1).data_as<int64_t>()),
        weight(call.integer(3) ? call.in(weight_at).data_as<T>() : nullptr) {
    const TensorImpl& input = call.in(x_at);
    const int64_t dim = input.dim() == 1 ? 0 : 1;
    for (int64_t d = 0; d < input.dim(); ++d)
      (d < dim ? outer : d == dim ? classes : inner) *= input.size(static_cast<size_t>(d));
  }

  int64_t count() const { return outer * inner; }
  bool is_ignored(int64_t line) const { return target[line] == ignore_index; }
  T weight_of(int64_t of_class) const { return weight ? weight[of_class] : T(1); }
  bool is_short() const { return inner == 1 && classes <= kShortLine; }
  // Where a line begins.
  int64_t start(int64_t line) const { return line / inner * classes * inner + line % inner; }

  void check_targets() const {
    for (int64_t line = 0; line < count(); ++line)
      if (!is_ignored(line) && (target[line] < 0 || target[line] >= classes))
        fail<IndexError>("cross_entropy: Target ", target[line], " is out of bounds. There are ",
                         classes, " classes");
  }

  // Lines in runs of one outer index, or short ones: body(first line, how many).
  template <class Body>
  void for_runs(Body&& body) const {
    const int64_t outers = is_short() ? 1 : outer, inners = is_short() ? outer : inner;
    const int64_t most = is_short() ? kShortGroup : std::min(inners, kSoftmaxColumns);
    const int64_t per_outer = (inners + most - 1) / most;
    auto work = [&](int64_t begin, int64_t end) {
      for (int64_t run = begin; run < end; ++run) {
        const int64_t column = run % per_outer * most;
        body(run / per_outer * inners + column, std::min(most, inners - column));
      }
    };
    const int64_t runs = outers * per_outer;
    if (count() * classes <= kGrain) return work(0, runs);
    BlockingSection blocking;
    parallel_for(0, runs, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, classes * most)),
                 work);
  }
};

template <class T>
struct Forward : Lines<T> {
  using Lines<T>::kernels, Lines<T>::classes, Lines<T>::inner, Lines<T>::x, Lines<T>::smoothing;
  T *tops, *log_sums;

  explicit Forward(const OpCall& call)
      : Lines<T>(call, 0, 2), tops(call.out(1).data_as<T>()), log_sums(call.out(2).data_as<T>()) {}

  void measure_line(int64_t line) const {
    SoftmaxState state{-__builtin_huge_val(), 0};
    T top;
    for (int64_t at = 0; at < classes; at += kSoftmaxChunk)
      kernels.open_line(x + line * classes + at, nullptr, std::min(kSoftmaxChunk, classes - at),
                        &top, &state);
    tops[line] = static_cast<T>(state.top);
    log_sums[line] = static_cast<T>(std::log(state.sum));
  }
  void measure_columns(int64_t line, int64_t columns) const {
    const int64_t rows = std::max<int64_t>(1, kSoftmaxTile / columns);
    T *top = tops + line, *sum = log_sums + line;
    kernels.fill_lowest(top, columns);
    std::fill_n(sum, columns, T(0));
    for (int64_t row = 0; row < classes; row += rows)
      kernels.open_tile(x + this->start(line) + row * inner, nullptr,
                        {std::min(rows, classes - row), columns, inner, row == 0, false}, top, sum);
    for (int64_t c = 0; c < columns; ++c) sum[c] = std::log(sum[c]);
  }
  T loss(int64_t line) const {
    if (this->is_ignored(line)) return 0;
    const T top = tops[line], log_sum = log_sums[line];
    const T* own = x + this->start(line);
    auto surprise = [&](int64_t c) { return -(own[c * inner] - top - log_sum); };
    const int64_t t = this->target[line];
    T loss = (1 - smoothing) * this->weight_of(t) * surprise(t);
    if (smoothing > 0) {
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) sum += this->weight_of(c) * surprise(c);
      loss += smoothing / static_cast<T>(classes) * static_cast<T>(sum);
    }
    return loss;
  }
};

template <class T>
void forward(const OpCall& call) {
  const Forward<T> lines(call);
  lines.check_targets();
  const bool is_single = lines.reduction == LossReduction::None;
  std::unique_ptr<T[]> kept(is_single ? nullptr : new T[size_t(lines.count())]);
  T* losses = is_single ? call.out().data_as<T>() : kept.get();
  lines.for_runs([&](int64_t line, int64_t count) {
    if (lines.is_short())
      lines.kernels.measure_short(lines.x + line * lines.classes, count, lines.classes,
                                  lines.tops + line, lines.log_sums + line);
    else if (lines.inner == 1) lines.measure_line(line);
    else lines.measure_columns(line, count);
    for (int64_t k = line; k < line + count; ++k) losses[k] = lines.loss(k);
  });
  double sum = 0, total = 0;
  for (int64_t begin = 0; begin < lines.count(); begin += kAddedTogether) {
    double part = 0, part_total = 0;
    for (int64_t line = begin; line < std::min(begin + kAddedTogether, lines.count()); ++line) {
      part += losses[line];
      if (!lines.is_ignored(line)) part_total += lines.weight_of(lines.target[line]);
    }
    sum += part;
    total += part_total;
  }
  double of_classes = 0;
  for (int64_t c = 0; c < lines.classes; ++c) of_classes += lines.weight_of(c);
  T* totals = call.out(3).data_as<T>();
  totals[0] = static_cast<T>(total);
  totals[1] = static_cast<T>(of_classes);
  if (lines.reduction == LossReduction::Mean)
    *call.out().data_as<T>() = static_cast<T>(sum / total);
  if (lines.reduction == LossReduction::Sum) *call.out().data_as<T>() = static_cast<T>(sum);
}

template <class T>
struct Backward : Lines<T> {
  using Lines<T>::kernels, Lines<T>::classes, Lines<T>::inner, Lines<T>::x, Lines<T>::smoothing;
  const T *grad, *tops, *log_sums;
  const T* totals;  // of the weights of targets, and of classes
  T* out;

  explicit Backward(const OpCall& call)
      : Lines<T>(call, 1, 6),
        grad(call.in(0).data_as<T>()),
        tops(call.in(3).data_as<T>()),
        log_sums(call.in(4).data_as<T>()),
        totals(call.in(5).data_as<T>()),
        out(call.out().data_as<T>()) {}

  T grad_of(int64_t line) const {
    if (this->is_ignored(line)) return 0;
    if (this->reduction == LossReduction::None) return grad[line];
    return this->reduction == LossReduction::Mean ? *grad / totals[0] : *grad;
  }
  // Of the target alone, and of all classes by smoothing.
  T peak(int64_t line) const {
    return this->is_ignored(line) ? T(0) : (1 - smoothing) * this->weight_of(this->target[line]);
  }
  T base() const { return smoothing / static_cast<T>(classes); }

  // Four numbers of a line, `step` apart: see SoftmaxKernels. Weights are subtracted one by one.
  void describe(int64_t line, T* numbers, int64_t step) const {
    const T g = grad_of(line);
    numbers[0] = tops[line];
    numbers[step] = log_sums[line];
    numbers[2 * step] = g * (peak(line) + base() * totals[1]);
    numbers[3 * step] = this->weight ? T(0) : g * base();
  }
  void finish(int64_t line) const {
    T* own = out + this->start(line);
    const T g = grad_of(line);
    if (this->is_ignored(line)) {
      for (int64_t c = 0; c < classes; ++c) own[c * inner] = 0;
      return;
    }
    if (this->weight && smoothing > 0)
      for (int64_t c = 0; c < classes; ++c) own[c * inner] -= g * base() * this->weight[c];
    own[this->target[line] * inner] -= g * peak(line);
  }
};

template <class T>
void backward(const OpCall& call) {
  const Backward<T> lines(call);
  lines.for_runs([&](int64_t line, int64_t count) {
    alignas(64) T numbers[4 * kSoftmaxColumns];
    const int64_t at = lines.start(line);
    for (int64_t k = 0; k < count; ++k) lines.describe(line + k, numbers + k, count);
    if (lines.is_short()) {
      lines.kernels.short_probabilities(lines.x + at, lines.out + at, count, lines.classes,
                                        numbers);
    } else if (lines.inner == 1) {
      lines.kernels.line_probabilities(lines.x + at, lines.out + at, lines.classes, numbers);
    } else {
      for (int64_t c = 0; c < lines.classes; ++c)
        lines.kernels.column_probabilities(lines.x + at + c * lines.inner,
                                           lines.out + at + c * lines.inner, count, numbers);
    }
    for (int64_t k = line; k < line + count; ++k) lines.finish(k);
  });
}

// Inputs: x and the targets, then the weight where there is one. Outputs: the loss, of each line the greatest element and
// the logarithm of the sum of exponentials beside it, the sums of the weights of targets and of classes. Attributes: the
// LossReduction, the ignored index, label smoothing, whether there is a weight. All contiguous.
void cross_entropy(const OpCall& call) {
  const DType dtype = call.in(0).dtype();
  if (dtype == DType::Float32) return forward<float>(call);
  if (dtype == DType::Float64) return forward<double>(call);
  fail_unsupported_dtype(call.op.name, dtype);
}

// Inputs: the gradient, then x, the targets, the last three outputs, the weight. The same attributes.
void cross_entropy_backward(const OpCall& call) {
  const DType dtype = call.in(1).dtype();
  if (dtype == DType::Float32) return backward<float>(call);
  if (dtype == DType::Float64) return backward<double>(call);
  fail_unsupported_dtype(call.op.name, dtype);
}

const KernelList<DeviceType::CPU> kKernels = {
    {"cross_entropy", cross_entropy},
    {"cross_entropy_backward", cross_entropy_backward},
};

}  // namespace

}  // namespace tapegrad::cpu
