// What the threads of a warp and of a block make together: reductions of numbers, of numbers with their places, and of
// any struct that knows how two of it become one.
//
// A rule has a function `combine(a, b)`. Every thread of the warp or block must call, with the same rule; the
// result is the same in each of them, to the bit, and in each run. Blocks are whole warps.

inline constexpr int kWarp = 32;
inline constexpr int kMostWarps = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

__device__ inline int lane_number() { return threadIdx.x % kWarp; }
__device__ inline int warp_number() { return threadIdx.x / kWarp; }

// One of two types.
template <bool kFirst, class A, class B>
struct Choice {
  using Type = A;
};
template <class A, class B>
struct Choice<false, A, B> {
  using Type = B;
};
template <bool kFirst, class A, class B>
using Either = typename Choice<kFirst, A, B>::Type;

// ---- rules

struct Plus {
  template <class T>
  __device__ static T combine(T a, T b) {
    return a + b;
  }
};
// A NaN wins, and stays.
struct Larger {
  template <class T>
  __device__ static T combine(T a, T b) {
    return a > b || a != a ? a : b;
  }
  // Whether b takes a's place.
  template <class T>
  __device__ static bool beats(T b, T a) {
    return (b > a || b != b) && a == a;
  }
};
struct Smaller {
  template <class T>
  __device__ static T combine(T a, T b) {
    return a < b || a != a ? a : b;
  }
  template <class T>
  __device__ static bool beats(T b, T a) {
    return (b < a || b != b) && a == a;
  }
};

// A number and where it was found; a negative place is that of no number.
template <class T>
struct Placed {
  T value;
  int64 place;
};
// The first of equal numbers wins. Order is Larger or Smaller.
template <class Order>
struct First {
  template <class T>
  __device__ static Placed<T> combine(Placed<T> a, Placed<T> b) {
    if (b.place < 0) return a;
    if (a.place < 0 || Order::beats(b.value, a.value)) return b;
    const bool same = a.value == b.value || (a.value != a.value && b.value != b.value);
    return same && b.place < a.place ? b : a;
  }
};

// The least and the greatest number of a type, which for floating types are infinite.
template <class T>
__device__ inline T lowest_number() {
  if constexpr (kSame<T, float>) return -1.0f / 0.0f;
  else if constexpr (kSame<T, double>) return -1.0 / 0.0;
  else if constexpr (T(-1) > T(0)) return T(0);
  else return T(T(1) << (8 * sizeof(T) - 1));
}
template <class T>
__device__ inline T highest_number() {
  if constexpr (kSame<T, float>) return 1.0f / 0.0f;
  else if constexpr (kSame<T, double>) return 1.0 / 0.0;
  else return T(~lowest_number<T>());
}

// ---- what another lane has: of any struct of whole words

template <class T, class Move>
__device__ inline T move_words(const T& value, Move move) {
  static_assert(sizeof(T) % 4 == 0, "a struct of whole words");
  unsigned words[sizeof(T) / 4];
  memcpy(words, &value, sizeof(T));
  for (unsigned& word : words) word = move(word);
  T moved;
  memcpy(&moved, words, sizeof(T));
  return moved;
}
template <class T>
__device__ inline T value_of_lane(const T& value, int lane) {
  return move_words(value, [=](unsigned word) { return __shfl_sync(kAllLanes, word, lane); });
}
// The lane that differs in the bits of `by`.
template <class T>
__device__ inline T value_across(const T& value, int by) {
  return move_words(value, [=](unsigned word) { return __shfl_xor_sync(kAllLanes, word, by); });
}
// `by` lanes before; the first lanes keep their own.
template <class T>
__device__ inline T value_before(const T& value, int by) {
  return move_words(value, [=](unsigned word) { return __shfl_up_sync(kAllLanes, word, by); });
}

// ---- reductions

// Over each group of `lanes` neighbouring lanes, a power of two.
template <class Rule, class T>
__device__ inline T reduce_lanes(T value, int lanes) {
  for (int by = lanes / 2; by > 0; by /= 2) {
    const T other = value_across(value, by);
    // In the order of the lanes: rules need not be commutative, nor keep the bits if they are.
    value = lane_number() & by ? Rule::combine(other, value) : Rule::combine(value, other);
  }
  return value;
}

template <class Rule, class T>
__device__ inline T reduce_warp(T value) {
#pragma unroll
  for (int by = kWarp / 2; by > 0; by /= 2) {
    const T other = value_across(value, by);
    value = lane_number() & by ? Rule::combine(other, value) : Rule::combine(value, other);
  }
  return value;
}

template <class Rule, class T>
__device__ inline T reduce_block(T value, T identity) {
  __shared__ T of_warps[kMostWarps];
  const int warps = blockDim.x / kWarp;
  value = reduce_warp<Rule>(value);
  if (warps == 1) return value;
  if (lane_number() == 0) of_warps[warp_number()] = value;
  __syncthreads();
  value = reduce_warp<Rule>(lane_number() < warps ? of_warps[lane_number()] : identity);
  __syncthreads();  // the next reduction writes in the same place
  return value;
}

template <class T>
__device__ inline T sum_of_warp(T value) {
  return reduce_warp<Plus>(value);
}
template <class T>
__device__ inline T sum_of_block(T value) {
  return reduce_block<Plus>(value, T(0));
}
template <class T>
__device__ inline T max_of_warp(T value) {
  return reduce_warp<Larger>(value);
}
template <class T>
__device__ inline T max_of_block(T value) {
  return reduce_block<Larger>(value, lowest_number<T>());
}
template <class T>
__device__ inline Placed<T> argmax_of_warp(Placed<T> value) {
  return reduce_warp<First<Larger>>(value);
}
template <class T>
__device__ inline Placed<T> argmax_of_block(Placed<T> value) {
  return reduce_block<First<Larger>>(value, Placed<T>{lowest_number<T>(), -1});
}

// ---- scans: each thread gets what those before it have, in their order

// The combination of a lane's value and those before.
template <class Rule, class T>
__device__ inline T scan_warp(T value) {
#pragma unroll
  for (int by = 1; by < kWarp; by *= 2) {
    const T before = value_before(value, by);
    if (lane_number() >= by) value = Rule::combine(before, value);
  }
  return value;
}

// Of all threads before; `total` becomes that of the whole block.
template <class Rule, class T>
__device__ inline T scan_block_before(T value, T identity, T& total) {
  __shared__ T of_warps[kMostWarps];
  const int warps = blockDim.x / kWarp;
  const T with_own = scan_warp<Rule>(value);
  if (lane_number() == kWarp - 1) of_warps[warp_number()] = with_own;
  __syncthreads();
  const T warp_total = lane_number() < warps ? of_warps[lane_number()] : identity;
  const T warp_sums = scan_warp<Rule>(warp_total);
  __syncthreads();  // the next scan writes in the same place
  total = value_of_lane(warp_sums, warps - 1);
  const T before_warp = value_of_lane(warp_sums, warp_number() > 0 ? warp_number() - 1 : 0);
  const T in_warp = value_before(with_own, 1);
  if (lane_number() == 0) return warp_number() > 0 ? before_warp : identity;
  return warp_number() > 0 ? Rule::combine(before_warp, in_warp) : in_warp;
}
