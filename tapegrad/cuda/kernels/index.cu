// uses: meet.cuh
// Reading and writing blocks at indexed places.
//
// The indexed tensor has its dimensions in the order [before, indexed, after]. An index tuple names the start of a
// block (the dimensions after), once for each step of the dimensions before; the other operand is contiguous with
// shape [before, tuples, after].

struct IndexColumn {
  const int64* data;
  int64 size;
  int64 stride;
  int64 wrap;  // added to a negative index: the size, or 0 where those are illegal
  ErrorPlace errors;

  // The index of a tuple; -1 where it is out of range, which is told: see Note [Errors of kernels].
  __device__ int64 index(int64 tuple) const {
    const int64 given = data[tuple], at = given < 0 ? given + wrap : given;
    if (at >= 0 && at < size) return at;
    errors.report(given);
    return -1;
  }
};

template <int kColumns>
struct IndexColumns {
  IndexColumn columns[kColumns];

  // Where a tuple points to; -1 where it is out of range.
  __device__ int64 offset(int64 tuple) const {
    int64 offset = 0;
    bool inside = true;
#pragma unroll
    for (const IndexColumn& column : columns) {
      const int64 at = column.index(tuple);
      inside &= at >= 0;
      offset += at * column.stride;
    }
    return inside ? offset : -1;
  }
  // The same as a number below the product of the sizes.
  __device__ uint64 number(int64 tuple, uint64 limit) const {
    uint64 number = 0;
    bool inside = true;
#pragma unroll
    for (const IndexColumn& column : columns) {
      const int64 at = column.index(tuple);
      inside &= at >= 0;
      number = number * column.size + at;
    }
    return inside ? number : limit;
  }
};

// From a number to a quotient and a rest.
struct NarrowSplit {
  Divisor size;
  __device__ void operator()(int64 n, int64& quotient, int64& rest) const {
    const unsigned q = size.divide(static_cast<unsigned>(n));
    rest = static_cast<unsigned>(n) - q * size.size;
    quotient = q;
  }
};
struct WideSplit {
  int64 size;
  __device__ void operator()(int64 n, int64& quotient, int64& rest) const {
    quotient = n / size;
    rest = n - quotient * size;
  }
};

template <class Split, int kColumns, class Before, class After>
struct IndexArguments {
  int64 count;  // elements of [before, tuples, after]
  Split block, tuples;
  Before before;
  After after;
  IndexColumns<kColumns> columns;
  void* x;
  void* other;
  int64 tuple_count;
  int64 block_size;
  uint64 limit;  // more than any place, or than any number of a tuple
  void* places;
  void* values;
  int64 is_constant;  // the other operand is one element

  __device__ int64 offset_of_step(int64 step) const {
    int64 offsets[1];
    before.find(step, offsets);
    return offsets[0];
  }
  __device__ int64 offset_in_block(int64 at) const {
    int64 offsets[1];
    after.find(at, offsets);
    return offsets[0];
  }
};

template <class Unit, class Arguments>
__device__ void index_read(const Arguments& a) {
  constexpr int kPerThread = 4;
  const int64 first = static_cast<int64>(blockIdx.x) * (blockDim.x * kPerThread) + threadIdx.x;
  int64 from[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64 e = first + i * blockDim.x;
    from[i] = -1;
    if (e >= a.count) continue;
    int64 row, at, step, tuple;
    a.block(e, row, at);
    a.tuples(row, step, tuple);
    const int64 start = a.columns.offset(tuple);
    if (start >= 0) from[i] = start + a.offset_of_step(step) + a.offset_in_block(at);
  }
  Unit value[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i)
    if (from[i] >= 0) value[i] = static_cast<const Unit*>(a.x)[from[i]];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i)
    if (from[i] >= 0) static_cast<Unit*>(a.other)[first + i * blockDim.x] = value[i];
}

// ---- writing with few tuples: each block finds out which of them are equal

inline constexpr int kFewTuples = 256;  // and as many threads
inline constexpr int kWrittenPerThread = 16;

// Of equal tuples the first is done, and goes along a chain of the others.
struct TupleChains {
  uint64 numbers[kFewTuples];
  int next[kFewTuples];  // -1: no further one
  bool is_first[kFewTuples];

  template <class Arguments>
  __device__ void find(const Arguments& a) {
    const int own = threadIdx.x, count = static_cast<int>(a.tuple_count);
    if (own < count) numbers[own] = a.columns.number(own, a.limit);
    __syncthreads();
    if (own < count) {
      int follower = -1;
      bool first = numbers[own] != a.limit;
      for (int other = 0; other < count; ++other) {
        if (numbers[other] != numbers[own]) continue;
        if (other < own) first = false;
        if (other > own && follower < 0) follower = other;
      }
      next[own] = follower;
      is_first[own] = first;
    }
    __syncthreads();
  }
};

template <class S, int kMode, class Arguments>
__device__ void index_write_few(const Arguments& a) {
  using M = Meet<S, kMode>;
  __shared__ TupleChains chains;
  chains.find(a);
  const S* values = static_cast<const S*>(a.other);
  const int64 first = static_cast<int64>(blockIdx.x) * kFewTuples * kWrittenPerThread + threadIdx.x;
  for (int i = 0; i < kWrittenPerThread; ++i) {
    const int64 e = first + i * kFewTuples;
    if (e >= a.count) break;
    int64 row, at, step, tuple;
    a.block(e, row, at);
    a.tuples(row, step, tuple);
    if (!chains.is_first[tuple]) continue;
    auto value = Storage<S>::load(values[a.is_constant ? 0 : e]);
    for (int other = chains.next[tuple]; other >= 0; other = chains.next[other]) {
      const int64 there = e + (other - tuple) * a.block_size;
      value = M::combine(value, Storage<S>::load(values[a.is_constant ? 0 : there]));
    }
    const int64 place = a.columns.offset(tuple) + a.offset_of_step(step) + a.offset_in_block(at);
    M::apply(static_cast<S*>(a.x)[place], value);
  }
}

// ---- writing small blocks: element by element, see meet.cuh

template <class S, class Arguments>
struct TupleSource {
  const Arguments& a;
  __device__ uint64 place(int64 e) const {
    int64 row, at, step, tuple;
    a.block(e, row, at);
    a.tuples(row, step, tuple);
    const int64 start = a.columns.offset(tuple);
    if (start < 0) return a.limit;
    return static_cast<uint64>(start + a.offset_of_step(step) + a.offset_in_block(at));
  }
  __device__ S value(int64 e) const {
    return static_cast<const S*>(a.other)[a.is_constant ? 0 : e];
  }
};

template <class S, class Place, class Arguments>
__device__ void index_places(const Arguments& a) {
  write_places(static_cast<Place*>(a.places), static_cast<S*>(a.values),
               TupleSource<S, Arguments>{a}, a.count);
}

template <class S, int kMode, class Arguments>
__device__ void index_in_any_order(const Arguments& a) {
  meet_in_any_order<S, kMode>(static_cast<S*>(a.x), TupleSource<S, Arguments>{a}, a.count, a.limit);
}

// ---- writing large blocks: tuples are sorted by their numbers

template <class Place, class Arguments>
__device__ void index_numbers(const Arguments& a) {
  const int64 tuple = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (tuple < a.tuple_count)
    static_cast<Place*>(a.places)[tuple] =
        static_cast<Place>(a.columns.number(tuple, a.limit));
}

inline constexpr int kRowWarps = 8;
inline constexpr int kShortRun = 32;

// How many of the sorted numbers from `start` on are equal.
template <class Place>
__device__ inline int64 run_length(const Place* numbers, int64 start, int64 count) {
  const Place number = numbers[start];
  const int64 at = start + threadIdx.x % 32;
  const unsigned equal = __ballot_sync(~0u, at < count && numbers[at] == number);
  if (equal != ~0u) return __ffs(~equal) - 1;
  int64 low = start + 31, high = count - 1;  // the last equal one
  while (low < high) {
    const int64 middle = low + (high - low + 1) / 2;
    if (numbers[middle] == number) low = middle;
    else high = middle - 1;
  }
  return low - start + 1;
}

// A vector of the columns of a block, summed over tuples [begin, end) of the sorted order.
template <class S, int kMode, int kWidth>
struct RowSum {
  using M = Meet<S, kMode>;
  using T = typename M::T;
  T values[kWidth];

  template <class Arguments>
  __device__ void add(const Arguments& a, int64 begin, int64 end, int64 first_row, int64 column) {
    constexpr int kAtOnce = 4;
    const unsigned* tuples = static_cast<const unsigned*>(a.values);
    if constexpr (kMode == kSet) begin = end - 1;
    for (int64 next = begin; next < end; next += kAtOnce) {
      Vector<S, kWidth> loaded[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (next + i < end) loaded[i] = load(a, first_row + tuples[next + i], column);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (next + i < end) take(loaded[i], next + i == begin);
    }
  }
  template <class Arguments>
  __device__ static Vector<S, kWidth> load(const Arguments& a, int64 row, int64 column) {
    const S* from = static_cast<const S*>(a.other);
    if (!a.is_constant)
      return *reinterpret_cast<const Vector<S, kWidth>*>(from + row * a.block_size + column);
    Vector<S, kWidth> constant;
#pragma unroll
    for (S& element : constant.elements) element = *from;
    return constant;
  }
  __device__ void take(const Vector<S, kWidth>& loaded, bool is_first) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const T value = Storage<S>::load(loaded.elements[j]);
      values[j] = is_first ? value : M::combine(values[j], value);
    }
  }
  template <class Arguments>
  __device__ void apply(const Arguments& a, int64 tuple, int64 step, int64 column) const {
    S* to = static_cast<S*>(a.x) + a.columns.offset(tuple) + a.offset_of_step(step) +
            a.offset_in_block(column);
    auto& place = *reinterpret_cast<Vector<S, kWidth>*>(to);
    Vector<S, kWidth> elements = place;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) M::apply(elements.elements[j], values[j]);
    place = elements;
  }
};

// A warp for each place in the sorted order; those with the first of equal tuples work. Runs of many are summed
// by the whole block. Blocks are numbered [step][columns][places].
template <class S, int kMode, class Place, int kWidth, class Arguments>
__device__ void index_rows(const Arguments& a) {
  using Sum = RowSum<S, kMode, kWidth>;
  __shared__ Sum parts[kRowWarps][32];
  __shared__ int64 long_runs[kRowWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64 place_blocks = (a.tuple_count + kRowWarps - 1) / kRowWarps;
  const int64 column_blocks = (a.block_size + 32 * kWidth - 1) / (32 * kWidth);
  const int64 outer = blockIdx.x / place_blocks;
  const int64 step = outer / column_blocks;
  const int64 column = (outer % column_blocks * 32 + lane) * kWidth;
  const int64 first = blockIdx.x % place_blocks * kRowWarps, own = first + warp;
  const int64 first_row = step * a.tuple_count;
  const Place* numbers = static_cast<const Place*>(a.places);
  const unsigned* tuples = static_cast<const unsigned*>(a.values);

  int64 length = 0;  // of the run that the warp has the first of
  if (own < a.tuple_count && numbers[own] != a.limit &&
      (own == 0 || numbers[own - 1] != numbers[own]))
    length = run_length(numbers, own, a.tuple_count);
  if (lane == 0) long_runs[warp] = length > kShortRun ? length : 0;
  if (length > 0 && length <= kShortRun && column < a.block_size) {
    Sum sum;
    sum.add(a, own, own + length, first_row, column);
    sum.apply(a, tuples[own], step, column);
  }
  __syncthreads();
  for (int w = 0; w < kRowWarps; ++w) {
    const int64 run = long_runs[w], start = first + w;
    if (run == 0) continue;
    if (column < a.block_size)
      parts[warp][lane].add(a, start + run * warp / kRowWarps, start + run * (warp + 1) / kRowWarps,
                            first_row, column);
    __syncthreads();
    if (warp == 0 && column < a.block_size) {
      Sum sum = parts[0][lane];
#pragma unroll
      for (int part = 1; part < kRowWarps; ++part)
#pragma unroll
        for (int j = 0; j < kWidth; ++j)
          sum.values[j] = Meet<S, kMode>::combine(sum.values[j], parts[part][lane].values[j]);
      sum.apply(a, tuples[start], step, column);
    }
    __syncthreads();
  }
}
