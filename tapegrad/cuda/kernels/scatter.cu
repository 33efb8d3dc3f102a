// uses: meet.cuh
// Gather and scatter: every element of the index names a place in a line along one dimension.

// The geometry is that of the index, of the other tensor (what is gathered into, or scattered from) and of the lined one,
// in which a line counts as one element.
template <class Geometry>
struct LineArguments {
  int64 count;
  Geometry geometry;
  const int64* index;
  void* other;
  void* lined;
  int64 size;    // of a line
  int64 stride;  // in it
  void* places;  // of scatter_places
  void* values;
  uint64 limit;
  ErrorPlace errors;

  // Whether an index is in range; it is told where not: see Note [Errors of kernels].
  __device__ bool is_inside(int64 at) const {
    if (at >= 0 && at < size) return true;
    errors.report(at);
    return false;
  }
};

template <class S, class Geometry>
__device__ void gather(const LineArguments<Geometry>& a) {
  constexpr int kPerThread = 4;
  const int64 first = static_cast<int64>(blockIdx.x) * (blockDim.x * kPerThread) + threadIdx.x;
  int64 from[kPerThread], to[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64 e = first + i * blockDim.x;
    from[i] = -1;
    if (e >= a.count) continue;
    int64 offsets[3];
    a.geometry.find(e, offsets);
    const int64 at = a.index[offsets[0]];
    to[i] = offsets[1];
    from[i] = a.is_inside(at) ? offsets[2] + at * a.stride : -1;
  }
  S value[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i)
    if (from[i] >= 0) value[i] = static_cast<const S*>(a.lined)[from[i]];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i)
    if (from[i] >= 0) static_cast<S*>(a.other)[to[i]] = value[i];
}

template <class S, class Geometry>
struct LineSource {
  const LineArguments<Geometry>& a;
  __device__ uint64 place(int64 e) const {
    int64 offsets[3];
    a.geometry.find(e, offsets);
    const int64 at = a.index[offsets[0]];
    return a.is_inside(at) ? static_cast<uint64>(offsets[2] + at * a.stride) : a.limit;
  }
  __device__ S value(int64 e) const {
    int64 offsets[3];
    a.geometry.find(e, offsets);
    return static_cast<const S*>(a.other)[offsets[1]];
  }
};

template <class S, int kMode, class Geometry>
__device__ void scatter_few(const LineArguments<Geometry>& a) {
  meet_few<S, kMode>(static_cast<S*>(a.lined), LineSource<S, Geometry>{a},
                     static_cast<int>(a.count), a.limit);
}

template <class S, class Place, class Geometry>
__device__ void scatter_places(const LineArguments<Geometry>& a) {
  write_places(static_cast<Place*>(a.places), static_cast<S*>(a.values),
               LineSource<S, Geometry>{a}, a.count);
}

template <class S, int kMode, class Geometry>
__device__ void scatter_in_any_order(const LineArguments<Geometry>& a) {
  meet_in_any_order<S, kMode>(static_cast<S*>(a.lined), LineSource<S, Geometry>{a}, a.count,
                              a.limit);
}
