// Sums in lanes, for kernel files: many partial sums side by side, so that they vectorise, hide the
// latency of an addition and lose fewer digits than one running sum.
#pragma once

#include <cstdint>

namespace tapegrad::cpu::TAPEGRAD_ISA {
namespace {

constexpr int kLanes = 64, kFewLanes = 16;

// term(0) + ... + term(n - 1), in lanes.
template <class Term>
inline __attribute__((always_inline)) auto add_up(int64_t n, Term term) {
  decltype(term(0)) lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] += term(i + k);
  for (; i + kFewLanes <= n; i += kFewLanes)
    for (int k = 0; k < kFewLanes; ++k) lanes[k] += term(i + k);
  for (int k = 0; i + k < n; ++k) lanes[k] += term(i + k);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) lanes[k] += lanes[k + width];
  return lanes[0];
}

// The same for any length: blocks are added up in double, so that the error is that of one block.
template <class Term>
inline __attribute__((always_inline)) double add_up_blocks(int64_t n, Term term) {
  constexpr int64_t kBlock = 4096;
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t length = n - begin < kBlock ? n - begin : kBlock;
    sum += add_up(length, [=](int64_t i) { return term(begin + i); });
  }
  return sum;
}

}  // namespace
}  // namespace tapegrad::cpu::TAPEGRAD_ISA
