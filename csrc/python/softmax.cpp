// softmax in Python.
#include "ops/softmax.h"

#include "python/binding.h"

namespace tapegrad::python {

void bind_softmax(Binder& b) {
  using Out = std::optional<Tensor>;
  auto dtype = "dtype"_a.none() = nb::none();
  auto out = "out"_a.none() = nb::none();
  b.both("softmax",
         [](const Tensor& x, int64_t dim, std::optional<DType> dtype, const Out& out) {
    return into_out("softmax", softmax(x, dim, dtype), out);
  }, "dim"_a, dtype, nb::kw_only(), out,
         R"(Exponentials, scaled so that they add up to one along a dimension.

Args:
    dim: the dimension.
    dtype: what elements are converted to first.

Example:
    >>> torch.softmax(torch.tensor([0., 0.]), dim=0)
    tensor([0.5000, 0.5000])
)");
  b.both("log_softmax",
         [](const Tensor& x, int64_t dim, std::optional<DType> dtype, const Out& out) {
    return into_out("log_softmax", log_softmax(x, dim, dtype), out);
  }, "dim"_a, dtype, nb::kw_only(), out,
         R"(The logarithm of softmax, computed without leaving the logarithms.

Args:
    dim: the dimension.
    dtype: what elements are converted to first.

Example:
    >>> torch.log_softmax(torch.tensor([0., 0.]), dim=0)
    tensor([-0.6931, -0.6931])
)");
}

}  // namespace tapegrad::python
