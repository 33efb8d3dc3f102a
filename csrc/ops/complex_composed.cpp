#include "ops/complex_composed.h"

#include <limits>

#include "core/error.h"
#include "graph/record.h"
#include "ops/complex.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/join.h"
#include "ops/promotion.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// log(exp(a) + exp(b)): the number of the larger real part, and what the other one adds to it.
Tensor complex_logaddexp(const Tensor& a, const Tensor& b) {
  Tensor is_first = real(a) >= real(b);
  Tensor larger = where(is_first, a, b), smaller = where(is_first, b, a);
  // Of two zeros the difference of logarithms is unknown, and does not matter.
  Tensor nothing = real(larger) == -kInfinity;
  Tensor apart = where(nothing, 0.0, smaller - larger);
  return where(nothing, larger, larger + log1p(exp(apart)));
}

}  // namespace

Tensor complex_of(const Tensor& real, const Tensor& imag) {
  const Tensor parts[] = {real, imag};
  return view_as_complex(stack(parts, -1));
}

Tensor complex_line(PointwiseId id, Operands operands) {
  const Tensor& x = *operands[0];
  switch (id) {
    case PointwiseId::logaddexp: {
      ResultType type;
      for (const Tensor* operand : operands) type.add(*operand);
      return complex_logaddexp(cast(x, type.get()), cast(*operands[1], type.get()));
    }
    case PointwiseId::silu:
      return x * sigmoid(x);
    case PointwiseId::softsign:
      return x / (complex_abs(x) + 1.0);
    default:
      return {};
  }
}

Tensor complex_logsumexp(const Tensor& x, Sizes dims, bool keepdim) {
  Tensor result;
  if (x.numel() == 0) {  // nothing has no largest element
    result = log(sum(x, dims, true));
  } else {
    Tensor largest = amax(detach(real(x)), dims, true);
    largest = where(isfinite(largest), largest, 0.0);
    result = log(sum(exp(x - largest), dims, true)) + largest;
  }
  if (keepdim) return result;
  if (dims.empty()) return reshape(result, {});
  return squeeze(result, dims);
}

// Each round adds to every element what stands twice as far before it as in the round before.
Tensor complex_logcumsumexp(const Tensor& x, int64_t dim) {
  Tensor sums = x;
  const int64_t n = x.dim() == 0 ? 0 : x.size(dim);
  if (n < 2) return clone(x);
  for (int64_t step = 1; step < n; step *= 2) {
    Tensor rest = narrow(sums, dim, step, n - step), before = narrow(sums, dim, 0, n - step);
    const Tensor parts[] = {narrow(sums, dim, 0, step), complex_logaddexp(rest, before)};
    sums = cat(parts, dim);
  }
  return sums;
}

Tensor complex_linspace(Complex<double> start, Complex<double> end, int64_t steps, DType dtype,
                        Device device) {
  const DType part = real_dtype(dtype);
  return complex_of(linspace(start.real, end.real, steps, part, device),
                    linspace(start.imag, end.imag, steps, part, device));
}

Tensor complex_logspace(Complex<double> start, Complex<double> end, int64_t steps, double base,
                        DType dtype, Device device) {
  return pow(base, complex_linspace(start, end, steps, dtype, device));
}

Scalar Factor::apply(const char* op, Tensor& operand) const {
  if (!complex.defined()) return real;
  TAPEGRAD_CHECK(is_complex(operand.dtype()), op, ": a complex factor cannot be converted to type ",
                 name(operand.dtype()), " without overflow; expected complex tensors");
  operand = mul(operand, complex);
  return Scalar(1);
}

}  // namespace tapegrad
