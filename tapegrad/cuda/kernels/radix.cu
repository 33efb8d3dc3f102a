// uses: block.cuh
// uses: keys.cuh
// Stable sorting of long rows by radix, least digit first, eight bits at a time.
//
// A pass is made of three kernels. The row is cut into chunks, one for each block. radix_count counts the digits of each
// chunk; radix_scan adds the counts of one digit up over the chunks (where there are few of them the
// next kernel does that by itself); radix_move takes its chunk tile by tile: it ranks the elements of the
// tile by their digits, brings them into that order in shared memory, and writes them from there, so that neighbours in the
// output are written together.
//
// Keys are moved as they are: what orders them is computed for each digit (keys.cuh). So what a key does not
// tell apart (the two zeros, NaNs) comes back unchanged.

inline constexpr int kRadixDigits = 256;
inline constexpr int kRadixThreads = 512;  // that count or move a chunk
inline constexpr int kRadixWarps = kRadixThreads / 32;
inline constexpr int kFewChunks = 32;

struct RadixArguments {
  const void* keys;
  const void* items;  // what goes with the keys; null in a first pass that numbers them
  void* keys_out;
  void* items_out;
  unsigned* counts;  // [row][chunk][digit]; behind a scan what comes before the chunk
  unsigned* totals;  // [row][digit]
  int64 length;      // of a row
  int64 chunk_length;
  int chunks;  // of a row
  int shift;
  int descending;
};

// The lanes of the warp with the same digit. `masks` has a word for each digit, all zero before and, when the first of the
// lanes has cleared its word, behind.
__device__ inline unsigned lanes_with(unsigned digit, unsigned* masks) {
  atomicOr(&masks[digit], 1u << threadIdx.x % 32);
  __syncwarp();
  const unsigned lanes = masks[digit];
  __syncwarp();
  return lanes;
}

template <class S>
__device__ inline unsigned digit_of(KeyBits<S> bits, const RadixArguments& a) {
  return static_cast<unsigned>(ordered<S>(bits, a.descending) >> a.shift) & 255u;
}

// The elements of a block: of which row, and from where to where in it.
struct RadixChunk {
  int64 row, begin, end;
  int number;
  __device__ explicit RadixChunk(const RadixArguments& a)
      : row(blockIdx.x / a.chunks), number(blockIdx.x % a.chunks) {
    begin = number * a.chunk_length;
    end = begin + a.chunk_length < a.length ? begin + a.chunk_length : a.length;
  }
};

template <class S>
__device__ void radix_count(const RadixArguments& a) {
  constexpr int kAtOnce = 8;
  __shared__ unsigned counts[kRadixWarps][256];
  const RadixChunk chunk(a);
  const int thread = threadIdx.x, warp = thread / 32;
  for (int k = thread; k < kRadixWarps * 256; k += kRadixThreads) counts[k / 256][k % 256] = 0;
  __syncthreads();
  const KeyBits<S>* keys = static_cast<const KeyBits<S>*>(a.keys) + chunk.row * a.length;
  for (int64 first = chunk.begin; first < chunk.end; first += kRadixThreads * kAtOnce) {
    KeyBits<S> loaded[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64 at = first + i * kRadixThreads + thread;
      loaded[i] = at < chunk.end ? keys[at] : KeyBits<S>(0);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * kRadixThreads + thread >= chunk.end) break;
      atomicAdd(&counts[warp][digit_of<S>(loaded[i], a)], 1u);
    }
  }
  __syncthreads();
  if (thread >= kRadixDigits) return;
  unsigned count = 0;
#pragma unroll
  for (int w = 0; w < kRadixWarps; ++w) count += counts[w][thread];
  a.counts[static_cast<int64>(blockIdx.x) * 256 + thread] = count;
}

// One block for each digit of each row.
__device__ inline void radix_scan(const RadixArguments& a) {
  const int64 row = blockIdx.x / 256;
  const int digit = blockIdx.x % 256;
  unsigned* counts = a.counts + row * a.chunks * 256 + digit;
  unsigned before = 0;
  for (int first = 0; first < a.chunks; first += blockDim.x) {
    const int chunk = first + threadIdx.x;
    const unsigned count = chunk < a.chunks ? counts[static_cast<int64>(chunk) * 256] : 0;
    unsigned total;
    const unsigned sum = scan_block_before<Plus>(count, 0u, total);
    if (chunk < a.chunks) counts[static_cast<int64>(chunk) * 256] = before + sum;
    before += total;
  }
  if (threadIdx.x == 0) a.totals[blockIdx.x] = before;
}

// Where the chunk's elements with the thread's digit go to in the row; threads beyond the digits have none.
__device__ inline unsigned radix_start(const RadixArguments& a, const RadixChunk& chunk) {
  const int digit = threadIdx.x;
  unsigned before = 0, total = 0;
  if (digit >= kRadixDigits) {
  } else if (a.chunks > kFewChunks) {
    before = a.counts[static_cast<int64>(blockIdx.x) * 256 + digit];
    total = a.totals[chunk.row * 256 + digit];
  } else {
    for (int c = 0; c < a.chunks; ++c) {
      if (c == chunk.number) before = total;
      total += a.counts[(chunk.row * a.chunks + c) * 256 + digit];
    }
  }
  unsigned all;
  return scan_block_before<Plus>(total, 0u, all) + before;
}

// The items of a first pass: the numbers of the elements.
struct Numbered {};

template <class S, class ItemIn, class ItemOut>
__device__ void radix_move(const RadixArguments& a) {
  constexpr bool kNumbers = kSame<ItemIn, Numbered>;
  using Bits = KeyBits<S>;
  using Item = typename Choose<kNumbers, unsigned, ItemIn>::type;
  constexpr int kLarger = sizeof(Bits) > sizeof(Item) ? sizeof(Bits) : sizeof(Item);
  constexpr int kPerThread = kLarger <= 4 ? 12 : 6;  // as in csrc/cuda/radix.cpp
  constexpr int kTile = kRadixThreads * kPerThread;
  __shared__ unsigned counts[kRadixWarps][256];
  __shared__ unsigned shifts[256];  // from places in the tile to places in the row
  // The tile in its new order, the keys and behind them the items; while it is ranked, the masks of the warps.
  TAPEGRAD_SHARED_BYTES(memory);

  const RadixChunk chunk(a);
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  unsigned* masks = reinterpret_cast<unsigned*>(memory) + warp * 256;
  Bits* sorted_keys = reinterpret_cast<Bits*>(memory);
  Item* sorted_items = reinterpret_cast<Item*>(memory + kTile * sizeof(Bits));
  const int64 row_start = chunk.row * a.length;
  const Bits* keys = static_cast<const Bits*>(a.keys) + row_start;
  Bits* keys_out = static_cast<Bits*>(a.keys_out) + row_start;
  ItemOut* items_out = static_cast<ItemOut*>(a.items_out) + row_start;
  unsigned next = radix_start(a, chunk);

  for (int64 tile = chunk.begin; tile < chunk.end; tile += kTile) {
    const int valid = chunk.end - tile < kTile ? static_cast<int>(chunk.end - tile) : kTile;
    Bits key[kPerThread];
    unsigned ranked[kPerThread];  // the digit, and below it the rank among equal ones of the warp
    // A warp takes neighbours, so that ranks follow the order of the row.
    const int first = warp * 32 * kPerThread + lane;
    const Bits* tile_keys = keys + tile;
    const Item* tile_items = static_cast<const Item*>(a.items) + (kNumbers ? 0 : row_start + tile);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int at = first + i * 32;
      key[i] = at < valid ? tile_keys[at] : Bits(0);
    }
#pragma unroll
    for (int k = 0; k < 256; k += 32) counts[warp][k + lane] = masks[k + lane] = 0;
    __syncwarp();
    // What lies behind the end gets the greatest digit, and so the last ranks.
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const unsigned digit = first + i * 32 < valid ? digit_of<S>(key[i], a) : 255u;
      const unsigned equal = lanes_with(digit, masks), lower = equal & ((1u << lane) - 1);
      const unsigned before = counts[warp][digit];
      __syncwarp();
      if (lower == 0) {
        counts[warp][digit] = before + __popc(equal);
        masks[digit] = 0;
      }
      __syncwarp();
      ranked[i] = digit << 16 | (before + __popc(lower));
    }
    Item item[kPerThread];
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int at = first + i * 32;
      if constexpr (kNumbers) item[i] = static_cast<unsigned>(tile + at);
      else item[i] = at < valid ? tile_items[at] : Item();
    }
    __syncthreads();
    unsigned count = 0, all;
    if (thread < kRadixDigits) {
#pragma unroll
      for (int w = 0; w < kRadixWarps; ++w) {
        const unsigned of_warp = counts[w][thread];
        counts[w][thread] = count;
        count += of_warp;
      }
    }
    const unsigned start = scan_block_before<Plus>(count, 0u, all);
    if (thread < kRadixDigits) {
#pragma unroll
      for (int w = 0; w < kRadixWarps; ++w) counts[w][thread] += start;
      shifts[thread] = next - start;
      next += count;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const unsigned place = counts[warp][ranked[i] >> 16] + (ranked[i] & 0xffffu);
      sorted_keys[place] = key[i];
      sorted_items[place] = item[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int place = i * kRadixThreads + thread;
      if (place >= valid) break;
      const Bits bits = sorted_keys[place];
      const unsigned to = shifts[digit_of<S>(bits, a)] + place;
      keys_out[to] = bits;
      items_out[to] = static_cast<ItemOut>(sorted_items[place]);
    }
    __syncthreads();
  }
}
