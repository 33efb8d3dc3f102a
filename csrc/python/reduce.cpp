// Reductions in Python.
#include "ops/reduce.h"

#include <cmath>

#include "core/error.h"
#include "graph/autocast.h"
#include "ops/copy.h"
#include "ops/linalg.h"
#include "ops/pointwise.h"
#include "ops/view.h"
#include "python/exchange.h"
#include "python/function_ops.h"
#include "python/out.h"
#include "python/return_types.h"
#include "python/text.h"
#include "python/warn.h"

namespace tapegrad::python {

// Dimensions to reduce: None, which leaves the list empty, means all.
struct Dims {
  DimVector values;
  bool given = true;
  operator Sizes() const { return values; }
  // dim=(), which is not None: most reductions take it for all dimensions, any() and all() for none.
  bool given_none() const { return given && values.empty(); }
};

}  // namespace tapegrad::python

namespace nanobind::detail {

template <>
struct type_caster<tapegrad::python::Dims> {
  NB_TYPE_CASTER(tapegrad::python::Dims, const_name("int | Sequence[int] | None"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    value.given = !source.is_none();
    return !value.given || tapegrad::python::int_list_from_object(source.ptr(), &value.values);
  }
};

}  // namespace nanobind::detail

namespace tapegrad::python {

namespace {

using Out = std::optional<Tensor>;
using OutPair = std::optional<std::pair<Tensor, Tensor>>;
using MaybeDType = std::optional<DType>;

TensorPair into_outs(const char* op, TensorPair results, const OutPair& out) {
  if (!out) return results;
  return {into_out(op, std::move(results.first), out->first),
          into_out(op, std::move(results.second), out->second)};
}

// Totals are formed in the dtype of out=.
MaybeDType total_dtype(MaybeDType dtype, const Out& out) {
  return dtype || !out ? dtype : out->dtype();
}

// any and all write bool, and uint8, as older versions did.
Tensor into_truth_out(const char* op, Tensor result, const Out& out) {
  TAPEGRAD_CHECK(!out || out->dtype() == DType::Bool || out->dtype() == DType::UInt8, op,
                 ": expected out tensor to have dtype bool or uint8, but got ",
                 name(out ? out->dtype() : DType::Bool), " instead");
  return into_castable_out(op, std::move(result), out);
}

// name(input, dim=None, keepdim=False), also with NumPy's names axis and keepdims.
template <class F, class... Extra>
void bind_over_dims(Binder& b, const char* name, F f, const char* doc, const Extra&... extra) {
  b.both(name, f, "dim"_a.none() = nb::none(), "keepdim"_a = false, nb::kw_only(), extra..., doc);
  b.both(name, f, "axis"_a.none() = nb::none(), "keepdims"_a = false, nb::kw_only(), extra...);
}

void bind_sums(Binder& b) {
  auto dtype = "dtype"_a.none() = nb::none();
  auto out = "out"_a.none() = nb::none();
  bind_over_dims(
      b, "sum",
      [](const Tensor& x, const Dims& dims, bool keepdim, MaybeDType dtype, const Out& out) {
    return into_castable_out("sum", sum(x, dims, keepdim, total_dtype(dtype, out)), out);
  },
      R"(The sum over all or some dimensions. Integers and bools add up as int64.

Args:
    dim: one dimension, several, or None for all.
    keepdim: whether reduced dimensions stay, with size one.
    dtype: what elements are converted to first.

Example:
    >>> torch.sum(torch.tensor([[1., 2.], [3., 4.]]), dim=0)
    tensor([4., 6.])
)",
      dtype, out);
  bind_over_dims(
      b, "mean",
      [](const Tensor& x, const Dims& dims, bool keepdim, MaybeDType dtype, const Out& out) {
    return into_castable_out("mean", mean(x, dims, keepdim, dtype), out);
  }, R"(The mean over all or some dimensions, of a floating dtype.

Args:
    dim: one dimension, several, or None for all.
    keepdim: whether reduced dimensions stay, with size one.
    dtype: what elements are converted to first.

Example:
    >>> torch.mean(torch.tensor([1., 2., 6.]))
    tensor(3.)
)",
      dtype, out);
  runs("sum_to_size", {"sum"});
  b.method("sum_to_size", [](const Tensor& x, const nb::args& size) {
    return sum_to_size(x, int_list_from_args("sum_to_size", size));
  }, R"(The sum over the dimensions that were broadcast, so that the result has the given size.

Args:
    size: a shape that broadcasts to the tensor's.

Example:
    >>> torch.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
)");
  b.both("prod", [](const Tensor& x, MaybeDType dtype) { return prod(x, dtype); }, nb::kw_only(),
         dtype, R"(The product of all elements, or over one dimension.

Args:
    dim: the dimension; without it all elements are multiplied.
    keepdim: whether the reduced dimension stays, with size one.
    dtype: what elements are converted to first.

Example:
    >>> torch.prod(torch.tensor([[1., 2.], [3., 4.]]), dim=1)
    tensor([ 2., 12.])
)");
  b.both("prod", [](const Tensor& x, int64_t dim, bool keepdim, MaybeDType dtype, const Out& out) {
    return into_castable_out("prod", prod(x, dim, keepdim, total_dtype(dtype, out)), out);
  }, "dim"_a, "keepdim"_a = false, nb::kw_only(), dtype, out);
  b.both("logsumexp",
         [](const Tensor& x, const IntList& dims, bool keepdim, const Out& out) {
    const WithoutAutocast lifted(out.has_value());
    return into_castable_out("logsumexp", logsumexp(x, dims, keepdim), out);
  }, "dim"_a, "keepdim"_a = false, nb::kw_only(), out,
         R"(The logarithm of the sum of exponentials, without overflow.

Args:
    dim: one dimension, or several.
    keepdim: whether reduced dimensions stay, with size one.

Example:
    >>> torch.logsumexp(torch.tensor([1000., 1000.]), dim=0)
    tensor(1000.6932)
)");
}

void bind_tests(Binder& b) {
  auto out = "out"_a.none() = nb::none();
  bind_over_dims(b, "any",
                 [](const Tensor& x, const Dims& dims, bool keepdim, const Out& out) {
    return into_truth_out("any", dims.given_none() ? test_each(x) : any(x, dims, keepdim), out);
  }, R"(Whether any element is nonzero.

Args:
    dim: one dimension, several, or None for all.
    keepdim: whether reduced dimensions stay, with size one.

Example:
    >>> torch.any(torch.tensor([[False, True], [False, False]]), dim=1)
    tensor([ True, False])
)",
                 out);
  bind_over_dims(b, "all",
                 [](const Tensor& x, const Dims& dims, bool keepdim, const Out& out) {
    return into_truth_out("all", dims.given_none() ? test_each(x) : all(x, dims, keepdim), out);
  }, R"(Whether all elements are nonzero.

Args:
    dim: one dimension, several, or None for all.
    keepdim: whether reduced dimensions stay, with size one.

Example:
    >>> torch.all(torch.tensor([[True, True], [False, True]]), dim=1)
    tensor([ True, False])
)",
                 out);
  b.both("count_nonzero", [](const Tensor& x, const Dims& dims) { return count_nonzero(x, dims); },
         "dim"_a.none() = nb::none(), R"(How many elements are nonzero.

Args:
    dim: one dimension, several, or None for all.

Example:
    >>> torch.count_nonzero(torch.tensor([0, 3, 0, 5]))
    tensor(2)
)");
}

// ---- extremes

using Shared = Tensor (*)(const Tensor&, Sizes, bool);
using Whole = Tensor (*)(const Tensor&);
using Chosen = TensorPair (*)(const Tensor&, int64_t, bool);
using Place = Tensor (*)(const Tensor&, std::optional<int64_t>, bool);
using Pairwise = Tensor (*)(const Tensor&, const Tensor&);

// max and min: of everything, along a dimension, and of two tensors.
void bind_extreme(Binder& b, const char* name, Whole whole, Chosen chosen, Pairwise pairwise,
                  const char* doc) {
  auto out = "out"_a.none() = nb::none();
  ReturnType type(b, name);
  b.both(name, [=](const Tensor& x, const Out& out) {
    return into_castable_out(name, whole(x), out);
  }, nb::kw_only(), out, doc);
  b.both(name, [=](const Tensor& x, int64_t dim, bool keepdim, const OutPair& out) {
    return type(into_outs(name, chosen(x, dim, keepdim), out));
  }, "dim"_a, "keepdim"_a = false, nb::kw_only(), out);
  b.both(name, [=](const Tensor& x, const Tensor& other, const Out& out) {
    return into_castable_out(name, pairwise(x, other), out);
  }, "other"_a, nb::kw_only(), out);
  b.both(name, [=](const Tensor& x, int64_t dim, bool keepdim) {
    return type(chosen(x, dim, keepdim));
  }, "axis"_a, "keepdims"_a = false);
}

void bind_shared(Binder& b, const char* name, Shared shared, const char* doc) {
  bind_over_dims(b, name, [=](const Tensor& x, const Dims& dims, bool keepdim, const Out& out) {
    return into_out(name, shared(x, dims, keepdim), out);
  }, doc, "out"_a.none() = nb::none());
}

void bind_place(Binder& b, const char* name, Place place, const char* doc) {
  auto f = [=](const Tensor& x, std::optional<int64_t> dim, bool keepdim, const Out& out) {
    return into_out(name, place(x, dim, keepdim), out);
  };
  bind_over_dims(b, name, f, doc, "out"_a.none() = nb::none());
}

void bind_extremes(Binder& b) {
  bind_extreme(b, "max", max, max, maximum,
               R"(The largest element, also along a dimension with its place, or the larger of two.

Args:
    dim: the dimension; the result is then a named tuple (values, indices) of the first largest.
    keepdim: whether the reduced dimension stays, with size one.
    other: a tensor to compare with, element by element.

Example:
    >>> torch.max(torch.tensor([[1., 5.], [7., 2.]]), dim=1).indices
    tensor([1, 0])
)");
  bind_extreme(b, "min", min, min, minimum,
               R"(The smallest element, also along a dimension with its place, or the lesser of two.

Args:
    dim: the dimension; the result is then a named tuple (values, indices) of the first smallest.
    keepdim: whether the reduced dimension stays, with size one.
    other: a tensor to compare with, element by element.

Example:
    >>> torch.min(torch.tensor([[1., 5.], [7., 2.]]), dim=1).values
    tensor([1., 2.])
)");
  bind_shared(b, "amax", amax, R"(The largest elements; equal ones share the gradient.

Args:
    dim: one dimension, several, or None for all.
    keepdim: whether reduced dimensions stay, with size one.

Example:
    >>> torch.amax(torch.tensor([[1., 5.], [7., 2.]]), dim=0)
    tensor([7., 5.])
)");
  bind_shared(b, "amin", amin, R"(The smallest elements; equal ones share the gradient.

Args:
    dim: one dimension, several, or None for all.
    keepdim: whether reduced dimensions stay, with size one.

Example:
    >>> torch.amin(torch.tensor([[1., 5.], [7., 2.]]), dim=0)
    tensor([1., 2.])
)");
  bind_place(b, "argmax", argmax, R"(The place of the first largest element.

Args:
    dim: the dimension; without it the place in the flattened tensor.
    keepdim: whether the reduced dimension stays, with size one.

Example:
    >>> torch.argmax(torch.tensor([3., 9., 9.]))
    tensor(1)
)");
  bind_place(b, "argmin", argmin, R"(The place of the first smallest element.

Args:
    dim: the dimension; without it the place in the flattened tensor.
    keepdim: whether the reduced dimension stays, with size one.

Example:
    >>> torch.argmin(torch.tensor([3., 1., 9.]))
    tensor(1)
)");
  ReturnType median_type(b, "median");
  b.both("median", [](const Tensor& x) { return median(x); },
         R"(The median; of an even number of elements the lower of the two in the middle.

Args:
    dim: the dimension; the result is then a named tuple (values, indices).
    keepdim: whether the reduced dimension stays, with size one.

Example:
    >>> torch.median(torch.tensor([3., 1., 2.]))
    tensor(2.)
)");
  b.both("median", [=](const Tensor& x, int64_t dim, bool keepdim, const OutPair& out) {
    return median_type(into_outs("median", median(x, dim, keepdim), out));
  }, "dim"_a, "keepdim"_a = false, nb::kw_only(), "out"_a.none() = nb::none());
}

// ---- variance and norm

// PyTorch's two spellings: correction=1, or unbiased=True, which may also take dim's place.
struct MomentArguments {
  DimVector dims;
  double correction = 1;

  MomentArguments(const char* op, nb::handle dim, nb::handle unbiased,
                  nb::handle correction_given) {
    if (PyBool_Check(dim.ptr())) {
      TAPEGRAD_CHECK_AS(TypeError, unbiased.is_none(), op, ": expected dim to be int, got bool");
      unbiased = dim;
    } else if (!dim.is_none() && !int_list_from_object(dim.ptr(), &dims)) {
      fail<TypeError>(op, ": expected dim to be an int or a tuple of ints, got ", repr_of(dim));
    }
    TAPEGRAD_CHECK_AS(TypeError, unbiased.is_none() || correction_given.is_none(), op,
                      ": expected unbiased or correction, got both");
    if (!unbiased.is_none()) {
      TAPEGRAD_CHECK_AS(TypeError, PyBool_Check(unbiased.ptr()), op,
                        ": expected unbiased to be a bool, got ", repr_of(unbiased));
      correction = unbiased.is(Py_True) ? 1 : 0;
    }
    Scalar number;
    if (correction_given.is_none()) return;
    TAPEGRAD_CHECK_AS(TypeError,
                      scalar_from_object(correction_given.ptr(), &number) ||
                          number_of_tensor(correction_given.ptr(), &number),
                      op, ": expected correction to be a number");
    correction = number.as_double();
  }
};

// Said after the computation, which has checked the arguments.
template <class Result>
Result warn_of_freedom(const char* op, const Tensor& x, const Tensor& moment, double correction,
                       Result result) {
  const auto count = static_cast<double>(x.numel()), rows = static_cast<double>(moment.numel());
  if (count <= correction * rows)
    warn_user(concat(op, "(): degrees of freedom is <= 0. Correction should be strictly less than "
                         "the reduction factor (input numel divided by output numel)."));
  return result;
}

template <class F>
void bind_moments(Binder& b, const char* name, F f, const char* doc) {
  b.both(name,
         [=](const Tensor& x, nb::handle dim, nb::handle unbiased, bool keepdim,
             nb::handle correction, const Out& out) {
    MomentArguments arguments(name, dim, unbiased, correction);
    const Tensor moment = f(x, arguments.dims, arguments.correction, keepdim);
    return warn_of_freedom(name, x, moment, arguments.correction,
                           into_castable_out(name, moment, out));
  },
         "dim"_a.none() = nb::none(), "unbiased"_a.none() = nb::none(), "keepdim"_a = false,
         nb::kw_only(), "correction"_a.none() = nb::none(), "out"_a.none() = nb::none(), doc);
}

template <class F>
void bind_moment_pair(Binder& b, const char* name, F f, const char* doc) {
  b.function(name,
             [=](const Tensor& x, nb::handle dim, nb::handle unbiased, bool keepdim,
                 nb::handle correction) {
    MomentArguments arguments(name, dim, unbiased, correction);
    const auto pair = f(x, arguments.dims, arguments.correction, keepdim);
    return warn_of_freedom(name, x, std::get<0>(pair), arguments.correction, pair);
  },
             "input"_a, "dim"_a.none() = nb::none(), "unbiased"_a.none() = nb::none(),
             "keepdim"_a = false, nb::kw_only(), "correction"_a.none() = nb::none(), doc);
}

void bind_statistics(Binder& b) {
  bind_moments(b, "var", var, R"(The variance over all or some dimensions.

Args:
    dim: one dimension, several, or None for all.
    unbiased: True stands for correction=1, False for correction=0.
    keepdim: whether reduced dimensions stay, with size one.
    correction: what is taken from the number of elements in the divisor, 1 by default.

Example:
    >>> torch.var(torch.tensor([1., 2., 3.]))
    tensor(1.)
)");
  bind_moments(b, "std", standard_deviation, R"(The standard deviation over all or some dimensions.

Args:
    dim: one dimension, several, or None for all.
    unbiased: True stands for correction=1, False for correction=0.
    keepdim: whether reduced dimensions stay, with size one.
    correction: what is taken from the number of elements in the divisor, 1 by default.

Example:
    >>> torch.std(torch.tensor([1., 3., 5.]))
    tensor(2.)
)");
  bind_moment_pair(b, "var_mean", var_mean, R"(The variance and the mean, in one pass over memory.

Args:
    dim: one dimension, several, or None for all.
    unbiased: True stands for correction=1, False for correction=0.
    keepdim: whether reduced dimensions stay, with size one.
    correction: what is taken from the number of elements in the divisor, 1 by default.

Example:
    >>> torch.var_mean(torch.tensor([1., 2., 3.]))
    (tensor(1.), tensor(2.))
)");
  bind_moment_pair(b, "std_mean", std_mean,
                   R"(The standard deviation and the mean, in one pass over memory.

Args:
    dim: one dimension, several, or None for all.
    unbiased: True stands for correction=1, False for correction=0.
    keepdim: whether reduced dimensions stay, with size one.
    correction: what is taken from the number of elements in the divisor, 1 by default.

Example:
    >>> torch.std_mean(torch.tensor([1., 3., 5.]))
    (tensor(2.), tensor(3.))
)");
}

// "fro" is the 2-norm of all elements; None means 2.
double norm_order(nb::handle p) {
  Scalar number;
  if (p.is_none()) return 2;
  if (scalar_from_object(p.ptr(), &number) || number_of_tensor(p.ptr(), &number))
    return number.as_double();
  TAPEGRAD_CHECK_AS(TypeError, nb::isinstance<nb::str>(p),
                    "norm: expected p to be a number, 'fro' or 'nuc'");
  const std::string text = utf8(p);
  if (text == "fro") return 2;
  if (text == "inf") return HUGE_VAL;
  if (text == "-inf") return -HUGE_VAL;
  fail("norm: expected p to be a number, 'fro' or 'nuc', got '", text, "'");
}

// The sum of the singular values of the matrices that two dimensions make.
Tensor nuclear_norm(Tensor x, Sizes given, bool keepdim, MaybeDType dtype) {
  if (dtype) x = cast(x, *dtype);
  DimVector dims(given);
  if (dims.empty()) dims = {-2, -1};
  TAPEGRAD_CHECK(dims.size() == 2 && x.dim() >= 2 && (!given.empty() || x.dim() == 2),
                 "norm: the nuclear norm is of two dimensions, got ", to_string(given), " of a ",
                 x.dim(), "-d tensor");
  const int64_t rows = wrap_dim("norm", dims[0], x.dim()),
                columns = wrap_dim("norm", dims[1], x.dim());
  TAPEGRAD_CHECK(rows != columns, "norm: expected two different dimensions, got ", rows, " twice");
  DimVector order;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (d != rows && d != columns) order.push_back(d);
  order.push_back(rows);
  order.push_back(columns);
  const int64_t last[] = {-1};
  Tensor y = sum(linalg_svd("norm", permute(x, order), false, false).s, last, false);
  if (!keepdim) return y;
  for (const int64_t d : {std::min(rows, columns), std::max(rows, columns)}) y = unsqueeze(y, d);
  return y;
}

bool is_nuclear(nb::handle p) { return nb::isinstance<nb::str>(p) && utf8(p) == "nuc"; }

void bind_norm(Binder& b) {
  auto f = [](const Tensor& x, nb::handle p, const Dims& dims, bool keepdim, const Out& out,
              MaybeDType dtype) {
    const WithoutAutocast lifted(out.has_value());
    if (is_nuclear(p)) return into_out("norm", nuclear_norm(x, dims, keepdim, dtype), out);
    return into_out("norm", norm(x, norm_order(p), dims, keepdim, dtype), out);
  };
  b.function("norm", f, "input"_a, "p"_a.none() = "fro", "dim"_a.none() = nb::none(),
             "keepdim"_a = false, "out"_a.none() = nb::none(), "dtype"_a.none() = nb::none(),
             R"(The p-norm of the elements, over all or some dimensions.

Args:
    p: the order: a number, inf, -inf, 'fro' for 2, or 'nuc' for the sum of a matrix's singular values.
    dim: one dimension, several, or None for all.
    keepdim: whether reduced dimensions stay, with size one.
    dtype: what elements are converted to first.

Example:
    >>> torch.norm(torch.tensor([3., 4.]))
    tensor(5.)
)");
  b.method("norm",
           [f](const Tensor& x, nb::handle p, const Dims& dims, bool keepdim, MaybeDType dtype) {
    return f(x, p, dims, keepdim, {}, dtype);
  }, "p"_a.none() = "fro", "dim"_a.none() = nb::none(), "keepdim"_a = false,
           "dtype"_a.none() = nb::none(), "See torch.norm.");
}

}  // namespace

void bind_reduce(Binder& b) {
  bind_sums(b);
  bind_tests(b);
  bind_extremes(b);
  bind_statistics(b);
  bind_norm(b);
}

}  // namespace tapegrad::python
