// Complex numbers in Python: parts, conjugates, angles.
#include "ops/complex.h"

#include <numbers>

#include "core/error.h"
#include "graph/record.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/pointwise.h"
#include "ops/view.h"
#include "python/binding.h"
#include "python/function_ops.h"
#include "python/out.h"

namespace tapegrad::python {

namespace {

using Out = std::optional<Tensor>;

// Of a real number, which lies on one side of zero or the other.
Tensor angle(const Tensor& x) {
  if (is_complex(x.dtype())) return complex_angle(x);
  const Tensor number = is_integral(x.dtype()) ? cast(x, default_dtype()) : x;
  const Tensor turned = full({}, std::numbers::pi, number.dtype(), number->device());
  return where(number < 0.0, turned, where(isnan(number), number, 0.0));
}

Tensor sgn(const Tensor& x) { return is_complex(x.dtype()) ? complex_sgn(x) : sign(x); }

// Writes the result over x.
template <Tensor (*kFunction)(const Tensor&)>
Tensor inplace(Tensor self) {
  copy_(self, kFunction(self));
  return self;
}

void bind_parts(Binder& b) {
  b.function("real", real, "input"_a, R"(The real parts, over the same memory; a real tensor itself.

Example:
    >>> torch.real(torch.tensor([1 + 2j]))
    tensor([1.])
)");
  b.function("imag", imag, "input"_a,
             R"(The imaginary parts of a complex tensor, over the same memory.

Example:
    >>> torch.imag(torch.tensor([1 + 2j]))
    tensor([2.])
)");
  b.function("view_as_real", view_as_real, "input"_a,
             R"(Real and imaginary parts in a last dimension of two, over the same memory.

Example:
    >>> torch.view_as_real(torch.tensor([1 + 2j]))
    tensor([[1., 2.]])
)");
  b.function("view_as_complex", view_as_complex, "input"_a,
             R"(Pairs of numbers in the last dimension as complex ones, over the same memory.

Example:
    >>> torch.view_as_complex(torch.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
)");
}

void bind_conjugates(Binder& b) {
  b.both("conj", conj, R"(The complex conjugates, computed at once; a real tensor itself.

Example:
    >>> torch.conj(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
)");
  b.both("conj_physical", [](const Tensor& x, const Out& out) {
    return into_out("conj_physical", conj(x), out, {&x});
  }, nb::kw_only(), "out"_a.none() = nb::none(), "The complex conjugates: the same as conj().");
  b.method("conj_physical_", inplace<conj>, "Conjugates in place.");
  b.function("conj_physical_", inplace<conj>, "input"_a, "Conjugates in place.");
  b.both("resolve_conj", [](const Tensor& x) { return x; },
         "The tensor itself: conjugates are computed at once, never put off.");
  b.both("resolve_neg", [](const Tensor& x) { return x; },
         "The tensor itself: negation is computed at once, never put off.");
  b.both("is_conj", [](const Tensor&) { return false; },
         "Always False: conjugates are computed at once, never put off.");
  b.both("is_neg", [](const Tensor&) { return false; },
         "Always False: negation is computed at once, never put off.");
}

void bind_angles(Binder& b) {
  b.both("angle",
         [](const Tensor& x, const Out& out) {
    return into_castable_out("angle", angle(x), out, {&x});
  }, nb::kw_only(), "out"_a.none() = nb::none(),
         R"(The angles of complex numbers, in (-pi, pi]; of real ones 0 or pi.

Example:
    >>> torch.angle(torch.tensor([1j, -1 + 0j]))
    tensor([1.5708, 3.1416])
)");
  b.both("sgn", [](const Tensor& x, const Out& out) { return into_out("sgn", sgn(x), out, {&x}); },
         nb::kw_only(), "out"_a.none() = nb::none(),
         R"(Numbers of the same angle and magnitude one, zero for zero; the sign of real ones.

Example:
    >>> torch.sgn(torch.tensor([3 + 4j, 0j]))
    tensor([0.6000+0.8000j, 0.0000+0.0000j])
)");
  b.method("sgn_", inplace<sgn>, "sgn() in place.");
}

}  // namespace

void bind_complex(Binder& b) {
  runs("angle", {"where", "complex_angle"});
  runs("sgn", {"sign", "complex_sgn"});
  runs("conj_physical", {"conj"});
  bind_parts(b);
  bind_conjugates(b);
  bind_angles(b);
}

}  // namespace tapegrad::python
