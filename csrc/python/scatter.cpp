// Gather and scatter in Python.
#include "ops/scatter.h"

#include "core/error.h"
#include "graph/autocast.h"
#include "ops/mask.h"
#include "python/index.h"

namespace tapegrad::python {

namespace {

using Out = std::optional<Tensor>;
using Name = std::optional<std::string>;

void bind_gather(Binder& b) {
  auto out = "out"_a.none() = nb::none();
  b.both("gather",
         [](const Tensor& x, int64_t dim, const Tensor& index, bool, const Out& out) {
    return into_out("gather", gather(x, dim, index), out);
  }, "dim"_a, "index"_a, nb::kw_only(), "sparse_grad"_a = false, out,
         R"(Elements along a dimension, one for each element of an index tensor.

Args:
    dim: the dimension along which the index counts; the other coordinates are the index's own.
    index: int64 or int32, of the tensor's rank; the result has its shape.
    sparse_grad: accepted; gradients are dense.

Example:
    >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
)");
  b.both("take_along_dim",
         [](const Tensor& x, const Tensor& indices, std::optional<int64_t> dim, const Out& out) {
    return into_out("take_along_dim", take_along_dim(x, indices, dim), out);
  }, "indices"_a, "dim"_a.none() = nb::none(), nb::kw_only(), out,
         R"(As gather, with broadcasting and negative indices: undoes argsort and argmax.

Args:
    indices: int64.
    dim: the dimension; None takes from the flattened tensor.

Example:
    >>> x = torch.tensor([[3, 1], [2, 5]])
    >>> torch.take_along_dim(x, x.argsort(dim=1), dim=1)
    tensor([[1, 3],
            [2, 5]])
)");
}

// scatter(dim, index, src) and scatter(dim, index, value), with or without reduce=.
Tensor scatter_any(const Tensor& x, int64_t dim, const Tensor& index, nb::handle source,
                   const Name& reduce, const Out& out) {
  Tensor values = value_of("scatter", x, source);
  Tensor y = reduce ? scatter_reduce(x, dim, index, values, scatter_operation_named(*reduce), true)
                    : scatter(x, dim, index, values);
  return into_out("scatter", y, out);
}

Tensor scatter_any_(const Tensor& self, int64_t dim, const Tensor& index, nb::handle source,
                    const Name& reduce) {
  Tensor values = value_of("scatter_", self, source);
  if (reduce) scatter_reduce_(self, dim, index, values, scatter_operation_named(*reduce), true);
  else scatter_(self, dim, index, values);
  return self;
}

void bind_scatter_set(Binder& b) {
  auto reduce = "reduce"_a.none() = nb::none();
  auto out = "out"_a.none() = nb::none();
  b.both("scatter", scatter_any, "dim"_a, "index"_a, "src"_a, nb::kw_only(), reduce, out,
         R"(A copy with elements written along a dimension, one for each element of an index tensor.

Args:
    dim: the dimension along which the index counts.
    index: int64 or int32, of the tensor's rank.
    src: the elements, a tensor at least as large as the index, or one number (`value`).
    reduce: "add" or "multiply" combine with what is there instead of replacing it.

Example:
    >>> torch.scatter(torch.zeros(2, 2), 1, torch.tensor([[1], [0]]), 5.)
    tensor([[0., 5.],
            [5., 0.]])
)");
  b.both("scatter", scatter_any, "dim"_a, "index"_a, "value"_a, nb::kw_only(), reduce, out);
  b.method("scatter_", scatter_any_, "dim"_a, "index"_a, "src"_a, nb::kw_only(), reduce,
           "scatter, in place.");
  b.method("scatter_", scatter_any_, "dim"_a, "index"_a, "value"_a, nb::kw_only(), reduce);
}

void bind_scatter_add(Binder& b) {
  b.both("scatter_add",
         [](const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, const Out& out) {
    const WithoutAutocast lifted(out.has_value());
    return into_out("scatter_add", scatter_add(x, dim, index, src), out);
  }, "dim"_a, "index"_a, "src"_a, nb::kw_only(), "out"_a.none() = nb::none(),
         R"(A copy with elements added along a dimension, one for each element of an index tensor.

Args:
    dim: the dimension along which the index counts.
    index: int64 or int32; places that repeat add up in order.
    src: the elements.

Example:
    >>> torch.scatter_add(torch.zeros(3), 0, torch.tensor([0, 0, 2]), torch.ones(3))
    tensor([2., 0., 1.])
)");
  b.method("scatter_add_",
           [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
    scatter_add_(self, dim, index, src);
    return self;
  }, "dim"_a, "index"_a, "src"_a, "scatter_add, in place.");
}

void bind_scatter_reduce(Binder& b) {
  b.both("scatter_reduce",
         [](const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
            const std::string& reduce, bool include_self, const Out& out) {
    Tensor y = scatter_reduce(x, dim, index, src, scatter_reduce_named(reduce), include_self);
    return into_out("scatter_reduce", y, out);
  },
         "dim"_a, "index"_a, "src"_a, "reduce"_a, nb::kw_only(), "include_self"_a = true,
         "out"_a.none() = nb::none(),
         R"(A copy in which elements that meet at one place are reduced to one.

Args:
    dim: the dimension along which the index counts.
    index: int64 or int32.
    src: the elements.
    reduce: "sum", "prod", "mean", "amax" or "amin".
    include_self: whether the element that was there takes part.

Example:
    >>> torch.scatter_reduce(torch.zeros(2), 0, torch.tensor([0, 0]), torch.tensor([1., 4.]), "amax")
    tensor([4., 0.])
)");
  b.method("scatter_reduce_",
           [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
              const std::string& reduce, bool include_self) {
    scatter_reduce_(self, dim, index, src, scatter_reduce_named(reduce), include_self);
    return self;
  },
           "dim"_a, "index"_a, "src"_a, "reduce"_a, nb::kw_only(), "include_self"_a = true,
           "scatter_reduce, in place.");
}

}  // namespace

void bind_scatter(Binder& b) {
  bind_gather(b);
  bind_scatter_set(b);
  bind_scatter_add(b);
  bind_scatter_reduce(b);
}

}  // namespace tapegrad::python
