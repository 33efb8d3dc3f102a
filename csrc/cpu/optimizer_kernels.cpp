// Compiled once per instruction set. An optimizer is one struct: `update` is the formula for one element,
// with g the gradient, p the parameter, s its states, and c the coefficients that spec/optimizer.cpp
// prepares.
#include "cpu/optimizer_kernels.h"

#include "cpu/math.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

// m moved towards g by a share: exact at both ends.
template <class T>
TAPEGRAD_INLINE T lerp(T m, T g, T share) {
  const T way = g - m;
  return share < T(0.5) ? m + share * way : g - way * (T(1) - share);
}

// A NaN wins. Written as two choices, each of which is one vector instruction.
template <class T>
TAPEGRAD_INLINE T greater(T a, T b) {
  const T larger = b > a ? b : a;
  return b != b ? b : larger;
}

// The gradient to descend along, with weight decay.
template <class T>
TAPEGRAD_INLINE T direction(T g, T p, T sign, T decay) {
  const T turned = sign * g;
  return decay != T(0) ? turned + decay * p : turned;
}

struct Sgd {
  static constexpr int kStates = 0;
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T*) {
    p += c[0] * direction(g, p, c[2], c[1]);
  }
};

struct SgdMomentum {
  static constexpr int kStates = 1;
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[2], c[1]);
    s[0] = c[3] * s[0] + c[4] * g;
    p += c[0] * (c[5] != T(0) ? g + c[3] * s[0] : s[0]);
  }
};

template <bool kAmsgrad>
struct Adam {
  static constexpr int kStates = kAmsgrad ? 3 : 2;
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[6], c[5]);
    s[0] = lerp(s[0], g, c[2]);
    s[1] = c[3] * s[1] + c[8] * g * g;
    T v = s[1];
    if constexpr (kAmsgrad) v = s[2] = greater(s[2], v);
    p = p * c[7] + c[0] * s[0] / (math::sqrt(v) * c[1] + c[4]);
  }
};

template <bool kCentered, bool kMomentum>
struct RmsProp {
  static constexpr int kStates = 1 + kCentered + kMomentum;
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[5], c[4]);
    s[0] = c[1] * s[0] + c[2] * g * g;
    T v = s[0];
    if constexpr (kCentered) {
      s[1] = lerp(s[1], g, c[2]);
      v -= s[1] * s[1];
    }
    T step = g / (math::sqrt(v) + c[3]);
    if constexpr (kMomentum) {
      T& velocity = s[kStates - 1];
      velocity = c[6] * velocity + step;
      step = velocity;
    }
    p += c[0] * step;
  }
};

struct Adagrad {
  static constexpr int kStates = 1;
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[3], c[2]);
    s[0] += g * g;
    p += c[0] * g / (math::sqrt(s[0]) + c[1]);
  }
};

struct Adadelta {
  static constexpr int kStates = 2;
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[5], c[4]);
    s[0] = c[1] * s[0] + c[2] * g * g;
    const T delta = math::sqrt(s[1] + c[3]) / math::sqrt(s[0] + c[3]) * g;
    s[1] = c[1] * s[1] + c[2] * delta * delta;
    p += c[0] * delta;
  }
};

struct Adamax {
  static constexpr int kStates = 2;
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[5], c[4]);
    s[0] = lerp(s[0], g, c[1]);
    const T before = c[2] * s[1], now = math::abs(g) + c[3];
    s[1] = greater(before, now);
    p += c[0] * s[0] / s[1];
  }
};

struct NAdam {
  static constexpr int kStates = 2;
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[6], c[7]);
    s[0] = lerp(s[0], g, c[2]);
    s[1] = c[3] * s[1] + c[8] * g * g;
    const T root = math::sqrt(s[1] * c[4]) + c[5];
    p = p * c[9] + (c[0] * g + c[1] * s[0]) / root;
  }
};

struct RAdam {
  static constexpr int kStates = 2;
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[6], c[5]);
    s[0] = lerp(s[0], g, c[2]);
    s[1] = c[3] * s[1] + c[8] * g * g;
    const T root = math::sqrt(s[1]) + c[4];
    p = p * c[7] + c[0] * s[0] / (c[1] != T(0) ? root : T(1));
  }
};

struct Asgd {
  static constexpr int kStates = 1;
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[4], c[3]);
    p = p * c[0] + c[1] * g;
    s[0] = c[2] == T(1) ? p : s[0] + c[2] * (p - s[0]);
  }
};

struct Rprop {
  static constexpr int kStates = 2;
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = c[4] * g;
    const T agreement = g * s[0];
    T size = s[1];
    size *= agreement > T(0) ? c[1] : T(1);
    size *= agreement < T(0) ? c[0] : T(1);
    size = size < c[2] ? c[2] : size;
    size = size > c[3] ? c[3] : size;
    g = agreement < T(0) ? T(0) : g;
    p -= g > T(0) ? size : g < T(0) ? -size : T(0);
    s[0] = g;
    s[1] = size;
  }
};

template <class F, class T>
void update(const double* coefficients, void* const* operands, int64_t n) {
  T c[kMaxOptimizerCoefficients];
  for (int i = 0; i < kMaxOptimizerCoefficients; ++i) c[i] = static_cast<T>(coefficients[i]);
  // The caller has seen to it that what is written overlaps nothing.
  auto* __restrict grad = static_cast<const T*>(operands[0]);
  auto* __restrict param = static_cast<T*>(operands[1]);
  [[maybe_unused]] auto* __restrict state0 = static_cast<T*>(operands[2]);
  [[maybe_unused]] auto* __restrict state1 = static_cast<T*>(operands[3]);
  [[maybe_unused]] auto* __restrict state2 = static_cast<T*>(operands[4]);
  for (int64_t i = 0; i < n; ++i) {
    T s[kMaxOptimizerStates];
    T p = param[i];
    if constexpr (F::kStates > 0) s[0] = state0[i];
    if constexpr (F::kStates > 1) s[1] = state1[i];
    if constexpr (F::kStates > 2) s[2] = state2[i];
    F::update(c, grad[i], p, s);
    param[i] = p;
    if constexpr (F::kStates > 0) state0[i] = s[0];
    if constexpr (F::kStates > 1) state1[i] = s[1];
    if constexpr (F::kStates > 2) state2[i] = s[2];
  }
}

template <class F>
constexpr OptimizerKernels kernels_of() {
  return {{update<F, float>, update<F, double>}};
}

}  // namespace

extern const OptimizerTable optimizer_table;
// Constant-initialised: no code of this file may run before the instruction set is known.
constinit const OptimizerTable optimizer_table = {{
    kernels_of<Sgd>(),
    kernels_of<SgdMomentum>(),
    kernels_of<Adam<false>>(),
    kernels_of<Adam<true>>(),
    kernels_of<RmsProp<false, false>>(),
    kernels_of<RmsProp<false, true>>(),
    kernels_of<RmsProp<true, false>>(),
    kernels_of<RmsProp<true, true>>(),
    kernels_of<Adagrad>(),
    kernels_of<Adadelta>(),
    kernels_of<Adamax>(),
    kernels_of<NAdam>(),
    kernels_of<RAdam>(),
    kernels_of<Asgd>(),
    kernels_of<Rprop>(),
}};

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
