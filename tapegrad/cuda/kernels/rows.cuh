// uses: block.cuh
// Rows that are held in registers while something is found out about them: read once, written once.
//
// A row belongs to a warp, or to a block. Thread t of n holds the pieces t, t + n, t + 2n, ... of kWidth
// elements each, kItems of them; what lies behind the end of the row is filled up.

template <bool kByWarp>
struct Group {
  __device__ static int64 number() {
    if constexpr (kByWarp) return int64(blockIdx.x) * (blockDim.x / kWarp) + warp_number();
    else return blockIdx.x;
  }
  __device__ static int64 count() {
    return kByWarp ? int64(gridDim.x) * (blockDim.x / kWarp) : gridDim.x;
  }
  __device__ static int lane() { return kByWarp ? lane_number() : threadIdx.x; }
  __device__ static int lanes() { return kByWarp ? kWarp : blockDim.x; }

  template <class Rule, class T>
  __device__ static T reduce(T value, T identity) {
    if constexpr (kByWarp) return reduce_warp<Rule>(value);
    else return reduce_block<Rule>(value, identity);
  }
  template <class T>
  __device__ static T sum(T value) {
    return reduce<Plus>(value, T(0));
  }
};

template <class S, bool kByWarp, int kWidth, int kItems>
struct RowInRegisters {
  using A = typename Storage<S>::Compute;
  using Owner = Group<kByWarp>;
  static constexpr int kCount = kWidth * kItems;

  A values[kCount];

  // The number of the first element of an item.
  __device__ static int64 first(int item) {
    return (int64(item) * Owner::lanes() + Owner::lane()) * kWidth;
  }
  // Of type S, or of another that is computed with in the same type.
  template <class F>
  __device__ void load(const F* row, int64 length, A fill) {
    Vector<F, kWidth> pieces[kItems];
#pragma unroll
    for (int u = 0; u < kItems; ++u)
      if (first(u) < length) pieces[u] = *reinterpret_cast<const Vector<F, kWidth>*>(row + first(u));
#pragma unroll
    for (int u = 0; u < kItems; ++u)
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        values[u * kWidth + k] =
            first(u) < length ? Storage<F>::load(pieces[u].elements[k]) : fill;
  }
  template <class F>
  __device__ void store(F* row, int64 length) const {
#pragma unroll
    for (int u = 0; u < kItems; ++u) {
      if (first(u) >= length) continue;
      Vector<F, kWidth> piece;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) piece.elements[k] = Storage<F>::store(values[u * kWidth + k]);
      *reinterpret_cast<Vector<F, kWidth>*>(row + first(u)) = piece;
    }
  }
  // As they are, 16 bytes at a time.
  __device__ void store_values(A* row, int64 length) const {
    constexpr int kPart = kWidth * int(sizeof(A)) > 16 ? 16 / int(sizeof(A)) : kWidth;
#pragma unroll
    for (int u = 0; u < kItems; ++u) {
      if (first(u) >= length) continue;
#pragma unroll
      for (int k = 0; k < kWidth; k += kPart) {
        Vector<A, kPart> part;
#pragma unroll
        for (int j = 0; j < kPart; ++j) part.elements[j] = values[u * kWidth + k + j];
        *reinterpret_cast<Vector<A, kPart>*>(row + first(u) + k) = part;
      }
    }
  }
};
