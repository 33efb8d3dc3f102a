// uses: philox.cuh
//
// Draws of categories: a row of probabilities is a distribution, and has a stream of its own.
//
// With replacement a block sums a row up, and then a thread takes a draw: it searches the sums for a number.
// Without replacement clocks race, with the probabilities as their rates, and the order of arrival is the
// order of drawing. A few draws are found by looking for the next arrival; for more the arrivals are
// sorted (bitonic: pairs that change places lie ever closer).

struct MultinomialArguments {
  const double* p;
  int64* drawn;
  double* room;  // as many numbers as p has
  int64 rows, n, count;
  RandomSource source;
  uint64 counters_per_row;
  ErrorPlace errors;

  __device__ uint64 word(int64 row, int64 i) const {
    const uint64 counter = source.offset() + static_cast<uint64>(row) * counters_per_row;
    return philox(source.seed(), counter + static_cast<uint64>(i / 2)).wide(static_cast<int>(i % 2));
  }
};

constexpr int kRowThreads = 256;

// What is told of a row that is no distribution: see Note [Errors of kernels].
constexpr int64 kBadValue = 0, kZeroSum = 1;
__device__ inline bool is_probability(double p) { return p >= 0 && !::isinf(p); }

// The running sums of a row, in the room. A thread takes a run of them, and the runs are added one after the
// other: where a probability is zero the sum does not move, whatever is rounded.
__device__ inline void accumulate(const MultinomialArguments& a) {
  __shared__ double totals[kRowThreads];
  const int64 row = blockIdx.x, length = (a.n + kRowThreads - 1) / kRowThreads;
  const int64 begin = min(a.n, threadIdx.x * length), end = min(a.n, begin + length);
  const double* p = a.p + row * a.n;
  double* sums = a.room + row * a.n;
  double sum = 0;
  bool is_bad = false;
  for (int64 i = begin; i < end; ++i) {
    is_bad |= !is_probability(p[i]);
    sum += p[i];
  }
  totals[threadIdx.x] = sum;
  is_bad = __syncthreads_or(is_bad);
  if (threadIdx.x == 0) {
    double before = 0;
    for (double& total : totals) {
      const double own = total;
      total = before;
      before += own;
    }
    if (is_bad) a.errors.report(kBadValue);
    else if (!(before > 0)) a.errors.report(kZeroSum);
  }
  __syncthreads();
  const double before = totals[threadIdx.x];
  sum = 0;
  for (int64 i = begin; i < end; ++i) sums[i] = before + (sum += p[i]);
}

// The first of the sums that is above a number, or that reaches it.
template <bool kAbove>
__device__ inline int64 find_sum(const double* sums, int64 n, double u) {
  int64 low = 0, high = n;
  while (low < high) {
    const int64 middle = (low + high) / 2;
    const bool found = kAbove ? sums[middle] > u : sums[middle] >= u;
    if (found) high = middle;
    else low = middle + 1;
  }
  return low;
}

__device__ inline void draw_with_replacement(const MultinomialArguments& a) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.rows * a.count) return;
  const int64 row = i / a.count;
  const double* sums = a.room + row * a.n;
  const double total = sums[a.n - 1];
  const double share = static_cast<double>(a.word(row, i % a.count) >> 11) * 0x1p-53;
  int64 found = find_sum<true>(sums, a.n, share * total);
  // Rounding led beyond the last category with a chance.
  if (found == a.n) found = min(find_sum<false>(sums, a.n, total), a.n - 1);
  a.drawn[i] = found;
}

// ---- without replacement

// A time of arrival by its bits, which are ordered as the numbers are, then the category.
struct Arrival {
  uint64 time;
  int64 category;
  __device__ bool is_before(const Arrival& other) const {
    return time != other.time ? time < other.time : category < other.category;
  }
};

__device__ inline uint64 arrival_time(const MultinomialArguments& a, int64 row, int64 i) {
  const double u = (static_cast<double>(a.word(row, i) >> 12) + 0.5) * 0x1p-52;
  return static_cast<uint64>(__double_as_longlong(-::log(u) / a.p[row * a.n + i]));
}

__device__ inline Arrival earlier(Arrival a, Arrival b) { return b.is_before(a) ? b : a; }

// A block finds the draws of its row one by one.
__device__ inline void draw_few(const MultinomialArguments& a) {
  __shared__ Arrival of_warps[kRowThreads / 32];
  __shared__ Arrival last;
  const int64 row = blockIdx.x;
  auto* times = reinterpret_cast<uint64*>(a.room + row * a.n);
  for (int64 i = threadIdx.x; i < a.n; i += kRowThreads) times[i] = arrival_time(a, row, i);
  for (int64 draw = 0; draw < a.count; ++draw) {
    Arrival best{~0ull, a.n};
    for (int64 i = threadIdx.x; i < a.n; i += kRowThreads) {
      const Arrival each{times[i], i};
      if (draw == 0 || last.is_before(each)) best = earlier(best, each);
    }
    for (int distance = 16; distance > 0; distance /= 2)
      best = earlier(best, {__shfl_xor_sync(~0u, best.time, distance),
                            __shfl_xor_sync(~0u, best.category, distance)});
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (const Arrival& other : of_warps) best = earlier(best, other);
      last = best;
      a.drawn[row * a.count + draw] = best.category;
    }
    __syncthreads();
  }
}

struct RaceArguments {
  MultinomialArguments of;
  uint64* times;
  int64* categories;
  int64 length;  // a power of two, not less than n: what a row takes while it is sorted
};

__device__ inline void start_race(const RaceArguments& a) {
  const int64 at = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= a.of.rows * a.length) return;
  const int64 row = at / a.length, i = at % a.length;
  a.times[at] = i < a.of.n ? arrival_time(a.of, row, i) : ~0ull;
  a.categories[at] = i;
}

__device__ inline void finish_race(const RaceArguments& a) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.of.rows * a.of.count) return;
  a.of.drawn[i] = a.categories[i / a.of.count * a.length + i % a.of.count];
}

struct SortArguments {
  uint64* times;
  int64* categories;
  int64 length, pairs;
  int64 size, last_size;  // of the sequences that are merged
  int64 stride;           // between the two of a pair
  int tile;               // what a block sorts by itself
};

// Whether two that are in their order must change places. Every other sequence is sorted downwards.
__device__ inline bool must_swap(const Arrival& a, const Arrival& b, int64 place, int64 size) {
  return (place & size) == 0 ? b.is_before(a) : a.is_before(b);
}

// One step of a merge, over pairs that lie far apart.
__device__ inline void merge_far(const SortArguments& a) {
  const int64 pair = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (pair >= a.pairs) return;
  const int64 low = 2 * a.stride * (pair / a.stride) + pair % a.stride, high = low + a.stride;
  const Arrival first{a.times[low], a.categories[low]}, second{a.times[high], a.categories[high]};
  if (!must_swap(first, second, low & (a.length - 1), a.size)) return;
  a.times[low] = second.time;
  a.categories[low] = second.category;
  a.times[high] = first.time;
  a.categories[high] = first.category;
}

constexpr int kSortTile = 1024;

// The steps of merges over pairs that lie in one tile.
__device__ inline void merge_near(const SortArguments& a) {
  __shared__ Arrival tile[kSortTile];
  const int64 begin = static_cast<int64>(blockIdx.x) * a.tile;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int i = thread; i < a.tile; i += threads) tile[i] = {a.times[begin + i], a.categories[begin + i]};
  __syncthreads();
  for (int64 size = a.size; size <= a.last_size; size *= 2) {
    for (int stride = static_cast<int>(min(size, static_cast<int64>(a.tile)) / 2); stride > 0; stride /= 2) {
      for (int pair = thread; pair < a.tile / 2; pair += threads) {
        const int low = 2 * stride * (pair / stride) + pair % stride, high = low + stride;
        const Arrival first = tile[low], second = tile[high];
        if (must_swap(first, second, (begin + low) & (a.length - 1), size)) {
          tile[low] = second;
          tile[high] = first;
        }
      }
      __syncthreads();
    }
  }
  for (int i = thread; i < a.tile; i += threads) {
    a.times[begin + i] = tile[i].time;
    a.categories[begin + i] = tile[i].category;
  }
}
