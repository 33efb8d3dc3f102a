// Compiled once per instruction set. An optimizer is one struct: `prepare` is done once per parameter,
// in double, and leaves the coefficients c; `update` is the formula for one element, with g the
// gradient, p the parameter and s its states. The order of options, states and counts is that of the
// list in ops/optimizer.cpp.
#include "cpu/optimizer_kernels.h"

#include <cmath>

#include "cpu/math.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

double as_kept(double value, bool narrow) {
  return narrow ? static_cast<double>(static_cast<float>(value)) : value;
}

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

double sign_of(double maximize) { return maximize != 0 ? -1.0 : 1.0; }

// ---- options: lr, momentum, dampening, weight_decay, nesterov, maximize
struct Sgd {
  static constexpr int kStates = 0, kCounts = 0;
  static void prepare(const double* o, double*, bool, double* c) {
    c[0] = -o[0];
    c[1] = o[3];
    c[2] = sign_of(o[5]);
  }
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T*) {
    p += c[0] * direction(g, p, c[2], c[1]);
  }
};

struct SgdMomentum {
  static constexpr int kStates = 1, kCounts = 0;
  static void prepare(const double* o, double* counts, bool narrow, double* c) {
    Sgd::prepare(o, counts, narrow, c);
    c[3] = o[1];
    c[4] = 1 - o[2];
    c[5] = o[4];
  }
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[2], c[1]);
    s[0] = c[3] * s[0] + c[4] * g;
    p += c[0] * (c[5] != T(0) ? g + c[3] * s[0] : s[0]);
  }
};

// ---- options: lr, beta1, beta2, eps, weight_decay, maximize, decoupled_weight_decay; count: step
template <bool kAmsgrad>
struct Adam {
  static constexpr int kStates = kAmsgrad ? 3 : 2, kCounts = 1;
  static void prepare(const double* o, double* counts, bool, double* c) {
    const double t = counts[0] += 1;
    c[0] = -o[0] / (1 - std::pow(o[1], t));
    c[1] = 1 / std::sqrt(1 - std::pow(o[2], t));
    c[2] = 1 - o[1];
    c[3] = o[2];
    c[8] = 1 - o[2];
    c[4] = o[3];
    c[5] = o[6] != 0 ? 0 : o[4];
    c[6] = sign_of(o[5]);
    c[7] = o[6] != 0 ? 1 - o[0] * o[4] : 1;
  }
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

// ---- options: lr, alpha, eps, weight_decay, momentum, maximize; count: step
template <bool kCentered, bool kMomentum>
struct RmsProp {
  static constexpr int kStates = 1 + kCentered + kMomentum, kCounts = 1;
  static void prepare(const double* o, double* counts, bool, double* c) {
    counts[0] += 1;
    c[0] = -o[0];
    c[1] = o[1];
    c[2] = 1 - o[1];
    c[3] = o[2];
    c[4] = o[3];
    c[5] = sign_of(o[5]);
    c[6] = o[4];
  }
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

// ---- options: lr, lr_decay, eps, weight_decay, maximize; count: step
struct Adagrad {
  static constexpr int kStates = 1, kCounts = 1;
  static void prepare(const double* o, double* counts, bool, double* c) {
    const double t = counts[0] += 1;
    c[0] = -o[0] / (1 + (t - 1) * o[1]);
    c[1] = o[2];
    c[2] = o[3];
    c[3] = sign_of(o[4]);
  }
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[3], c[2]);
    s[0] += g * g;
    p += c[0] * g / (math::sqrt(s[0]) + c[1]);
  }
};

// ---- options: lr, rho, eps, weight_decay, maximize; count: step
struct Adadelta {
  static constexpr int kStates = 2, kCounts = 1;
  static void prepare(const double* o, double* counts, bool, double* c) {
    counts[0] += 1;
    c[0] = -o[0];
    c[1] = o[1];
    c[2] = 1 - o[1];
    c[3] = o[2];
    c[4] = o[3];
    c[5] = sign_of(o[4]);
  }
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[5], c[4]);
    s[0] = c[1] * s[0] + c[2] * g * g;
    const T delta = math::sqrt(s[1] + c[3]) / math::sqrt(s[0] + c[3]) * g;
    s[1] = c[1] * s[1] + c[2] * delta * delta;
    p += c[0] * delta;
  }
};

// ---- options: lr, beta1, beta2, eps, weight_decay, maximize; count: step
struct Adamax {
  static constexpr int kStates = 2, kCounts = 1;
  static void prepare(const double* o, double* counts, bool, double* c) {
    const double t = counts[0] += 1;
    c[0] = -o[0] / (1 - std::pow(o[1], t));
    c[1] = 1 - o[1];
    c[2] = o[2];
    c[3] = o[3];
    c[4] = o[4];
    c[5] = sign_of(o[5]);
  }
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[5], c[4]);
    s[0] = lerp(s[0], g, c[1]);
    const T before = c[2] * s[1], now = math::abs(g) + c[3];
    s[1] = greater(before, now);
    p += c[0] * s[0] / s[1];
  }
};

// ---- options: lr, beta1, beta2, eps, weight_decay, momentum_decay, maximize,
// decoupled_weight_decay; counts: step, mu_product
struct NAdam {
  static constexpr int kStates = 2, kCounts = 2;
  static void prepare(const double* o, double* counts, bool narrow, double* c) {
    const double t = counts[0] += 1;
    auto momentum = [&](double at) { return o[1] * (1 - 0.5 * std::pow(0.96, at * o[5])); };
    const double mu = momentum(t), next = momentum(t + 1);
    // The product is kept in its tensor's precision from step to step.
    const double product = counts[1] = as_kept(counts[1] * as_kept(mu, narrow), narrow);
    c[0] = -o[0] * (1 - mu) / (1 - product);
    c[1] = -o[0] * next / (1 - product * next);
    c[2] = 1 - o[1];
    c[3] = o[2];
    c[8] = 1 - o[2];
    c[4] = 1 / (1 - std::pow(o[2], t));
    c[5] = o[3];
    c[6] = sign_of(o[6]);
    c[7] = o[7] != 0 ? 0 : o[4];
    c[9] = o[7] != 0 ? 1 - o[0] * o[4] : 1;
  }
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[6], c[7]);
    s[0] = lerp(s[0], g, c[2]);
    s[1] = c[3] * s[1] + c[8] * g * g;
    const T root = math::sqrt(s[1] * c[4]) + c[5];
    p = p * c[9] + (c[0] * g + c[1] * s[0]) / root;
  }
};

// ---- options: lr, beta1, beta2, eps, weight_decay, maximize, decoupled_weight_decay; count: step
struct RAdam {
  static constexpr int kStates = 2, kCounts = 1;
  static void prepare(const double* o, double* counts, bool, double* c) {
    const double t = counts[0] += 1, correction = 1 - std::pow(o[2], t);
    const double longest = 2 / (1 - o[2]) - 1;
    const double length = longest - 2 * t * std::pow(o[2], t) / correction;
    c[0] = -o[0] / (1 - std::pow(o[1], t));
    // As long as the average of squares rests on too few gradients it is left out.
    c[1] = length > 5 ? 1 : 0;
    if (length > 5) {
      const double now = (length - 4) * (length - 2) / length;
      const double finally = (longest - 4) * (longest - 2) / longest;
      c[0] *= std::sqrt(now / finally) * std::sqrt(correction);
    }
    c[2] = 1 - o[1];
    c[3] = o[2];
    c[8] = 1 - o[2];
    c[4] = o[3];
    c[5] = o[6] != 0 ? 0 : o[4];
    c[6] = sign_of(o[5]);
    c[7] = o[6] != 0 ? 1 - o[0] * o[4] : 1;
  }
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[6], c[5]);
    s[0] = lerp(s[0], g, c[2]);
    s[1] = c[3] * s[1] + c[8] * g * g;
    const T root = math::sqrt(s[1]) + c[4];
    p = p * c[7] + c[0] * s[0] / (c[1] != T(0) ? root : T(1));
  }
};

// ---- options: lr, lambd, alpha, t0, weight_decay, maximize; counts: step, eta, mu
struct Asgd {
  static constexpr int kStates = 1, kCounts = 3;
  static void prepare(const double* o, double* counts, bool, double* c) {
    const double t = counts[0] += 1, eta = counts[1], mu = counts[2];
    c[0] = 1 - o[1] * eta;
    c[1] = -eta;
    c[2] = mu;
    c[3] = o[4];
    c[4] = sign_of(o[5]);
    counts[1] = o[0] / std::pow(1 + o[1] * o[0] * t, o[2]);
    counts[2] = 1 / (t - o[3] > 1 ? t - o[3] : 1);
  }
  template <class T>
  TAPEGRAD_INLINE static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[4], c[3]);
    p = p * c[0] + c[1] * g;
    s[0] = c[2] == T(1) ? p : s[0] + c[2] * (p - s[0]);
  }
};

// ---- options: etaminus, etaplus, smallest, largest, maximize; count: step
struct Rprop {
  static constexpr int kStates = 2, kCounts = 1;
  static void prepare(const double* o, double* counts, bool, double* c) {
    counts[0] += 1;
    for (int i = 0; i < 4; ++i) c[i] = o[i];
    c[4] = sign_of(o[4]);
  }
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
  return {F::kStates, F::kCounts, F::prepare, {update<F, float>, update<F, double>}};
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
