// What products in registers share: the vector of this instruction set, how many of them make a
// tile, loads and stores, the transpose of a square of vectors. For kernel files only; the text
// is compiled once per instruction set, into the namespace of each.
#pragma once

#include <cstdint>

#if defined(__clang__)
#include <utility>
#endif

// Kernel files are built with contraction off, so that a pointwise expression rounds as it is
// written. Here a product and its addition shall be one instruction: it is half of the speed.
#if defined(__clang__)
#pragma clang fp contract(fast)
#define TAPEGRAD_UNROLL _Pragma("unroll")
#else
#pragma GCC optimize("fp-contract=fast")
#define TAPEGRAD_UNROLL _Pragma("GCC unroll 16")
#endif

namespace tapegrad::cpu::TAPEGRAD_ISA {
namespace {

// Registers decide the shapes: 32 of 64 or 16 bytes (AVX-512, NEON), 16 of 32 or 16 bytes (AVX2,
// SSE). Accumulators, one row of b and a broadcast element of a must fit at once.
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kTileRows = 8, kTileVectors = 3;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32, kTileRows = 6, kTileVectors = 2;
#elif defined(__ARM_NEON)
constexpr int kVectorBytes = 16, kTileRows = 8, kTileVectors = 3;
#else
constexpr int kVectorBytes = 16, kTileRows = 4, kTileVectors = 2;
#endif

constexpr int kLineBytes = 64;
constexpr int kVectorsInLine = kLineBytes / kVectorBytes;

// Lane numbers of a shuffle are integers as wide as the elements.
template <int kBytes>
struct LaneOf;
template <>
struct LaneOf<4> {
  using Type = int32_t;
};
template <>
struct LaneOf<8> {
  using Type = int64_t;
};

template <class T>
struct Shape {
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  typedef typename LaneOf<sizeof(T)>::Type Lanes __attribute__((vector_size(kVectorBytes)));
  static constexpr int kWidth = kVectorBytes / sizeof(T);
};

inline int64_t minimum(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// `total` cut into parts whose sizes differ by at most one. Divides once, not per part.
struct EvenCut {
  EvenCut(int64_t total, int64_t number)
      : parts(number), size(total / number), larger(total % number) {}
  int64_t begin(int64_t part) const { return size * part + minimum(part, larger); }

  int64_t parts, size, larger;
};

template <class T>
inline typename Shape<T>::Vector load(const T* pointer) {
  typename Shape<T>::Vector result;
  __builtin_memcpy(&result, pointer, sizeof result);
  return result;
}

template <class T>
inline void store(T* pointer, typename Shape<T>::Vector value) {
  __builtin_memcpy(pointer, &value, sizeof value);
}

// Lane order a0 b0 a1 b1 ... of two vectors: the first half of that sequence, or the second.
template <class T, bool kSecond>
inline typename Shape<T>::Vector interleave(typename Shape<T>::Vector a,
                                            typename Shape<T>::Vector b) {
  constexpr int kWidth = Shape<T>::kWidth, kFirst = kSecond ? kWidth / 2 : 0;
#if defined(__clang__)
  return [&]<int... kLane>(std::integer_sequence<int, kLane...>) {
    return __builtin_shufflevector(a, b, (kFirst + kLane / 2 + kLane % 2 * kWidth)...);
  }(std::make_integer_sequence<int, kWidth>{});
#else
  typename Shape<T>::Lanes lanes;
  for (int i = 0; i < kWidth; ++i) lanes[i] = kFirst + i / 2 + i % 2 * kWidth;
  return __builtin_shuffle(a, b, lanes);
#endif
}

// Transposes the kWidth x kWidth square in `rows`: interleaving row i with row i + half, once per
// bit of the width, carries every element's row bits into its lane number and back.
template <class T, int kRound = 1>
inline void transpose_square(typename Shape<T>::Vector (&rows)[Shape<T>::kWidth]) {
  constexpr int kWidth = Shape<T>::kWidth;
  typename Shape<T>::Vector next[kWidth];
  for (int i = 0; i < kWidth / 2; ++i) {
    next[2 * i] = interleave<T, false>(rows[i], rows[i + kWidth / 2]);
    next[2 * i + 1] = interleave<T, true>(rows[i], rows[i + kWidth / 2]);
  }
  for (int i = 0; i < kWidth; ++i) rows[i] = next[i];
  if constexpr (2 * kRound < kWidth) transpose_square<T, 2 * kRound>(rows);
}

}  // namespace
}  // namespace tapegrad::cpu::TAPEGRAD_ISA
