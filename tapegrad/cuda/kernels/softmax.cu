// uses: rows.cuh
// softmax, log_softmax and their derivatives over a contiguous block [outer, length, inner].
//
// Rows that fit into the registers of a block are read once. Longer ones, and columns, are passed twice: first for the
// sum, then for the result. Where there are too few of them to fill a device they are cut into parts, and the two
// passes are two launches.

struct SoftmaxArguments {
  const void* in;      // forward x, backward the gradient
  const void* second;  // backward y
  void* out;
  void* states;        // of parts: [lines][parts]
  int64 outer, length, inner;
  int64 parts, part_length;
  int lanes, unused;   // threads across columns
};

template <class S>
__device__ inline const S* first_input(const SoftmaxArguments& a) {
  return static_cast<const S*>(a.in);
}
template <class S>
__device__ inline const S* second_input(const SoftmaxArguments& a) {
  return static_cast<const S*>(a.second);
}

// A line that is -inf throughout must not shift by its infinity.
template <class T>
__device__ inline T shift_of(T top) {
  return top == lowest_number<T>() ? T(0) : top;
}

// ---- rows in registers

template <class S, bool kLog, bool kByWarp, int kWidth, int kItems>
__device__ void softmax_rows(const SoftmaxArguments& a) {
  using Row = RowInRegisters<S, kByWarp, kWidth, kItems>;
  using A = typename Row::A;
  const int64 number = Row::Owner::number();
  if (number >= a.outer) return;
  Row x;
  x.load(first_input<S>(a) + number * a.length, a.length, lowest_number<A>());
  A top = lowest_number<A>();
#pragma unroll
  for (A value : x.values) top = Larger::combine(top, value);
  top = Row::Owner::template reduce<Larger>(top, lowest_number<A>());
  const A shift = shift_of(top);
  A sum = 0;
#pragma unroll
  for (A& value : x.values) {
    const A power = math::exp(value - shift);
    sum += power;
    if constexpr (!kLog) value = power;
  }
  sum = Row::Owner::sum(sum);
  const A factor = kLog ? math::log(sum) : A(1) / sum;
#pragma unroll
  for (A& value : x.values) value = kLog ? value - top - factor : value * factor;
  x.store(static_cast<S*>(a.out) + number * a.length, a.length);
}

template <class A, bool kLog>
__device__ inline A summand(A grad, A y) {
  return kLog ? grad : grad * y;
}
template <class A, bool kLog>
__device__ inline A derivative(A grad, A y, A sum) {
  return kLog ? grad - math::exp(y) * sum : (grad - sum) * y;
}

template <class S, bool kLog, bool kByWarp, int kWidth, int kItems>
__device__ void softmax_rows_backward(const SoftmaxArguments& a) {
  using Row = RowInRegisters<S, kByWarp, kWidth, kItems>;
  using A = typename Row::A;
  const int64 number = Row::Owner::number();
  if (number >= a.outer) return;
  Row grad, y;
  grad.load(first_input<S>(a) + number * a.length, a.length, A(0));
  y.load(second_input<S>(a) + number * a.length, a.length, A(0));
  A sum = 0;
#pragma unroll
  for (int k = 0; k < Row::kCount; ++k) sum += summand<A, kLog>(grad.values[k], y.values[k]);
  sum = Row::Owner::sum(sum);
#pragma unroll
  for (int k = 0; k < Row::kCount; ++k)
    grad.values[k] = derivative<A, kLog>(grad.values[k], y.values[k], sum);
  grad.store(static_cast<S*>(a.out) + number * a.length, a.length);
}

// ---- what the passes do

template <class S, bool kLog>
struct Forward {
  using A = typename Storage<S>::Compute;
  struct State {
    double sum;  // of exp(x - top)
    A top, unused;
  };
  struct Final {
    A shift, top, factor;
  };
  template <int n>
  struct Piece {
    Vector<S, n> x;
    __device__ A at(int k) const { return Storage<S>::load(x.elements[k]); }
  };
  template <int n>
  __device__ static Piece<n> read(const SoftmaxArguments& a, int64 at) {
    return {*reinterpret_cast<const Vector<S, n>*>(first_input<S>(a) + at)};
  }
  __device__ static State start() { return {0, lowest_number<A>(), A(0)}; }
  template <int n, int kPieces>
  __device__ static void fold(State& state, const Piece<n> (&pieces)[kPieces]) {
    A top = lowest_number<A>(), sum = 0;
#pragma unroll
    for (const Piece<n>& piece : pieces)
#pragma unroll
      for (int k = 0; k < n; ++k) top = Larger::combine(top, piece.at(k));
    const A shift = shift_of(top);
#pragma unroll
    for (const Piece<n>& piece : pieces)
#pragma unroll
      for (int k = 0; k < n; ++k) sum += math::exp(piece.at(k) - shift);
    state = combine(state, {static_cast<double>(sum), top, A(0)});
  }
  __device__ static State combine(State a, State b) {
    if (b.top == lowest_number<A>()) return a;
    if (a.top == lowest_number<A>()) return b;
    const A top = Larger::combine(a.top, b.top);
    return {a.sum * math::exp(a.top - top) + b.sum * math::exp(b.top - top), top, A(0)};
  }
  __device__ static Final finish(State state) {
    const A sum = static_cast<A>(state.sum);
    return {shift_of(state.top), state.top, kLog ? math::log(sum) : A(1) / sum};
  }
  template <int n>
  __device__ static A result(const Piece<n>& piece, int k, const Final& end) {
    if constexpr (kLog) return piece.at(k) - end.top - end.factor;
    else return math::exp(piece.at(k) - end.shift) * end.factor;
  }
};

template <class S, bool kLog>
struct Backward {
  using A = typename Storage<S>::Compute;
  using State = double;
  using Final = A;
  template <int n>
  struct Piece {
    Vector<S, n> grad, y;
    __device__ A grad_at(int k) const { return Storage<S>::load(grad.elements[k]); }
    __device__ A y_at(int k) const { return Storage<S>::load(y.elements[k]); }
  };
  template <int n>
  __device__ static Piece<n> read(const SoftmaxArguments& a, int64 at) {
    return {*reinterpret_cast<const Vector<S, n>*>(first_input<S>(a) + at),
            *reinterpret_cast<const Vector<S, n>*>(second_input<S>(a) + at)};
  }
  __device__ static State start() { return 0; }
  template <int n, int kPieces>
  __device__ static void fold(State& state, const Piece<n> (&pieces)[kPieces]) {
    A sum = 0;
#pragma unroll
    for (const Piece<n>& piece : pieces)
#pragma unroll
      for (int k = 0; k < n; ++k) sum += summand<A, kLog>(piece.grad_at(k), piece.y_at(k));
    state += sum;
  }
  __device__ static State combine(State a, State b) { return a + b; }
  __device__ static Final finish(State state) { return static_cast<A>(state); }
  template <int n>
  __device__ static A result(const Piece<n>& piece, int k, const Final& sum) {
    return derivative<A, kLog>(piece.grad_at(k), piece.y_at(k), sum);
  }
};

// ---- the passes

enum Passes { kBoth, kOnlyStates, kOnlyResults };

// The elements first, first + step, ... before end, in pieces of kWidth, several at a time. `scale` is how far apart
// elements of a line are.
template <class Job, int kWidth>
__device__ inline typename Job::State fold_line(const SoftmaxArguments& a, int64 base, int64 scale,
                                                int64 first, int64 end, int64 step) {
  constexpr int kPieces = 4;
  using Piece = typename Job::template Piece<kWidth>;
  typename Job::State state = Job::start();
  int64 i = first;
  for (; i + (kPieces - 1) * step < end; i += kPieces * step) {
    Piece pieces[kPieces];
#pragma unroll
    for (int u = 0; u < kPieces; ++u)
      pieces[u] = Job::template read<kWidth>(a, base + (i + u * step) * scale);
    Job::fold(state, pieces);
  }
  for (; i < end; i += step) {
    const Piece pieces[1] = {Job::template read<kWidth>(a, base + i * scale)};
    Job::fold(state, pieces);
  }
  return state;
}

template <class S, class Job, int kWidth>
__device__ inline void write_line(const SoftmaxArguments& a, int64 base, int64 scale, int64 first,
                                  int64 end, int64 step, const typename Job::Final& final_state) {
#pragma unroll 4
  for (int64 i = first; i < end; i += step) {
    const auto piece = Job::template read<kWidth>(a, base + i * scale);
    Vector<S, kWidth> written;
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      written.elements[k] = Storage<S>::store(Job::result(piece, k, final_state));
    *reinterpret_cast<Vector<S, kWidth>*>(static_cast<S*>(a.out) + base + i * scale) = written;
  }
}

template <class Job>
__device__ inline typename Job::State* states_of(const SoftmaxArguments& a, int64 line) {
  return static_cast<typename Job::State*>(a.states) + line * a.parts;
}

template <class S, class Job, int kWidth, int kPasses>
__device__ void softmax_long_rows(const SoftmaxArguments& a) {
  using State = typename Job::State;
  const int64 row = blockIdx.x / a.parts, part = blockIdx.x - row * a.parts;
  const int64 base = row * a.length, step = int64(blockDim.x) * kWidth;
  const int64 first = part * a.part_length + threadIdx.x * kWidth;
  int64 end = (part + 1) * a.part_length;
  if (end > a.length) end = a.length;
  State state = Job::start();
  if constexpr (kPasses == kOnlyResults) {
    for (int64 p = threadIdx.x; p < a.parts; p += blockDim.x)
      state = Job::combine(state, states_of<Job>(a, row)[p]);
  } else {
    state = fold_line<Job, kWidth>(a, base, 1, first, end, step);
  }
  state = reduce_block<Job>(state, Job::start());
  if constexpr (kPasses == kOnlyStates) {
    if (threadIdx.x == 0) states_of<Job>(a, row)[part] = state;
  } else {
    write_line<S, Job, kWidth>(a, base, 1, first, end, step, Job::finish(state));
  }
}

// ---- columns: neighbouring threads take neighbouring columns, and the rows of a block share a column

inline constexpr int kColumnThreads = 256;

// Every thread of a column gets the state of all of them.
template <class Job>
__device__ inline typename Job::State share_down(typename Job::State state, int lanes) {
  __shared__ typename Job::State tile[kColumnThreads];
  const int rows = kColumnThreads / lanes, row = threadIdx.x / lanes;
  tile[threadIdx.x] = state;
  __syncthreads();
  for (int half = rows / 2; half > 0; half /= 2) {
    if (row < half)
      tile[threadIdx.x] = Job::combine(tile[threadIdx.x], tile[threadIdx.x + half * lanes]);
    __syncthreads();
  }
  return tile[threadIdx.x & (lanes - 1)];
}

template <class S, class Job, int kPasses>
__device__ void softmax_columns(const SoftmaxArguments& a) {
  using State = typename Job::State;
  const int64 strips = (a.inner + a.lanes - 1) / a.lanes;
  const int64 strip = blockIdx.x / a.parts, part = blockIdx.x - strip * a.parts;
  const int64 block = strip / strips;
  const int64 column = (strip - block * strips) * a.lanes + (threadIdx.x & (a.lanes - 1));
  const bool is_inside = column < a.inner;
  const int64 base = block * a.length * a.inner + column, line = block * a.inner + column;
  const int step = kColumnThreads / a.lanes, row = threadIdx.x / a.lanes;
  const int64 first = part * a.part_length + row;
  int64 end = (part + 1) * a.part_length;
  if (end > a.length) end = a.length;
  State state = Job::start();
  if constexpr (kPasses == kOnlyResults) {
    for (int64 p = row; is_inside && p < a.parts; p += step)
      state = Job::combine(state, states_of<Job>(a, line)[p]);
  } else {
    if (is_inside) state = fold_line<Job, 1>(a, base, a.inner, first, end, step);
  }
  state = share_down<Job>(state, a.lanes);
  if (!is_inside) return;
  if constexpr (kPasses == kOnlyStates) {
    if (row == 0) states_of<Job>(a, line)[part] = state;
  } else {
    write_line<S, Job, 1>(a, base, a.inner, first, end, step, Job::finish(state));
  }
}
