// The neighbours of 16-bit floats: one step in their own format (Num's nextafter).

struct NeighbourArguments {
  int64 count;
  void* out;
  const void *a, *b;
};

template <class S>
__device__ void neighbours(const NeighbourArguments& a) {
  constexpr int kPerThread = 4;
  const int64 first = static_cast<int64>(blockIdx.x) * blockDim.x * kPerThread + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64 i = first + static_cast<int64>(k) * blockDim.x;
    if (i >= a.count) return;
    const Num<S> x = Storage<S>::load(static_cast<const S*>(a.a)[i]);
    const Num<S> y = Storage<S>::load(static_cast<const S*>(a.b)[i]);
    static_cast<S*>(a.out)[i] = Storage<S>::store(nextafter(x, y).v);
  }
}
