// Masks in Python.
#include "ops/mask.h"

#include "core/error.h"
#include "python/index.h"

namespace tapegrad::python {

namespace {

using Out = std::optional<Tensor>;

nb::object columns_of(const Tensor& x) {
  std::vector<Tensor> columns = nonzero_columns(x);
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(columns.size())));
  if (!tuple.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < columns.size(); ++i)
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), wrap(std::move(columns[i])));
  return tuple;
}

void bind_nonzero(Binder& b) {
  b.both("nonzero",
         [](const Tensor& x, bool as_tuple, const Out& out) -> nb::object {
    if (as_tuple) return columns_of(x);
    return nb::cast(into_out("nonzero", nonzero(x), out));
  }, nb::kw_only(), "as_tuple"_a = false, "out"_a.none() = nb::none(),
         R"(The indices of the elements that are not zero.

Args:
    as_tuple: one vector of indices for each dimension instead of a matrix.

Example:
    >>> torch.nonzero(torch.tensor([0, 7, 9]))
    tensor([[1],
            [2]])
)");
  b.function("where", [](const Tensor& condition) { return columns_of(condition); }, "condition"_a);
}

void bind_masked_select(Binder& b) {
  b.both("masked_select",
         [](const Tensor& x, const Tensor& mask, const Out& out) {
    return into_out("masked_select", masked_select(x, mask), out);
  }, "mask"_a, nb::kw_only(), "out"_a.none() = nb::none(),
         R"(The elements where a mask is true, as a vector.

Args:
    mask: bool, broadcast together with the tensor.

Example:
    >>> x = torch.tensor([1, 2, 3])
    >>> torch.masked_select(x, x > 1)
    tensor([2, 3])
)");
}

void bind_masked_fill(Binder& b) {
  b.both("masked_fill", [](const Tensor& x, const Tensor& mask, nb::handle value) {
    return masked_fill(x, mask, value_of("masked_fill", x, value));
  }, "mask"_a, "value"_a, R"(A copy with a value where a mask is true.

Args:
    mask: bool, broadcast together with the tensor.
    value: a number or a 0-d tensor.

Example:
    >>> torch.tensor([1, 2, 3]).masked_fill(torch.tensor([True, False, True]), 0)
    tensor([0, 2, 0])
)");
  b.method("masked_fill_", [](const Tensor& self, const Tensor& mask, nb::handle value) {
    masked_fill_(self, mask, value_of("masked_fill_", self, value));
    return self;
  }, "mask"_a, "value"_a, "masked_fill, in place.");
}

void bind_masked_scatter(Binder& b) {
  b.both("masked_scatter", [](const Tensor& x, const Tensor& mask, const Tensor& source) {
    return masked_scatter(x, mask, source);
  }, "mask"_a, "source"_a, R"(A copy in which elements where a mask is true are replaced, in order.

Args:
    mask: bool, broadcast together with the tensor.
    source: at least as many elements as the mask has true ones.

Example:
    >>> mask = torch.tensor([True, False, True])
    >>> torch.zeros(3).masked_scatter(mask, torch.tensor([7., 8.]))
    tensor([7., 0., 8.])
)");
  b.method("masked_scatter_", [](const Tensor& self, const Tensor& mask, const Tensor& source) {
    masked_scatter_(self, mask, source);
    return self;
  }, "mask"_a, "source"_a, "masked_scatter, in place.");
}

}  // namespace

void bind_mask(Binder& b) {
  bind_nonzero(b);
  bind_masked_select(b);
  bind_masked_fill(b);
  bind_masked_scatter(b);
}

}  // namespace tapegrad::python
