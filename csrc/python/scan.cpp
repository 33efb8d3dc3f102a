// Scans in Python.
#include "ops/scan.h"

#include "core/error.h"
#include "python/out.h"
#include "python/return_types.h"

namespace tapegrad::python {

namespace {

using Out = std::optional<Tensor>;
using OutPair = std::optional<std::pair<Tensor, Tensor>>;
using Total = Tensor (*)(const Tensor&, int64_t, std::optional<DType>);
using TotalInPlace = void (*)(const Tensor&, int64_t, std::optional<DType>);
using Extreme = std::pair<Tensor, Tensor> (*)(const Tensor&, int64_t);

// cumsum and cumprod, and their in-place forms.
void bind_total(Binder& b, const char* name, Total total, TotalInPlace total_inplace,
                const char* doc) {
  auto dtype = "dtype"_a.none() = nb::none();
  auto f = [=](const Tensor& x, int64_t dim, std::optional<DType> dtype, const Out& out) {
    if (out && !dtype) dtype = out->dtype();  // Totals are formed in the dtype of out=.
    if (out && dtype == DType::Bool) fail_unsupported_dtype(name, DType::Bool);
    return into_castable_out(name, total(x, dim, dtype), out);
  };
  auto out = "out"_a.none() = nb::none();
  b.both(name, f, "dim"_a, nb::kw_only(), dtype, out, doc);
  b.both(name, f, "axis"_a, nb::kw_only(), dtype, out);
  b.method((std::string(name) + "_").c_str(),
           [=](Tensor self, int64_t dim, std::optional<DType> dtype) {
    TAPEGRAD_CHECK(!dtype || *dtype == self.dtype(), name,
                   "_: bad in-place call: input tensor dtype ", tapegrad::name(self.dtype()),
                   " and output tensor dtype ", tapegrad::name(*dtype), " should match");
    if (self.dtype() == DType::Bool) fail_unsupported_dtype(name, DType::Bool);
    total_inplace(self, dim, dtype);
    return self;
  }, "dim"_a, nb::kw_only(), dtype, "The same in place.");
}

void bind_extreme(Binder& b, const char* name, Extreme extreme, const char* doc) {
  ReturnType type(b, name);
  b.both(name, [=](const Tensor& x, int64_t dim, const OutPair& out) {
    auto [values, indices] = extreme(x, dim);
    if (!out) return type({values, indices});
    return type({into_out(name, values, out->first), into_out(name, indices, out->second)});
  }, "dim"_a, nb::kw_only(), "out"_a.none() = nb::none(), doc);
}

}  // namespace

void bind_scan(Binder& b) {
  bind_total(b, "cumsum", cumsum, cumsum_, R"(Running sums along a dimension. Integers run in int64.

Args:
    dim: the dimension.
    dtype: what elements are converted to first.

Example:
    >>> torch.cumsum(torch.tensor([1, 2, 3]), dim=0)
    tensor([1, 3, 6])
)");
  bind_total(b, "cumprod", cumprod, cumprod_,
             R"(Running products along a dimension. Integers run in int64.

Args:
    dim: the dimension.
    dtype: what elements are converted to first.

Example:
    >>> torch.cumprod(torch.tensor([1., 2., 3.]), dim=0)
    tensor([1., 2., 6.])
)");
  b.both("logcumsumexp",
         [](const Tensor& x, int64_t dim, const Out& out) {
    return into_out("logcumsumexp", logcumsumexp(x, dim), out);
  }, "dim"_a, nb::kw_only(), "out"_a.none() = nb::none(),
         R"(Logarithms of the running sums of exponentials, without overflow.

Args:
    dim: the dimension.

Example:
    >>> torch.logcumsumexp(torch.tensor([1000., 1000.]), dim=0)
    tensor([1000.0000, 1000.6932])
)");
  bind_extreme(b, "cummax", cummax, R"(Running maxima along a dimension, and their latest places.

Args:
    dim: the dimension.

Example:
    >>> torch.cummax(torch.tensor([1., 3., 2.]), dim=0).values
    tensor([1., 3., 3.])
)");
  bind_extreme(b, "cummin", cummin, R"(Running minima along a dimension, and their latest places.

Args:
    dim: the dimension.

Example:
    >>> torch.cummin(torch.tensor([2., 3., 1.]), dim=0).indices
    tensor([0, 0, 2])
)");
}

}  // namespace tapegrad::python
