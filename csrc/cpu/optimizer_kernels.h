// The update formulas of the optimizers, compiled once per instruction set. See optimizer.cpp.
#pragma once

#include <cstdint>

#include "cpu/isa.h"

namespace tapegrad::cpu {

inline constexpr int kMaxOptimizerStates = 3;         // tensors per parameter, besides its gradient
inline constexpr int kMaxOptimizerCounts = 3;         // numbers per parameter, such as the step
inline constexpr int kMaxOptimizerCoefficients = 10;  // numbers that a formula reads

struct OptimizerKernels {
  int states, counts;
  // Once per parameter: moves its counts on by one step and works out what the formula reads.
  // `narrow`: the counts are kept in float32.
  void (*prepare)(const double* options, double* counts, bool narrow, double* coefficients);
  // Of n elements: the gradient, the parameter, its states. For float and for double.
  void (*update[2])(const double* coefficients, void* const* operands, int64_t n);
};

// In the order of the list in ops/optimizer.cpp.
inline constexpr int kOptimizers = 15;
struct OptimizerTable {
  OptimizerKernels of[kOptimizers];
};
TAPEGRAD_ISA_TABLE(OptimizerTable, optimizer_table)

}  // namespace tapegrad::cpu
