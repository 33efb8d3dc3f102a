// uses: meet.cuh
// Kernels that lay elements out anew: cat, triangles, repeated indices.

// ---- cat: each input contributes a piece to every row of the output

struct CatPiece {
  const void* data;
  int64 begin;       // in the row, in units
  int64 length;      // in the row, in units
  int64 first_block;
  Divisor divisor;   // by the length, where there are few units
};

inline constexpr int kCatPerThread = 4;

template <int kPieces>
struct CatArguments {
  void* out;
  int64 rows;
  int64 row_length;
  int64 pieces;
  CatPiece piece[kPieces];
};

template <class Unit, bool kWide, int kPieces>
__device__ void cat(const CatArguments<kPieces>& a) {
  int low = 0, high = static_cast<int>(a.pieces) - 1;  // the last piece that begins at or before the block
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (a.piece[middle].first_block <= blockIdx.x) low = middle;
    else high = middle - 1;
  }
  const CatPiece& piece = a.piece[low];
  const int64 count = a.rows * piece.length;
  const int64 first = (blockIdx.x - piece.first_block) * (blockDim.x * kCatPerThread) + threadIdx.x;
  const Unit* from = static_cast<const Unit*>(piece.data);
  Unit loaded[kCatPerThread];
#pragma unroll
  for (int i = 0; i < kCatPerThread; ++i)
    if (first + i * blockDim.x < count) loaded[i] = from[first + i * blockDim.x];
#pragma unroll
  for (int i = 0; i < kCatPerThread; ++i) {
    const int64 at = first + i * blockDim.x;
    if (at >= count) break;
    int64 row = 0;
    if (a.rows > 1) {
      if constexpr (kWide) row = at / piece.length;
      else row = piece.divisor.divide(static_cast<unsigned>(at));
    }
    static_cast<Unit*>(a.out)[row * a.row_length + piece.begin + at - row * piece.length] = loaded[i];
  }
}

// ---- triangles. The geometry is that of the output and of the input; rows and columns come from the number of the
// element in the output's order of dimensions, so there each is a tensor of its own.

template <class Geometry>
struct TriangleArguments {
  int64 count;
  Geometry geometry;  // the output, the input, the column less the row
  void* out;
  const void* x;
  int64 diagonal;
  int64 is_upper;
};

template <class S, class Geometry>
__device__ void triangle(const TriangleArguments<Geometry>& a) {
  constexpr int kPerThread = 4;
  const int64 first = static_cast<int64>(blockIdx.x) * (blockDim.x * kPerThread) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64 e = first + i * blockDim.x;
    if (e >= a.count) break;
    int64 offsets[3];
    a.geometry.find(e, offsets);
    const bool kept = a.is_upper ? offsets[2] >= a.diagonal : offsets[2] <= a.diagonal;
    static_cast<S*>(a.out)[offsets[0]] = kept ? static_cast<const S*>(a.x)[offsets[1]] : S(0);
  }
}

// ---- repeated indices

struct RepeatArguments {
  int64 count;
  const int64* ends;  // where the repeats of each index end
  int64 indices;
  int64* out;
};

// Index i as often as its end is behind that of the one before.
__device__ inline void repeat_indices(const RepeatArguments& a) {
  const int64 at = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= a.count) return;
  int64 low = 0, high = a.indices - 1;  // the first that ends behind this place
  while (low < high) {
    const int64 middle = low + (high - low) / 2;
    if (a.ends[middle] > at) high = middle;
    else low = middle + 1;
  }
  a.out[at] = low;
}

// ---- embed: the input is added to places of the output

template <class Geometry>
struct EmbedArguments {
  int64 count;
  Geometry geometry;
  void* out;
  const void* x;
  void* places;  // of embed_places
  void* values;
};

// Places that do not overlap.
template <class S, class Geometry>
__device__ void embed(const EmbedArguments<Geometry>& a) {
  constexpr int kPerThread = 4;
  const int64 first = static_cast<int64>(blockIdx.x) * (blockDim.x * kPerThread) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64 e = first + i * blockDim.x;
    if (e >= a.count) break;
    int64 offsets[2];
    a.geometry.find(e, offsets);
    S& place = static_cast<S*>(a.out)[offsets[0]];
    const Num<S> sum = Num<S>(Storage<S>::load(place)) +
                       Num<S>(Storage<S>::load(static_cast<const S*>(a.x)[offsets[1]]));
    place = Storage<S>::store(sum.v);
  }
}

template <class S, class Geometry>
struct EmbedSource {
  const EmbedArguments<Geometry>& a;
  __device__ uint64 place(int64 e) const {
    int64 offsets[2];
    a.geometry.find(e, offsets);
    return static_cast<uint64>(offsets[0]);
  }
  __device__ S value(int64 e) const {
    int64 offsets[2];
    a.geometry.find(e, offsets);
    return static_cast<const S*>(a.x)[offsets[1]];
  }
};

// Places that do: see meet.cuh.
template <class S, class Place, class Geometry>
__device__ void embed_places(const EmbedArguments<Geometry>& a) {
  write_places(static_cast<Place*>(a.places), static_cast<S*>(a.values),
               EmbedSource<S, Geometry>{a}, a.count);
}
