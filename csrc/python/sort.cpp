// Sorting, searching and counting in Python.
#include "ops/sort.h"

#include "core/error.h"
#include "ops/create.h"
#include "ops/promotion.h"
#include "python/function_ops.h"
#include "python/return_types.h"

namespace tapegrad::python {

namespace {

using Out = std::optional<Tensor>;
using OutPair = std::optional<std::pair<Tensor, Tensor>>;

// As a named tuple, written into out= if given.
nb::object named(const char* op, const ReturnType& type, ValuesAndIndices result,
                 const OutPair& out) {
  if (!out) return type({std::move(result.values), std::move(result.indices)});
  return type({into_out(op, std::move(result.values), out->first),
               into_out(op, std::move(result.indices), out->second)});
}

void bind_sorting(Binder& b) {
  static const ReturnType sort_type(b, "sort");
  auto out = "out"_a.none() = nb::none();
  auto stable = "stable"_a.none() = nb::none();
  using Stable = std::optional<bool>;
  auto sorted = [](const Tensor& x, int64_t dim, bool descending, Stable, const OutPair& out) {
    return named("sort", sort_type, sort(x, dim, descending), out);
  };
  b.both("sort", sorted, "dim"_a = -1, "descending"_a = false, nb::kw_only(), stable, out,
         R"(The elements along a dimension in order, and where they were. NaN counts as greatest.

Args:
    dim: the dimension.
    descending: the greatest first.
    stable: accepted; equal elements keep their order in any case.

Example:
    >>> torch.sort(torch.tensor([3, 1, 2])).indices
    tensor([1, 2, 0])
)");
  b.both("sort", sorted, "axis"_a, "descending"_a = false, nb::kw_only(), stable, out);
  auto order = [](const Tensor& x, int64_t dim, bool descending, Stable) {
    return argsort(x, dim, descending);
  };
  runs("argsort", {"sort"});
  b.both("argsort", order, "dim"_a = -1, "descending"_a = false, nb::kw_only(), "stable"_a = false,
         R"(The indices that sort along a dimension.

Args:
    dim: the dimension.
    descending: the greatest first.
    stable: accepted; equal elements keep their order in any case.

Example:
    >>> torch.argsort(torch.tensor([3, 1, 2]))
    tensor([1, 2, 0])
)");
  b.both("argsort", order, "axis"_a, "descending"_a = false, nb::kw_only(), "stable"_a = false);
}

void bind_selecting(Binder& b) {
  static const ReturnType topk_type(b, "topk"), kthvalue_type(b, "kthvalue"), mode_type(b, "mode");
  auto out = "out"_a.none() = nb::none();
  b.both(
      "topk",
      [](const Tensor& x, int64_t k, int64_t dim, bool largest, bool sorted, const OutPair& out) {
    return named("topk", topk_type, topk(x, k, dim, largest, sorted), out);
  }, "k"_a, "dim"_a = -1, "largest"_a = true, "sorted"_a = true, nb::kw_only(), out,
      R"(The k greatest elements along a dimension, and where they were.

Args:
    k: how many.
    dim: the dimension.
    largest: False asks for the smallest.
    sorted: whether they come in order.

Example:
    >>> torch.topk(torch.tensor([3, 9, 5]), 2).values
    tensor([9, 5])
)");
  b.both("kthvalue",
         [](const Tensor& x, int64_t k, int64_t dim, bool keepdim, const OutPair& out) {
    return named("kthvalue", kthvalue_type, kthvalue(x, k, dim, keepdim), out);
  }, "k"_a, "dim"_a = -1, "keepdim"_a = false, nb::kw_only(), out,
         R"(The k-th smallest element along a dimension, and where it was.

Args:
    k: counts from 1.
    dim: the dimension.
    keepdim: whether the dimension stays, with size one.

Example:
    >>> torch.kthvalue(torch.tensor([3, 9, 5]), 2).values
    tensor(5)
)");
  b.both("mode",
         [](const Tensor& x, int64_t dim, bool keepdim, const OutPair& out) {
    return named("mode", mode_type, mode(x, dim, keepdim), out);
  }, "dim"_a = -1, "keepdim"_a = false, nb::kw_only(), out,
         R"(The most frequent element along a dimension, and where it was last.

Of several that are equally frequent it is the smallest. NaNs are equal to each other, and larger
than numbers.

Args:
    dim: the dimension.
    keepdim: whether the dimension stays, with size one.

Example:
    >>> torch.mode(torch.tensor([3, 9, 5, 9]))
    torch.return_types.mode(
    values=tensor(9),
    indices=tensor(3))
)");
}

nb::object unique_parts(const Tensor& x, bool, bool return_inverse, bool return_counts,
                        std::optional<int64_t> dim) {
  Unique result = unique(x, dim);
  if (!return_inverse && !return_counts) return nb::cast(result.values);
  nb::list parts;
  parts.append(result.values);
  if (return_inverse) parts.append(result.inverse);
  if (return_counts) parts.append(result.counts);
  return nb::tuple(parts);
}

void bind_unique(Binder& b) {
  b.both("unique", unique_parts, "sorted"_a = true, "return_inverse"_a = false,
         "return_counts"_a = false, "dim"_a.none() = nb::none(),
         R"(The distinct elements in ascending order.

Args:
    sorted: accepted; the result is sorted in any case.
    return_inverse: also return, for each element, the number of its value.
    return_counts: also return how often each value occurs.
    dim: the dimension whose slices are compared; None compares elements.

Example:
    >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
)");
}

// `side` is NumPy's spelling of `right`.
bool right_of(bool right, const std::optional<std::string>& side) {
  if (!side) return right;
  TAPEGRAD_CHECK(*side == "left" || *side == "right",
                 "torch.searchsorted(): side can only be 'left' or 'right' but got ", *side);
  TAPEGRAD_CHECK(!right || *side == "right",
                 "torch.searchsorted(): side and right can't be set to "
                 "opposites, got side of ",
                 *side, " while right was True");
  return *side == "right";
}

void bind_searching(Binder& b) {
  auto none = [](auto arg) { return arg.none() = nb::none(); };
  using Side = std::optional<std::string>;
  b.function("searchsorted",
             [](const Tensor& sequence, nb::handle input, bool out_int32, bool right,
                const Side& side, const Out& sorter, const Out& out) {
    Tensor values;
    Scalar number;
    if (is_tensor(input.ptr())) values = tensor_of(input.ptr());
    else if (scalar_from_object(input.ptr(), &number)) values = wrapped_number(number);
    else
      fail<TypeError>("searchsorted: expected a Tensor or a number as input, got ",
                      Py_TYPE(input.ptr())->tp_name);
    Tensor places =
        searchsorted(sequence, values, right_of(right, side), out_int32, sorter.value_or(Tensor()));
    return into_out("searchsorted", places, out);
  },
             "sorted_sequence"_a, "input"_a, nb::kw_only(), "out_int32"_a = false,
             "right"_a = false, none("side"_a), none("sorter"_a), none("out"_a),
             R"(Where values would have to be inserted into sorted rows.

Args:
    sorted_sequence: ascending along its last dimension.
    input: the values, a tensor or a number.
    out_int32: return int32 instead of int64.
    right: the last possible place instead of the first.
    side: "left" or "right", the same in NumPy's words.
    sorter: the order of a sequence that is not sorted itself.

Example:
    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 6]))
    tensor([1, 3])
)");
  b.both("bincount",
         [](const Tensor& x, const Out& weights, int64_t minlength) {
    return bincount(x, weights.value_or(Tensor()), minlength);
  }, none("weights"_a), "minlength"_a = 0,
         R"(How often each non-negative integer occurs in a vector.

Args:
    weights: what each element counts, instead of one.
    minlength: the least length of the result.

Example:
    >>> torch.bincount(torch.tensor([0, 2, 2]))
    tensor([1, 0, 2])
)");
}

}  // namespace

void bind_sort(Binder& b) {
  bind_sorting(b);
  bind_selecting(b);
  bind_unique(b);
  bind_searching(b);
}

}  // namespace tapegrad::python
