// Compiled once per instruction set.
#include "cpu/clip_kernels.h"

#include "core/half.h"
#include "cpu/math.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

constexpr int kLanes = 32;

// A NaN wins, and stays. Written as two choices, each of which is one vector instruction.
template <class T>
TAPEGRAD_INLINE T greater(T a, T b) {
  const T larger = b > a ? b : a;
  return b != b ? b : larger;
}

// Sums are taken in double: squares of float32 neither overflow nor vanish there.
template <class T, bool kSquare>
double sum_part(const void* source, int64_t n) {
  auto* x = static_cast<const T*>(source);
  auto term = [&](int64_t i) {
    const double value = static_cast<double>(x[i]);
    return kSquare ? value * value : math::abs(value);
  };
  double lanes[kLanes] = {}, sum = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] += term(i + k);
  for (int k = 0; k < kLanes; ++k) sum += lanes[k];
  for (; i < n; ++i) sum += term(i);
  return sum;
}

template <class T>
double largest_part(const void* source, int64_t n) {
  auto* x = static_cast<const T*>(source);
  T lanes[kLanes] = {}, top = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] = greater(lanes[k], math::abs(x[i + k]));
  for (int k = 0; k < kLanes; ++k) top = greater(top, lanes[k]);
  for (; i < n; ++i) top = greater(top, math::abs(x[i]));
  return static_cast<double>(top);
}

template <class T>
void scale(void* target, int64_t n, double factor) {
  auto* x = static_cast<T*>(target);
  const T by = static_cast<T>(factor);
  for (int64_t i = 0; i < n; ++i) x[i] *= by;
}

// S is what is stored, and T what is computed with.
template <class S, class T>
bool unscale(void* target, int64_t n, float factor) {
  auto* x = static_cast<S*>(target);
  const T by = static_cast<T>(factor);
  uint32_t not_finite = 0;
  for (int64_t i = 0; i < n; ++i) {
    const T value = static_cast<T>(x[i]);
    not_finite |= static_cast<uint32_t>(!(value - value == 0));
    x[i] = static_cast<S>(value * by);
  }
  return not_finite == 0;
}

template <class T>
constexpr ClipKernels kernels_of() {
  return {{sum_part<T, false>, sum_part<T, true>, largest_part<T>}, scale<T>, unscale<T, T>};
}

}  // namespace

extern const ClipTable clip_table;
// Constant-initialised: no code of this file may run before the instruction set is known.
constinit const ClipTable clip_table = {{kernels_of<float>(), kernels_of<double>()},
                                        {unscale<Half, float>, unscale<BFloat16, float>}};

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
