// Values that meet in places: set, added, multiplied, the greatest, the least.
//
// A Source knows, for number e of `count`, the place of a value (`limit` where its index is out of range, and
// nothing is done) and the value. Few of them are done by one block, each by looking at all others. Many of
// them are sorted by their places, stably; equal places then lie side by side, and their values are
// combined in the order in which they came, in a tree that is always the same. Where any order will do
// (csrc/cuda/settings.h, Note [Any order]) each goes to its place by itself.

enum { kSet, kAdd, kMultiply, kMaximum, kMinimum };

template <class S, int kMode>
struct Meet {
  using T = typename Storage<S>::Compute;
  using N = Num<S>;
  __device__ static T combine(T a, T b) {
    if constexpr (kMode == kSet) return b;
    else if constexpr (kMode == kAdd) return (N(a) + N(b)).v;
    else if constexpr (kMode == kMultiply) return (N(a) * N(b)).v;
    else if constexpr (kMode == kMaximum) return b > a || b != b ? b : a;
    else return b < a || b != b ? b : a;
  }
  __device__ static void apply(S& place, T value) {
    if constexpr (kMode != kSet) value = combine(Storage<S>::load(place), value);
    place = Storage<S>::store(value);
  }
  // While other threads do the same.
  __device__ static void apply_among_others(S& place, S value) {
    if constexpr (kMode == kSet) place = value;
    else if constexpr (kMode == kMaximum) atomicMax(&place, value);
    else if constexpr (kMode == kMinimum) atomicMin(&place, value);
    else if constexpr (kSame<S, int64>)
      atomicAdd(reinterpret_cast<uint64*>(&place), static_cast<uint64>(value));
    else atomicAdd(&place, value);
  }
};

// ---- few values: one block

inline constexpr int kFewThreads = 256;
inline constexpr int kFewValues = 1024;

template <class S, int kMode, class Source>
__device__ void meet_few(S* out, const Source& source, int count, uint64 limit) {
  using M = Meet<S, kMode>;
  __shared__ uint64 places[kFewValues];
  for (int e = threadIdx.x; e < count; e += kFewThreads) places[e] = source.place(e);
  __syncthreads();
  for (int e = threadIdx.x; e < count; e += kFewThreads) {
    const uint64 place = places[e];
    bool is_first = place != limit;
    for (int other = 0; other < e && is_first; ++other) is_first = places[other] != place;
    if (!is_first) continue;
    auto value = Storage<S>::load(source.value(e));
    for (int other = e + 1; other < count; ++other)
      if (places[other] == place) value = M::combine(value, Storage<S>::load(source.value(other)));
    M::apply(out[place], value);
  }
}

// ---- many values: what is to be sorted

template <class Place, class S, class Source>
__device__ void write_places(Place* places, S* values, const Source& source, int64 count) {
  constexpr int kPerThread = 4;
  const int64 first = static_cast<int64>(blockIdx.x) * (blockDim.x * kPerThread) + threadIdx.x;
  Place place[kPerThread];
  S value[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64 e = first + i * blockDim.x;
    if (e >= count) break;
    place[i] = static_cast<Place>(source.place(e));
    value[i] = source.value(e);
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64 e = first + i * blockDim.x;
    if (e >= count) break;
    places[e] = place[i];
    values[e] = value[i];
  }
}

// ---- many values, in any order

template <class S, int kMode, class Source>
__device__ void meet_in_any_order(S* out, const Source& source, int64 count, uint64 limit) {
  constexpr int kPerThread = 4;
  const int64 first = static_cast<int64>(blockIdx.x) * (blockDim.x * kPerThread) + threadIdx.x;
  uint64 place[kPerThread];
  S value[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64 e = first + i * blockDim.x;
    place[i] = limit;
    if (e >= count) continue;
    place[i] = source.place(e);
    value[i] = source.value(e);
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i)
    if (place[i] != limit) Meet<S, kMode>::apply_among_others(out[place[i]], value[i]);
}
