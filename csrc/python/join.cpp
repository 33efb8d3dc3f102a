// Joining, repeating and rearranging in Python.
#include "ops/join.h"

#include "core/error.h"
#include "graph/autocast.h"
#include "python/arguments.h"
#include "python/out.h"

namespace tapegrad::python {

namespace {

using Out = std::optional<Tensor>;
// `axis` is NumPy's word for `dim`.
const Signature kCat{"cat", 2, false, {"tensors", "dim", "axis", "out"}};
const Signature kStack{"stack", 2, false, {"tensors", "dim", "axis", "out"}};

template <auto kJoin>
Tensor join_all(const ParsedArguments& a) {
  if (a.has(1) && a.has(2))
    fail<TypeError>(a.function(), "() got both 'dim' and 'axis', which are the same");
  int64_t dim = a.object(1) ? a.integer(1) : a.object(2) ? a.integer(2) : 0;
  const WithoutAutocast lifted(a.has(3));
  Tensor result = kJoin(a.tensors(0), dim);
  if (!a.has(3)) return result;
  const Tensor& out = a.tensor(3);
  TAPEGRAD_CHECK_AS(TypeError, category(out.dtype()) >= category(result.dtype()), a.function(),
                    ": input types can't be cast to the desired output type ", name(out.dtype()));
  return into_castable_out(a.function(), std::move(result), out);
}

void bind_cat(Binder& b) {
  define_function<kCat, join_all<cat>>(b, R"(cat(tensors, dim=0, *, axis=0, out=None) -> Tensor

Joins tensors along a dimension they all have.

Args:
    tensors: the tensors, of one shape except along `dim`.
    dim: the dimension along which they are laid one behind the other.
    axis: another name for `dim`.
    out: a tensor to write to.

Example:
    >>> torch.cat([torch.tensor([1, 2]), torch.tensor([3])])
    tensor([1, 2, 3])
)");
  define_function<kStack, join_all<stack>>(b,
                                           R"(stack(tensors, dim=0, *, axis=0, out=None) -> Tensor

Joins tensors of one shape along a new dimension.

Args:
    tensors: the tensors.
    dim: where the new dimension goes.
    axis: another name for `dim`.
    out: a tensor to write to.

Example:
    >>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])], dim=1)
    tensor([[1, 3],
            [2, 4]])
)");
}

void bind_repeat(Binder& b) {
  b.method("repeat", [](const Tensor& self, const nb::args& repeats) {
    TAPEGRAD_CHECK_AS(TypeError, repeats.size() > 0, "repeat: missing argument: repeats");
    return repeat(self, int_list_from_args("repeat", repeats));
  }, R"(Copies of the whole tensor along every dimension.

Args:
    repeats: how often, for each dimension; more numbers than dimensions add leading ones.

Example:
    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
)");
  constexpr const char* kTile =
      R"(Copies of the whole tensor, as repeat; missing leading repeats are ones.

Args:
    dims: how often, for each of the last dimensions.

Example:
    >>> torch.tile(torch.tensor([1, 2]), (2,))
    tensor([1, 2, 1, 2])
)";
  b.method("tile", [](const Tensor& self, const nb::args& dims) {
    return tile(self, int_list_from_args("tile", dims));
  }, kTile);
  b.function("tile", [](const Tensor& x, const IntList& dims) { return tile(x, dims); }, "input"_a,
             "dims"_a, kTile);
}

void bind_repeat_interleave(Binder& b) {
  auto dim = "dim"_a.none() = nb::none();
  auto output_size = "output_size"_a.none() = nb::none();
  using Size = std::optional<int64_t>;
  b.both("repeat_interleave", [](const Tensor& x, int64_t repeats, Size dim, Size output_size) {
    return repeat_interleave(x, repeats, dim, output_size);
  }, "repeats"_a, dim, nb::kw_only(), output_size, R"(Repeats every element, or slice, in its place.

Args:
    repeats: how often: one number, or a tensor with one for each.
    dim: the dimension; None repeats the elements of the flattened tensor.
    output_size: the length of the result along `dim`, checked.

Example:
    >>> torch.repeat_interleave(torch.tensor([7, 8]), torch.tensor([1, 2]))
    tensor([7, 8, 8])
)");
  b.both("repeat_interleave",
         [](const Tensor& x, const Tensor& repeats, Size dim, Size output_size) {
    return repeat_interleave(x, repeats, dim, output_size);
  }, "repeats"_a, dim, nb::kw_only(), output_size);
  b.function("repeat_interleave", [](const Tensor& repeats, Size output_size) {
    return repeat_interleave_indices(repeats, output_size);
  }, "repeats"_a, nb::kw_only(), output_size);
}

void bind_rearranging(Binder& b) {
  constexpr const char* kFlip = R"(Turns the order round along some dimensions.

Args:
    dims: the dimensions.

Example:
    >>> torch.flip(torch.tensor([[1, 2], [3, 4]]), [1])
    tensor([[2, 1],
            [4, 3]])
)";
  b.both("flip", [](const Tensor& x, const IntList& dims) { return flip(x, dims); }, "dims"_a,
         kFlip);
  b.method("flip", [](const Tensor& self, const nb::args& dims) {
    TAPEGRAD_CHECK_AS(TypeError, dims.size() > 0, "flip: missing argument: dims");
    return flip(self, int_list_from_args("flip", dims));
  }, kFlip);
  b.both("roll",
         [](const Tensor& x, const IntList& shifts, nb::handle dims) {
    IntList list;
    TAPEGRAD_CHECK_AS(TypeError, dims.is_none() || int_list_from_object(dims.ptr(), &list.values),
                      "roll: expected dims to be an int, a tuple of ints or None, got ",
                      Py_TYPE(dims.ptr())->tp_name);
    return roll(x, shifts, list);
  }, "shifts"_a, "dims"_a.none() = nb::none(),
         R"(Moves elements along dimensions; what falls off at one end comes back at the other.

Args:
    shifts: by how many places, one number for each of `dims`.
    dims: the dimensions; None rolls the flattened tensor.

Example:
    >>> torch.roll(torch.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
)");
}

void bind_triangles(Binder& b) {
  auto out = "out"_a.none() = nb::none();
  b.both("tril", [](const Tensor& x, int64_t diagonal, const Out& out) {
    return into_out("tril", tril(x, diagonal), out);
  }, "diagonal"_a = 0, nb::kw_only(), out, R"(The lower triangle of matrices, zero elsewhere.

Args:
    diagonal: the last diagonal that is kept: 0 the main one, above 0 above it.

Example:
    >>> torch.tril(torch.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
)");
  b.both("triu", [](const Tensor& x, int64_t diagonal, const Out& out) {
    return into_out("triu", triu(x, diagonal), out);
  }, "diagonal"_a = 0, nb::kw_only(), out, R"(The upper triangle of matrices, zero elsewhere.

Args:
    diagonal: the first diagonal that is kept: 0 the main one, above 0 above it.

Example:
    >>> torch.triu(torch.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
)");
  b.method("tril_", [](const Tensor& self, int64_t diagonal) {
    tril_(self, diagonal);
    return self;
  }, "diagonal"_a = 0, "tril, in place.");
  b.method("triu_", [](const Tensor& self, int64_t diagonal) {
    triu_(self, diagonal);
    return self;
  }, "diagonal"_a = 0, "triu, in place.");
  b.both("diag",
         [](const Tensor& x, int64_t diagonal, const Out& out) {
    return into_out("diag", diag(x, diagonal), out);
  }, "diagonal"_a = 0, nb::kw_only(), out,
         R"(A matrix with a vector on its diagonal, or the diagonal of a matrix.

Args:
    diagonal: which one: 0 the main one, above 0 above it, below 0 below it.

Example:
    >>> torch.diag(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
)");
}

}  // namespace

void bind_join(Binder& b) {
  bind_cat(b);
  bind_repeat(b);
  bind_repeat_interleave(b);
  bind_rearranging(b);
  bind_triangles(b);
}

}  // namespace tapegrad::python
