// Barriers, operations of a warp, atomics, and loads and stores with a hint.
//
// Whoever waits says in which line of the text: threads that wait at different lines for each other
// are a mistake that the emulator reports. The line is the caller's, by way of a default argument.
#pragma once

// ---- barriers of a block

static inline void __syncthreads(int line = __builtin_LINE()) {
  tapegrad_emulator::context.wait_for_block(tapegrad_emulator::Vote::kNone, 0, line);
}
static inline int __syncthreads_and(int predicate, int line = __builtin_LINE()) {
  return tapegrad_emulator::context.wait_for_block(tapegrad_emulator::Vote::kAnd, predicate, line);
}
static inline int __syncthreads_or(int predicate, int line = __builtin_LINE()) {
  return tapegrad_emulator::context.wait_for_block(tapegrad_emulator::Vote::kOr, predicate, line);
}
static inline int __syncthreads_count(int predicate, int line = __builtin_LINE()) {
  return tapegrad_emulator::context.wait_for_block(tapegrad_emulator::Vote::kCount, predicate,
                                                   line);
}

// The order of memory is the order of the text here; a compiler's reordering would show it.
static inline void __threadfence() { __asm__ volatile("" ::: "memory"); }
static inline void __threadfence_block() { __threadfence(); }
static inline void __threadfence_system() { __threadfence(); }
static inline void __nanosleep(unsigned) { tapegrad_emulator::context.yield(); }

[[noreturn]] static inline void __trap(int line = __builtin_LINE()) {
  tapegrad_emulator::context.fail(719, "__trap() was called", line);
  __builtin_unreachable();
}
// CUDA_ERROR_ASSERT
#define assert(condition) \
  ((condition) ? (void)0  \
               : tapegrad_emulator::context.fail(710, "assertion failed: " #condition, __LINE__))

// ---- operations of a warp. The functions that combine values are called by the emulator.

namespace tapegrad_emulator {

using Word = unsigned long long;
// What a lane reads from one that takes no part.
constexpr Word kNobody = 0xCBCBCBCBCBCBCBCB;

template <class T>
Word to_word(T value) {
  if constexpr (sizeof(T) == 4) return __builtin_bit_cast(unsigned, value);
  else return __builtin_bit_cast(Word, value);
}
template <class T>
T from_word(Word word) {
  if constexpr (sizeof(T) == 4) return __builtin_bit_cast(T, static_cast<unsigned>(word));
  else return __builtin_bit_cast(T, word);
}

TAPEGRAD_EMULATOR_OWN inline Word nothing(const Word*, unsigned, int, int) { return 0; }
TAPEGRAD_EMULATOR_OWN inline Word value_of_lane(const Word* values, unsigned lanes, int,
                                                int source) {
  return lanes >> source & 1 ? values[source] : kNobody;
}
TAPEGRAD_EMULATOR_OWN inline Word lanes_that_are_set(const Word* values, unsigned lanes, int, int) {
  unsigned set = 0;
  for (int lane = 0; lane < 32; ++lane)
    if ((lanes >> lane & 1) && values[lane]) set |= 1u << lane;
  return set;
}
TAPEGRAD_EMULATOR_OWN inline Word all_are_set(const Word* values, unsigned lanes, int, int) {
  return lanes_that_are_set(values, lanes, 0, 0) == lanes;
}
TAPEGRAD_EMULATOR_OWN inline Word lanes_that_match(const Word* values, unsigned lanes, int own,
                                                   int) {
  unsigned equal = 0;
  for (int lane = 0; lane < 32; ++lane)
    if ((lanes >> lane & 1) && values[lane] == values[own]) equal |= 1u << lane;
  return equal;
}
TAPEGRAD_EMULATOR_OWN inline Word lanes_if_all_match(const Word* values, unsigned lanes, int own,
                                                     int) {
  return lanes_that_match(values, lanes, own, 0) == lanes ? lanes : 0;
}
template <class T, class Operation>
TAPEGRAD_EMULATOR_OWN Word reduce(const Word* values, unsigned lanes, int own, int) {
  const T start = from_word<T>(values[own]);
  T result = start;
  for (int lane = 0; lane < 32; ++lane)
    if ((lanes >> lane & 1) && lane != own)
      result = Operation()(result, from_word<T>(values[lane]));
  return to_word(result);
}

template <class T>
T shuffle(unsigned mask, T value, int source, int line) {
  return from_word<T>(context.wait_for_lanes(mask, to_word(value), value_of_lane, source, line));
}
// The first lane of the group of `width` lanes that the running lane is in.
inline int group_start(int width) { return static_cast<int>(context.lane) & ~(width - 1); }

}  // namespace tapegrad_emulator

#define TAPEGRAD_SHUFFLES(T)                                                               \
  static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32,          \
                              int line = __builtin_LINE()) {                               \
    const int start = tapegrad_emulator::group_start(width);                               \
    return tapegrad_emulator::shuffle(mask, value, start + (source & (width - 1)), line);  \
  }                                                                                        \
  static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,   \
                                 int line = __builtin_LINE()) {                            \
    const int own = tapegrad_emulator::context.lane, from = own - static_cast<int>(delta); \
    const bool inside = from >= tapegrad_emulator::group_start(width);                     \
    return tapegrad_emulator::shuffle(mask, value, inside ? from : own, line);             \
  }                                                                                        \
  static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, \
                                   int line = __builtin_LINE()) {                          \
    const int own = tapegrad_emulator::context.lane, from = own + static_cast<int>(delta); \
    const bool inside = from < tapegrad_emulator::group_start(width) + width;              \
    return tapegrad_emulator::shuffle(mask, value, inside ? from : own, line);             \
  }                                                                                        \
  static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,        \
                                  int line = __builtin_LINE()) {                           \
    const int own = tapegrad_emulator::context.lane, from = own ^ bits;                    \
    const bool inside = from < tapegrad_emulator::group_start(width) + width;              \
    return tapegrad_emulator::shuffle(mask, value, inside ? from : own, line);             \
  }
TAPEGRAD_SHUFFLES(int)
TAPEGRAD_SHUFFLES(unsigned)
TAPEGRAD_SHUFFLES(long)
TAPEGRAD_SHUFFLES(unsigned long)
TAPEGRAD_SHUFFLES(long long)
TAPEGRAD_SHUFFLES(unsigned long long)
TAPEGRAD_SHUFFLES(float)
TAPEGRAD_SHUFFLES(double)
#undef TAPEGRAD_SHUFFLES

static inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
  tapegrad_emulator::context.wait_for_lanes(mask, 0, tapegrad_emulator::nothing, 0, line);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return tapegrad_emulator::context.wait_for_lanes(mask, predicate != 0,
                                                   tapegrad_emulator::lanes_that_are_set, 0, line);
}
static inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return __ballot_sync(mask, predicate, line) != 0;
}
static inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return static_cast<int>(tapegrad_emulator::context.wait_for_lanes(
      mask, predicate != 0, tapegrad_emulator::all_are_set, 0, line));
}
// Threads of a warp need not run together, so no thread may count on others being active.
static inline unsigned __activemask() { return 1u << tapegrad_emulator::context.lane; }

#define TAPEGRAD_MATCHES(T)                                                                       \
  static inline unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {  \
    return tapegrad_emulator::context.wait_for_lanes(                                             \
        mask, tapegrad_emulator::to_word(value), tapegrad_emulator::lanes_that_match, 0, line);   \
  }                                                                                               \
  static inline unsigned __match_all_sync(unsigned mask, T value, int* predicate,                 \
                                          int line = __builtin_LINE()) {                          \
    const unsigned lanes = tapegrad_emulator::context.wait_for_lanes(                             \
        mask, tapegrad_emulator::to_word(value), tapegrad_emulator::lanes_if_all_match, 0, line); \
    *predicate = lanes != 0;                                                                      \
    return lanes;                                                                                 \
  }
TAPEGRAD_MATCHES(int)
TAPEGRAD_MATCHES(unsigned)
TAPEGRAD_MATCHES(long long)
TAPEGRAD_MATCHES(unsigned long long)
TAPEGRAD_MATCHES(float)
TAPEGRAD_MATCHES(double)
#undef TAPEGRAD_MATCHES

#define TAPEGRAD_REDUCE(NAME, T, EXPRESSION)                                                    \
  static inline T __reduce_##NAME##_sync(unsigned mask, T value, int line = __builtin_LINE()) { \
    struct Operation {                                                                          \
      T operator()(T a, T b) const { return EXPRESSION; }                                       \
    };                                                                                          \
    return tapegrad_emulator::from_word<T>(tapegrad_emulator::context.wait_for_lanes(           \
        mask, tapegrad_emulator::to_word(value), tapegrad_emulator::reduce<T, Operation>, 0,    \
        line));                                                                                 \
  }
TAPEGRAD_REDUCE(add, unsigned, a + b)
TAPEGRAD_REDUCE(min, unsigned, a < b ? a : b)
TAPEGRAD_REDUCE(max, unsigned, a < b ? b : a)
TAPEGRAD_REDUCE(add, int, static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)))
TAPEGRAD_REDUCE(min, int, a < b ? a : b)
TAPEGRAD_REDUCE(max, int, a < b ? b : a)
TAPEGRAD_REDUCE(and, unsigned, a& b)
TAPEGRAD_REDUCE(or, unsigned, a | b)
TAPEGRAD_REDUCE(xor, unsigned, a ^ b)
#undef TAPEGRAD_REDUCE

// ---- atomics: no other thread runs between two statements of one that does not wait. They exist
// for the types for which CUDA has them, and for no others.

#define TAPEGRAD_ATOMIC(NAME, T, RESULT)                                              \
  TAPEGRAD_EMULATOR_OWN __noinline__ static T NAME(T* address, T value) {             \
    tapegrad_emulator::check_access(address, sizeof(T), true, TAPEGRAD_CALLER, true); \
    const T old = *reinterpret_cast<volatile T*>(address);                            \
    *reinterpret_cast<volatile T*>(address) = static_cast<T>(RESULT);                 \
    return old;                                                                       \
  }                                                                                   \
  static inline T NAME##_block(T* address, T value) { return NAME(address, value); }  \
  static inline T NAME##_system(T* address, T value) { return NAME(address, value); }
#define TAPEGRAD_INTEGER_ATOMICS(T)                        \
  TAPEGRAD_ATOMIC(atomicExch, T, value)                    \
  TAPEGRAD_ATOMIC(atomicMin, T, value < old ? value : old) \
  TAPEGRAD_ATOMIC(atomicMax, T, value > old ? value : old) \
  TAPEGRAD_ATOMIC(atomicAnd, T, old& value)                \
  TAPEGRAD_ATOMIC(atomicOr, T, old | value)                \
  TAPEGRAD_ATOMIC(atomicXor, T, old ^ value)
TAPEGRAD_INTEGER_ATOMICS(int)
TAPEGRAD_INTEGER_ATOMICS(unsigned)
TAPEGRAD_INTEGER_ATOMICS(unsigned long long)
TAPEGRAD_ATOMIC(atomicMin, long long, value < old ? value : old)
TAPEGRAD_ATOMIC(atomicMax, long long, value > old ? value : old)
TAPEGRAD_ATOMIC(atomicAdd, int, static_cast<unsigned>(old) + static_cast<unsigned>(value))
TAPEGRAD_ATOMIC(atomicAdd, unsigned, old + value)
TAPEGRAD_ATOMIC(atomicAdd, unsigned long long, old + value)
TAPEGRAD_ATOMIC(atomicAdd, float, old + value)
TAPEGRAD_ATOMIC(atomicAdd, double, old + value)
TAPEGRAD_ATOMIC(atomicSub, int, static_cast<unsigned>(old) - static_cast<unsigned>(value))
TAPEGRAD_ATOMIC(atomicSub, unsigned, old - value)
TAPEGRAD_ATOMIC(atomicExch, float, value)
TAPEGRAD_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
TAPEGRAD_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
#undef TAPEGRAD_ATOMIC
#undef TAPEGRAD_INTEGER_ATOMICS

#define TAPEGRAD_COMPARE_AND_SWAP(T)                                                       \
  TAPEGRAD_EMULATOR_OWN __noinline__ static T atomicCAS(T* address, T expected, T value) { \
    tapegrad_emulator::check_access(address, sizeof(T), true, TAPEGRAD_CALLER, true);      \
    const T old = *reinterpret_cast<volatile T*>(address);                                 \
    if (old == expected) *reinterpret_cast<volatile T*>(address) = value;                  \
    return old;                                                                            \
  }
TAPEGRAD_COMPARE_AND_SWAP(int)
TAPEGRAD_COMPARE_AND_SWAP(unsigned)
TAPEGRAD_COMPARE_AND_SWAP(unsigned short)
TAPEGRAD_COMPARE_AND_SWAP(unsigned long long)
#undef TAPEGRAD_COMPARE_AND_SWAP

// ---- loads and stores with a hint to the cache

template <class T>
static inline T __ldg(const T* address) {
  return *address;
}
#define TAPEGRAD_LOAD(NAME)                \
  template <class T>                       \
  static inline T NAME(const T* address) { \
    return *address;                       \
  }
#define TAPEGRAD_STORE(NAME)                     \
  template <class T>                             \
  static inline void NAME(T* address, T value) { \
    *address = value;                            \
  }
TAPEGRAD_LOAD(__ldca)
TAPEGRAD_LOAD(__ldcg)
TAPEGRAD_LOAD(__ldcs)
TAPEGRAD_LOAD(__ldlu)
TAPEGRAD_LOAD(__ldcv)
TAPEGRAD_STORE(__stwb)
TAPEGRAD_STORE(__stcg)
TAPEGRAD_STORE(__stcs)
TAPEGRAD_STORE(__stwt)
#undef TAPEGRAD_LOAD
#undef TAPEGRAD_STORE
