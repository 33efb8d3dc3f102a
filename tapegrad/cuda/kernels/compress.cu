// uses: philox.cuh
//
// The codings of saved values: the codes of csrc/cpu/compress_kernels.cpp, bit for bit. Counts are whole
// numbers, so that it does not matter in which order they are added.

constexpr int kCodingThreads = 256;
constexpr int kCodingPerThread = 4;
constexpr unsigned kWholeWarp = ~0u;

using Counter = unsigned long long;

__device__ inline bool is_aligned(const void* data, int bytes) {
  return reinterpret_cast<uint64>(data) % bytes == 0;
}

// Adds what the threads of a warp have counted.
__device__ inline void add_counts(unsigned own, Counter* total) {
  own = __reduce_add_sync(kWholeWarp, own);
  if (threadIdx.x % 32 == 0 && own != 0) atomicAdd(total, static_cast<Counter>(own));
}

// ---- quantised blocks: csrc/cpu/compress_kernels.h, Note [Blocks of quantised values]

struct QuantizeArguments {
  const void* values;
  int64 count, block;
  unsigned char* codes;
  void* scales;
  RandomSource source;
  Counter* unscaled;
};

template <class S>
struct FloatBits;
template <>
struct FloatBits<float> {
  using Bits = unsigned;
  static constexpr Bits kMagnitude = 0x7fffffffu, kNan = 0x7f800001u;
  static constexpr Bits kTiny = 0x0d800000u, kHuge = 0x7d800000u;  // 2^-100 and 2^124
  __device__ static Bits of(float x) { return __float_as_uint(x); }
  __device__ static float from(Bits x) { return __uint_as_float(x); }
};
template <>
struct FloatBits<double> {
  using Bits = uint64;
  static constexpr Bits kMagnitude = 0x7fffffffffffffffull, kNan = 0x7ff0000000000001ull;
  static constexpr Bits kTiny = 0x0170000000000000ull, kHuge = 0x7fb0000000000000ull;  // 2^-1000, 2^1020
  __device__ static Bits of(double x) { return static_cast<Bits>(__double_as_longlong(x)); }
  __device__ static double from(Bits x) { return __longlong_as_double(static_cast<int64>(x)); }
};

template <int kBits>
inline constexpr int kBias = 1 << (kBits - 1);
template <int kBits>
inline constexpr int kLevels = kBias<kBits> - 1;

// Apart from the numbers that the program itself draws from the same seed.
constexpr uint64 kCodingDomain = 0x636f6d7072657373ull;

__device__ inline unsigned mixed(unsigned x) {
  x = (x ^ (x >> 16)) * 0x21f0aaadu;
  x = (x ^ (x >> 15)) * 0x735a2d97u;
  return x ^ (x >> 15);
}

// The random words of a block: one for two values.
struct BlockWords {
  unsigned start, flip;
  __device__ BlockWords(const PhiloxBlock& call, int64 number) {
    const unsigned low = static_cast<unsigned>(number), high = static_cast<unsigned>(number >> 32);
    start = mixed(mixed(low + call.words[0]) ^ (high + call.words[1]));
    flip = mixed(mixed(low + call.words[2]) ^ (high + call.words[3]));
  }
  __device__ unsigned at(unsigned i) const { return mixed(i + start) ^ flip; }
};

template <class S, int kBits>
__device__ inline unsigned char coded(S value, S inverse, unsigned bits) {
  const S between = (static_cast<S>(static_cast<int>(bits & 0x7fffu)) + S(0.5)) * S(0x1p-15);
  const int code = static_cast<int>(value * inverse + (S(kBias<kBits>) + between));
  constexpr int kTop = 2 * kBias<kBits> - 1;
  return static_cast<unsigned char>(code < 1 ? 1 : code > kTop ? kTop : code);
}

// Four values of a block that has n; what follows them is zero.
template <class T>
struct BlockReader {
  using S = typename Storage<T>::Compute;
  const T* from;
  int64 n;
  bool whole;  // and where vectors may be

  __device__ void read(int64 i, S (&values)[4]) const {
    Vector<T, 4> four;
    if (whole) {
      four = *reinterpret_cast<const Vector<T, 4>*>(from + i);
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k)
        four.elements[k] = i + k < n ? from[i + k] : Storage<T>::store(S(0));
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) values[k] = Storage<T>::load(four.elements[k]);
  }
};

// So many lanes of a warp take a block of values, four at a time.
template <class T, int kBits, int kLanes>
__device__ void quantize(const QuantizeArguments& a) {
  using S = typename Storage<T>::Compute;
  using Bits = typename FloatBits<S>::Bits;
  const int64 blocks = (a.count + a.block - 1) / a.block;
  const int64 number = (static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  const bool active = number < blocks;
  const int64 b = active ? number : blocks - 1;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const T* from = static_cast<const T*>(a.values) + b * a.block;
  const int64 n = min(a.block, a.count - b * a.block);
  const BlockReader<T> reader{from, n, n == a.block && is_aligned(from, sizeof(Vector<T, 4>))};

  Bits bits = 0;
  for (int64 i = 4 * lane; i < a.block; i += 4 * kLanes) {
    S values[4];
    reader.read(i, values);
#pragma unroll
    for (S value : values) bits = max(bits, FloatBits<S>::of(value) & FloatBits<S>::kMagnitude);
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    bits = max(bits, __shfl_xor_sync(kWholeWarp, bits, distance));

  const bool scaled = bits == 0 || (bits >= FloatBits<S>::kTiny && bits <= FloatBits<S>::kHuge);
  add_counts(active && lane == 0 && !scaled, a.unscaled);
  if (!active) return;
  const S largest = FloatBits<S>::from(bits);
  if (lane == 0)
    static_cast<S*>(a.scales)[b] =
        scaled ? largest / S(kLevels<kBits>) : FloatBits<S>::from(FloatBits<S>::kNan);
  const S inverse = scaled && bits != 0 ? S(kLevels<kBits>) / largest : S(0);

  const BlockWords words(philox(a.source.seed(), a.source.offset(), kCodingDomain), b);
  unsigned char* codes = a.codes + b * a.block * kBits / 8;
  const int64 half = a.block / 2;
  for (int64 i = 4 * lane; i < half; i += 4 * kLanes) {
    S first[4], second[4];
    reader.read(i, first);
    reader.read(half + i, second);
    Vector<unsigned char, 4> low, high;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const unsigned word = words.at(static_cast<unsigned>(i) + k);
      low.elements[k] = scaled ? coded<S, kBits>(first[k], inverse, word) : 0;
      high.elements[k] = scaled ? coded<S, kBits>(second[k], inverse, word >> 16) : 0;
      if constexpr (kBits == 4) low.elements[k] |= high.elements[k] << 4;
    }
    *reinterpret_cast<Vector<unsigned char, 4>*>(codes + i) = low;
    if constexpr (kBits == 8) *reinterpret_cast<Vector<unsigned char, 4>*>(codes + half + i) = high;
  }
}

struct DequantizeArguments {
  const unsigned char* codes;
  const void* scales;
  int64 count, block;
  void* values;
};

// A thread makes four values, which are all of one half of a block.
template <class T, int kBits>
__device__ void dequantize(const DequantizeArguments& a) {
  using S = typename Storage<T>::Compute;
  const int64 first = 4 * (static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x);
  if (first >= a.count) return;
  const bool is_narrow = a.count <= 0xffffffffll;
  const int64 b = is_narrow ? static_cast<unsigned>(first) / static_cast<unsigned>(a.block)
                            : first / a.block;
  const int64 i = first - b * a.block, half = a.block / 2;
  const bool is_second = kBits == 4 && i >= half;
  const int64 place = b * a.block * kBits / 8 + (is_second ? i - half : i);
  const auto codes = *reinterpret_cast<const Vector<unsigned char, 4>*>(a.codes + place);
  const S scale = static_cast<const S*>(a.scales)[b];
  Vector<T, 4> values;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    int code = codes.elements[k];
    if constexpr (kBits == 4) code = is_second ? code >> 4 : code & 15;
    values.elements[k] = Storage<T>::store(static_cast<S>(code - kBias<kBits>) * scale);
  }
  T* to = static_cast<T*>(a.values) + first;
  if (first + 4 <= a.count && is_aligned(to, sizeof values)) {
    *reinterpret_cast<Vector<T, 4>*>(to) = values;
  } else {
    for (int k = 0; k < 4 && first + k < a.count; ++k) to[k] = values.elements[k];
  }
}

// ---- blocks that cannot be scaled lie beside the codes, one after the other

constexpr int kScalesPerBlock = 1024;

struct UnscaledArguments {
  void* values;
  int64 count, block;
  const void* scales;
  int64 blocks;
  void* kept;
  int* totals;  // how many there are among each kScalesPerBlock
};

template <class S>
__device__ inline bool is_unscaled(const UnscaledArguments& a, int64 i) {
  if (i >= a.blocks) return false;
  const S scale = static_cast<const S*>(a.scales)[i];
  return scale != scale;
}

template <class S>
__device__ void count_unscaled(const UnscaledArguments& a) {
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  const int64 first = static_cast<int64>(blockIdx.x) * kScalesPerBlock;
  int own = 0;
  for (int k = static_cast<int>(threadIdx.x); k < kScalesPerBlock; k += kCodingThreads)
    own += is_unscaled<S>(a, first + k);
  if (own != 0) atomicAdd(&total, own);
  __syncthreads();
  if (threadIdx.x == 0) a.totals[blockIdx.x] = total;
}

// From the values to those that are kept, or back.
template <class T, bool kStore>
__device__ void copy_unscaled(const UnscaledArguments& a) {
  constexpr int kRows = kScalesPerBlock / 32, kWarps = kCodingThreads / 32;
  __shared__ unsigned masks[kRows];
  __shared__ Counter before;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) before = 0;
  __syncthreads();
  Counter own = 0;
  for (int64 k = threadIdx.x; k < blockIdx.x; k += kCodingThreads)
    own += static_cast<Counter>(a.totals[k]);
  if (own != 0) atomicAdd(&before, own);
  const int64 first = static_cast<int64>(blockIdx.x) * kScalesPerBlock;
  for (int row = warp; row < kRows; row += kWarps) {
    const bool found = is_unscaled<typename Storage<T>::Compute>(a, first + 32 * row + lane);
    const unsigned mask = __ballot_sync(kWholeWarp, found);
    if (lane == 0) masks[row] = mask;
  }
  __syncthreads();
  int64 next = static_cast<int64>(before);
  for (int row = 0; row < kRows; ++row) {
    const unsigned mask = masks[row];
    for (unsigned rest = row % kWarps == warp ? mask : 0; rest != 0; rest &= rest - 1) {
      const int bit = __ffs(static_cast<int>(rest)) - 1;
      const int64 b = first + 32 * row + bit;
      const int64 rank = next + __popc(mask & ((1u << bit) - 1));
      const int64 n = min(a.block, a.count - b * a.block);
      T* inside = static_cast<T*>(a.values) + b * a.block;
      T* beside = static_cast<T*>(a.kept) + rank * a.block;
      for (int64 i = lane; i < n; i += 32) {
        if constexpr (kStore) beside[i] = inside[i];
        else inside[i] = beside[i];
      }
    }
    next += __popc(mask);
  }
}

// ---- bits: elements by their patterns U

struct PairArguments {
  const void* x;
  int64 count;
  Counter* found;  // two; all bits are set at first
};

constexpr int kSearchPerThread = 8;

// The first element that is not what the first one is or, afterwards, that is neither of the two.
template <class U, bool kSecond>
__device__ void find_other(const PairArguments& a) {
  const U* x = static_cast<const U*>(a.x);
  Counter* found = a.found + kSecond;
  if (kSecond && a.found[0] == ~Counter(0)) return;
  const int64 first = static_cast<int64>(blockIdx.x) * kCodingThreads * kSearchPerThread;
  // What an earlier block has found makes this one's search useless.
  const bool is_useless = *static_cast<volatile Counter*>(found) < static_cast<Counter>(first);
  if (__all_sync(kWholeWarp, is_useless)) return;
  const U one = x[0], other = kSecond ? x[a.found[0]] : x[0];
  unsigned place = ~0u;
#pragma unroll
  for (int k = kSearchPerThread - 1; k >= 0; --k) {
    const unsigned at = static_cast<unsigned>(k) * kCodingThreads + threadIdx.x;
    if (first + at >= a.count) continue;
    const U value = x[first + at];
    if (value != one && value != other) place = at;
  }
  place = __reduce_min_sync(kWholeWarp, place);
  if (threadIdx.x % 32 == 0 && place != ~0u) atomicMin(found, static_cast<Counter>(first + place));
}

struct BitsArguments {
  void* x;
  int64 count;
  unsigned char* bits;
  uint64 zero, one;
};

// A warp makes a word of each 32 elements, and keeps one word in each lane.
template <class U>
__device__ void pack_bits(const BitsArguments& a) {
  const U* x = static_cast<const U*>(a.x);
  const U one = static_cast<U>(a.one);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64 warp = (static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const int64 first = warp * 1024;
  unsigned own = 0;
#pragma unroll 8
  for (int k = 0; k < 32; ++k) {
    const int64 i = first + 32 * k + lane;
    const unsigned word = __ballot_sync(kWholeWarp, i < a.count && x[i] == one);
    if (lane == k) own = word;
  }
  const int64 bytes = (a.count + 7) / 8, at = first / 8 + 4 * lane;
  if (at + 4 <= bytes) {
    *reinterpret_cast<unsigned*>(a.bits + at) = own;
  } else {
    for (int k = 0; k < 4 && at + k < bytes; ++k)
      a.bits[at + k] = static_cast<unsigned char>(own >> 8 * k);
  }
}

template <class U>
__device__ void unpack_bits(const BitsArguments& a) {
  constexpr int kWidth = 16 / sizeof(U);
  const U zero = static_cast<U>(a.zero), one = static_cast<U>(a.one);
  const int64 first = kWidth * (static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x);
  if (first >= a.count) return;
  unsigned bits = a.bits[first / 8] >> first % 8;
  if (kWidth > 8 && first + 8 < a.count) bits |= static_cast<unsigned>(a.bits[first / 8 + 1]) << 8;
  Vector<U, kWidth> values;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) values.elements[k] = bits >> k & 1 ? one : zero;
  U* to = static_cast<U*>(a.x) + first;
  if (first + kWidth <= a.count && is_aligned(to, 16)) {
    *reinterpret_cast<Vector<U, kWidth>*>(to) = values;
  } else {
    for (int k = 0; k < kWidth && first + k < a.count; ++k) to[k] = values.elements[k];
  }
}

// ---- integers

struct RangeArguments {
  const void* x;  // integers, or pairs that other blocks have found
  int64 count;
  int64* ranges;  // two numbers from each block
};

// T is the type of the integers; void where x holds pairs.
template <class T>
struct RangeReader {
  __device__ static void read(const void* x, int64 i, int64& low, int64& high) {
    low = high = static_cast<const T*>(x)[i];
  }
};
template <>
struct RangeReader<void> {
  __device__ static void read(const void* x, int64 i, int64& low, int64& high) {
    low = static_cast<const int64*>(x)[2 * i];
    high = static_cast<const int64*>(x)[2 * i + 1];
  }
};

template <class T>
__device__ void integer_range(const RangeArguments& a) {
  __shared__ int64 lows[kCodingThreads / 32], highs[kCodingThreads / 32];
  int64 low, high;
  // Threads that have nothing of their own repeat the first element.
  RangeReader<T>::read(a.x, 0, low, high);
  const int64 step = static_cast<int64>(gridDim.x) * blockDim.x;
  for (int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; i < a.count; i += step) {
    int64 least, most;
    RangeReader<T>::read(a.x, i, least, most);
    low = min(low, least);
    high = max(high, most);
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    low = min(low, __shfl_xor_sync(kWholeWarp, low, distance));
    high = max(high, __shfl_xor_sync(kWholeWarp, high, distance));
  }
  if (threadIdx.x % 32 == 0) {
    lows[threadIdx.x / 32] = low;
    highs[threadIdx.x / 32] = high;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int64 each : lows) low = min(low, each);
  for (int64 each : highs) high = max(high, each);
  a.ranges[2 * blockIdx.x] = low;
  a.ranges[2 * blockIdx.x + 1] = high;
}

struct NarrowArguments {
  void *x, *codes;
  int64 count, low;
};

template <class Body>
__device__ inline void each_element(int64 count, Body&& body) {
  const int64 first =
      static_cast<int64>(blockIdx.x) * kCodingThreads * kCodingPerThread + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kCodingPerThread; ++k) {
    const int64 i = first + k * kCodingThreads;
    if (i < count) body(i);
  }
}

// U are the integers without their sign, Code has fewer bytes.
template <class U, class Code>
__device__ void narrow_integers(const NarrowArguments& a) {
  each_element(a.count, [&](int64 i) {
    const U value = static_cast<const U*>(a.x)[i];
    static_cast<Code*>(a.codes)[i] = static_cast<Code>(value - static_cast<U>(a.low));
  });
}
template <class U, class Code>
__device__ void widen_integers(const NarrowArguments& a) {
  each_element(a.count, [&](int64 i) {
    const Code code = static_cast<const Code*>(a.codes)[i];
    static_cast<U*>(a.x)[i] = static_cast<U>(code + static_cast<U>(a.low));
  });
}

// ---- bfloat16

struct RoundArguments {
  const void* x;
  BFloat16* codes;
  int64 count;
  Counter* beyond;
};

// Finite values stay finite; those that lie beyond by more than rounding are counted.
template <class S>
__device__ void round_to_bfloat16(const RoundArguments& a) {
  constexpr S kTop = S(0x1.fep127);  // the largest bfloat16
  unsigned beyond = 0;
  each_element(a.count, [&](int64 i) {
    const S x = static_cast<const S*>(a.x)[i], magnitude = math::fabs(x);
    const bool finite = magnitude - magnitude == S(0);
    if constexpr (sizeof(S) == 8) beyond += finite && magnitude > 0x1.ffffffp127;
    const S limited = magnitude > kTop ? kTop : magnitude;
    a.codes[i] = to_bfloat16(static_cast<float>(finite ? math::copysign(limited, x) : x));
  });
  add_counts(beyond, a.beyond);
}

// ---- places of maxima in their windows

struct PlacesArguments {
  void* places;
  unsigned char* codes;
  int64 count;
  Counter* outside;
  int64 in[3], out[3], stride[3], padding[3];
  int64 width[3], dilation[3];  // of windows, in places
  int adaptive;

  // Where the window of an element begins: a number within the plane.
  __device__ int64 start(int64 element) const {
    int64 place = 0, step = 1;
#pragma unroll
    for (int d = 2; d >= 0; --d) {
      const int64 o = element % out[d];
      element /= out[d];
      place += step * (adaptive ? o * in[d] / out[d] : o * stride[d] - padding[d]);
      step *= in[d];
    }
    return place;
  }
};

// The code of what a place adds to its window's beginning: the least one, or -1.
__device__ inline int place_code(const PlacesArguments& a, int64 added) {
  const int64 step2 = a.dilation[2], step1 = a.dilation[1] * a.in[2];
  const int64 step0 = a.dilation[0] * a.in[2] * a.in[1];
  for (int64 i = 0; i < a.width[0]; ++i) {
    for (int64 j = 0; j < a.width[1]; ++j) {
      const int64 rest = added - i * step0 - j * step1;
      if (rest < 0) break;
      if (rest % step2 == 0 && rest / step2 < a.width[2])
        return static_cast<int>((i * a.width[1] + j) * a.width[2] + rest / step2);
    }
  }
  return -1;
}

template <class Index>
__device__ void pack_places(const PlacesArguments& a) {
  unsigned outside = 0;
  each_element(a.count, [&](int64 i) {
    const int64 added = static_cast<int64>(static_cast<const Index*>(a.places)[i]) - a.start(i);
    const int code = place_code(a, added);
    outside += code < 0;
    a.codes[i] = static_cast<unsigned char>(code < 0 ? 0 : code);
  });
  add_counts(outside, a.outside);
}

template <class Index>
__device__ void unpack_places(const PlacesArguments& a) {
  each_element(a.count, [&](int64 i) {
    int64 rest = a.codes[i], place = a.start(i), step = 1;
#pragma unroll
    for (int d = 2; d >= 0; --d) {
      place += rest % a.width[d] * a.dilation[d] * step;
      rest /= a.width[d];
      step *= a.in[d];
    }
    static_cast<Index*>(a.places)[i] = static_cast<Index>(place);
  });
}
