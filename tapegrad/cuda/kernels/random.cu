// uses: philox.cuh
//
// Random numbers: bit for bit the streams of csrc/cpu/random_kernels.cpp, whatever the device.
//
// Philox makes four words of a counter. The words of 16 counters are a tile: all first words, then all
// second ones, and so on. A thread takes one counter, so that its elements lie 16 apart; they change
// places in shared memory and are written four (two, where an element takes two words) at a time.

constexpr int kTileCounters = 16;
constexpr int kRandomThreads = 256;

// ---- distributions

// csrc/cuda/random.cpp fills it.
struct SampleArguments {
  int64 count;
  void* out;
  RandomSource source;
  double a, b;
  double limit;
  int64 first;
  uint64 length, threshold;
  const void* probabilities;
  ErrorPlace errors;
};

// [0, 1) in steps of 2^-52
__device__ inline double unit_interval(uint64 word) {
  return __longlong_as_double(static_cast<int64>(word >> 12 | 0x3ff0000000000000ull)) - 1.0;
}
// (0, 1)
__device__ inline float open_interval(unsigned word) {
  const float u = (static_cast<float>(static_cast<int>(word >> 1)) + 0.5f) * 0x1p-31f;
  return u > 0x1.fffffep-1f ? 0x1.fffffep-1f : u;
}
__device__ inline double open_interval(uint64 word) { return unit_interval(word) + 0x1p-53; }
// From -1 to 1: an angle in units of pi.
__device__ inline float half_turns(unsigned word) {
  return static_cast<float>(static_cast<int>(word)) * 0x1p-31f;
}
__device__ inline double half_turns(uint64 word) { return 2.0 * unit_interval(word) - 1.0; }

__device__ inline void sine_and_cosine_pi(float x, float* sine, float* cosine) {
  ::sincospif(x, sine, cosine);
}
__device__ inline void sine_and_cosine_pi(double x, double* sine, double* cosine) {
  ::sincospi(x, sine, cosine);
}

// How many elements a counter gives.
template <class T>
inline constexpr int kPerCounter = sizeof(T) == 8 ? 2 : 4;

// A distribution has draw(), which is given a thread's words and the number of its first element, and
// the type it draws. Element k of a thread is kTileCounters * k further on.
template <class T>
struct Uniform {
  using Value = T;
  static constexpr int kCount = kPerCounter<T>;
  __device__ static T share(unsigned word) {
    return static_cast<float>(static_cast<int>(word >> 8)) * 0x1p-24f;
  }
  __device__ static T share(uint64 word) {
    return unit_interval(word) + ((word & 0x800u) != 0 ? 0x1p-53 : 0.0);
  }
  __device__ static void draw(const PhiloxBlock& block, const SampleArguments& a, int64, T* y) {
    const T from = static_cast<T>(a.a), length = static_cast<T>(a.b - a.a);
    const T limit = static_cast<T>(a.limit);
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const T value = from + length * share(block.word_of(k, T()));
      y[k] = value > limit ? limit : value;
    }
  }
};

// Box and Muller.
template <class T>
struct Normal {
  using Value = T;
  static constexpr int kCount = kPerCounter<T>;
  __device__ static void draw(const PhiloxBlock& block, const SampleArguments& a, int64, T* y) {
    constexpr int kPairs = kCount / 2;
    const T mean = static_cast<T>(a.a), std = static_cast<T>(a.b);
#pragma unroll
    for (int k = 0; k < kPairs; ++k) {
      const T u = open_interval(block.word_of(k, T()));
      const T radius = std * math::sqrt(T(-2) * math::log(u));
      T sine, cosine;
      sine_and_cosine_pi(half_turns(block.word_of(kPairs + k, T())), &sine, &cosine);
      y[k] = mean + radius * cosine;
      y[kPairs + k] = mean + radius * sine;
    }
  }
};

template <class T>
struct LogNormal {
  using Value = T;
  static constexpr int kCount = kPerCounter<T>;
  __device__ static void draw(const PhiloxBlock& block, const SampleArguments& a, int64 at, T* y) {
    Normal<T>::draw(block, a, at, y);
#pragma unroll
    for (int k = 0; k < kCount; ++k) y[k] = math::exp(y[k]);
  }
};

template <class T>
struct Exponential {
  using Value = T;
  static constexpr int kCount = kPerCounter<T>;
  __device__ static void draw(const PhiloxBlock& block, const SampleArguments& a, int64, T* y) {
    const T scale = static_cast<T>(-1.0 / a.a);
#pragma unroll
    for (int k = 0; k < kCount; ++k)
      y[k] = scale * math::log(open_interval(block.word_of(k, T())));
  }
};

template <class T>
struct Cauchy {
  using Value = T;
  static constexpr int kCount = kPerCounter<T>;
  __device__ static void draw(const PhiloxBlock& block, const SampleArguments& a, int64, T* y) {
    const T median = static_cast<T>(a.a), width = static_cast<T>(a.b);
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      T sine, cosine;
      sine_and_cosine_pi(open_interval(block.word_of(k, T())) - T(0.5), &sine, &cosine);
      y[k] = median + width * (sine / cosine);
    }
  }
};

// a is log(1 - p).
struct Geometric {
  using Value = double;
  static constexpr int kCount = 2;
  __device__ static void draw(const PhiloxBlock& block, const SampleArguments& a, int64,
                              double* y) {
    const double inverse = 1.0 / a.a;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const double trials = ::ceil(::log(open_interval(block.word_of(k, 0.0))) * inverse);
      y[k] = trials < 1.0 ? 1.0 : trials;
    }
  }
};

template <bool kWide>
struct Integers {
  using Value = int64;
  static constexpr int kCount = kWide ? 2 : 4;
  __device__ static void draw(const PhiloxBlock& block, const SampleArguments& a, int64, int64* y) {
    const uint64 first = static_cast<uint64>(a.first);
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if constexpr (kWide) {
        const uint64 word = block.word_of(k, 0.0);
        const uint64 scaled = a.length == 0 ? word : __umul64hi(word, a.length);
        y[k] = static_cast<int64>(first + scaled);
      } else {
        y[k] = static_cast<int64>(first + (block.words[k] * a.length >> 32));
      }
    }
  }
};

template <bool kWide>
struct Bernoulli {
  using Value = bool;
  static constexpr int kCount = kWide ? 2 : 4;
  __device__ static void draw(const PhiloxBlock& block, const SampleArguments& a, int64, bool* y) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if constexpr (kWide) y[k] = block.word_of(k, 0.0) >> 1 < a.threshold;
      else y[k] = block.words[k] < a.threshold;
    }
  }
};

// T is the type of the probabilities, of which each element has its own.
template <class T>
struct BernoulliEach {
  using Value = bool;
  static constexpr int kCount = kPerCounter<T>;
  __device__ static void draw(const PhiloxBlock& block, const SampleArguments& a, int64 at,
                              bool* y) {
    auto* p = static_cast<const T*>(a.probabilities);
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const int64 element = at + kTileCounters * k;
      const T probability = element < a.count ? p[element] : T(0);
      // See Note [Errors of kernels].
      if (!(probability >= 0 && probability <= 1)) a.errors.report(0);
      if constexpr (sizeof(T) == 8) y[k] = unit_interval(block.word_of(k, 0.0)) < probability;
      else
        y[k] = static_cast<double>(block.words[k]) < static_cast<double>(probability) * 0x1p32;
    }
  }
};

template <class Distribution, class To>
__device__ void sample(const SampleArguments& a) {
  constexpr int kCount = Distribution::kCount, kPerBlock = kRandomThreads * kCount;
  using Together = Vector<To, kCount>;
  __shared__ __align__(32) To staged[kPerBlock];
  const int thread = static_cast<int>(threadIdx.x);
  const int64 first = static_cast<int64>(blockIdx.x) * kPerBlock;
  const int place = thread / kTileCounters * kTileCounters * kCount + thread % kTileCounters;
  const uint64 counter =
      a.source.offset() + static_cast<uint64>(blockIdx.x) * kRandomThreads + threadIdx.x;
  typename Distribution::Value y[kCount];
  Distribution::draw(philox(a.source.seed(), counter), a, first + place, y);
#pragma unroll
  for (int k = 0; k < kCount; ++k) staged[place + kTileCounters * k] = convert<To>(y[k]);
  __syncthreads();
  To* out = static_cast<To*>(a.out) + first;
  const int own = thread * kCount;
  const int64 left = a.count - first - own;
  if (left >= kCount && reinterpret_cast<uint64>(out) % sizeof(Together) == 0) {
    *reinterpret_cast<Together*>(out + own) = *reinterpret_cast<const Together*>(staged + own);
  } else {
    for (int k = 0; k < kCount && k < left; ++k) out[own + k] = staged[own + k];
  }
}

// ---- poisson variables: as csrc/cpu/random.cpp draws them, each element from counters of its own

struct PoissonArguments {
  int64 count;
  const void* rates;
  void* out;
  RandomSource source;
  ErrorPlace errors;
};

struct ElementStream {
  uint64 seed, element, draw;
  __device__ PhiloxBlock next() { return philox(seed, element, ++draw); }
};

// (0, 1) in steps of 2^-52
__device__ inline double open_share(uint64 word) {
  return (static_cast<double>(word >> 12) + 0.5) * 0x1p-52;
}

__device__ inline double poisson_by_inversion(double rate, ElementStream draws) {
  constexpr double kLargest = 100;
  double u = open_share(draws.next().wide(0)), probability = ::exp(-rate), count = 0;
  while (u > probability && count < kLargest) {
    u -= probability;
    probability *= rate / ++count;
  }
  return count;
}

// Hoermann's transformed rejection with squeeze.
__device__ inline double poisson_by_rejection(double rate, ElementStream draws) {
  const double log_rate = ::log(rate);
  const double b = 0.931 + 2.53 * ::sqrt(rate);
  const double a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double squeeze = 0.9277 - 3.6224 / (b - 2);
  while (true) {
    const PhiloxBlock block = draws.next();
    const double u = open_share(block.wide(0)) - 0.5, v = open_share(block.wide(1));
    const double us = 0.5 - ::fabs(u);
    const double k = ::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= squeeze) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    const double bound = k * log_rate - rate - ::lgamma(k + 1);
    if (::log(v * inverse_alpha / (a / (us * us) + b)) <= bound) return k;
  }
}

template <class S>
__device__ void poisson(const PoissonArguments& a) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.count) return;
  const double rate = static_cast<double>(Storage<S>::load(static_cast<const S*>(a.rates)[i]));
  const ElementStream draws{a.source.seed(), a.source.offset() + static_cast<uint64>(i), 0};
  double count;
  if (!(rate >= 0) || ::isinf(rate)) {
    a.errors.report(0);  // see Note [Errors of kernels]
    count = 0.0 / 0.0;
  } else count = rate < 10 ? poisson_by_inversion(rate, draws) : poisson_by_rejection(rate, draws);
  static_cast<S*>(a.out)[i] = convert<S>(count);
}
