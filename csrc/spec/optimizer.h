// Optimizers, as the kernels of all devices see them: how many tensors and numbers a parameter has, and what
// happens once per parameter and step.
#pragma once

#include <cstdint>

namespace tapegrad {

inline constexpr int kMaxOptimizerStates = 3;         // tensors per parameter, besides its gradient
inline constexpr int kMaxOptimizerCounts = 3;         // numbers per parameter, such as the step
inline constexpr int kMaxOptimizerCoefficients = 10;  // numbers that a formula reads
inline constexpr int kMaxOptimizerOptions = 16;

struct OptimizerSpec {
  int states, counts;
  // Moves the counts on by one step and works out the coefficients that the formula reads. `narrow`: the
  // counts are kept in float32.
  void (*prepare)(const double* options, double* counts, bool narrow, double* coefficients);
};

// In the order of the list in ops/optimizer.cpp. That of options and counts is the list's, too.
inline constexpr int kOptimizers = 15;
extern const OptimizerSpec optimizer_specs[kOptimizers];

}  // namespace tapegrad
