// The functions that csrc/cpu/special.cpp compiles once, for the pointwise kernels of all instruction
// sets.
#pragma once

namespace tapegrad::cpu::special {

#define TAPEGRAD_SPECIAL(NAME) double NAME(double x);
#define TAPEGRAD_SPECIAL_2(NAME) double NAME(double a, double b);
#define TAPEGRAD_SPECIAL_3(NAME) double NAME(double a, double b, double parameter);
#include "cpu/special_names.h"
#undef TAPEGRAD_SPECIAL
double ndtri(double p);
double ndtri_estimate(double p);
#undef TAPEGRAD_SPECIAL_2
#undef TAPEGRAD_SPECIAL_3

}  // namespace tapegrad::cpu::special
