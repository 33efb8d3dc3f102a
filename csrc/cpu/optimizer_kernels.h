// The update formulas of the optimizers, compiled once per instruction set. See optimizer.cpp.
#pragma once

#include "cpu/isa.h"
#include "spec/optimizer.h"

namespace tapegrad::cpu {

struct OptimizerKernels {
  // Of n elements: the gradient, the parameter, its states. For float and for double.
  void (*update[2])(const double* coefficients, void* const* operands, int64_t n);
};

struct OptimizerTable {
  OptimizerKernels of[kOptimizers];
};
TAPEGRAD_ISA_TABLE(OptimizerTable, optimizer_table)

}  // namespace tapegrad::cpu
