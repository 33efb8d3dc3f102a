// uses: reduce.cuh
// batch_norm and its derivative over a contiguous block [outer, channels, inner]; inner is 1 where channels lie
// last. S is the type of elements, P that of the numbers of a channel: float where elements are halves.

struct BatchArguments {
  const void* x;
  const void* grad;
  const void* mean;      // of the channels, as are all below but for out
  const void* variance;  // forward
  const void* given_rstd;  // backward
  const void* weight;    // null where there is none
  const void* bias;
  const void* sums[2];   // backward: of grad, and of grad (x - mean)
  void* out;             // y, or grad_x; null where that is not wanted
  void* channel_outs[3];  // forward mean, variance, rstd; backward grad_weight, grad_bias; null where not wanted
  int64 count, channels, inner;
  int64 strips, rows;    // channels last: blocks beside each other, rows of a block
  double per_channel, eps;
  int given, lanes;      // whether mean and variance were; channels last: threads beside each other
};

// ---- mean and variance of halves

// As Moments of reduce.cu, in float: sums of a thread are short, and the fewer registers it takes the more threads
// read at a time.
template <class S, class P>
struct HalfMoments {
  static constexpr bool kLooksAhead = true;
  using Value = float;
  struct State {
    float count, shift, sum, squares;  // of x - shift
  };
  template <int n>
  struct Piece {
    Vector<S, n> x;
    __device__ Value at(int k) const { return Storage<S>::load(x.elements[k]); }
  };
  template <int n, class Arguments>
  __device__ static Piece<n> read(const Arguments& a, int64 offset) {
    return {*reinterpret_cast<const Vector<S, n>*>(static_cast<const S*>(a.in) + offset)};
  }
  template <class Arguments>
  __device__ static State start(const Arguments&, int64) {
    return {0, 0, 0, 0};
  }
  __device__ static void look_ahead(State& state, Value x) { state.shift = x - x == 0 ? x : 0; }
  template <int n, class PlaceOf>
  __device__ static void fold(State& state, const Value (&values)[n], PlaceOf) {
    float sum = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float difference = values[k] - state.shift;
      sum += difference;
      squares = fmaf(difference, difference, squares);
    }
    state.count += n;
    state.sum += sum;
    state.squares += squares;
  }
  // Moves b's sums to a's shift by way of the means.
  __device__ static State combine(State a, State b) {
    if (a.shift == b.shift)
      return {a.count + b.count, a.shift, a.sum + b.sum, a.squares + b.squares};
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    const float a_mean = a.sum / a.count, b_mean = b.sum / b.count, total = a.count + b.count;
    const float gap = (b.shift - a.shift) + (b_mean - a_mean);
    const float deviation = (a.squares - a.sum * a_mean) + (b.squares - b.sum * b_mean) +
                            gap * gap * (a.count * (b.count / total));
    return {total, a.shift + (a_mean + gap * (b.count / total)), 0, deviation};
  }
  template <class Arguments>
  __device__ static void finish(const Arguments& a, State state, int64 channel) {
    const float residue = state.sum / state.count;
    const float deviation = state.squares - state.sum * residue;
    static_cast<P*>(a.outs[0])[channel] =
        Storage<P>::store((deviation < 0 ? 0 : deviation) / static_cast<float>(a.count));
    static_cast<P*>(a.outs[1])[channel] = Storage<P>::store(state.shift + residue);
  }
};

// ---- sums for the derivative

template <class S, class P>
struct BatchSums {
  using A = typename Storage<S>::Compute;
  static constexpr bool kLooksAhead = false;
  struct Value {
    A grad, x;
  };
  struct State {
    double grad, along;  // sums of grad, and of grad (x - mean)
    A mean, unused;
  };
  template <int n>
  struct Piece {
    Vector<S, n> grad, x;
    __device__ Value at(int k) const {
      return {Storage<S>::load(grad.elements[k]), Storage<S>::load(x.elements[k])};
    }
  };
  template <int n, class Arguments>
  __device__ static Piece<n> read(const Arguments& a, int64 offset) {
    return {*reinterpret_cast<const Vector<S, n>*>(static_cast<const S*>(a.in) + offset),
            *reinterpret_cast<const Vector<S, n>*>(static_cast<const S*>(a.second) + offset)};
  }
  template <class Arguments>
  __device__ static State start(const Arguments& a, int64 channel) {
    return {0, 0, Storage<P>::load(static_cast<const P*>(a.levels)[channel]), A(0)};
  }
  template <int n, class PlaceOf>
  __device__ static void fold(State& state, const Value (&values)[n], PlaceOf) {
    A grad = 0, along = 0;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      grad += values[k].grad;
      along += values[k].grad * (values[k].x - state.mean);
    }
    state.grad += grad;
    state.along += along;
  }
  __device__ static State combine(State a, State b) {
    return {a.grad + b.grad, a.along + b.along, a.mean, A(0)};
  }
  template <class Arguments>
  __device__ static void finish(const Arguments& a, State state, int64 channel) {
    static_cast<P*>(a.outs[0])[channel] = Storage<P>::store(static_cast<A>(state.grad));
    static_cast<P*>(a.outs[1])[channel] = Storage<P>::store(static_cast<A>(state.along));
  }
};

// ---- elements

template <class P>
__device__ inline typename Storage<P>::Compute of_channel(const void* from, int64 channel) {
  return Storage<P>::load(static_cast<const P*>(from)[channel]);
}
template <class P, class A>
__device__ inline void give_channel(void* to, int64 channel, A value) {
  if (to) static_cast<P*>(to)[channel] = Storage<P>::store(value);
}

template <class P>
struct NormForward {
  using A = typename Storage<P>::Compute;
  static constexpr bool kReadsGrad = false;
  A mean, scale, shift;

  __device__ static A rstd_of(const BatchArguments& a, int64 channel) {
    return A(1) / math::sqrt(of_channel<P>(a.variance, channel) + static_cast<A>(a.eps));
  }
  __device__ void set(const BatchArguments& a, int64 channel) {
    mean = of_channel<P>(a.mean, channel);
    scale = rstd_of(a, channel);
    if (a.weight) scale *= of_channel<P>(a.weight, channel);
    shift = a.bias ? of_channel<P>(a.bias, channel) : A(0);
  }
  __device__ A result(A x, A) const { return (x - mean) * scale + shift; }
  __device__ static void give(const BatchArguments& a, int64 channel) {
    if (a.given) {
      give_channel<P>(a.channel_outs[0], channel, of_channel<P>(a.mean, channel));
      give_channel<P>(a.channel_outs[1], channel, of_channel<P>(a.variance, channel));
    }
    give_channel<P>(a.channel_outs[2], channel, rstd_of(a, channel));
  }
};

template <class P>
struct NormBackward {
  using A = typename Storage<P>::Compute;
  static constexpr bool kReadsGrad = true;
  A mean, scale, slope, level;

  __device__ void set(const BatchArguments& a, int64 channel) {
    const A rstd = of_channel<P>(a.given_rstd, channel), count = static_cast<A>(a.per_channel);
    mean = of_channel<P>(a.mean, channel);
    scale = a.weight ? of_channel<P>(a.weight, channel) * rstd : rstd;
    slope = a.given ? A(0) : -scale * rstd * rstd * of_channel<P>(a.sums[1], channel) / count;
    level = a.given ? A(0) : -scale * of_channel<P>(a.sums[0], channel) / count;
  }
  __device__ A result(A x, A grad) const { return scale * grad + slope * (x - mean) + level; }
  __device__ static void give(const BatchArguments& a, int64 channel) {
    give_channel<P>(a.channel_outs[0], channel,
                    of_channel<P>(a.sums[1], channel) * of_channel<P>(a.given_rstd, channel));
    give_channel<P>(a.channel_outs[1], channel, of_channel<P>(a.sums[0], channel));
  }
};

// What is read at a time, and becomes of it.
template <class S, class Norm, int kWidth>
struct NormPiece {
  using Piece = Vector<S, kWidth>;
  Piece x, grad;

  __device__ void read(const BatchArguments& a, int64 at) {
    x = *reinterpret_cast<const Piece*>(static_cast<const S*>(a.x) + at);
    if constexpr (Norm::kReadsGrad)
      grad = *reinterpret_cast<const Piece*>(static_cast<const S*>(a.grad) + at);
  }
  __device__ S result(const Norm& norm, int k) const {
    using A = typename Storage<S>::Compute;
    A of_grad = A(0);
    if constexpr (Norm::kReadsGrad) of_grad = Storage<S>::load(grad.elements[k]);
    return Storage<S>::store(norm.result(Storage<S>::load(x.elements[k]), of_grad));
  }
  __device__ static void write(const BatchArguments& a, int64 at, const Piece& results) {
    *reinterpret_cast<Piece*>(static_cast<S*>(a.out) + at) = results;
  }
};

// Each thread takes several pieces of kWidth elements, each of one channel.
template <class S, class Norm, int kWidth>
__device__ void batch_norm_planes(const BatchArguments& a) {
  constexpr int kPieces = 4;
  const int64 first = (int64(blockIdx.x) * kPieces * blockDim.x + threadIdx.x) * kWidth;
#pragma unroll
  for (int u = 0; u < kPieces; ++u) {
    const int64 at = first + int64(u) * blockDim.x * kWidth;
    if (at >= a.count) return;
    const int64 plane = quotient(at, a.inner);
    const int64 channel = plane - quotient(plane, a.channels) * a.channels;
    NormPiece<S, Norm, kWidth> piece;
    piece.read(a, at);
    Norm norm;
    norm.set(a, channel);
    Vector<S, kWidth> results;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) results.elements[k] = piece.result(norm, k);
    piece.write(a, at, results);
    if (plane < a.channels && at == plane * a.inner) Norm::give(a, channel);
  }
}

// The same where inner is 1: a thread has the same kWidth channels in some of the rows of its block.
template <class S, class Norm, int kWidth>
__device__ void batch_norm_rows(const BatchArguments& a) {
  constexpr int kRows = 4;
  const int64 chunk = quotient(blockIdx.x, a.strips);
  const int64 strip = blockIdx.x - chunk * a.strips;
  const int64 channel = (strip * a.lanes + (threadIdx.x & (a.lanes - 1))) * kWidth;
  if (channel >= a.channels) return;
  Norm norms[kWidth];
#pragma unroll
  for (int k = 0; k < kWidth; ++k) norms[k].set(a, channel + k);
  const int step = blockDim.x / a.lanes, in_block = threadIdx.x / a.lanes;
  const int64 end = least((chunk + 1) * a.rows, quotient(a.count, a.channels));
  if (chunk == 0 && in_block == 0)
#pragma unroll
    for (int k = 0; k < kWidth; ++k) Norm::give(a, channel + k);
  for (int64 row = chunk * a.rows + in_block; row < end; row += kRows * step) {
    NormPiece<S, Norm, kWidth> pieces[kRows];
#pragma unroll
    for (int u = 0; u < kRows; ++u)
      if (row + u * step < end) pieces[u].read(a, (row + u * step) * a.channels + channel);
#pragma unroll
    for (int u = 0; u < kRows; ++u) {
      if (row + u * step >= end) break;
      Vector<S, kWidth> results;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) results.elements[k] = pieces[u].result(norms[k], k);
      pieces[u].write(a, (row + u * step) * a.channels + channel, results);
    }
  }
}

// Where no elements are wanted.
template <class Norm>
__device__ void batch_norm_channels(const BatchArguments& a) {
  const int64 channel = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (channel < a.channels) Norm::give(a, channel);
}
