// uses: block.cuh
// uses: keys.cuh
// The k first elements of long rows in their order, not yet sorted: by the digits of the k-th key, greatest digit
// first.
//
// Each select_count finds the digit that the counts of the launch before decide, and counts the next digit of the
// elements that agree so far. Then it is known below which key all elements are taken, and how many of those equal to it:
// the first ones. select_split counts both kinds in each chunk, select_write writes them in the order of the row.

struct SelectState {
  uint64 prefix;     // the digits that are known
  uint64 remaining;  // how many of the elements that agree with them are taken
};

struct SelectArguments {
  const void* x;
  unsigned* counts;     // [digit of the key][row][value], zeros at first
  SelectState* states;  // [digit of the key][row]
  unsigned* chunks;     // [row][chunk] below, then as many equal
  void* values;         // [row][k]
  unsigned* positions;
  int64 length, k;
  int64 chunk_length;
  int64 rows;
  int chunk_count;
  int pass;
  int descending;
};

inline constexpr int kSelectThreads = 256;
inline constexpr int kSelectPerThread = 8;
inline constexpr int kSelectTile = kSelectThreads * kSelectPerThread;

struct SelectChunk {
  int64 row, begin, end;
  int number;
  __device__ explicit SelectChunk(const SelectArguments& a)
      : row(blockIdx.x / a.chunk_count), number(blockIdx.x % a.chunk_count) {
    begin = number * a.chunk_length;
    end = begin + a.chunk_length < a.length ? begin + a.chunk_length : a.length;
  }
};

// What is known when the counts of the passes before `pass` are.
__device__ inline SelectState known_state(const SelectArguments& a, const SelectChunk& chunk, int pass) {
  if (pass == 0) return {0, static_cast<uint64>(a.k)};
  __shared__ SelectState found;
  const SelectState before =
      pass == 1 ? SelectState{0, static_cast<uint64>(a.k)} : a.states[(pass - 1) * a.rows + chunk.row];
  const unsigned count = a.counts[((pass - 1) * a.rows + chunk.row) * 256 + threadIdx.x];
  unsigned total;
  const unsigned smaller = scan_block_before<Plus>(count, 0u, total);
  if (smaller < before.remaining && before.remaining <= static_cast<uint64>(smaller) + count)
    found = {before.prefix << 8 | threadIdx.x, before.remaining - smaller};
  __syncthreads();
  if (chunk.number == 0 && threadIdx.x == 0) a.states[pass * a.rows + chunk.row] = found;
  return found;
}

template <class S>
__device__ void select_count(const SelectArguments& a) {
  using Bits = KeyBits<S>;
  constexpr int kWarps = kSelectThreads / 32;
  __shared__ unsigned counts[kWarps][256];
  const SelectChunk chunk(a);
  const int thread = threadIdx.x, warp = thread / 32;
  for (int w = 0; w < kWarps; ++w) counts[w][thread] = 0;
  const SelectState known = known_state(a, chunk, a.pass);
  __syncthreads();
  const int shift = 8 * (static_cast<int>(sizeof(Bits)) - 1 - a.pass);
  const Bits* x = static_cast<const Bits*>(a.x) + chunk.row * a.length;
  for (int64 first = chunk.begin; first < chunk.end; first += kSelectTile) {
    Bits loaded[kSelectPerThread];
#pragma unroll
    for (int i = 0; i < kSelectPerThread; ++i) {
      const int64 at = first + i * kSelectThreads + thread;
      loaded[i] = at < chunk.end ? x[at] : Bits(0);
    }
#pragma unroll
    for (int i = 0; i < kSelectPerThread; ++i) {
      const uint64 key = ordered<S>(loaded[i], a.descending);
      bool counted = first + i * kSelectThreads + thread < chunk.end;
      if (a.pass > 0) counted = counted && key >> (shift + 8) == known.prefix;
      if (counted) atomicAdd(&counts[warp][static_cast<unsigned>(key >> shift) & 255u], 1u);
    }
  }
  __syncthreads();
  unsigned count = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) count += counts[w][thread];
  if (count > 0) atomicAdd(&a.counts[(a.pass * a.rows + chunk.row) * 256 + thread], count);
}

template <class S>
__device__ void select_split(const SelectArguments& a) {
  using Bits = KeyBits<S>;
  const SelectChunk chunk(a);
  const uint64 limit = known_state(a, chunk, sizeof(Bits)).prefix;
  const Bits* x = static_cast<const Bits*>(a.x) + chunk.row * a.length;
  unsigned below = 0, equal = 0;
  for (int64 first = chunk.begin; first < chunk.end; first += kSelectTile) {
    Bits loaded[kSelectPerThread];
#pragma unroll
    for (int i = 0; i < kSelectPerThread; ++i) {
      const int64 at = first + i * kSelectThreads + threadIdx.x;
      if (at < chunk.end) loaded[i] = x[at];
    }
#pragma unroll
    for (int i = 0; i < kSelectPerThread; ++i) {
      if (first + i * kSelectThreads + threadIdx.x >= chunk.end) continue;
      const uint64 key = ordered<S>(loaded[i], a.descending);
      below += key < limit;
      equal += key == limit;
    }
  }
  below = sum_of_block(below);
  equal = sum_of_block(equal);
  if (threadIdx.x != 0) return;
  a.chunks[blockIdx.x] = below;
  a.chunks[a.rows * a.chunk_count + blockIdx.x] = equal;
}

// How many there are in the chunks of the row before this one.
__device__ inline int64 in_chunks_before(const unsigned* counts, const SelectArguments& a,
                                         const SelectChunk& chunk) {
  int64 sum = 0;
  for (int c = threadIdx.x; c < chunk.number; c += kSelectThreads)
    sum += counts[chunk.row * a.chunk_count + c];
  return sum_of_block(sum);
}

template <class S>
__device__ void select_write(const SelectArguments& a) {
  using Bits = KeyBits<S>;
  const SelectChunk chunk(a);
  const SelectState known = a.states[sizeof(Bits) * a.rows + chunk.row];
  const Bits* x = static_cast<const Bits*>(a.x) + chunk.row * a.length;
  Bits* values = static_cast<Bits*>(a.values) + chunk.row * a.k;
  unsigned* positions = a.positions + chunk.row * a.k;
  int64 below = in_chunks_before(a.chunks, a, chunk);
  int64 equal = in_chunks_before(a.chunks + a.rows * a.chunk_count, a, chunk);
  const int64 equal_start = a.k - static_cast<int64>(known.remaining);
  for (int64 first = chunk.begin; first < chunk.end; first += kSelectTile) {
    Bits bits[kSelectPerThread];
    unsigned kinds[kSelectPerThread];  // 1: below, 1 << 16: equal
    unsigned any = 0;
#pragma unroll
    for (int i = 0; i < kSelectPerThread; ++i) {
      const int64 at = first + i * kSelectThreads + threadIdx.x;
      bits[i] = at < chunk.end ? x[at] : Bits(0);
    }
#pragma unroll
    for (int i = 0; i < kSelectPerThread; ++i) {
      const uint64 key = ordered<S>(bits[i], a.descending);
      kinds[i] = key < known.prefix ? 1u : key == known.prefix ? 1u << 16 : 0;
      if (first + i * kSelectThreads + threadIdx.x >= chunk.end) kinds[i] = 0;
      any |= kinds[i];
    }
    // Most tiles have nothing to be taken.
    if (!__syncthreads_or(any != 0)) continue;
#pragma unroll
    for (int i = 0; i < kSelectPerThread; ++i) {
      unsigned total;
      const unsigned before = scan_block_before<Plus>(kinds[i], 0u, total);
      int64 to = a.k;
      if (kinds[i] == 1) to = below + (before & 0xffffu);
      if (kinds[i] == 1u << 16) to = equal_start + equal + (before >> 16);
      if (to < a.k) {
        values[to] = bits[i];
        positions[to] = static_cast<unsigned>(first + i * kSelectThreads + threadIdx.x);
      }
      below += total & 0xffffu;
      equal += total >> 16;
    }
  }
}
