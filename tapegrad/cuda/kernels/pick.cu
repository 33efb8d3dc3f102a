// uses: block.cuh
// uses: keys.cuh
// What is wanted of sorted rows; a column of a matrix in an order.

struct PickArguments {
  const void* sorted;
  const int64* positions;
  void* values;
  int64* indices;
  int64 rows, length;
  int64 out_length, first;
};

template <class Bits>
__device__ inline void pick(const PickArguments& a, int64 to, int64 from) {
  static_cast<Bits*>(a.values)[to] = static_cast<const Bits*>(a.sorted)[from];
  a.indices[to] = a.positions[from];
}

template <class Bits>
__device__ void pick_range(const PickArguments& a) {
  const int64 out = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (out >= a.rows * a.out_length) return;
  const int64 row = out / a.out_length;
  pick<Bits>(a, out, row * a.length + a.first + out - row * a.out_length);
}

// The first of sorted keys [begin, end) that is not below a key.
template <class S>
__device__ inline int64 lower_place(const KeyBits<S>* row, int64 begin, int64 end, KeyBits<S> key) {
  while (begin < end) {
    const int64 middle = begin + (end - begin) / 2;
    if (ordered<S>(row[middle], false) < key) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

// The lower median; the first NaN where there is one.
template <class S>
__device__ void pick_median(const PickArguments& a) {
  const int64 row = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= a.rows) return;
  const KeyBits<S>* sorted = static_cast<const KeyBits<S>*>(a.sorted) + row * a.length;
  int64 at = (a.length - 1) / 2;
  const KeyBits<S> nan = static_cast<KeyBits<S>>(~KeyBits<S>(0));
  if (kInfinityBits<S> != 0 && ordered<S>(sorted[a.length - 1], false) == nan)
    at = lower_place<S>(sorted, 0, a.length - 1, nan);
  pick<KeyBits<S>>(a, row, row * a.length + at);
}

// A run of equal elements: how long it is, and where it ends.
struct Run {
  int64 length, last;
};
struct LongerRun {
  __device__ static Run combine(Run a, Run b) {
    return b.length > a.length || (b.length == a.length && b.last < a.last) ? b : a;
  }
};

// The last of the longest run; of several that long, the first. A block for each row.
template <class S>
__device__ void pick_mode(const PickArguments& a) {
  const int64 row = blockIdx.x;
  const KeyBits<S>* sorted = static_cast<const KeyBits<S>*>(a.sorted) + row * a.length;
  Run longest{0, 0};
  for (int64 at = threadIdx.x; at < a.length; at += blockDim.x) {
    const KeyBits<S> key = ordered<S>(sorted[at], false);
    if (at + 1 < a.length && ordered<S>(sorted[at + 1], false) == key) continue;
    longest = LongerRun::combine(longest, {at - lower_place<S>(sorted, 0, at, key) + 1, at});
  }
  longest = reduce_block<LongerRun>(longest, Run{0, 0});
  if (threadIdx.x == 0) pick<KeyBits<S>>(a, row, row * a.length + longest.last);
}

struct ColumnArguments {
  int64 count;
  const void* x;
  const unsigned* order;  // null: as they lie
  void* out;
  int64 columns, column;
};

template <class Bits>
__device__ void take_column(const ColumnArguments& a) {
  const int64 at = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= a.count) return;
  const int64 row = a.order ? a.order[at] : at;
  static_cast<Bits*>(a.out)[at] = static_cast<const Bits*>(a.x)[row * a.columns + a.column];
}
