// Which interceptors there are, and which of them calls meet.
//
// Note [What stands between dispatch and the kernel]
// Interceptors: each sees the call before the next one does, and passes it on, changed or not. The layer
// that one belongs to installs it; the order is written here, outermost first, and each relies on it:
// waiting tangents see operands before anything is overwritten; a budget brings evicted operands back for all that
// follow; a profile times the whole call, batches included; vmap turns a call over a batch into plain calls, which
// are what a program can run again; a program captures a call also where its result was kept, since it
// will have to compute it; and a back end that runs two calls by one kernel does so behind all others, which see both.
#pragma once

#include <cstdint>

namespace tapegrad {

enum class Interceptor : uint8_t {
  Tangents,  // forward mode (engine/tangent.cpp)
  Budget,    // graph/budget.h
  Profile,   // intercept/profile.h
  Vmap,      // intercept/batch.h
  Capture,   // intercept/program.h
  Reuse,     // selective checkpoints (intercept/call_cache.h)
  Merge,     // calls that one kernel runs (cuda/held_calls.h)
};
constexpr uint32_t bit(Interceptor which) { return uint32_t{1} << static_cast<int>(which); }

// Which interceptors calls of this thread meet, and which those of all threads do, by bit. Zero in most
// programs: one test on the way of every op.
inline thread_local uint32_t intercepted_here = 0;
inline uint32_t intercepted_everywhere = 0;

inline void intercept_here(Interceptor which, bool on) {
  intercepted_here = on ? intercepted_here | bit(which) : intercepted_here & ~bit(which);
}
inline bool is_intercepted_here(Interceptor which) { return intercepted_here & bit(which); }

// How many reasons there are to intercept the calls of all threads: batches that live, and the like.
class Reasons {
 public:
  explicit constexpr Reasons(Interceptor which) : bit_(bit(which)) {}
  explicit constexpr Reasons(uint32_t bit) : bit_(bit) {}
  explicit operator bool() const { return count_ != 0; }
  void operator++() { set(count_ + 1); }
  void operator--() { set(count_ - 1); }
  void set(uint32_t count) {
    count_ = count;
    if (count) intercepted_everywhere |= bit_;
    else intercepted_everywhere &= ~bit_;
  }

 private:
  const uint32_t bit_;
  uint32_t count_ = 0;
};

// Calls with operands on other devices than the CPU leave the shortest way, too, and meet the back end's.
inline constexpr uint32_t kOtherDevice = uint32_t{1} << 31 | bit(Interceptor::Merge);
// So do all calls once there has been a complex tensor, or one of a bare dtype: only ops that say so take those
// (core/op.cpp).
inline constexpr uint32_t kLimitedTensors = uint32_t{1} << 30;
inline bool limited_tensors_exist() { return intercepted_everywhere & kLimitedTensors; }

}  // namespace tapegrad
