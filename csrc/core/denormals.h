// Numbers so close to zero that they have fewer digits: whether arithmetic takes them for zero.
//
// It is a mode of each thread's floating-point unit. The pool's threads take over that of the
// thread whose work they do, so that results do not depend on the number of threads.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tapegrad {

// The calling thread's mode.
inline uint32_t denormal_mode() {
#if defined(__x86_64__)
  return _mm_getcsr() & 0x8040u;  // results to zero, and operands
#elif defined(__aarch64__)
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return static_cast<uint32_t>(control & (1u << 24));
#else
  return 0;
#endif
}

inline void set_denormal_mode(uint32_t mode) {
#if defined(__x86_64__)
  _mm_setcsr((_mm_getcsr() & ~0x8040u) | mode);
#elif defined(__aarch64__)
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  control = (control & ~(uint64_t{1} << 24)) | mode;
  asm volatile("msr fpcr, %0" : : "r"(control));
#else
  static_cast<void>(mode);
#endif
}

// Returns whether this machine can.
inline bool set_flush_denormal(bool flush) {
#if defined(__x86_64__)
  set_denormal_mode(flush ? 0x8040u : 0);
  return true;
#elif defined(__aarch64__)
  set_denormal_mode(flush ? 1u << 24 : 0);
  return true;
#else
  return !flush;
#endif
}

}  // namespace tapegrad
