// uses: reduce.cuh
// The reductions, as csrc/cpu/reduce_kernels.cpp has them: floating elements are folded in their own precision a few
// at a time, and those results in double; integers are folded in 64 bits.

// What elements of a dtype are folded as.
template <class S>
using Wide = Either<Storage<S>::kFloating, typename Storage<S>::Compute, int64>;
template <class A>
inline constexpr bool kIsFloat = kSame<A, float> || kSame<A, double>;

// Elements of one tensor.
template <class S>
struct Elements {
  using Value = Wide<S>;
  static constexpr bool kLooksAhead = false;

  template <int n>
  struct Piece {
    Vector<S, n> stored;
    __device__ Value at(int k) const { return Storage<S>::load(stored.elements[k]); }
  };
  template <int n, class Arguments>
  __device__ static Piece<n> read(const Arguments& a, int64 offset) {
    return {*reinterpret_cast<const Vector<S, n>*>(static_cast<const S*>(a.in) + offset)};
  }
};

template <class Out, class Arguments, class Result>
__device__ inline void write(const Arguments& a, int which, int64 at, Result result) {
  static_cast<Out*>(a.outs[which])[at] = convert<Out>(result);
}

// ---- reductions to one number

// How two of `Lane`, then of `State` become one.
template <class A>
struct Adding : Plus {
  using Lane = Either<kIsFloat<A>, A, uint64>;
  using State = Either<kIsFloat<A>, double, uint64>;
  __device__ static Lane identity() { return 0; }
};
template <class A>
struct Multiplying {
  using Lane = Either<kIsFloat<A>, double, uint64>;
  using State = Lane;
  __device__ static Lane identity() { return 1; }
  template <class T>
  __device__ static T combine(T a, T b) {
    return a * b;
  }
};
template <class A>
struct Largest : Larger {
  using Lane = A;
  using State = A;
  __device__ static Lane identity() { return lowest_number<A>(); }
};
template <class A>
struct Smallest : Smaller {
  using Lane = A;
  using State = A;
  __device__ static Lane identity() { return highest_number<A>(); }
};
template <class A>
struct Counting : Plus {
  using Lane = int;
  using State = int64;
  __device__ static Lane identity() { return 0; }
};

// What becomes of an element first.
struct Itself {
  template <class Lane, class A>
  __device__ static Lane map(A x) {
    return static_cast<Lane>(x);
  }
};
struct Magnitude {
  template <class Lane, class A>
  __device__ static Lane map(A x) {
    return math::fabs(x);
  }
};
struct Squared {
  template <class Lane, class A>
  __device__ static Lane map(A x) {
    return x * x;
  }
};
struct NonZero {
  template <class Lane, class A>
  __device__ static Lane map(A x) {
    return x != A(0);
  }
};
struct IsZero {
  template <class Lane, class A>
  __device__ static Lane map(A x) {
    return x == A(0);
  }
};

// What becomes of the state last. A is what floating results are rounded to.
template <class A>
struct AsIs {
  template <class State, class Arguments>
  __device__ static auto result(State state, const Arguments&) {
    if constexpr (kIsFloat<State>) return static_cast<A>(state);
    else return static_cast<int64>(state);
  }
};
template <class A>
struct Averaged {
  template <class Arguments>
  __device__ static A result(double state, const Arguments& a) {
    return static_cast<A>(state / a.count);
  }
};
template <class A>
struct Rooted {
  template <class Arguments>
  __device__ static A result(double state, const Arguments&) {
    return static_cast<A>(math::sqrt(state));
  }
};
template <class A>
struct AnyOf {
  template <class Arguments>
  __device__ static bool result(int64 state, const Arguments&) {
    return state != 0;
  }
};
template <class A>
struct AllOf {
  template <class Arguments>
  __device__ static bool result(int64 state, const Arguments& a) {
    return state == static_cast<int64>(a.count);
  }
};

template <class S, class Out, template <class> class Combine, class Map, template <class> class Last>
struct Fold : Elements<S> {
  using A = Wide<S>;
  using Rule = Combine<A>;
  using Lane = typename Rule::Lane;
  using State = typename Rule::State;

  template <class Arguments>
  __device__ static State start(const Arguments&, int64) {
    return static_cast<State>(Rule::identity());
  }
  template <int n, class PlaceOf>
  __device__ static void fold(State& state, const A (&values)[n], PlaceOf) {
    Lane lanes[n];
#pragma unroll
    for (int k = 0; k < n; ++k) lanes[k] = Map::template map<Lane>(values[k]);
    state = Rule::combine(state, static_cast<State>(fold_pairs<n>(lanes)));
  }
  template <int n>
  __device__ static Lane fold_pairs(const Lane* lanes) {
    if constexpr (n == 1) return lanes[0];
    else return Rule::combine(fold_pairs<n / 2>(lanes), fold_pairs<n - n / 2>(lanes + n / 2));
  }
  __device__ static State combine(State a, State b) { return Rule::combine(a, b); }
  template <class Arguments>
  __device__ static void finish(const Arguments& a, State state, int64 at) {
    write<Out>(a, 0, at, Last<A>::result(state, a));
  }
};

template <class S, class Out>
using Sum = Fold<S, Out, Adding, Itself, AsIs>;
template <class S, class Out>
using Mean = Fold<S, Out, Adding, Itself, Averaged>;
template <class S, class Out>
using Prod = Fold<S, Out, Multiplying, Itself, AsIs>;
template <class S, class Out>
using Max = Fold<S, Out, Largest, Itself, AsIs>;
template <class S, class Out>
using Min = Fold<S, Out, Smallest, Itself, AsIs>;
template <class S, class Out>
using CountNonzero = Fold<S, Out, Counting, NonZero, AsIs>;
template <class S, class Out>
using Any = Fold<S, Out, Counting, NonZero, AnyOf>;
template <class S, class Out>
using All = Fold<S, Out, Counting, NonZero, AllOf>;
template <class S, class Out>
using HasZero = Fold<S, Out, Counting, IsZero, AnyOf>;
template <class S, class Out>
using AbsSum = Fold<S, Out, Adding, Magnitude, AsIs>;
template <class S, class Out>
using SquareSum = Fold<S, Out, Adding, Squared, Rooted>;
template <class S, class Out>
using AbsMax = Fold<S, Out, Largest, Magnitude, AsIs>;
template <class S, class Out>
using AbsMin = Fold<S, Out, Smallest, Magnitude, AsIs>;

// ---- value and place

template <class S, class Out, class Order>
struct Arg : Elements<S> {
  using A = Wide<S>;
  using State = Placed<A>;

  template <class Arguments>
  __device__ static State start(const Arguments&, int64) {
    return {A(0), -1};
  }
  // Places grow: of equal values the one that came first stays.
  template <int n, class PlaceOf>
  __device__ static void fold(State& state, const A (&values)[n], PlaceOf place) {
#pragma unroll
    for (int k = 0; k < n; ++k)
      if (state.place < 0 || Order::beats(values[k], state.value)) state = {values[k], place(k)};
  }
  __device__ static State combine(State a, State b) { return First<Order>::combine(a, b); }
  template <class Arguments>
  __device__ static void finish(const Arguments& a, State state, int64 at) {
    if (a.outs[0]) write<Out>(a, 0, at, state.value);
    if (a.outs[1]) write<int64>(a, 1, at, state.place);
  }
};
template <class S, class Out>
using ArgMax = Arg<S, Out, Larger>;
template <class S, class Out>
using ArgMin = Arg<S, Out, Smaller>;

// ---- mean and squared deviations

// Sums about one of the elements: however far the mean is from zero, it is within reach of that. In double, also for
// floats, of which a few at a time are summed as floats before, unless their squares leave the range of float: they do so long
// before the standard deviation does. For floats the element is the same for all threads that share a result, so that
// their sums are just added. Where it lies far from all others that costs digits, which double has to spare for
// floats but not for doubles: there each thread takes the first it sees.
template <class S, class Out>
struct Moments : Elements<S> {
  using A = Wide<S>;
  static constexpr bool kLooksAhead = !kSame<A, double>;
  struct State {
    double count, shift, sum, squares;  // of x - shift
  };

  template <class Arguments>
  __device__ static State start(const Arguments&, int64) {
    return {0, 0, 0, 0};
  }
  __device__ static bool is_finite(double x) { return x - x == 0; }

  __device__ static void look_ahead(State& state, A element) {
    state.shift = is_finite(element) ? double(element) : 0.0;
  }
  template <int n, class PlaceOf>
  __device__ static void fold(State& state, const A (&values)[n], PlaceOf) {
    if (!kLooksAhead && state.count == 0) look_ahead(state, values[0]);
    state.count += n;
    if constexpr (!kSame<A, double>)
      if (fold_floats(state, values)) return;
    constexpr int kChains = n < 2 ? n : 2;  // that do not wait for each other
    double sums[kChains] = {}, squares[kChains] = {};
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const double difference = double(values[k]) - state.shift;
      sums[k % kChains] += difference;
      squares[k % kChains] = ::fma(difference, difference, squares[k % kChains]);
    }
#pragma unroll
    for (int k = 1; k < kChains; ++k) {
      sums[0] += sums[k];
      squares[0] += squares[k];
    }
    state.sum += sums[0];
    state.squares += squares[0];
  }
  // Does nothing, and says so, where squares are too large or too small for that.
  template <int n>
  __device__ static bool fold_floats(State& state, const float (&values)[n]) {
    const float shift = static_cast<float>(state.shift);
    float sum = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float difference = values[k] - shift;
      sum += difference;
      squares = ::fmaf(difference, difference, squares);
    }
    if (!(squares > 1e-30f && squares < 1e38f)) return false;
    state.sum += sum;
    state.squares += squares;
    return true;
  }
  // Moves b's sums to a's shift by way of b's mean, about which they are smallest.
  __device__ static State combine(State a, State b) {
    if (a.shift == b.shift) return {a.count + b.count, a.shift, a.sum + b.sum, a.squares + b.squares};
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    const double a_mean = a.sum / a.count, b_mean = b.sum / b.count;
    const double gap = (b.shift - a.shift) + (b_mean - a_mean), total = a.count + b.count;
    const double deviation = (a.squares - a.sum * a_mean) + (b.squares - b.sum * b_mean) +
                             gap * gap * (a.count * b.count / total);
    const double mean = is_finite(gap) ? a_mean + gap * (b.count / total) : a_mean + b_mean;
    // About the mean: the sum there is zero.
    return {total, a.shift + mean, is_finite(mean) ? 0.0 : mean, deviation};
  }
  template <class Arguments>
  __device__ static void finish(const Arguments& a, State state, int64 at) {
    // No elements at all, or fewer than the correction takes away: 0 / 0 or x / 0.
    const double divisor = a.correction < a.count ? a.count - a.correction : 0.0;
    const double residue = state.count > 0 ? state.sum / state.count : 0.0 / 0.0;
    const double deviation = state.squares - (state.count > 0 ? state.sum * residue : 0.0);
    const double variance = (deviation < 0 ? 0.0 : deviation) / divisor;
    write<Out>(a, 0, at, static_cast<A>(a.take_root ? math::sqrt(variance) : variance));
    if (a.outs[1]) write<Out>(a, 1, at, static_cast<A>(state.shift + residue));
  }
};

// ---- log of a sum of exponentials

template <class S, class Out>
struct LogSumExp : Elements<S> {
  using A = Wide<S>;
  struct State {
    double sum;  // of exp(x - shift); where it is not finite the shift is zero
    A shift;     // the largest so far
    A unused;
  };

  __device__ static A none() { return lowest_number<A>(); }
  __device__ static bool is_finite(double x) { return x - x == 0; }
  template <class Arguments>
  __device__ static State start(const Arguments&, int64) {
    return {0, none(), A(0)};
  }
  template <int n, class PlaceOf>
  __device__ static void fold(State& state, const A (&values)[n], PlaceOf) {
    A top = values[0];
#pragma unroll
    for (int k = 1; k < n; ++k) top = Larger::combine(top, values[k]);
    if (top == none()) return;
    if (!is_finite(top)) {
      state = combine(state, {static_cast<double>(top), A(0), A(0)});
      return;
    }
    A sum = 0;
#pragma unroll
    for (int k = 0; k < n; ++k) sum += math::exp(values[k] - top);
    state = combine(state, {static_cast<double>(sum), top, A(0)});
  }
  __device__ static State combine(State a, State b) {
    if (b.shift == none()) return a;
    if (a.shift == none()) return b;
    if (!is_finite(a.sum) || !is_finite(b.sum)) return {a.sum + b.sum, A(0), A(0)};
    const bool b_is_larger = b.shift > a.shift;
    const double decay = math::exp(b_is_larger ? a.shift - b.shift : b.shift - a.shift);
    if (b_is_larger) return {a.sum * decay + b.sum, b.shift, A(0)};
    return {a.sum + b.sum * decay, a.shift, A(0)};
  }
  template <class Arguments>
  __device__ static void finish(const Arguments& a, State state, int64 at) {
    write<Out>(a, 0, at, math::log(static_cast<A>(state.sum)) + state.shift);
  }
};
