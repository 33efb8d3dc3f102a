// Indexing functions in Python. Subscripts are in subscript.cpp.
#include "python/index.h"
#include "graph/autocast.h"
#include "python/function_ops.h"

#include "ops/index.h"

#include "core/error.h"
#include "ops/copy.h"
#include "ops/mask.h"
#include "python/factor.h"

namespace tapegrad::python {

Tensor value_of(const char* op, const Tensor& x, nb::handle value) {
  const bool complex = is_tensor(value.ptr()) ? is_complex(tensor_of(value.ptr()).dtype())
                                              : PyComplex_Check(value.ptr()) != 0;
  TAPEGRAD_CHECK(!complex || is_complex(x.dtype()), op, ": value cannot be converted to type ",
                 name(x.dtype()), " without overflow: it is complex");
  if (is_tensor(value.ptr())) return tensor_of(value.ptr());
  if (is_complex(x.dtype()))
    if (const Tensor operand = complex_operand(value.ptr()); operand.defined())
      return cast(operand, x.dtype());
  Scalar number;
  TAPEGRAD_CHECK_AS(TypeError, scalar_from_object(value.ptr(), &number), op,
                    ": expected a number or a Tensor as value, got ",
                    Py_TYPE(value.ptr())->tp_name);
  return fill_value(op, number, x.dtype());
}

namespace {

using Out = std::optional<Tensor>;

void bind_index_put(Binder& b) {
  using Indices = std::vector<Tensor>;
  b.both("index_put",
         [](const Tensor& x, const Indices& indices, const Tensor& values, bool accumulate) {
    return index_put(x, indices, values, accumulate);
  }, "indices"_a, "values"_a, "accumulate"_a = false,
         R"(A copy with `values` written at the places that index tensors name.

Args:
    indices: one index tensor for each leading dimension; they broadcast together.
    values: what is written, broadcast to the shape of the places.
    accumulate: whether values are added to what is there, also where places repeat.

Example:
    >>> torch.zeros(3).index_put((torch.tensor([0, 0]),), torch.tensor([1., 2.]), accumulate=True)
    tensor([3., 0., 0.])
)");
  b.method("index_put_",
           [](const Tensor& self, const Indices& indices, const Tensor& values, bool accumulate) {
    index_put_(self, indices, values, accumulate);
    return self;
  }, "indices"_a, "values"_a, "accumulate"_a = false, "index_put, in place.");
}

void bind_index_select(Binder& b) {
  b.both("index_select",
         [](const Tensor& x, int64_t dim, const Tensor& index, const Out& out) {
    return into_out("index_select", index_select(x, dim, index), out);
  }, "dim"_a, "index"_a, nb::kw_only(), "out"_a.none() = nb::none(),
         R"(Slices along a dimension, chosen by a vector of indices.

Args:
    dim: the dimension.
    index: int64 or int32, none negative.

Example:
    >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 0, torch.tensor([1, 1]))
    tensor([[3, 4],
            [3, 4]])
)");
}

void bind_index_add(Binder& b) {
  auto out = "out"_a.none() = nb::none();
  b.both("index_add",
         [](const Tensor& x, int64_t dim, const Tensor& index, Tensor source, const Factor& alpha,
            const Out& out) {
    const Scalar rest = alpha.apply("index_add", source);
    return into_out("index_add", index_add(x, dim, index, source, rest), out);
  },
         "dim"_a, "index"_a, "source"_a, nb::kw_only(), "alpha"_a = Factor(), out,
         R"(A copy to whose slices along a dimension those of `source` are added.

Args:
    dim: the dimension.
    index: to which slice each slice of `source` is added; repeats add up in order.
    source: of the tensor's shape except along `dim`.
    alpha: a factor for `source`.

Example:
    >>> torch.index_add(torch.zeros(2), 0, torch.tensor([1, 1]), torch.tensor([1., 2.]))
    tensor([0., 3.])
)");
  b.method(
      "index_add_",
      [](const Tensor& self, int64_t dim, const Tensor& index, Tensor source, const Factor& alpha) {
    const Scalar rest = alpha.apply("index_add_", source);
    index_add_(self, dim, index, source, rest);
    return self;
  }, "dim"_a, "index"_a, "source"_a, nb::kw_only(), "alpha"_a = Factor(), "index_add, in place.");
}

void bind_index_copy(Binder& b) {
  b.both(
      "index_copy",
      [](const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, const Out& out) {
    const WithoutAutocast lifted(out.has_value());
    return into_out("index_copy", index_copy(x, dim, index, source), out);
  }, "dim"_a, "index"_a, "source"_a, nb::kw_only(), "out"_a.none() = nb::none(),
      R"(A copy whose slices along a dimension are replaced by those of `source`.

Args:
    dim: the dimension.
    index: which slice each slice of `source` replaces, int64.
    source: of the tensor's shape except along `dim`.

Example:
    >>> torch.index_copy(torch.zeros(3), 0, torch.tensor([2]), torch.tensor([5.]))
    tensor([0., 0., 5.])
)");
  b.method("index_copy_",
           [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
    index_copy_(self, dim, index, source);
    return self;
  }, "dim"_a, "index"_a, "source"_a, "index_copy, in place.");
}

void bind_index_fill(Binder& b) {
  b.both("index_fill",
         [](const Tensor& x, int64_t dim, const Tensor& index, nb::handle value) {
    return index_fill(x, dim, index, value_of("index_fill", x, value));
  }, "dim"_a, "index"_a, "value"_a,
         R"(A copy whose slices along a dimension are filled with a value.

Args:
    dim: the dimension.
    index: the slices, int64.
    value: a number or a 0-d tensor.

Example:
    >>> torch.index_fill(torch.zeros(3), 0, torch.tensor([0, 2]), 1)
    tensor([1., 0., 1.])
)");
  b.method("index_fill_",
           [](const Tensor& self, int64_t dim, const Tensor& index, nb::handle value) {
    index_fill_(self, dim, index, value_of("index_fill_", self, value));
    return self;
  }, "dim"_a, "index"_a, "value"_a, "index_fill, in place.");
}

void bind_take(Binder& b) {
  runs("take", {"index"});
  runs("put", {"index_put_"});
  b.both("take",
         [](const Tensor& x, const Tensor& index, const Out& out) {
    return into_out("take", take(x, index), out);
  }, "index"_a, nb::kw_only(), "out"_a.none() = nb::none(),
         R"(Elements at indices into the flattened tensor.

Args:
    index: int64; the result has its shape.

Example:
    >>> torch.take(torch.tensor([[1, 2], [3, 4]]), torch.tensor([0, -1]))
    tensor([1, 4])
)");
  b.both("put",
         [](const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate) {
    return put(x, index, source, accumulate);
  }, "index"_a, "source"_a, "accumulate"_a = false,
         R"(A copy with elements written at indices into the flattened tensor.

Args:
    index: int64.
    source: as many elements as `index` has.
    accumulate: whether they are added to what is there.

Example:
    >>> torch.put(torch.zeros(2, 2), torch.tensor([3]), torch.tensor([9.]))
    tensor([[0., 0.],
            [0., 9.]])
)");
  b.method("put_",
           [](const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
    put_(self, index, source, accumulate);
    return self;
  }, "index"_a, "source"_a, "accumulate"_a = false, "put, in place.");
}

}  // namespace

void bind_index(Binder& b) {
  bind_index_put(b);
  bind_index_select(b);
  bind_index_add(b);
  bind_index_copy(b);
  bind_index_fill(b);
  bind_take(b);
  bind_scatter(b);
  bind_mask(b);
}

}  // namespace tapegrad::python
