// Compiled once per instruction set.
//
// Every reduction works in chunks that stay in the first-level cache. A chunk is folded in plain
// loops over a fixed number of independent lanes, which the compiler turns into vector code and
// which make float sums pairwise in effect; the chunk's result is then merged into the state, in
// double for floats. So the error of a sum does not grow with its length, and a chunk can be read
// twice at no cost: a variance takes the chunk's own mean first, a logsumexp its maximum.
//
// Loops see contiguous int64, float or double only. Other dtypes and strided rows are loaded into a
// buffer, and many short rows are loaded transposed, so that they are folded as columns.
#include "cpu/reduce_kernels.h"

#include <type_traits>

#include "cpu/math.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

constexpr int64_t kChunk = 2048;
constexpr int kManyLanes = 64, kFewLanes = 16;
constexpr int64_t kShortRow = 32;
constexpr int64_t kTileElements = 32768;  // a tile of columns that is read twice
constexpr int64_t kLoadElements = 8192;   // a tile of columns that is converted on the stack

template <class A>
constexpr bool kFloating = std::is_floating_point_v<A>;

TAPEGRAD_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
TAPEGRAD_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

template <class A>
constexpr A lowest() {
  if constexpr (kFloating<A>) return -math::Format<A>::kInfinity;
  else return INT64_MIN;
}
template <class A>
constexpr A highest() {
  if constexpr (kFloating<A>) return math::Format<A>::kInfinity;
  else return INT64_MAX;
}

// ---- how two values become one

template <class A>
struct Plus {
  using Lane = std::conditional_t<kFloating<A>, A, uint64_t>;
  using State = std::conditional_t<kFloating<A>, double, uint64_t>;
  static constexpr Lane kIdentity = 0;
  template <class V>
  TAPEGRAD_INLINE static V combine(V a, V b) {
    return a + b;
  }
};

// Products are folded wide, so that an intermediate result neither overflows nor underflows.
template <class A>
struct Times {
  using Lane = std::conditional_t<kFloating<A>, double, uint64_t>;
  using State = Lane;
  static constexpr Lane kIdentity = 1;
  template <class V>
  TAPEGRAD_INLINE static V combine(V a, V b) {
    return a * b;
  }
};

// A NaN wins, and stays. Written as two choices, each of which is one vector instruction.
template <class A>
struct Larger {
  using Lane = A;
  using State = A;
  static constexpr A kIdentity = lowest<A>();
  TAPEGRAD_INLINE static A combine(A a, A b) {
    const A larger_one = b > a ? b : a;
    return b != b ? b : larger_one;
  }
  // Whether b takes a's place.
  TAPEGRAD_INLINE static bool beats(A b, A a) { return ((b > a) | (b != b)) & (a == a); }
};
template <class A>
struct Smaller {
  using Lane = A;
  using State = A;
  static constexpr A kIdentity = highest<A>();
  TAPEGRAD_INLINE static A combine(A a, A b) {
    const A smaller_one = b < a ? b : a;
    return b != b ? b : smaller_one;
  }
  TAPEGRAD_INLINE static bool beats(A b, A a) { return ((b < a) | (b != b)) & (a == a); }
};

// Lanes are as wide as the elements, so that a comparison's mask can be subtracted from them.
template <class A>
struct Count {
  using Lane = std::conditional_t<sizeof(A) == 8, int64_t, int32_t>;
  using State = int64_t;
  static constexpr Lane kIdentity = 0;
  template <class V>
  TAPEGRAD_INLINE static V combine(V a, V b) {
    return a + b;
  }
};

// ---- what becomes of an element first

struct Itself {
  template <class Lane, class A>
  TAPEGRAD_INLINE static Lane map(A x) {
    return static_cast<Lane>(x);
  }
};
struct Magnitude {
  template <class Lane, class A>
  TAPEGRAD_INLINE static Lane map(A x) {
    return math::abs(x);
  }
};
struct Square {
  template <class Lane, class A>
  TAPEGRAD_INLINE static Lane map(A x) {
    return x * x;
  }
};
struct NonZero {
  template <class Lane, class A>
  TAPEGRAD_INLINE static Lane map(A x) {
    return x != A(0);
  }
};

// ---- reductions of one number

// Folds n elements into kLanes independent accumulators and those into one.
template <int kLanes, class Lane, class A, class Step, class Combine>
TAPEGRAD_INLINE Lane fold_lanes(const A* x, int64_t n, Lane identity, Step step, Combine combine) {
  alignas(64) Lane lanes[kLanes];
  for (int k = 0; k < kLanes; ++k) lanes[k] = identity;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] = combine(lanes[k], step(x[i + k]));
  for (; i + kFewLanes <= n; i += kFewLanes)
    for (int k = 0; k < kFewLanes; ++k) lanes[k] = combine(lanes[k], step(x[i + k]));
  for (int k = 0; i + k < n; ++k) lanes[k] = combine(lanes[k], step(x[i + k]));
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) lanes[k] = combine(lanes[k], lanes[k + width]);
  return lanes[0];
}

template <class Lane, class A, class Step, class Combine>
TAPEGRAD_INLINE Lane fold_chunk(const A* x, int64_t n, Lane identity, Step step, Combine combine) {
  if (n >= 4 * kManyLanes) return fold_lanes<kManyLanes>(x, n, identity, step, combine);
  if (n >= kFewLanes) return fold_lanes<kFewLanes>(x, n, identity, step, combine);
  Lane result = identity;
  for (int64_t i = 0; i < n; ++i) result = combine(result, step(x[i]));
  return result;
}

template <class A, class Combine, class Map>
struct Fold {
  using Input = A;
  using Lane = typename Combine::Lane;
  using State = typename Combine::State;

  static State identity() { return static_cast<State>(Combine::kIdentity); }

  [[gnu::noinline]] static void run(const A* x, int64_t n, int64_t, State& state) {
    auto step = [](A element) { return Map::template map<Lane>(element); };
    auto combine = [](Lane a, Lane b) { return Combine::combine(a, b); };
    Lane lane = fold_chunk(x, n, Combine::kIdentity, step, combine);
    merge(state, static_cast<State>(lane));
  }

  [[gnu::noinline]] static void tile(const A* x, const ColumnStrip& strip, State* states) {
    constexpr int64_t kRows = 128;
    alignas(64) Lane lanes[kMaxColumns];
    const int64_t columns = strip.columns, stride = strip.row_stride;
    auto map = [](A element) { return Map::template map<Lane>(element); };
    for (int64_t begin = 0; begin < strip.rows; begin += kRows) {
      const int64_t end = smaller(begin + kRows, strip.rows);
      const int64_t head = (end - begin - 1) % 4 + 1;  // rows before the fours
      const A *p = x + begin * stride, *q = p + stride;
      if (head == 1)
        for (int64_t c = 0; c < columns; ++c) lanes[c] = map(p[c]);
      else
        for (int64_t c = 0; c < columns; ++c) lanes[c] = Combine::combine(map(p[c]), map(q[c]));
      int64_t r = begin + smaller(head, 2);
      for (; r < begin + head; ++r) {
        p = x + r * stride;
        for (int64_t c = 0; c < columns; ++c) lanes[c] = Combine::combine(lanes[c], map(p[c]));
      }
      for (; r < end; r += 4) {
        p = x + r * stride, q = p + stride;
        const A *s = q + stride, *t = s + stride;
        for (int64_t c = 0; c < columns; ++c) {
          Lane four = Combine::combine(Combine::combine(map(p[c]), map(q[c])),
                                       Combine::combine(map(s[c]), map(t[c])));
          lanes[c] = Combine::combine(lanes[c], four);
        }
      }
      for (int64_t c = 0; c < columns; ++c) merge(states[c], static_cast<State>(lanes[c]));
    }
  }

  TAPEGRAD_INLINE static void merge(State& into, State from) {
    into = Combine::combine(into, from);
  }
};

// ---- value and place

template <class A, class Order>
struct Arg {
  using Input = A;
  struct State {
    A value;
    int64_t index;
  };

  static State identity() { return {Order::kIdentity, -1}; }

  // First where the chunk's extreme value lies, if it matters, in blocks that vectorise.
  static int64_t find(const A* x, int64_t n, A value) {
    constexpr int64_t kBlock = 64;
    const bool want_nan = value != value;
    int64_t i = 0;
    for (; i + kBlock <= n; i += kBlock) {
      int found = 0;
      for (int64_t k = 0; k < kBlock; ++k)
        found |= (x[i + k] == value) | (want_nan & (x[i + k] != x[i + k]));
      if (found) break;
    }
    while (!(x[i] == value || (want_nan && x[i] != x[i]))) ++i;
    return i;
  }

  [[gnu::noinline]] static void run(const A* x, int64_t n, int64_t first, State& state) {
    auto step = [](A element) { return element; };
    auto combine = [](A a, A b) { return Order::combine(a, b); };
    A best = fold_chunk(x, n, Order::kIdentity, step, combine);
    if (state.index < 0 || Order::beats(best, state.value))
      state = {best, first + find(x, n, best)};
  }

  [[gnu::noinline]] static void tile(const A* x, const ColumnStrip& strip, State* states) {
    using Place = std::conditional_t<sizeof(A) == 4, int32_t, int64_t>;  // lanes of equal width
    constexpr int64_t kRows = 128;
    alignas(64) A best[kMaxColumns];
    alignas(64) Place place[kMaxColumns];
    const int64_t columns = strip.columns;
    for (int64_t begin = 0; begin < strip.rows; begin += kRows) {
      const int64_t rows = smaller(kRows, strip.rows - begin);
      const A* top = x + begin * strip.row_stride;
      for (int64_t c = 0; c < columns; ++c) {
        best[c] = top[c];
        place[c] = 0;
      }
      for (int64_t r = 1; r < rows; ++r) {
        const A* row = top + r * strip.row_stride;
        for (int64_t c = 0; c < columns; ++c) {
          const bool better = Order::beats(row[c], best[c]);
          best[c] = better ? row[c] : best[c];
          place[c] = better ? Place(r) : place[c];
        }
      }
      for (int64_t c = 0; c < columns; ++c)
        merge(states[c], {best[c], strip.first + begin + place[c]});
    }
  }

  // The first of equal values wins.
  static void merge(State& into, State from) {
    if (from.index < 0) return;
    const bool same =
        into.value == from.value || (into.value != into.value && from.value != from.value);
    if (into.index < 0 || Order::beats(from.value, into.value) || (same && from.index < into.index))
      into = from;
  }
};

// ---- mean and squared deviations

template <class A>
struct Moments {
  using Input = A;
  struct State {
    double count, mean, deviation;  // deviation: sum of squares of x - mean
  };
  static constexpr bool kExactMean = !std::is_same_v<A, double>;  // of a chunk, for all purposes

  static State identity() { return {0, 0, 0}; }

  // A difference from an infinite mean corrects nothing; its variance is NaN all the same.
  TAPEGRAD_INLINE static double if_finite(double x) { return x - x == 0 ? x : 0.0; }
  TAPEGRAD_INLINE static double move_mean(double mean, double other, double weight) {
    const double delta = other - mean;
    return delta - delta == 0 ? mean + delta * weight : mean + other;
  }

  // Two passes over a chunk: sums about a provisional mean. In double also for floats, whose squares
  // would leave the range of float long before the standard deviation does. The mean of doubles is
  // rounded, and corrected by what is left about it; of floats nothing is.
  [[gnu::noinline]] static void run(const A* x, int64_t n, int64_t, State& state) {
    auto add = [](double a, double b) { return a + b; };
    const double count = static_cast<double>(n);
    const double center =
        fold_chunk(x, n, 0.0, [](A element) { return static_cast<double>(element); }, add) / count;
    double residue = 0;
    if constexpr (!kExactMean)
      residue = fold_chunk(x, n, 0.0, [center](A element) { return element - center; }, add);
    double squares = fold_chunk(
        x, n, 0.0, [center](A element) { return (element - center) * (element - center); }, add);
    merge(state, {count, center + if_finite(residue) / count, squares - residue * residue / count});
  }

  [[gnu::noinline]] static void tile(const A* x, const ColumnStrip& strip, State* states) {
    alignas(64) double center[kMaxColumns], shift[kMaxColumns], squares[kMaxColumns];
    const int64_t columns = strip.columns, stride = strip.row_stride;
    const int64_t kRows = smaller(larger(kTileElements / columns, 8), 128);
    for (int64_t begin = 0; begin < strip.rows; begin += kRows) {
      const int64_t rows = smaller(kRows, strip.rows - begin);
      const A* top = x + begin * stride;
      for (int64_t c = 0; c < columns; ++c) center[c] = top[c];
      for (int64_t r = 1; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) center[c] += top[r * stride + c];
      const double scale = 1.0 / static_cast<double>(rows);
      for (int64_t c = 0; c < columns; ++c) {
        center[c] *= scale;
        shift[c] = squares[c] = 0;
      }
      for (int64_t r = 0; r < rows; ++r) {
        const A* row = top + r * stride;
        for (int64_t c = 0; c < columns; ++c) {
          const double difference = row[c] - center[c];
          if constexpr (!kExactMean) shift[c] += difference;
          squares[c] += difference * difference;
        }
      }
      // Columns of a strip have mostly seen equally many rows: then the weights are shared. Where
      // narrow rows were taken as one, the first columns may have seen a row more.
      const double added = static_cast<double>(rows), inverse = 1.0 / added;
      const bool equal = states[0].count == states[columns - 1].count;
      double seen = states[0].count, total = seen + added;
      double weight = added / total, cross = seen * added / total;
      for (int64_t c = 0; c < columns; ++c) {
        if (!equal) {
          seen = states[c].count;
          total = seen + added;
          weight = added / total;
          cross = seen * added / total;
        }
        const double residue = shift[c], mean = center[c] + if_finite(residue) * inverse;
        const double delta = mean - states[c].mean;
        states[c].count = total;
        states[c].mean = move_mean(states[c].mean, mean, weight);
        states[c].deviation += (squares[c] - residue * residue * inverse) + delta * delta * cross;
      }
    }
  }

  static void merge(State& into, const State& from) {
    const double total = into.count + from.count;
    if (from.count == 0) return;
    const double delta = from.mean - into.mean;
    into.mean = move_mean(into.mean, from.mean, from.count / total);
    into.deviation += from.deviation + delta * delta * (into.count * from.count / total);
    into.count = total;
  }
};

// ---- log of a sum of exponentials

template <class A>
struct LogSumExp {
  using Input = A;
  struct State {
    double shift, sum;  // sum of exp(x - shift)
  };
  static constexpr double kNone = -math::Format<double>::kInfinity;

  static State identity() { return {kNone, 0}; }
  static bool is_finite(double x) { return x - x == 0; }

  [[gnu::noinline]] static void run(const A* x, int64_t n, int64_t, State& state) {
    A top = fold_chunk(x, n, lowest<A>(), [](A element) { return element; },
                       [](A a, A b) { return Larger<A>::combine(a, b); });
    if (top == lowest<A>()) return;
    if (!is_finite(top)) return merge(state, {0, static_cast<double>(top)});
    A sum = fold_chunk(x, n, A(0), [top](A element) { return math::exp(element - top); },
                       [](A a, A b) { return a + b; });
    merge(state, {static_cast<double>(top), static_cast<double>(sum)});
  }

  [[gnu::noinline]] static void tile(const A* x, const ColumnStrip& strip, State* states) {
    // Across the row tiles of the strip each column keeps its largest value so far and the sum of
    // exponentials relative to it; the sum is rescaled when a tile brings a larger value.
    alignas(64) A top[kMaxColumns], old[kMaxColumns], shift[kMaxColumns], sum[kMaxColumns];
    const int64_t columns = strip.columns, stride = strip.row_stride;
    const int64_t kRows = smaller(larger(kTileElements / columns, 8), 128);
    for (int64_t c = 0; c < columns; ++c) {
      top[c] = lowest<A>();
      sum[c] = 0;
    }
    for (int64_t begin = 0; begin < strip.rows; begin += kRows) {
      const int64_t rows = smaller(kRows, strip.rows - begin);
      const A* first = x + begin * stride;
      for (int64_t c = 0; c < columns; ++c) shift[c] = top[c];
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          top[c] = Larger<A>::combine(top[c], first[r * stride + c]);
      for (int64_t c = 0; c < columns; ++c) {
        old[c] = shift[c];
        shift[c] = top[c] - top[c] == 0 ? top[c] : A(0);  // infinities cannot be subtracted
      }
      if (begin > 0)
        for (int64_t c = 0; c < columns; ++c) sum[c] *= math::exp(old[c] - shift[c]);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) sum[c] += math::exp(first[r * stride + c] - shift[c]);
    }
    bool fresh = true;
    for (int64_t c = 0; c < columns; ++c) fresh &= states[c].sum == 0;
    for (int64_t c = 0; c < columns; ++c) {
      const State part = {sum[c] != 0 ? static_cast<double>(shift[c]) : kNone, sum[c]};
      if (fresh) states[c] = part;
      else merge(states[c], part);
    }
  }

  static void merge(State& into, State from) {
    if (from.shift == kNone) return;
    if (into.shift == kNone) {
      into = from;
    } else if (!is_finite(into.sum) || !is_finite(from.sum)) {
      into = {0, into.sum + from.sum};
    } else if (from.shift > into.shift) {
      into = {from.shift, into.sum * math::exp(into.shift - from.shift) + from.sum};
    } else {
      into.sum += from.sum * math::exp(from.shift - into.shift);
    }
  }
};

// ---- between memory and the reductions

// Many short rows are transposed into a buffer, a group at a time, and folded as its columns.
template <class R>
void short_rows(const ReduceSource& source, const RowStrip& strip, typename R::State* states) {
  using A = typename R::Input;
  constexpr int64_t kGroup = 64;
  alignas(64) A buffer[kShortRow * kGroup];
  for (int64_t r = 0; r < strip.rows; r += kGroup) {
    const int64_t rows = smaller(kGroup, strip.rows - r);
    for (int64_t k = 0; k < rows; ++k) {
      const char* row = source.at((r + k) * strip.row_stride).data;
      if (source.load) {
        source.load(row, strip.stride, buffer + k, kGroup, strip.length);
        continue;
      }
      auto* x = reinterpret_cast<const A*>(row);
      for (int64_t i = 0; i < strip.length; ++i) buffer[i * kGroup + k] = x[i * strip.stride];
    }
    R::tile(buffer, {kGroup, strip.length, rows, strip.first}, states + r);
  }
}

template <class R>
void rows(const ReduceSource& source, const RowStrip& strip, void* target) {
  using A = typename R::Input;
  auto* states = static_cast<typename R::State*>(target);
  if (strip.length <= kShortRow && strip.rows >= 8) return short_rows<R>(source, strip, states);
  alignas(64) A buffer[kChunk];
  for (int64_t r = 0; r < strip.rows; ++r) {
    for (int64_t i = 0; i < strip.length; i += kChunk) {
      const int64_t n = smaller(kChunk, strip.length - i);
      const char* data = source.at(r * strip.row_stride + i * strip.stride).data;
      auto* x = reinterpret_cast<const A*>(data);
      if (source.load) {
        source.load(data, strip.stride, buffer, 1, n);
        x = buffer;
      } else if (strip.stride != 1) {
        for (int64_t k = 0; k < n; ++k) buffer[k] = x[k * strip.stride];
        x = buffer;
      }
      R::run(x, n, strip.first + i, states[r]);
    }
  }
}

template <class R>
void columns(const ReduceSource& source, const ColumnStrip& strip, void* target) {
  using A = typename R::Input;
  auto* states = static_cast<typename R::State*>(target);
  if (!source.load) return R::tile(reinterpret_cast<const A*>(source.data), strip, states);
  alignas(64) A buffer[kLoadElements];
  const int64_t step = kLoadElements / strip.columns;
  for (int64_t r = 0; r < strip.rows; r += step) {
    const int64_t rows = smaller(step, strip.rows - r);
    for (int64_t k = 0; k < rows; ++k)
      source.load(source.at((r + k) * strip.row_stride).data, 1, buffer + k * strip.columns, 1,
                  strip.columns);
    R::tile(buffer, {strip.columns, rows, strip.columns, strip.first + r}, states);
  }
}

template <class R>
void init(void* states, int64_t count) {
  auto* target = static_cast<typename R::State*>(states);
  for (int64_t i = 0; i < count; ++i) target[i] = R::identity();
}

template <class R>
void merge(void* into, const void* from, int64_t count) {
  auto* target = static_cast<typename R::State*>(into);
  auto* source = static_cast<const typename R::State*>(from);
  for (int64_t i = 0; i < count; ++i) R::merge(target[i], source[i]);
}

template <class R>
void fold(void* states, int64_t columns, int64_t factor) {
  auto* target = static_cast<typename R::State*>(states);
  // Wide row w, part k holds the matrix's row w * factor + k.
  if constexpr (requires { target->index; }) {
    for (int64_t i = 0; i < columns * factor; ++i)
      if (target[i].index >= 0) target[i].index = target[i].index * factor + i / columns;
  }
  for (int64_t k = 1; k < factor; ++k)
    for (int64_t c = 0; c < columns; ++c) R::merge(target[c], target[k * columns + c]);
}

// ---- from state to result

struct AsIs {
  template <class State>
  TAPEGRAD_INLINE static State result(State state, const ReduceParams&) {
    return state;
  }
};
struct Averaged {
  template <class State>
  TAPEGRAD_INLINE static State result(State state, const ReduceParams& params) {
    return state / static_cast<State>(params.count);
  }
};
struct AnyOf {
  TAPEGRAD_INLINE static bool result(int64_t state, const ReduceParams&) { return state != 0; }
};
struct AllOf {
  TAPEGRAD_INLINE static bool result(int64_t state, const ReduceParams& params) {
    return state == params.count;
  }
};
struct SquareRoot {
  TAPEGRAD_INLINE static double result(double state, const ReduceParams&) {
    return math::sqrt(state);
  }
};
// Calls store(i, offset) for every result; a loop of stride one vectorises.
template <class Store>
TAPEGRAD_INLINE void for_each_result(int64_t count, int64_t out_stride, Store store) {
  if (out_stride == 1)
    for (int64_t i = 0; i < count; ++i) store(i, i);
  else
    for (int64_t i = 0; i < count; ++i) store(i, i * out_stride);
}

template <class R, class Out, class Finish>
void finish(const void* states, int64_t count, const ReduceParams& params, void* out0, void*,
            int64_t out_stride) {
  auto* source = static_cast<const typename R::State*>(states);
  auto* out = static_cast<Out*>(out0);
  for_each_result(count, out_stride, [&](int64_t i, int64_t at) {
    out[at] = static_cast<Out>(Finish::result(source[i], params));
  });
}

template <class R, class Out>
void finish_arg(const void* states, int64_t count, const ReduceParams&, void* out0, void* out1,
                int64_t out_stride) {
  auto* source = static_cast<const typename R::State*>(states);
  auto* values = static_cast<Out*>(out0);
  auto* places = static_cast<int64_t*>(out1);
  for (int64_t i = 0; i < count; ++i) {
    if (values) values[i * out_stride] = static_cast<Out>(source[i].value);
    if (places) places[i * out_stride] = source[i].index;
  }
}

template <class R, class Out>
void finish_moments(const void* states, int64_t count, const ReduceParams& params, void* out0,
                    void* out1, int64_t out_stride) {
  auto* source = static_cast<const typename R::State*>(states);
  auto* variances = static_cast<Out*>(out0);
  auto* means = static_cast<Out*>(out1);
  // No elements at all, or fewer than the correction takes away: 0 / 0 or x / 0.
  const double divisor = params.correction < params.count ? params.count - params.correction : 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const double variance = source[i].deviation / divisor;
    const double mean = source[i].count > 0 ? source[i].mean : math::Format<double>::kNan;
    variances[i * out_stride] =
        static_cast<Out>(params.take_root ? math::sqrt(variance) : variance);
    if (means) means[i * out_stride] = static_cast<Out>(mean);
  }
}

template <class R, class Out>
void finish_log_sum(const void* states, int64_t count, const ReduceParams&, void* out0, void*,
                    int64_t out_stride) {
  auto* source = static_cast<const typename R::State*>(states);
  auto* out = static_cast<Out*>(out0);
  for_each_result(count, out_stride, [&](int64_t i, int64_t at) {
    out[at] = math::log(static_cast<Out>(source[i].sum)) + static_cast<Out>(source[i].shift);
  });
}

// ---- the table

template <class R>
constexpr ReduceKernel make_kernel(decltype(ReduceKernel::finish) finish, DType first,
                                   DType second = DType::Int64) {
  static_assert(sizeof(typename R::State) <= kMaxStateBytes);
  return {sizeof(typename R::State),
          {first, second},
          init<R>,
          rows<R>,
          columns<R>,
          merge<R>,
          fold<R>,
          finish};
}

template <class R, class Out, class Finish>
constexpr ReduceKernel make_fold() {
  return make_kernel<R>(finish<R, Out, Finish>, DTypeOf<Out>::value);
}

template <class A>
constexpr void fill(ReduceTable& table) {
  constexpr DType kDType = DTypeOf<A>::value;
  auto set = [&](ReduceKind kind, ReduceKernel kernel) {
    table.kernels[static_cast<int>(kind)][static_cast<int>(reduce_type(kDType))] = kernel;
  };
  using Sum = Fold<A, Plus<A>, Itself>;
  using NonZeros = Fold<A, Count<A>, NonZero>;
  using ArgMax = Arg<A, Larger<A>>;
  using ArgMin = Arg<A, Smaller<A>>;
  set(ReduceKind::Sum, make_fold<Sum, A, AsIs>());
  set(ReduceKind::Prod, make_fold<Fold<A, Times<A>, Itself>, A, AsIs>());
  set(ReduceKind::Max, make_fold<Fold<A, Larger<A>, Itself>, A, AsIs>());
  set(ReduceKind::Min, make_fold<Fold<A, Smaller<A>, Itself>, A, AsIs>());
  set(ReduceKind::ArgMax, make_kernel<ArgMax>(finish_arg<ArgMax, A>, kDType));
  set(ReduceKind::ArgMin, make_kernel<ArgMin>(finish_arg<ArgMin, A>, kDType));
  set(ReduceKind::CountNonzero, make_fold<NonZeros, int64_t, AsIs>());
  set(ReduceKind::Any, make_fold<NonZeros, bool, AnyOf>());
  set(ReduceKind::All, make_fold<NonZeros, bool, AllOf>());
  if constexpr (kFloating<A>) {
    set(ReduceKind::Mean, make_fold<Sum, A, Averaged>());
    set(ReduceKind::AbsSum, make_fold<Fold<A, Plus<A>, Magnitude>, A, AsIs>());
    set(ReduceKind::SquareSum, make_fold<Fold<A, Plus<A>, Square>, A, SquareRoot>());
    set(ReduceKind::AbsMax, make_fold<Fold<A, Larger<A>, Magnitude>, A, AsIs>());
    set(ReduceKind::AbsMin, make_fold<Fold<A, Smaller<A>, Magnitude>, A, AsIs>());
    set(ReduceKind::Moments,
        make_kernel<Moments<A>>(finish_moments<Moments<A>, A>, kDType, kDType));
    set(ReduceKind::LogSumExp, make_kernel<LogSumExp<A>>(finish_log_sum<LogSumExp<A>, A>, kDType));
  }
}

// Constant-initialised: no code of this file may run before the instruction set is known.
constexpr ReduceTable make_table() {
  ReduceTable table{};
  fill<int64_t>(table);
  fill<float>(table);
  fill<double>(table);
  return table;
}

}  // namespace

extern const ReduceTable reduce_table;
constinit const ReduceTable reduce_table = make_table();

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
