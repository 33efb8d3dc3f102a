// uses: reduce.cuh
// batch_norm and its derivative over a contiguous block [outer, channels, inner].

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
  double per_channel, eps;
  int given, unused;     // whether mean and variance were
};

// ---- sums for the derivative

template <class S, class Out>
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
    return {0, 0, Storage<S>::load(static_cast<const S*>(a.levels)[channel]), A(0)};
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
    static_cast<Out*>(a.outs[0])[channel] = Storage<S>::store(static_cast<A>(state.grad));
    static_cast<Out*>(a.outs[1])[channel] = Storage<S>::store(static_cast<A>(state.along));
  }
};

// ---- elements

template <class S>
__device__ inline typename Storage<S>::Compute of_channel(const void* from, int64 channel) {
  return Storage<S>::load(static_cast<const S*>(from)[channel]);
}
template <class S, class A>
__device__ inline void give_channel(void* to, int64 channel, A value) {
  if (to) static_cast<S*>(to)[channel] = Storage<S>::store(value);
}

template <class S>
struct NormForward {
  using A = typename Storage<S>::Compute;
  A mean, rstd, scale, shift;

  __device__ NormForward(const BatchArguments& a, int64 channel)
      : mean(of_channel<S>(a.mean, channel)),
        rstd(A(1) / math::sqrt(of_channel<S>(a.variance, channel) + static_cast<A>(a.eps))),
        scale(a.weight ? of_channel<S>(a.weight, channel) * rstd : rstd),
        shift(a.bias ? of_channel<S>(a.bias, channel) : A(0)) {}
  static constexpr bool kReadsGrad = false;
  __device__ A result(A x, A) const { return (x - mean) * scale + shift; }
  __device__ void give(const BatchArguments& a, int64 channel) const {
    if (a.given) {
      give_channel<S>(a.channel_outs[0], channel, mean);
      give_channel<S>(a.channel_outs[1], channel, of_channel<S>(a.variance, channel));
    }
    give_channel<S>(a.channel_outs[2], channel, rstd);
  }
};

template <class S>
struct NormBackward {
  using A = typename Storage<S>::Compute;
  A mean, rstd, sum, along, scale, slope, level;

  __device__ NormBackward(const BatchArguments& a, int64 channel)
      : mean(of_channel<S>(a.mean, channel)),
        rstd(of_channel<S>(a.given_rstd, channel)),
        sum(of_channel<S>(a.sums[0], channel)),
        along(of_channel<S>(a.sums[1], channel)),
        scale(a.weight ? of_channel<S>(a.weight, channel) * rstd : rstd) {
    const A count = static_cast<A>(a.per_channel);
    slope = a.given ? A(0) : -scale * rstd * rstd * along / count;
    level = a.given ? A(0) : -scale * sum / count;
  }
  static constexpr bool kReadsGrad = true;
  __device__ A result(A x, A grad) const { return scale * grad + slope * (x - mean) + level; }
  __device__ void give(const BatchArguments& a, int64 channel) const {
    give_channel<S>(a.channel_outs[0], channel, along * rstd);
    give_channel<S>(a.channel_outs[1], channel, sum);
  }
};

// Each thread takes several pieces of kWidth elements. They are of one channel, or of neighbouring ones where
// inner is 1.
template <class S, class Norm, int kWidth, bool kOneChannel>
__device__ void batch_norm_elements(const BatchArguments& a) {
  constexpr int kPieces = 4;
  const int64 first = (int64(blockIdx.x) * kPieces * blockDim.x + threadIdx.x) * kWidth;
#pragma unroll
  for (int u = 0; u < kPieces; ++u) {
    const int64 at = first + int64(u) * blockDim.x * kWidth;
    if (at >= a.count) return;
    const int64 plane = quotient(at, a.inner);
    const int64 channel = plane - quotient(plane, a.channels) * a.channels;
    const bool is_first = plane < a.channels && at == plane * a.inner;
    using Piece = Vector<S, kWidth>;
    const Piece x = *reinterpret_cast<const Piece*>(static_cast<const S*>(a.x) + at);
    Piece grad = x;
    if constexpr (Norm::kReadsGrad)
      grad = *reinterpret_cast<const Piece*>(static_cast<const S*>(a.grad) + at);
    const auto result = [&](const Norm& norm, int k) {
      return Storage<S>::store(
          norm.result(Storage<S>::load(x.elements[k]), Storage<S>::load(grad.elements[k])));
    };
    Piece written;
    if constexpr (kOneChannel) {
      const Norm norm(a, channel);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) written.elements[k] = result(norm, k);
      if (is_first) norm.give(a, channel);
    } else {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        const Norm norm(a, channel + k);
        written.elements[k] = result(norm, k);
        if (is_first) norm.give(a, channel + k);
      }
    }
    *reinterpret_cast<Piece*>(static_cast<S*>(a.out) + at) = written;
  }
}

// Where no elements are wanted.
template <class S, class Norm>
__device__ void batch_norm_channels(const BatchArguments& a) {
  const int64 channel = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (channel < a.channels) Norm(a, channel).give(a, channel);
}
