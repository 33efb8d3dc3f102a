// Functions of complex numbers that are made of recorded ops: those for which a kernel would not pay.
#pragma once

#include "core/complex.h"
#include "core/tensor.h"
#include "ops/pointwise.h"

namespace tapegrad {

// Real and imaginary parts put together, in new memory.
Tensor complex_of(const Tensor& real, const Tensor& imag);

// A line of the table that has no kernel for complex numbers, of operands of which one is complex; undefined
// if there is no such form of it.
Tensor complex_line(PointwiseId id, Operands operands);
constexpr bool has_complex_form(PointwiseId id) {
  return id == PointwiseId::logaddexp || id == PointwiseId::silu || id == PointwiseId::softsign;
}

Tensor complex_logsumexp(const Tensor& x, Sizes dims, bool keepdim);
Tensor complex_logcumsumexp(const Tensor& x, int64_t dim);

Tensor complex_linspace(Complex<double> start, Complex<double> end, int64_t steps, DType dtype,
                        Device device);
Tensor complex_logspace(Complex<double> start, Complex<double> end, int64_t steps, double base,
                        DType dtype, Device device);

// A factor of a sum, such as alpha=, as a Python program may give it: real, or a complex number in a tensor of
// no dimensions. Attributes of calls are real, so a complex one multiplies an operand.
struct Factor {
  Scalar real = Scalar(1);
  Tensor complex;
  // Of an operand of complex numbers: the operand times the factor, and what is left to be done by the op.
  Scalar apply(const char* op, Tensor& operand) const;
};

}  // namespace tapegrad
