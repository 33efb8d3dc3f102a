// uses: block.cuh
// Masks: counting, compressing, expanding. A mask is contiguous bools, 0 or 1, in blocks of kMaskBlock elements with
// known counts of what is set in each (csrc/spec/mask.h). A block of threads takes one of them, tile by tile.

inline constexpr int64 kMaskBlock = 16384;
inline constexpr int kMaskThreads = 256;
inline constexpr int kMaskPerThread = 16;
inline constexpr int kMaskTile = kMaskThreads * kMaskPerThread;

struct MaskArguments {
  int64 count;
  const unsigned char* mask;
  int64* counts;
  const void* from;
  void* to;
  int64 total;  // of what is set, or of the source
  ErrorPlace errors;
  int64 rank;
  int64 sizes[64];
};

// The flags of a thread's elements, one in each byte; those behind the end are not set.
struct Flags {
  unsigned words[4];

  __device__ Flags(const unsigned char* mask, int64 begin, int64 end) {
    if (begin + kMaskPerThread <= end && reinterpret_cast<uint64>(mask + begin) % 16 == 0) {
      const Vector<unsigned, 4> loaded = *reinterpret_cast<const Vector<unsigned, 4>*>(mask + begin);
#pragma unroll
      for (int w = 0; w < 4; ++w) words[w] = loaded.elements[w];
      return;
    }
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      words[w] = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (begin + 4 * w + i < end) words[w] |= unsigned(mask[begin + 4 * w + i]) << (8 * i);
    }
  }
  __device__ bool is_set(int i) const { return words[i / 4] >> (8 * (i % 4)) & 1; }
  __device__ unsigned count() const {
    return __popc(words[0]) + __popc(words[1]) + __popc(words[2]) + __popc(words[3]);
  }
};

__device__ inline int64 end_of_block(const MaskArguments& a) {
  const int64 end = (static_cast<int64>(blockIdx.x) + 1) * kMaskBlock;
  return end < a.count ? end : a.count;
}

__device__ inline void count_mask(const MaskArguments& a) {
  const int64 end = end_of_block(a);
  unsigned count = 0;
#pragma unroll
  for (int tile = 0; tile < kMaskBlock / kMaskTile; ++tile) {
    const int64 begin = static_cast<int64>(blockIdx.x) * kMaskBlock + tile * kMaskTile;
    count += Flags(a.mask, begin + threadIdx.x * kMaskPerThread, end).count();
  }
  const unsigned total = sum_of_block(count);
  if (threadIdx.x == 0) a.counts[blockIdx.x] = total;
}

// How many are set in the blocks before.
__device__ inline int64 set_before(const MaskArguments& a) {
  int64 sum = 0;
  for (int64 b = threadIdx.x; b < blockIdx.x; b += kMaskThreads) sum += a.counts[b];
  return sum_of_block(sum);
}

// Calls visit(number among all that are set, number of the element), neighbours in neighbouring threads.
template <class Visit>
__device__ void for_each_set(const MaskArguments& a, const Visit& visit) {
  __shared__ unsigned short set[kMaskTile];
  int64 number = set_before(a);
  const int64 end = end_of_block(a);
  for (int tile = 0; tile < kMaskBlock / kMaskTile; ++tile) {
    const int64 begin = static_cast<int64>(blockIdx.x) * kMaskBlock + tile * kMaskTile;
    const int own = threadIdx.x * kMaskPerThread;
    const Flags flags(a.mask, begin + own, end);
    unsigned total;
    unsigned place = scan_block_before<Plus>(flags.count(), 0u, total);
#pragma unroll
    for (int i = 0; i < kMaskPerThread; ++i)
      if (flags.is_set(i)) set[place++] = static_cast<unsigned short>(own + i);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < total; i += kMaskThreads) visit(number + i, begin + set[i]);
    number += total;
    __syncthreads();
  }
}

// One row of indices for each dimension.
__device__ inline void nonzero(const MaskArguments& a) {
  int64* to = static_cast<int64*>(a.to);
  const bool is_narrow = a.count <= 0xffffffffll;
  for_each_set(a, [&](int64 number, int64 element) {
    for (int64 d = a.rank - 1; d > 0; --d) {
      const int64 outer = is_narrow ? static_cast<unsigned>(element) / static_cast<unsigned>(a.sizes[d])
                                    : element / a.sizes[d];
      to[d * a.total + number] = element - outer * a.sizes[d];
      element = outer;
    }
    to[number] = element;
  });
}

template <class S>
__device__ void masked_select(const MaskArguments& a) {
  for_each_set(a, [&](int64 number, int64 element) {
    static_cast<S*>(a.to)[number] = static_cast<const S*>(a.from)[element];
  });
}

template <class S>
__device__ void masked_scatter(const MaskArguments& a) {
  for_each_set(a, [&](int64 number, int64 element) {
    if (number < a.total) static_cast<S*>(a.to)[element] = static_cast<const S*>(a.from)[number];
    else a.errors.report(number);
  });
}

struct MaskedFillArguments {
  int64 count;
  const unsigned char* mask;
  const void* from;
  void* to;
  const void* value;  // null where it is among the arguments
  uint64 bits;
};

// kWidth elements at a time, for which all operands are aligned.
template <class S, int kWidth>
__device__ void masked_fill(const MaskedFillArguments& a) {
  constexpr int kPerThread = 4;
  const S value = a.value ? *static_cast<const S*>(a.value) : static_cast<S>(a.bits);
  const int64 vectors = a.count / kWidth;
  const int64 first = static_cast<int64>(blockIdx.x) * (blockDim.x * kPerThread) + threadIdx.x;
  const S* from = static_cast<const S*>(a.from);
  S* to = static_cast<S*>(a.to);
  Vector<unsigned char, kWidth> flags[kPerThread];
  Vector<S, kWidth> elements[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64 v = first + i * blockDim.x;
    if (v >= vectors) break;
    flags[i] = reinterpret_cast<const Vector<unsigned char, kWidth>*>(a.mask)[v];
    elements[i] = reinterpret_cast<const Vector<S, kWidth>*>(from)[v];
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64 v = first + i * blockDim.x;
    if (v >= vectors) break;
#pragma unroll
    for (int j = 0; j < kWidth; ++j)
      if (flags[i].elements[j]) elements[i].elements[j] = value;
    reinterpret_cast<Vector<S, kWidth>*>(to)[v] = elements[i];
  }
  const int64 rest = vectors * kWidth + first;
  if (first < kWidth && rest < a.count) to[rest] = a.mask[rest] ? value : from[rest];
}
