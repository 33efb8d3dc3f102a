// uses: block.cuh
// Sums of everything up to an element, of int64 numbers: repeats, and rows that differ from the one before. Smallest,
// largest and total of int64 numbers.
//
// Sums of tiles, then sums of those before each tile, then all sums. One tile needs the last of the three only.

inline constexpr int kPrefixThreads = 256;
inline constexpr int kPrefixPerThread = 8;
inline constexpr int kPrefixTile = kPrefixThreads * kPrefixPerThread;

struct PrefixArguments {
  int64 count;
  const void* x;
  int64 columns;  // of rows
  int64* tiles;   // null where there is one
  int64* out;
};

struct Repeats {
  __device__ static int64 load(const PrefixArguments& a, int64 at) {
    return static_cast<const int64*>(a.x)[at];
  }
};

// Whether a row is not equal to the one before. NaN is not equal to itself.
template <class S>
struct Changes {
  __device__ static int64 load(const PrefixArguments& a, int64 at) {
    if (at == 0) return 0;
    const S* row = static_cast<const S*>(a.x) + at * a.columns;
    for (int64 c = 0; c < a.columns; ++c)
      if (Storage<S>::load(row[c]) != Storage<S>::load(row[c - a.columns])) return 1;
    return 0;
  }
};

template <class Numbers>
__device__ inline int64 sum_of_thread(const PrefixArguments& a, int64 (&numbers)[kPrefixPerThread]) {
  const int64 first =
      static_cast<int64>(blockIdx.x) * kPrefixTile + threadIdx.x * kPrefixPerThread;
  int64 sum = 0;
#pragma unroll
  for (int i = 0; i < kPrefixPerThread; ++i) {
    numbers[i] = first + i < a.count ? Numbers::load(a, first + i) : 0;
    sum += numbers[i];
  }
  return sum;
}

template <class Numbers>
__device__ void prefix_tiles(const PrefixArguments& a) {
  int64 numbers[kPrefixPerThread];
  const int64 sum = sum_of_block(sum_of_thread<Numbers>(a, numbers));
  if (threadIdx.x == 0) a.tiles[blockIdx.x] = sum;
}

// One block, for `count` tiles.
__device__ inline void prefix_of_tiles(const PrefixArguments& a) {
  int64 before = 0;
  for (int64 first = 0; first < a.count; first += kPrefixThreads) {
    const int64 at = first + threadIdx.x;
    const int64 sum = at < a.count ? a.tiles[at] : 0;
    int64 total;
    const int64 inside = scan_block_before<Plus>(sum, int64(0), total);
    if (at < a.count) a.tiles[at] = before + inside;
    before += total;
  }
}

template <class Numbers>
__device__ void prefix(const PrefixArguments& a) {
  int64 numbers[kPrefixPerThread], total;
  const int64 sum = sum_of_thread<Numbers>(a, numbers);
  int64 running = scan_block_before<Plus>(sum, int64(0), total);
  if (a.tiles) running += a.tiles[blockIdx.x];
  const int64 first =
      static_cast<int64>(blockIdx.x) * kPrefixTile + threadIdx.x * kPrefixPerThread;
#pragma unroll
  for (int i = 0; i < kPrefixPerThread; ++i) {
    running += numbers[i];
    if (first + i < a.count) a.out[first + i] = running;
  }
}

// ---- where the runs of sorted numbers begin, and at last where the last one ends

struct RunArguments {
  int64 count;
  const int64* numbers;
  int64* starts;
  int64 runs;
};

__device__ inline void run_starts(const RunArguments& a) {
  const int64 at = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at < a.count && (at == 0 || a.numbers[at] != a.numbers[at - 1])) a.starts[a.numbers[at]] = at;
  if (at == a.count) a.starts[a.runs] = a.count;
}

// ---- smallest, largest, total: of blocks, and then of what the blocks found

struct WholeArguments {
  int64 count;
  const int64* a;
  const int64* b;
  int64* out_a;
  int64* out_b;
};

// -1 where a number is negative; what cannot be counted is the largest number there is.
struct Total {
  __device__ static int64 combine(int64 x, int64 y) {
    if (x < 0 || y < 0) return -1;
    const int64 sum = static_cast<int64>(static_cast<uint64>(x) + static_cast<uint64>(y));
    return sum < 0 ? highest_number<int64>() : sum;
  }
};

template <class A, class B>
__device__ inline void whole(const WholeArguments& a, int64 start_a, int64 start_b) {
  int64 found_a = start_a, found_b = start_b;
  const int64 stride = static_cast<int64>(gridDim.x) * blockDim.x;
  for (int64 at = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; at < a.count; at += stride) {
    found_a = A::combine(found_a, a.a[at]);
    found_b = B::combine(found_b, a.b[at]);
  }
  found_a = reduce_block<A>(found_a, start_a);
  found_b = reduce_block<B>(found_b, start_b);
  if (threadIdx.x != 0) return;
  a.out_a[blockIdx.x] = found_a;
  a.out_b[blockIdx.x] = found_b;
}
__device__ inline void bounds(const WholeArguments& a) {
  whole<Smaller, Larger>(a, highest_number<int64>(), lowest_number<int64>());
}
__device__ inline void total_repeats(const WholeArguments& a) { whole<Total, Total>(a, 0, 0); }
