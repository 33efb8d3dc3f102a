// The scalar math functions of the CPU kernels, for float and double (see Note: branch-free math).
// Only kernel files include this header: it is compiled once per instruction set.
#pragma once

#include "cpu/math/base.h"
#include "cpu/math/error_function.h"
#include "cpu/math/exponential.h"
#include "cpu/math/gamma.h"
#include "cpu/math/huge_angle.h"
#include "cpu/math/integer.h"
#include "cpu/math/logarithm.h"
#include "cpu/math/modular.h"
#include "cpu/math/power.h"
#include "cpu/math/trigonometric.h"
#include "cpu/math/zeta.h"
