// uses: block.cuh
// Norms over many tensors, their scaling and casts: a launch takes the pieces of as many tensors as its arguments hold.

inline constexpr int kMostTensors = 128;
inline constexpr int64 kPiece = 16384;  // elements that a block takes

struct ManyTensors {
  void* data[kMostTensors];
  int64 numel[kMostTensors];
  int first_piece[kMostTensors + 1];  // of each, and how many there are
  int count;
};
struct TotalNormArguments {
  ManyTensors tensors;
  double* parts;  // one for each piece, of all launches
  int64 first_part;
};
struct NormOfPartsArguments {
  const double* parts;
  int64 count;
  void* out;
};
struct ScaleArguments {
  ManyTensors tensors;
  const void* factor;
};
struct UnscaleArguments {
  ManyTensors tensors;
  const float* factor;
  float* found;
};
struct UpdateScaleArguments {
  float* scale;
  int* tracker;
  const float* found;
  double growth_factor;
  double backoff_factor;
  int64 growth_interval;
};

struct CastArguments {
  ManyTensors tensors;
  void* to[kMostTensors];
};

// Which tensor the piece of this block belongs to, and where it is in there.
struct Piece {
  int tensor;
  int64 begin, end;
};
__device__ inline Piece find_piece(const ManyTensors& tensors) {
  int low = 0, high = tensors.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (tensors.first_piece[middle] <= static_cast<int>(blockIdx.x)) low = middle;
    else high = middle;
  }
  const int64 begin = (static_cast<int>(blockIdx.x) - tensors.first_piece[low]) * kPiece;
  const int64 end = begin + kPiece;
  return {low, begin, end < tensors.numel[low] ? end : tensors.numel[low]};
}

// ---- norms

// Sums are taken in double: squares of float32 neither overflow nor vanish there.
template <class S>
struct NormOne : Plus {
  __device__ static double of(S x) { return ::fabs(static_cast<double>(x)); }
  __device__ static double last(double sum) { return sum; }
};
template <class S>
struct NormTwo : Plus {
  __device__ static double of(S x) { return static_cast<double>(x) * static_cast<double>(x); }
  __device__ static double last(double sum) { return ::sqrt(sum); }
};
template <class S>
struct NormInfinity : Larger {
  __device__ static double of(S x) { return ::fabs(static_cast<double>(x)); }
  __device__ static double last(double top) { return top; }
};

// Calls body(vector) for all of a piece, several elements at a time where they are aligned.
template <class S, class Body>
__device__ inline void for_vectors(S* data, int64 begin, int64 end, Body& body) {
  constexpr int kWidth = 16 / sizeof(S);
  if (reinterpret_cast<uint64>(data) % 16 == 0) {
    const int64 whole = end / kWidth * kWidth;  // a piece begins at a multiple
#pragma unroll 4
    for (int64 i = begin + int64(threadIdx.x) * kWidth; i < whole; i += int64(blockDim.x) * kWidth)
      body(*reinterpret_cast<Vector<S, kWidth>*>(data + i));
    begin = whole;
  }
  for (int64 i = begin + threadIdx.x; i < end; i += blockDim.x)
    body(*reinterpret_cast<Vector<S, 1>*>(data + i));
}

template <class S, class Norm>
struct PartOfNorm {
  double part = 0;
  template <int n>
  __device__ void operator()(const Vector<S, n>& vector) {
    for (const S& x : vector.elements) part = Norm::combine(part, Norm::of(x));
  }
};

template <class S, class Norm>
__device__ void total_norm_parts(const TotalNormArguments& a) {
  const Piece piece = find_piece(a.tensors);
  PartOfNorm<S, Norm> sum;
  for_vectors(static_cast<S*>(a.tensors.data[piece.tensor]), piece.begin, piece.end, sum);
  const double part = reduce_block<Norm>(sum.part, 0.0);
  if (threadIdx.x == 0) a.parts[a.first_part + blockIdx.x] = part;
}

template <class S, class Norm>
__device__ void norm_of_parts(const NormOfPartsArguments& a) {
  double total = 0;
#pragma unroll 8
  for (int64 i = threadIdx.x; i < a.count; i += blockDim.x) total = Norm::combine(total, a.parts[i]);
  total = reduce_block<Norm>(total, 0.0);
  if (threadIdx.x == 0) *static_cast<S*>(a.out) = static_cast<S>(Norm::last(total));
}

// ---- scaling

template <class S>
struct Scaling {
  S by;
  template <int n>
  __device__ void operator()(Vector<S, n>& vector) const {
    Vector<S, n> scaled = vector;
    for (S& x : scaled.elements) x *= by;
    vector = scaled;
  }
};

template <class S, class Factor>
__device__ void scale_pieces(const ScaleArguments& a) {
  const Factor factor = *static_cast<const Factor*>(a.factor);
  if (factor == 1) return;
  const Scaling<S> scaling{static_cast<S>(factor)};
  const Piece piece = find_piece(a.tensors);
  for_vectors(static_cast<S*>(a.tensors.data[piece.tensor]), piece.begin, piece.end, scaling);
}

// ---- casts

template <class S, class D, int kWidth>
__device__ inline void cast_vector(const S* from, D* to) {
  const Vector<S, kWidth> given = *reinterpret_cast<const Vector<S, kWidth>*>(from);
  Vector<D, kWidth> result;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) result.elements[k] = convert<D>(Storage<S>::load(given.elements[k]));
  *reinterpret_cast<Vector<D, kWidth>*>(to) = result;
}

template <class S, class D>
__device__ void cast_pieces(const CastArguments& a) {
  constexpr int kWidth = 4;
  const Piece piece = find_piece(a.tensors);
  const S* from = static_cast<const S*>(a.tensors.data[piece.tensor]);
  D* to = static_cast<D*>(a.to[piece.tensor]);
  const bool aligned = reinterpret_cast<uint64>(from) % sizeof(Vector<S, kWidth>) == 0 &&
                       reinterpret_cast<uint64>(to) % sizeof(Vector<D, kWidth>) == 0;
  int64 begin = piece.begin;
  if (aligned) {
    const int64 whole = piece.end / kWidth * kWidth;  // a piece begins at a multiple
#pragma unroll 4
    for (int64 i = begin + int64(threadIdx.x) * kWidth; i < whole; i += int64(blockDim.x) * kWidth)
      cast_vector<S, D, kWidth>(from + i, to + i);
    begin = whole;
  }
  for (int64 i = begin + threadIdx.x; i < piece.end; i += blockDim.x)
    cast_vector<S, D, 1>(from + i, to + i);
}

// ---- scaled losses

template <class S>
struct Unscaling {
  float by;
  bool finite = true;
  template <int n>
  __device__ void operator()(Vector<S, n>& vector) {
    using T = typename Storage<S>::Compute;
    Vector<S, n> scaled = vector;
    for (S& x : scaled.elements) {
      const T value = Storage<S>::load(x);
      finite = finite && value - value == 0;
      x = Storage<S>::store(value * static_cast<T>(by));
    }
    vector = scaled;
  }
};

// All threads that find something write the same.
template <class S>
__device__ void unscale_pieces(const UnscaleArguments& a) {
  Unscaling<S> unscaling{*a.factor};
  const Piece piece = find_piece(a.tensors);
  for_vectors(static_cast<S*>(a.tensors.data[piece.tensor]), piece.begin, piece.end, unscaling);
  if (!unscaling.finite) *a.found = 1;
}

__device__ inline void update_scale(const UpdateScaleArguments& a) {
  if (*a.found != 0) {
    *a.scale = static_cast<float>(*a.scale * a.backoff_factor);
    *a.tracker = 0;
  } else if (*a.tracker + 1 == a.growth_interval) {
    // One that would be infinite stays as it is.
    const float larger = static_cast<float>(*a.scale * a.growth_factor);
    if (larger - larger == 0) *a.scale = larger;
    *a.tracker = 0;
  } else {
    ++*a.tracker;
  }
}
