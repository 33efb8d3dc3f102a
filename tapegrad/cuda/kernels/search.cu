// Binary search in sorted rows, and counting.

struct SearchArguments {
  int64 count;
  const void* sequence;
  const void* values;
  const int64* order;  // what sorts the rows, or null
  void* out;
  int64 length;   // of a row
  int64 per_row;  // values of a row
  int64 right;
};

template <class S, class Place>
__device__ void searchsorted(const SearchArguments& a) {
  const int64 at = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= a.count) return;
  const int64 first = at / a.per_row * a.length;
  const S* sequence = static_cast<const S*>(a.sequence) + first;
  const auto value = Storage<S>::load(static_cast<const S*>(a.values)[at]);
  int64 begin = 0, end = a.length;
  while (begin < end) {
    const int64 middle = begin + (end - begin) / 2;
    const auto element = Storage<S>::load(sequence[a.order ? a.order[first + middle] : middle]);
    // Negated, so that NaN, which compares with nothing, ends up behind everything.
    const bool below = a.right ? !(element > value) : !(element >= value);
    if (below) begin = middle + 1;
    else end = middle;
  }
  static_cast<Place*>(a.out)[at] = static_cast<Place>(begin);
}

struct CountArguments {
  int64 count;
  const int64* places;
  uint64* counts;
};

// Whole numbers: the order does not matter.
__device__ inline void bincount(const CountArguments& a) {
  const int64 stride = static_cast<int64>(gridDim.x) * blockDim.x;
  for (int64 at = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; at < a.count; at += stride)
    atomicAdd(a.counts + a.places[at], 1ull);
}
