// uses: rows.cuh
// layer_norm and rms_norm, and their derivatives, over contiguous rows.
//
// Rows that fit into the registers of a block are read once. Where the gradients of weight and bias are wanted a
// group of threads takes many rows, one after the other, and keeps its own sums, each thread for the elements that
// it holds of every row; layer_norm_sums adds up those of the groups. Statistics and sums are of the type that is
// computed in, the incoming gradient is of type G, everything else is of type S.

struct LayerArguments {
  const void* x;
  const void* grad;
  const void* weight;  // null where there is none
  const void* bias;
  const void* given_mean;  // backward
  const void* given_rstd;
  void* out;               // y, or grad_x; null where that is not wanted
  void* mean;              // forward
  void* rstd;
  void* sums;              // [groups][2][length]: for weight and bias; null where neither is wanted
  void* grad_weight;
  void* grad_bias;
  const void* addend;  // merged calls: x is the sum of `x` and this
  void* sum;           // which is written here
  void* narrow;        // y, or grad_x, once more, of type H; null where it is not wanted
  int64 rows, length, groups;
  double eps;
  int centred;
  int adds;  // grad_x is added to what `out` holds
};

template <class A>
struct Pair {
  A first, second;
};
struct PlusPairs {
  template <class A>
  __device__ static Pair<A> combine(Pair<A> a, Pair<A> b) {
    return {a.first + b.first, a.second + b.second};
  }
};

// As it would be after being stored.
template <class S, class A>
__device__ inline A rounded(A value) {
  return Storage<S>::load(Storage<S>::store(value));
}

// ---- rows in registers

// Makes y of x, and writes the statistics.
template <class S, bool kByWarp, int kWidth, int kItems>
__device__ inline void normalize(RowInRegisters<S, kByWarp, kWidth, kItems>& x, int64 number,
                                 const LayerArguments& a) {
  using Row = RowInRegisters<S, kByWarp, kWidth, kItems>;
  using A = typename Row::A;
  const A count = static_cast<A>(a.length);
  A mean = 0, square = 0;
  if (a.centred) {
#pragma unroll
    for (A value : x.values) mean += value;
    mean = Row::Owner::sum(mean) / count;
  }
#pragma unroll
  for (int k = 0; k < Row::kCount; ++k) {
    x.values[k] -= mean;
    if (Row::first(k / kWidth) < a.length) square += x.values[k] * x.values[k];
  }
  square = Row::Owner::sum(square) / count;
  const A rstd = A(1) / math::sqrt(square + static_cast<A>(a.eps));
  if (Row::Owner::lane() == 0) {
    static_cast<A*>(a.mean)[number] = mean;
    static_cast<A*>(a.rstd)[number] = rstd;
  }
#pragma unroll
  for (A& value : x.values) value *= rstd;
  Row affine;
  if (a.weight) {
    affine.load(static_cast<const S*>(a.weight), a.length, A(0));
#pragma unroll
    for (int k = 0; k < Row::kCount; ++k) x.values[k] *= affine.values[k];
  }
  if (a.bias) {
    affine.load(static_cast<const S*>(a.bias), a.length, A(0));
#pragma unroll
    for (int k = 0; k < Row::kCount; ++k) x.values[k] += affine.values[k];
  }
}

template <class S, bool kByWarp, int kWidth, int kItems>
__device__ void layer_norm_rows(const LayerArguments& a) {
  using Row = RowInRegisters<S, kByWarp, kWidth, kItems>;
  const int64 number = Row::Owner::number();
  if (number >= a.rows) return;
  Row x;
  x.load(static_cast<const S*>(a.x) + number * a.length, a.length, typename Row::A(0));
  normalize(x, number, a);
  x.store(static_cast<S*>(a.out) + number * a.length, a.length);
}

// The same with the call before it, which added an addend of type R, and the call behind it, which rounds y to
// type H: the bits are those of the three calls.
template <class S, bool kByWarp, int kWidth, int kItems, bool kAdds, class R, bool kCasts, class H>
__device__ void merged_layer_norm_rows(const LayerArguments& a) {
  using Row = RowInRegisters<S, kByWarp, kWidth, kItems>;
  using A = typename Row::A;
  const int64 number = Row::Owner::number();
  if (number >= a.rows) return;
  const int64 start = number * a.length;
  Row x;
  x.load(static_cast<const S*>(a.x) + start, a.length, A(0));
  if constexpr (kAdds) {
    Row addend;
    addend.load(static_cast<const R*>(a.addend) + start, a.length, A(0));
#pragma unroll
    for (int k = 0; k < Row::kCount; ++k)
      x.values[k] = rounded<S>(x.values[k] + addend.values[k]);
    x.store(static_cast<S*>(a.sum) + start, a.length);
  }
  normalize(x, number, a);
  if (a.out) x.store(static_cast<S*>(a.out) + start, a.length);
  if constexpr (kCasts) x.store(static_cast<H*>(a.narrow) + start, a.length);
}

// grad_x = rstd * (g - mean(g) - z * mean(g z)), where z is the normalised x and g counts the weight.
// Where the next call rounds grad_x to type H, that is written as well.
template <class S, bool kByWarp, int kWidth, int kItems, bool kSums, bool kAdds = false, class G = S,
          bool kCasts = false, class H = S>
__device__ void layer_norm_backward_rows(const LayerArguments& a) {
  using Row = RowInRegisters<S, kByWarp, kWidth, kItems>;
  using A = typename Row::A;
  const A count = static_cast<A>(a.length);
  Row weight;  // kept for many rows, else read when it is wanted
  if (kSums && a.weight) weight.load(static_cast<const S*>(a.weight), a.length, A(0));
  Row weight_sums, bias_sums;
#pragma unroll
  for (int k = 0; k < Row::kCount; ++k) weight_sums.values[k] = bias_sums.values[k] = 0;

  for (int64 row = Row::Owner::number(); row < a.rows; row += Row::Owner::count()) {
    Row grad, z, before;
    grad.load(static_cast<const G*>(a.grad) + row * a.length, a.length, A(0));
    z.load(static_cast<const S*>(a.x) + row * a.length, a.length, A(0));
    if constexpr (kAdds)
      before.load(static_cast<const S*>(a.out) + row * a.length, a.length, A(0));
    const A mean = static_cast<const A*>(a.given_mean)[row];
    const A rstd = static_cast<const A*>(a.given_rstd)[row];
    Pair<A> sums{0, 0};
#pragma unroll
    for (int k = 0; k < Row::kCount; ++k) {
      z.values[k] = (z.values[k] - mean) * rstd;
      if constexpr (kSums) {
        weight_sums.values[k] += grad.values[k] * z.values[k];
        bias_sums.values[k] += grad.values[k];
        if (a.weight) grad.values[k] *= weight.values[k];
      }
    }
    if constexpr (!kSums)
      if (a.weight) {
        weight.load(static_cast<const S*>(a.weight), a.length, A(0));
#pragma unroll
        for (int k = 0; k < Row::kCount; ++k) grad.values[k] *= weight.values[k];
      }
#pragma unroll
    for (int k = 0; k < Row::kCount; ++k) {
      sums.first += grad.values[k];
      sums.second += grad.values[k] * z.values[k];
    }
    if (!a.out) continue;
    sums = Row::Owner::template reduce<PlusPairs>(sums, Pair<A>{0, 0});
    const A level = a.centred ? sums.first / count : A(0), along = sums.second / count;
#pragma unroll
    for (int k = 0; k < Row::kCount; ++k)
      grad.values[k] = rstd * (grad.values[k] - level - z.values[k] * along);
    if constexpr (kAdds)
#pragma unroll
      for (int k = 0; k < Row::kCount; ++k)
        grad.values[k] = before.values[k] + rounded<S>(grad.values[k]);
    grad.store(static_cast<S*>(a.out) + row * a.length, a.length);
    if constexpr (kCasts) grad.store(static_cast<H*>(a.narrow) + row * a.length, a.length);
  }
  if constexpr (kSums) {
    A* sums = static_cast<A*>(a.sums) + Row::Owner::number() * 2 * a.length;
    weight_sums.store_values(sums, a.length);
    bias_sums.store_values(sums + a.length, a.length);
  }
}

// ---- longer rows: a block passes each several times

template <class S>
__device__ void layer_norm_long_rows(const LayerArguments& a) {
  using A = typename Storage<S>::Compute;
  const int64 row = blockIdx.x;
  const S* x = static_cast<const S*>(a.x) + row * a.length;
  S* y = static_cast<S*>(a.out) + row * a.length;
  const double count = static_cast<double>(a.length);
  double sum = 0;
  if (a.centred)
#pragma unroll 8
    for (int64 i = threadIdx.x; i < a.length; i += blockDim.x) sum += Storage<S>::load(x[i]);
  const A mean = static_cast<A>(sum_of_block(sum) / count);
  double squares = 0;
#pragma unroll 8
  for (int64 i = threadIdx.x; i < a.length; i += blockDim.x) {
    const A difference = Storage<S>::load(x[i]) - mean;
    squares += difference * difference;
  }
  const A square = static_cast<A>(sum_of_block(squares) / count);
  const A rstd = A(1) / math::sqrt(square + static_cast<A>(a.eps));
  if (threadIdx.x == 0) {
    static_cast<A*>(a.mean)[row] = mean;
    static_cast<A*>(a.rstd)[row] = rstd;
  }
#pragma unroll 4
  for (int64 i = threadIdx.x; i < a.length; i += blockDim.x) {
    A value = (Storage<S>::load(x[i]) - mean) * rstd;
    if (a.weight) value *= Storage<S>::load(static_cast<const S*>(a.weight)[i]);
    if (a.bias) value += Storage<S>::load(static_cast<const S*>(a.bias)[i]);
    y[i] = Storage<S>::store(value);
  }
}

template <class S, class G = S>
__device__ void layer_norm_backward_long_rows(const LayerArguments& a) {
  using A = typename Storage<S>::Compute;
  const int64 row = blockIdx.x;
  const G* grad = static_cast<const G*>(a.grad) + row * a.length;
  S* out = static_cast<S*>(a.out) + row * a.length;
  const S* x = static_cast<const S*>(a.x) + row * a.length;
  const A mean = static_cast<const A*>(a.given_mean)[row];
  const A rstd = static_cast<const A*>(a.given_rstd)[row];
  const auto weighted = [&](int64 i) {
    const A g = Storage<G>::load(grad[i]);
    return a.weight ? g * Storage<S>::load(static_cast<const S*>(a.weight)[i]) : g;
  };
  Pair<double> sums{0, 0};
#pragma unroll 4
  for (int64 i = threadIdx.x; i < a.length; i += blockDim.x) {
    const A g = weighted(i);
    sums.first += g;
    sums.second += g * (Storage<S>::load(x[i]) - mean);
  }
  sums = reduce_block<PlusPairs>(sums, Pair<double>{0, 0});
  const double count = static_cast<double>(a.length);
  const A level = a.centred ? static_cast<A>(sums.first / count) : A(0);
  const A along = static_cast<A>(rstd * sums.second / count);
#pragma unroll 4
  for (int64 i = threadIdx.x; i < a.length; i += blockDim.x) {
    A value = rstd * (weighted(i) - level - (Storage<S>::load(x[i]) - mean) * rstd * along);
    if (a.adds) value = Storage<S>::load(out[i]) + rounded<S>(value);
    out[i] = Storage<S>::store(value);
  }
}

// ---- sums down the rows

inline constexpr int kColumnThreads = 256, kSumThreads = 1024, kColumnLanes = 32;

// The first thread of each column gets the sum of all; the others have nothing.
template <int kThreads, class A>
__device__ inline Pair<A> sum_down(Pair<A> sums) {
  __shared__ Pair<A> tile[kThreads];
  tile[threadIdx.x] = sums;
  __syncthreads();
  for (int half = kThreads / 2; half >= kColumnLanes; half /= 2) {
    if (threadIdx.x < half)
      tile[threadIdx.x] = PlusPairs::combine(tile[threadIdx.x], tile[threadIdx.x + half]);
    __syncthreads();
  }
  return tile[threadIdx.x];
}

// Of the rows of a group, where rows are too long for registers.
template <class S, class G = S>
__device__ void layer_norm_column_sums(const LayerArguments& a) {
  using A = typename Storage<S>::Compute;
  const int64 strips = (a.length + kColumnLanes - 1) / kColumnLanes;
  const int64 group = blockIdx.x / strips;
  const int64 column = (blockIdx.x - group * strips) * kColumnLanes + threadIdx.x % kColumnLanes;
  constexpr int kStep = kColumnThreads / kColumnLanes;
  const int64 begin = a.rows * group / a.groups, end = a.rows * (group + 1) / a.groups;
  Pair<A> sums{0, 0};
  if (column < a.length)
#pragma unroll 4
    for (int64 row = begin + threadIdx.x / kColumnLanes; row < end; row += kStep) {
      const A g = Storage<G>::load(static_cast<const G*>(a.grad)[row * a.length + column]);
      const A x = Storage<S>::load(static_cast<const S*>(a.x)[row * a.length + column]);
      const A mean = static_cast<const A*>(a.given_mean)[row];
      const A rstd = static_cast<const A*>(a.given_rstd)[row];
      sums.first += g * ((x - mean) * rstd);
      sums.second += g;
    }
  sums = sum_down<kColumnThreads>(sums);
  if (threadIdx.x >= kColumnLanes || column >= a.length) return;
  A* target = static_cast<A*>(a.sums) + group * 2 * a.length + column;
  target[0] = sums.first;
  target[a.length] = sums.second;
}

// Of the groups.
template <class S>
__device__ void layer_norm_sums(const LayerArguments& a) {
  using A = typename Storage<S>::Compute;
  const int64 column = int64(blockIdx.x) * kColumnLanes + threadIdx.x % kColumnLanes;
  constexpr int kStep = kSumThreads / kColumnLanes;
  Pair<A> sums{0, 0};
  if (column < a.length)
#pragma unroll 8
    for (int64 group = threadIdx.x / kColumnLanes; group < a.groups; group += kStep) {
      const A* from = static_cast<const A*>(a.sums) + group * 2 * a.length + column;
      sums.first += from[0];
      sums.second += from[a.length];
    }
  sums = sum_down<kSumThreads>(sums);
  if (threadIdx.x >= kColumnLanes || column >= a.length) return;
  if (a.grad_weight) static_cast<S*>(a.grad_weight)[column] = Storage<S>::store(sums.first);
  if (a.grad_bias) static_cast<S*>(a.grad_bias)[column] = Storage<S>::store(sums.second);
}
