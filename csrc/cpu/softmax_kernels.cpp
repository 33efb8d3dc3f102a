// Compiled once per instruction set.
#include "cpu/softmax_kernels.h"

#include "cpu/lanes.h"
#include "cpu/math.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

template <class T>
constexpr T kLowest = -math::Format<T>::kInfinity;

// A NaN wins, and stays. Written as two choices, each of which is one vector instruction.
template <class T>
TAPEGRAD_INLINE T greater(T a, T b) {
  const T larger = b > a ? b : a;
  return b != b ? b : larger;
}

template <class T>
T largest(const T* x, int64_t n) {
  T lanes[kLanes];
  for (int k = 0; k < kLanes; ++k) lanes[k] = kLowest<T>;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] = greater(lanes[k], x[i + k]);
  for (; i + kFewLanes <= n; i += kFewLanes)
    for (int k = 0; k < kFewLanes; ++k) lanes[k] = greater(lanes[k], x[i + k]);
  for (int k = 0; i + k < n; ++k) lanes[k] = greater(lanes[k], x[i + k]);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) lanes[k] = greater(lanes[k], lanes[k + width]);
  return lanes[0];
}

// A part that is -inf throughout adds nothing, and must not shift by its infinity.
template <class T>
TAPEGRAD_INLINE T shift_of(T top) {
  return top == kLowest<T> ? T(0) : top;
}

void merge(SoftmaxState& into, double top, double sum) {
  if (top == kLowest<double>) return;
  if (into.sum == 0) {
    into = {top, sum};
  } else {
    const double common = greater(into.top, top);
    into.sum = into.sum * math::exp(into.top - common) + sum * math::exp(top - common);
    into.top = common;
  }
}

void merge_states(SoftmaxState* into, const SoftmaxState& from) {
  merge(*into, from.top, from.sum);
}

// exp(top - state.top) / state.sum: what the exponentials of a part must still be multiplied by.
template <class T>
TAPEGRAD_INLINE T factor_of(T top, SoftmaxState state) {
  return math::exp(top - T(state.top)) / T(state.sum);
}

// ---- lines

template <class T, bool kLog>
void open_line(const void* source, void* target, int64_t n, void* top_out, SoftmaxState* state) {
  auto* x = static_cast<const T*>(source);
  [[maybe_unused]] auto* y = static_cast<T*>(target);
  const T top = largest(x, n), shift = shift_of(top);
  *static_cast<T*>(top_out) = top;
  if constexpr (kLog) {
    merge(*state, top, add_up(n, [=](int64_t i) { return math::exp(x[i] - shift); }));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = math::exp(x[i] - shift);
    merge(*state, top, add_up(n, [=](int64_t i) { return y[i]; }));
  }
}

template <class T, bool kLog>
void close_line(const void* source, void* target, int64_t n, const void* top, SoftmaxState state) {
  [[maybe_unused]] auto* x = static_cast<const T*>(source);
  auto* y = static_cast<T*>(target);
  if constexpr (kLog) {
    const T highest = T(state.top), log_sum = T(math::log(state.sum));
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] - highest - log_sum;
  } else {
    const T factor = factor_of(*static_cast<const T*>(top), state);
    for (int64_t i = 0; i < n; ++i) y[i] *= factor;
  }
}

// ---- columns

template <class T>
void fill_lowest(void* tops, int64_t count) {
  for (int64_t c = 0; c < count; ++c) static_cast<T*>(tops)[c] = kLowest<T>;
}

template <class T, bool kLog>
void open_tile(const void* source, void* target, const SoftmaxTile& tile, void* tops, void* sums) {
  auto* x = static_cast<const T*>(source);
  [[maybe_unused]] auto* y = static_cast<T*>(target);
  auto* top = static_cast<T*>(tops);
  auto* sum = static_cast<T*>(sums);
  alignas(64) T shift[kSoftmaxColumns], part[kSoftmaxColumns];
  const int64_t columns = tile.columns;
  for (int64_t c = 0; c < columns; ++c) part[c] = top[c];
  for (int64_t r = 0; r < tile.rows; ++r) {
    const T* row = x + r * tile.row_stride;
    for (int64_t c = 0; c < columns; ++c) part[c] = greater(part[c], row[c]);
  }
  for (int64_t c = 0; c < columns; ++c) shift[c] = shift_of(part[c]);
  if (!tile.first)
    for (int64_t c = 0; c < columns; ++c) sum[c] *= math::exp(top[c] - shift[c]);
  for (int64_t c = 0; c < columns; ++c) {
    top[c] = part[c];
    part[c] = 0;
  }
  for (int64_t r = 0; r < tile.rows; ++r) {
    const T* row = x + r * tile.row_stride;
    [[maybe_unused]] T* out = y + r * tile.row_stride;
    for (int64_t c = 0; c < columns; ++c) {
      const T e = math::exp(row[c] - shift[c]);
      if constexpr (!kLog) out[c] = e;
      part[c] += e;
    }
  }
  for (int64_t c = 0; c < columns; ++c) sum[c] += part[c];
}

template <class T, bool kLog>
void close_tile(const void* source, void* target, const SoftmaxTile& tile, const void* tile_tops,
                const void* tops, const void* sums) {
  [[maybe_unused]] auto* x = static_cast<const T*>(source);
  auto* y = static_cast<T*>(target);
  [[maybe_unused]] auto* tile_top = static_cast<const T*>(tile_tops);
  auto* top = static_cast<const T*>(tops);
  auto* sum = static_cast<const T*>(sums);
  alignas(64) T factor[kSoftmaxColumns];
  for (int64_t c = 0; c < tile.columns; ++c) {
    if constexpr (kLog) factor[c] = math::log(sum[c]);
    else factor[c] = T(1) / sum[c];
  }
  if (!kLog && !tile.last)
    for (int64_t c = 0; c < tile.columns; ++c) factor[c] *= math::exp(tile_top[c] - top[c]);
  for (int64_t r = 0; r < tile.rows; ++r) {
    [[maybe_unused]] const T* row = x + r * tile.row_stride;
    T* out = y + r * tile.row_stride;
    for (int64_t c = 0; c < tile.columns; ++c) {
      if constexpr (kLog) out[c] = row[c] - top[c] - factor[c];
      else out[c] *= factor[c];
    }
  }
}

// ---- short lines

// Groups of lines are transposed, so that vectors run across lines.
template <class T, bool kLog>
void short_lines(const void* source, void* target, int64_t lines, int64_t length) {
  constexpr int64_t kGroup = 64;
  alignas(64) T buffer[kShortLine * kGroup], top[kGroup], sum[kGroup];
  auto* x = static_cast<const T*>(source);
  auto* y = static_cast<T*>(target);
  for (int64_t first = 0; first < lines; first += kGroup) {
    const int64_t count = lines - first < kGroup ? lines - first : kGroup;
    for (int64_t k = 0; k < count; ++k)
      for (int64_t i = 0; i < length; ++i) buffer[i * kGroup + k] = x[k * length + i];
    for (int64_t k = 0; k < kGroup; ++k) {
      top[k] = kLowest<T>;
      sum[k] = 0;
    }
    for (int64_t i = 0; i < length; ++i)
      for (int64_t k = 0; k < kGroup; ++k) top[k] = greater(top[k], buffer[i * kGroup + k]);
    for (int64_t i = 0; i < length; ++i) {
      for (int64_t k = 0; k < kGroup; ++k) {
        T& value = buffer[i * kGroup + k];
        const T e = math::exp(value - top[k]);
        sum[k] += e;
        value = kLog ? value - top[k] : e;
      }
    }
    for (int64_t k = 0; k < kGroup; ++k) sum[k] = kLog ? math::log(sum[k]) : T(1) / sum[k];
    for (int64_t i = 0; i < length; ++i)
      for (int64_t k = 0; k < kGroup; ++k) {
        T& value = buffer[i * kGroup + k];
        value = kLog ? value - sum[k] : value * sum[k];
      }
    for (int64_t k = 0; k < count; ++k)
      for (int64_t i = 0; i < length; ++i) y[k * length + i] = buffer[i * kGroup + k];
    x += kGroup * length;
    y += kGroup * length;
  }
}

// ---- backward: softmax (g - sum(g y)) y, log_softmax g - exp(y) sum(g)

template <class T, bool kLog>
void line_backward(const void* grad, const void* output, void* grad_x, int64_t n) {
  auto* g = static_cast<const T*>(grad);
  auto* y = static_cast<const T*>(output);
  auto* out = static_cast<T*>(grad_x);
  const T sum = T(add_up_blocks(n, [=](int64_t i) { return kLog ? g[i] : g[i] * y[i]; }));
  for (int64_t i = 0; i < n; ++i)
    out[i] = kLog ? g[i] - math::exp(y[i]) * sum : (g[i] - sum) * y[i];
}

template <class T, bool kLog>
void columns_backward(const void* grad, const void* output, void* grad_x, const SoftmaxTile& tile) {
  auto* g = static_cast<const T*>(grad);
  auto* y = static_cast<const T*>(output);
  auto* out = static_cast<T*>(grad_x);
  alignas(64) T sum[kSoftmaxColumns];
  for (int64_t c = 0; c < tile.columns; ++c) sum[c] = 0;
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t at = r * tile.row_stride;
    for (int64_t c = 0; c < tile.columns; ++c) sum[c] += kLog ? g[at + c] : g[at + c] * y[at + c];
  }
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t at = r * tile.row_stride;
    for (int64_t c = 0; c < tile.columns; ++c)
      out[at + c] =
          kLog ? g[at + c] - math::exp(y[at + c]) * sum[c] : (g[at + c] - sum[c]) * y[at + c];
  }
}

// ---- scaled probabilities, for the derivative of cross entropy

template <class T>
void line_probabilities(const void* source, void* target, int64_t n, const void* line) {
  auto* x = static_cast<const T*>(source);
  auto* y = static_cast<T*>(target);
  auto* own = static_cast<const T*>(line);
  const T top = own[0], log_sum = own[1], factor = own[2], offset = own[3];
  for (int64_t i = 0; i < n; ++i) y[i] = math::exp(x[i] - top - log_sum) * factor - offset;
}

template <class T>
void column_probabilities(const void* source, void* target, int64_t n, const void* lines) {
  auto* x = static_cast<const T*>(source);
  auto* y = static_cast<T*>(target);
  auto* top = static_cast<const T*>(lines);
  const T *log_sum = top + n, *factor = log_sum + n, *offset = factor + n;
  for (int64_t i = 0; i < n; ++i)
    y[i] = math::exp(x[i] - top[i] - log_sum[i]) * factor[i] - offset[i];
}

// ---- the same for short lines

template <class T>
void measure_short(const void* source, int64_t lines, int64_t length, void* tops, void* log_sums) {
  alignas(64) T buffer[kShortLine * kShortGroup] = {}, top[kShortGroup], sum[kShortGroup];
  auto* x = static_cast<const T*>(source);
  for (int64_t k = 0; k < lines; ++k)
    for (int64_t i = 0; i < length; ++i) buffer[i * kShortGroup + k] = x[k * length + i];
  for (int64_t k = 0; k < kShortGroup; ++k) {
    top[k] = kLowest<T>;
    sum[k] = 0;
  }
  for (int64_t i = 0; i < length; ++i)
    for (int64_t k = 0; k < kShortGroup; ++k) top[k] = greater(top[k], buffer[i * kShortGroup + k]);
  for (int64_t i = 0; i < length; ++i)
    for (int64_t k = 0; k < kShortGroup; ++k)
      sum[k] += math::exp(buffer[i * kShortGroup + k] - shift_of(top[k]));
  for (int64_t k = 0; k < kShortGroup; ++k) sum[k] = math::log(sum[k]);
  for (int64_t k = 0; k < lines; ++k) {
    static_cast<T*>(tops)[k] = top[k];
    static_cast<T*>(log_sums)[k] = sum[k];
  }
}

// The numbers of a line are put beside each of its elements, so that vectors run across lines.
template <class T>
void short_probabilities(const void* source, void* target, int64_t lines, int64_t length,
                         const void* numbers) {
  constexpr int64_t kRoom = kShortGroup * kShortLine;
  alignas(64) T beside[4][kRoom + kShortLine];
  auto* x = static_cast<const T*>(source);
  auto* y = static_cast<T*>(target);
  auto* own = static_cast<const T*>(numbers);
  for (int64_t number = 0; number < 4; ++number)
    for (int64_t k = 0; k < lines; ++k) {
      T* to = beside[number] + k * length;  // what is too much is written over by the next line
      for (int64_t i = 0; i < kShortLine / 2; ++i) to[i] = own[number * lines + k];
      if (length > kShortLine / 2)
        for (int64_t i = kShortLine / 2; i < kShortLine; ++i) to[i] = own[number * lines + k];
    }
  for (int64_t i = 0; i < lines * length; ++i)
    y[i] = math::exp(x[i] - beside[0][i] - beside[1][i]) * beside[2][i] - beside[3][i];
}

template <class T, bool kLog>
constexpr SoftmaxKernels make_kernels() {
  return {open_line<T, kLog>,    close_line<T, kLog>,     merge_states,
          fill_lowest<T>,        open_tile<T, kLog>,      close_tile<T, kLog>,
          short_lines<T, kLog>,  line_backward<T, kLog>,  columns_backward<T, kLog>,
          line_probabilities<T>, column_probabilities<T>, measure_short<T>,
          short_probabilities<T>};
}

}  // namespace

extern const SoftmaxTable softmax_table;
// Constant-initialised: no code of this file may run before the instruction set is known.
constinit const SoftmaxTable softmax_table = {
    {{make_kernels<float, false>(), make_kernels<double, false>()},
     {make_kernels<float, true>(), make_kernels<double, true>()}}};

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
