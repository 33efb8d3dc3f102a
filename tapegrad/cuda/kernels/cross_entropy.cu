// uses: rows.cuh
// Cross entropy with classes as targets, over a contiguous block [outer, classes, inner]: csrc/spec/cross_entropy.h tells
// what is computed.
//
// A line along the classes is read once, by a block, a warp or a thread, which find its greatest element and the sum of
// exponentials together. The losses of lines are added up by a further launch, but where there are few of them
// one block does everything. x and its gradient are of type S, everything else of the type A that is computed in.

struct LossArguments {
  const void* x;
  const int64* target;
  const void* weight;  // null where there is none
  const void* grad;    // backward
  void* losses;        // of lines
  void* loss;          // all together
  void* top;           // of lines; backward reads it, and the next two
  void* log_sum;
  void* totals;        // of the weights of targets, and of classes
  void* parts;         // what the blocks of loss_total found
  void* out;           // grad_x
  int64 lines, classes, inner;
  int64 ignore_index;
  double smoothing;
  ErrorPlace errors;
  int is_mean, is_single;  // else the sum; each line for itself
};

template <class S>
__device__ inline typename Storage<S>::Compute* losses_of(const LossArguments& a) {
  return static_cast<typename Storage<S>::Compute*>(a.losses);
}

// ---- lines

inline constexpr float kLog2e = 1.4426950408889634f;

// The elements so far: exp(x - top) adds up to sum.
template <class S>
struct ExpSum {
  using A = typename Storage<S>::Compute;
  A top, sum;

  __device__ static ExpSum none() { return {lowest_number<A>(), A(0)}; }
  __device__ static ExpSum combine(ExpSum a, ExpSum b) {
    if (b.top == lowest_number<A>()) return a;
    if (a.top == lowest_number<A>()) return b;
    const A top = Larger::combine(a.top, b.top);
    return {top, a.sum * math::exp(a.top - top) + b.sum * math::exp(b.top - top)};
  }
  template <int n>
  __device__ void take(const A (&values)[n]) {
    if constexpr (sizeof(S) == 2) return take_halves(values);
    A most = values[0], exponentials = 0;
#pragma unroll
    for (int k = 1; k < n; ++k) most = Larger::combine(most, values[k]);
    if (most == lowest_number<A>()) return;
#pragma unroll
    for (int k = 0; k < n; ++k) exponentials += math::narrow_exp<S>(values[k] - most);
    *this = combine(*this, {most, exponentials});
  }
  // Instructions, not memory, are what these take the longest for: two for each exponential.
  template <int n>
  __device__ void take_halves(const A (&values)[n]) {
    float most = values[0], exponentials = 0;
#pragma unroll
    for (int k = 1; k < n; ++k) most = ::fmaxf(most, values[k]);  // leaves out what is no number
    if (!(most > lowest_number<float>())) {
#pragma unroll
      for (int k = 0; k < n; ++k)
        if (values[k] != values[k]) top = sum = values[k];
      return;
    }
    const float base = most * -kLog2e;
#pragma unroll
    for (int k = 0; k < n; ++k)
      exponentials += math::fast_exp2(::fmaf(values[k], kLog2e, base));
    *this = combine(*this, {most, exponentials});
  }
};

// A line that belongs to one thread.
struct OneThread {
  __device__ static int lane() { return 0; }
  __device__ static int lanes() { return 1; }
  template <class Rule, class T>
  __device__ static T reduce(T value, T) {
    return value;
  }
  template <class T>
  __device__ static T sum(T value) {
    return value;
  }
};

template <class S>
struct Line {
  using A = typename Storage<S>::Compute;
  const LossArguments& a;
  int64 number;
  const S* x;

  __device__ Line(const LossArguments& a, int64 number) : a(a), number(number) {
    int64 start = number * a.classes;
    if (a.inner > 1) {
      const int64 outer = number / a.inner;
      start = outer * a.classes * a.inner + (number - outer * a.inner);
    }
    x = static_cast<const S*>(a.x) + start;
  }
  __device__ A at(int64 of_class) const { return Storage<S>::load(x[of_class * a.inner]); }
  __device__ A weight(int64 of_class) const {
    return a.weight ? static_cast<const A*>(a.weight)[of_class] : A(1);
  }

  // Vectors of kWidth classes lie side by side.
  template <class Owner, int kWidth>
  __device__ ExpSum<S> measure() const {
    constexpr int kPieces = kWidth > 1 ? 4 : 8;
    using Piece = Vector<S, kWidth>;
    ExpSum<S> sum = ExpSum<S>::none();
    const int64 step = int64(Owner::lanes()) * kWidth;
    int64 c = int64(Owner::lane()) * kWidth;
    for (; c + (kPieces - 1) * step < a.classes; c += kPieces * step) {
      Piece pieces[kPieces];
#pragma unroll
      for (int u = 0; u < kPieces; ++u)
        pieces[u] = *reinterpret_cast<const Piece*>(x + (c + u * step) * a.inner);
      A values[kPieces * kWidth];
#pragma unroll
      for (int k = 0; k < kPieces * kWidth; ++k)
        values[k] = Storage<S>::load(pieces[k / kWidth].elements[k % kWidth]);
      sum.take(values);
    }
    for (; c < a.classes; c += step) {
      const Piece piece = *reinterpret_cast<const Piece*>(x + c * a.inner);
      A values[kWidth];
#pragma unroll
      for (int k = 0; k < kWidth; ++k) values[k] = Storage<S>::load(piece.elements[k]);
      sum.take(values);
    }
    return Owner::template reduce<ExpSum<S>>(sum, ExpSum<S>::none());
  }

  // The weighted surprises of all classes, which smoothing asks for.
  template <class Owner>
  __device__ A surprises(A top, A log_sum) const {
    A sum = 0;
    for (int64 c = Owner::lane(); c < a.classes; c += Owner::lanes())
      sum -= weight(c) * (at(c) - top - log_sum);
    return Owner::sum(sum);
  }

  // What the mean divides by.
  __device__ A own_weight() const {
    const int64 target = a.target[number];
    return target == a.ignore_index || target < 0 || target >= a.classes ? A(0) : weight(target);
  }

};

// What a line's loss needs of its target: read before the line is, so that nobody waits for it.
template <class S>
struct Target {
  using A = typename Storage<S>::Compute;
  A x = 0, weight = 0;
  bool counts = false;

  __device__ explicit Target(const Line<S>& line) {
    const int64 target = line.a.target[line.number];
    if (target == line.a.ignore_index) return;
    if (target < 0 || target >= line.a.classes) {  // see Note [Errors of kernels]
      line.a.errors.report(target);
      return;
    }
    x = line.at(target);
    weight = line.weight(target);
    counts = true;
  }
  // By one thread.
  __device__ A loss(const Line<S>& line, A top, A log_sum, A surprises) const {
    const LossArguments& a = line.a;
    static_cast<A*>(a.top)[line.number] = top;
    static_cast<A*>(a.log_sum)[line.number] = log_sum;
    if (!counts) return 0;
    const A smoothing = static_cast<A>(a.smoothing);
    const A own = (A(1) - smoothing) * weight * -(x - top - log_sum);
    return smoothing > 0 ? own + smoothing / static_cast<A>(a.classes) * surprises : own;
  }
};

template <class S, class Owner, int kWidth>
__device__ inline typename Storage<S>::Compute loss_of_line(const LossArguments& a, int64 number) {
  using A = typename Storage<S>::Compute;
  const Line<S> line(a, number);
  const Target<S> target(line);
  const ExpSum<S> sum = line.template measure<Owner, kWidth>();
  const A log_sum = math::log(sum.sum);
  const A surprises = a.smoothing > 0 ? line.template surprises<Owner>(sum.top, log_sum) : A(0);
  return Owner::lane() == 0 ? target.loss(line, sum.top, log_sum, surprises) : A(0);
}

// A line for each block or thread.
template <class S, bool kByBlock, int kWidth>
__device__ void loss_of_lines(const LossArguments& a) {
  using Owner = Either<kByBlock, Group<false>, OneThread>;
  const int64 number =
      kByBlock ? int64(blockIdx.x) : int64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (number >= a.lines) return;
  const auto loss = loss_of_line<S, Owner, kWidth>(a, number);
  if (Owner::lane() == 0) losses_of<S>(a)[number] = loss;
}

// Rows that are held in registers.
template <class S, bool kByWarp, int kWidth, int kItems>
__device__ void loss_of_rows(const LossArguments& a) {
  using Row = RowInRegisters<S, kByWarp, kWidth, kItems>;
  using A = typename Row::A;
  using Owner = typename Row::Owner;
  const int64 number = Owner::number();
  if (number >= a.lines) return;
  const Line<S> line(a, number);
  const Target<S> target(line);
  Row x;
  x.load(line.x, a.classes, lowest_number<A>());
  A top = lowest_number<A>();
#pragma unroll
  for (int k = 0; k < Row::kCount; ++k) top = Larger::combine(top, x.values[k]);
  top = Owner::template reduce<Larger>(top, lowest_number<A>());
  const A shift = top == lowest_number<A>() ? A(0) : top;
  A sum = 0;
#pragma unroll
  for (int k = 0; k < Row::kCount; ++k) sum += math::narrow_exp<S>(x.values[k] - shift);
  const A log_sum = math::log(Owner::sum(sum));
  A surprises = 0;
  if (a.smoothing > 0) surprises = line.template surprises<Owner>(top, log_sum);
  if (Owner::lane() != 0) return;
  losses_of<S>(a)[number] = target.loss(line, top, log_sum, surprises);
}

// ---- all together

struct LossSum {
  double loss, weight;  // of targets
  __device__ static LossSum combine(LossSum a, LossSum b) {
    return {a.loss + b.loss, a.weight + b.weight};
  }
};

// By all threads of one block.
template <class S>
__device__ inline void finish_loss(const LossArguments& a, LossSum sum) {
  using A = typename Storage<S>::Compute;
  sum = reduce_block<LossSum>(sum, LossSum{0, 0});
  double classes = static_cast<double>(a.classes);
  if (a.weight) {
    classes = 0;
    for (int64 c = threadIdx.x; c < a.classes; c += blockDim.x)
      classes += static_cast<const A*>(a.weight)[c];
    classes = sum_of_block(classes);
  }
  if (threadIdx.x != 0) return;
  A* totals = static_cast<A*>(a.totals);
  totals[0] = static_cast<A>(sum.weight);
  totals[1] = static_cast<A>(classes);
  if (!a.is_single)
    *static_cast<A*>(a.loss) = static_cast<A>(a.is_mean ? sum.loss / sum.weight : sum.loss);
}

template <class S>
__device__ void loss_total(const LossArguments& a) {
  LossSum sum{0, 0};
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 n = int64(blockIdx.x) * blockDim.x + threadIdx.x; n < a.lines; n += step)
    sum = LossSum::combine(sum, {losses_of<S>(a)[n], Line<S>(a, n).own_weight()});
  if (gridDim.x == 1) return finish_loss<S>(a, sum);
  sum = reduce_block<LossSum>(sum, LossSum{0, 0});
  if (threadIdx.x == 0) static_cast<LossSum*>(a.parts)[blockIdx.x] = sum;
}

// One block, with a thread for each block of loss_total.
template <class S>
__device__ void loss_of_parts(const LossArguments& a) {
  finish_loss<S>(a, static_cast<const LossSum*>(a.parts)[threadIdx.x]);
}

// Everything, by one block of which every warp takes some lines.
template <class S>
__device__ void loss_of_few(const LossArguments& a) {
  LossSum sum{0, 0};
  for (int64 n = warp_number(); n < a.lines; n += blockDim.x / kWarp) {
    const auto loss = loss_of_line<S, Group<true>, 1>(a, n);
    if (lane_number() != 0) continue;
    if (a.losses) losses_of<S>(a)[n] = loss;
    sum = LossSum::combine(sum, {loss, Line<S>(a, n).own_weight()});
  }
  finish_loss<S>(a, sum);
}

// ---- backward

template <class S>
struct LineGrad {
  using A = typename Storage<S>::Compute;
  const LossArguments& a;
  A top, log_sum;
  A factor, peak, base;  // of the probabilities, of the target, of all classes
  int64 target;
  bool is_ignored;

  __device__ LineGrad(const LossArguments& a, int64 line) : a(a) {
    const A* totals = static_cast<const A*>(a.totals);
    target = a.target[line];
    is_ignored = target == a.ignore_index || target < 0 || target >= a.classes;
    top = static_cast<const A*>(a.top)[line];
    log_sum = static_cast<const A*>(a.log_sum)[line];
    A grad = static_cast<const A*>(a.grad)[a.is_single ? line : 0];
    if (a.is_mean) grad /= totals[0];
    const A smoothing = static_cast<A>(a.smoothing);
    const A own = a.weight && !is_ignored ? static_cast<const A*>(a.weight)[target] : A(1);
    peak = grad * ((A(1) - smoothing) * own);
    base = grad * (smoothing / static_cast<A>(a.classes));
    factor = peak;
    if (smoothing > 0) factor += base * totals[1];
  }
  __device__ A probability(A x) const {
    if constexpr (sizeof(S) == 2)
      return math::fast_exp2(::fmaf(x, kLog2e, (top + log_sum) * -kLog2e));
    else return math::exp(x - top - log_sum);
  }
  __device__ A of(A x, int64 of_class) const {
    if (is_ignored) return 0;
    A grad = probability(x) * factor;
    if (base != A(0))
      grad -= a.weight ? base * static_cast<const A*>(a.weight)[of_class] : base;
    return of_class == target ? grad - peak : grad;
  }
};

inline constexpr int kLossPieces = 4;

// Rows, each cut into chunks of what a block takes.
template <class S, int kWidth>
__device__ void loss_backward_rows(const LossArguments& a) {
  using Piece = Vector<S, kWidth>;
  const int64 chunk = int64(blockDim.x) * kWidth * kLossPieces;
  const int64 chunks = (a.classes + chunk - 1) / chunk;
  const int64 line = blockIdx.x / chunks;
  const int64 first = (blockIdx.x - line * chunks) * chunk + threadIdx.x * kWidth;
  const S* x = static_cast<const S*>(a.x) + line * a.classes;
  S* out = static_cast<S*>(a.out) + line * a.classes;
  Piece pieces[kLossPieces];
#pragma unroll
  for (int u = 0; u < kLossPieces; ++u) {
    const int64 c = first + int64(u) * blockDim.x * kWidth;
    if (c < a.classes) pieces[u] = *reinterpret_cast<const Piece*>(x + c);
  }
  const LineGrad<S> grad(a, line);
#pragma unroll
  for (int u = 0; u < kLossPieces; ++u) {
    const int64 c = first + int64(u) * blockDim.x * kWidth;
    if (c >= a.classes) continue;
    Piece grads;
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      grads.elements[k] =
          Storage<S>::store(grad.of(Storage<S>::load(pieces[u].elements[k]), c + k));
    *reinterpret_cast<Piece*>(out + c) = grads;
  }
}

// Any element, by a thread.
template <class S>
__device__ void loss_backward_elements(const LossArguments& a) {
  const int64 count = a.lines * a.classes;
  const int64 first = int64(blockIdx.x) * blockDim.x * kLossPieces + threadIdx.x;
#pragma unroll
  for (int u = 0; u < kLossPieces; ++u) {
    const int64 e = first + int64(u) * blockDim.x;
    if (e >= count) return;
    const bool is_narrow = count >> 31 == 0;
    const int64 row = is_narrow ? unsigned(e) / unsigned(a.inner) : e / a.inner;
    const int64 outer = is_narrow ? unsigned(row) / unsigned(a.classes) : row / a.classes;
    const LineGrad<S> grad(a, outer * a.inner + (e - row * a.inner));
    const auto x = Storage<S>::load(static_cast<const S*>(a.x)[e]);
    static_cast<S*>(a.out)[e] = Storage<S>::store(grad.of(x, row - outer * a.classes));
  }
}
