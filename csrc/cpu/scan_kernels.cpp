// Compiled once per instruction set.
//
// A scan is a chain: each element waits for the one before. So several lines are always scanned
// together, adjacent lines as vectors and distant ones interleaved, which hides the wait. Sums
// run in double for floats, as PyTorch's do.
#include "cpu/scan_kernels.h"

#include <type_traits>

#include "cpu/math.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

template <class T>
constexpr bool kNarrow = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
// What an element is read as, and what a running total is kept in.
template <class T>
using Value = std::conditional_t<kNarrow<T>, float, T>;
template <class T>
using Total = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, double>;

template <class T>
struct SumRule {
  using State = Total<T>;
  static State initial() { return 0; }
  TAPEGRAD_INLINE static Total<T> step(State& state, Value<T> x) {
    return state += static_cast<State>(x);
  }
};

template <class T>
struct ProdRule {
  using State = Total<T>;
  static State initial() { return 1; }
  TAPEGRAD_INLINE static Total<T> step(State& state, Value<T> x) {
    return state *= static_cast<State>(x);
  }
};

// The running sum of exponentials relative to the running maximum. Equal infinities have no
// difference; any other way a difference may be infinite or NaN comes out right.
template <class T>
struct LogSumExpRule {
  struct State {
    double top, sum;
  };
  static State initial() { return {-math::Format<double>::kInfinity, 0}; }
  TAPEGRAD_INLINE static double step(State& state, Value<T> value) {
    const double x = value;
    const double difference = x == state.top ? 0.0 : x - state.top;
    const double decay = math::exp(-math::abs(difference));
    const bool below = x <= state.top;
    state.sum = below ? state.sum + decay : state.sum * decay + 1.0;
    state.top = below ? state.top : x;
    return state.top + math::log(state.sum);
  }
};

template <class T, class Wide>
TAPEGRAD_INLINE T narrow(Wide value) {
  if constexpr (kNarrow<T>) return T(static_cast<float>(value));
  else return static_cast<T>(value);
}

// ---- totals

constexpr int64_t kInterleaved = 4;

template <class Rule, class T>
void scan_adjacent(const T* x, T* y, const ScanStrip& strip, typename Rule::State* states) {
  for (int64_t t = 0; t < strip.length; ++t, x += strip.step, y += strip.step)
    for (int64_t c = 0; c < strip.lines; ++c)
      y[c] = narrow<T>(Rule::step(states[c], static_cast<Value<T>>(x[c])));
}

template <class Rule, class T, int kLines>
TAPEGRAD_INLINE void scan_together(const T* x, T* y, const ScanStrip& strip,
                                   typename Rule::State* states) {
  typename Rule::State running[kLines];
  for (int k = 0; k < kLines; ++k) running[k] = states[k];
  for (int64_t t = 0; t < strip.length; ++t) {
    for (int k = 0; k < kLines; ++k) {
      const int64_t at = t * strip.step + k * strip.line_stride;
      y[at] = narrow<T>(Rule::step(running[k], static_cast<Value<T>>(x[at])));
    }
  }
  for (int k = 0; k < kLines; ++k) states[k] = running[k];
}

template <class Rule, class T>
void scan(const void* source, void* target, int64_t*, const ScanStrip& strip, void* state) {
  auto* x = static_cast<const T*>(source);
  auto* y = static_cast<T*>(target);
  auto* states = static_cast<typename Rule::State*>(state);
  if (strip.line_stride == 1) return scan_adjacent<Rule>(x, y, strip, states);
  int64_t k = 0;
  for (; k + kInterleaved <= strip.lines; k += kInterleaved)
    scan_together<Rule, T, kInterleaved>(x + k * strip.line_stride, y + k * strip.line_stride,
                                         strip, states + k);
  for (; k < strip.lines; ++k)
    scan_together<Rule, T, 1>(x + k * strip.line_stride, y + k * strip.line_stride, strip,
                              states + k);
}

template <class Rule, class T>
void offsets(const void* source, const ScanStrip& strip, void* state) {
  constexpr int kLanes = 16;
  auto* states = static_cast<typename Rule::State*>(state);
  for (int64_t k = 0; k + 1 < strip.lines; ++k) {
    const T* x = static_cast<const T*>(source) + k * strip.line_stride;
    typename Rule::State lanes[kLanes];
    for (int l = 0; l < kLanes; ++l) lanes[l] = Rule::initial();
    int64_t t = 0;
    for (; t + kLanes <= strip.length; t += kLanes)
      for (int l = 0; l < kLanes; ++l)
        Rule::step(lanes[l], static_cast<Value<T>>(x[(t + l) * strip.step]));
    for (; t < strip.length; ++t) Rule::step(lanes[0], static_cast<Value<T>>(x[t * strip.step]));
    // A total of one rule is an element of the same rule, only wider.
    states[k + 1] = states[k];
    for (int l = 0; l < kLanes; ++l) {
      if constexpr (std::is_same_v<Rule, SumRule<T>>) states[k + 1] += lanes[l];
      else states[k + 1] *= lanes[l];
    }
  }
}

// ---- extremes: the latest of equal values counts, and a NaN stays

template <class T>
struct Extreme {
  Value<T> value;
  int64_t place;  // -1 before the first element
};

template <class T, bool kLargest>
void scan_extreme(const void* source, void* target, int64_t* places, const ScanStrip& strip,
                  void* state) {
  auto* states = static_cast<Extreme<T>*>(state);
  for (int64_t t = 0; t < strip.length; ++t) {
    for (int64_t k = 0; k < strip.lines; ++k) {
      const int64_t at = t * strip.step + k * strip.line_stride;
      const Value<T> x = static_cast<Value<T>>(static_cast<const T*>(source)[at]);
      Extreme<T>& best = states[k];
      const bool beats = kLargest ? x >= best.value : x <= best.value;
      if (best.place < 0 || x != x || beats) best = {x, t};
      static_cast<T*>(target)[at] = narrow<T>(best.value);
      places[at] = best.place;
    }
  }
}

// ---- the linear recurrence

template <class T>
void recurrence(const void* factors, const void* terms, void* target, const ScanStrip& strip) {
  auto* a = static_cast<const T*>(factors);
  auto* b = static_cast<const T*>(terms);
  auto* y = static_cast<T*>(target);
  for (int64_t k = 0; k < strip.lines; ++k) {
    Total<T> running = 0;
    for (int64_t t = 0; t < strip.length; ++t) {
      const int64_t at = t * strip.step + k * strip.line_stride;
      running = static_cast<Total<T>>(static_cast<Value<T>>(b[at])) +
                static_cast<Total<T>>(static_cast<Value<T>>(a[at])) * running;
      y[at] = narrow<T>(running);
    }
  }
}

// ---- the table

template <class Rule>
void init(void* states, int64_t count) {
  auto* target = static_cast<typename Rule::State*>(states);
  for (int64_t i = 0; i < count; ++i) target[i] = Rule::initial();
}
template <class T>
void init_extreme(void* states, int64_t count) {
  auto* target = static_cast<Extreme<T>*>(states);
  for (int64_t i = 0; i < count; ++i) target[i] = {Value<T>(0), -1};
}

template <class T>
constexpr void fill(ScanTable& table, ScanType type) {
  auto set = [&](ScanKind kind, ScanKernel kernel) {
    table.kernels[static_cast<int>(kind)][static_cast<int>(type)] = kernel;
  };
  using Sum = SumRule<T>;
  using Prod = ProdRule<T>;
  set(ScanKind::Sum, {init<Sum>, scan<Sum, T>, offsets<Sum, T>, sizeof(typename Sum::State)});
  set(ScanKind::Prod, {init<Prod>, scan<Prod, T>, offsets<Prod, T>, sizeof(typename Prod::State)});
  set(ScanKind::Max, {init_extreme<T>, scan_extreme<T, true>, nullptr, sizeof(Extreme<T>)});
  set(ScanKind::Min, {init_extreme<T>, scan_extreme<T, false>, nullptr, sizeof(Extreme<T>)});
  if constexpr (!std::is_same_v<T, int64_t>) {
    using Log = LogSumExpRule<T>;
    set(ScanKind::LogSumExp, {init<Log>, scan<Log, T>, nullptr, sizeof(typename Log::State)});
    table.recurrence[static_cast<int>(type)] = recurrence<T>;
  }
}

// Constant-initialised: no code of this file may run before the instruction set is known.
constexpr ScanTable make_table() {
  ScanTable table{};
  fill<int64_t>(table, ScanType::Int64);
  fill<Half>(table, ScanType::Float16);
  fill<BFloat16>(table, ScanType::BFloat16);
  fill<float>(table, ScanType::Float32);
  fill<double>(table, ScanType::Float64);
  return table;
}

}  // namespace

extern const ScanTable scan_table;
constinit const ScanTable scan_table = make_table();

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
