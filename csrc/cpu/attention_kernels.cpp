// Compiled once per instruction set.
#include "cpu/attention.h"
#include "cpu/lanes.h"
#include "cpu/math.h"
#include "spec/philox.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

template <class T>
constexpr T kLowest = -math::Format<T>::kInfinity;

template <class T>
TAPEGRAD_INLINE void apply_mask(const ScoreRow<T>& row, T* scores) {
  if (row.seen)
    for (int64_t i = 0; i < row.visible; ++i) scores[i] = row.seen[i] ? scores[i] : kLowest<T>;
  else if (row.added)
    for (int64_t i = 0; i < row.visible; ++i) scores[i] += row.added[i];
}

// NaN loses here; it comes back with the exponential.
template <class T>
TAPEGRAD_INLINE T largest(const T* x, int64_t n) {
  T lanes[kLanes];
  for (int k = 0; k < kLanes; ++k) lanes[k] = kLowest<T>;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
  for (; i + kFewLanes <= n; i += kFewLanes)
    for (int k = 0; k < kFewLanes; ++k) lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
  for (int k = 0; i + k < n; ++k) lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k)
      lanes[k] = lanes[k] > lanes[k + width] ? lanes[k] : lanes[k + width];
  return lanes[0];
}

template <class T>
T weigh(const ScoreRow<T>& row, T* scores, T* top, T* sum) {
  apply_mask(row, scores);
  const int64_t n = row.visible;
  const T before = *top, own = largest(scores, n), now = own > before ? own : before;
  // As long as nothing is seen, weights must not shift by an infinity.
  const T shift = now == kLowest<T> ? T(0) : now;
  for (int64_t i = 0; i < n; ++i) scores[i] = math::exp(scores[i] - shift);
  for (int64_t i = n; i < row.n; ++i) scores[i] = T(0);
  const T factor = before == kLowest<T> ? T(0) : math::exp(before - shift);
  *sum = *sum * factor + add_up(n, [=](int64_t i) { return scores[i]; });
  *top = now;
  return factor;
}

template <class T>
void weigh_backward(const ScoreRow<T>& row, T* scores, T* grads, T log_sum, T delta) {
  apply_mask(row, scores);
  const int64_t n = row.visible;
  for (int64_t i = 0; i < n; ++i) {
    const T weight = math::exp(scores[i] - log_sum);
    scores[i] = weight;
    grads[i] = weight * (grads[i] - delta);
  }
  for (int64_t i = n; i < row.n; ++i) scores[i] = grads[i] = T(0);
}

template <class T>
void drop(const AttentionDropout& how, int64_t first, T* x, int64_t n) {
  const T scale = static_cast<T>(how.scale);
  uint32_t words[kTileWords];
  for (int64_t i = 0; i < n;) {
    const int64_t number = first + i, start = number % kTileWords;
    const int64_t count = n - i < kTileWords - start ? n - i : kTileWords - start;
    philox_tile(how.seed, how.offset + static_cast<uint64_t>(number / kTileWords * kTileCounters),
                words);
    for (int64_t k = 0; k < count; ++k)
      x[i + k] = uint64_t{words[start + k]} < how.threshold ? T(0) : x[i + k] * scale;
    i += count;
  }
}

template <class T>
void scale(T* x, int64_t n, T factor) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

template <class T>
T dot(const T* a, const T* b, int64_t n) {
  return add_up(n, [=](int64_t i) { return a[i] * b[i]; });
}

template <class T>
constexpr AttentionKernels<T> kernels_of() {
  return {weigh<T>, weigh_backward<T>, drop<T>, scale<T>, dot<T>};
}

}  // namespace

extern const AttentionTable attention_table;
constinit const AttentionTable attention_table = {kernels_of<float>(), kernels_of<double>()};

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
