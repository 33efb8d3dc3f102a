// An optimizer is one struct: `prepare` leaves the coefficients c, which the formulas of the back ends read
// (cpu/optimizer_kernels.cpp, tapegrad/cuda/kernels/optimizer.cu). The order of options, states and counts is that
// of the list in ops/optimizer.cpp.
#include "spec/optimizer.h"

#include <cmath>

namespace tapegrad {

namespace {

double as_kept(double value, bool narrow) {
  return narrow ? static_cast<double>(static_cast<float>(value)) : value;
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
};

struct SgdMomentum {
  static constexpr int kStates = 1, kCounts = 0;
  static void prepare(const double* o, double* counts, bool narrow, double* c) {
    Sgd::prepare(o, counts, narrow, c);
    c[3] = o[1];
    c[4] = 1 - o[2];
    c[5] = o[4];
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
};

// ---- options: etaminus, etaplus, smallest, largest, maximize; count: step
struct Rprop {
  static constexpr int kStates = 2, kCounts = 1;
  static void prepare(const double* o, double* counts, bool, double* c) {
    counts[0] += 1;
    for (int i = 0; i < 4; ++i) c[i] = o[i];
    c[4] = sign_of(o[4]);
  }
};

template <class F>
constexpr OptimizerSpec spec_of() {
  return {F::kStates, F::kCounts, F::prepare};
}

}  // namespace

const OptimizerSpec optimizer_specs[kOptimizers] = {
    spec_of<Sgd>(),
    spec_of<SgdMomentum>(),
    spec_of<Adam<false>>(),
    spec_of<Adam<true>>(),
    spec_of<RmsProp<false, false>>(),
    spec_of<RmsProp<false, true>>(),
    spec_of<RmsProp<true, false>>(),
    spec_of<RmsProp<true, true>>(),
    spec_of<Adagrad>(),
    spec_of<Adadelta>(),
    spec_of<Adamax>(),
    spec_of<NAdam>(),
    spec_of<RAdam>(),
    spec_of<Asgd>(),
    spec_of<Rprop>(),
};

}  // namespace tapegrad
