// View ops in Python.
#include "ops/view.h"

#include <algorithm>

#include "core/error.h"
#include "core/limits.h"
#include "core/torch_names.h"
#include "graph/record.h"
#include "graph/write_log.h"
#include "intercept/batch.h"
#include "ops/complex.h"
#include "ops/copy.h"
#include "ops/view_history.h"
#include "python/arguments.h"
#include "python/binding.h"

namespace tapegrad::python {

namespace {

nb::tuple to_tuple(std::vector<Tensor> parts) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(parts.size())));
  if (!tuple.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < parts.size(); ++i) {
    PyObject* part = wrap(std::move(parts[i]));
    if (!part) throw nb::python_error();
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), part);
  }
  return nb::borrow<nb::tuple>(tuple);
}

DimVector equal_parts(const Tensor& x, int64_t length, int64_t dim) {
  TAPEGRAD_CHECK(length >= 0,
                 "split: split expects split_size be non-negative, but got split_size=", length);
  int64_t size = x.size(wrap_dim("split", dim, x.dim()));
  TAPEGRAD_CHECK(length > 0 || size == 0,
                 "split: split_size can only be 0 if dimension size is 0, "
                 "but got dimension size of ",
                 size);
  DimVector parts;
  if (size == 0) return DimVector{0};
  check_count("split", (size - 1) / length + 1, "tensors", kTensorBytes);
  for (int64_t start = 0; start < size; start += length)
    parts.push_back(std::min(length, size - start));
  return parts;
}

nb::tuple split(const Tensor& x, const IntList& sizes, bool is_list, int64_t dim) {
  TAPEGRAD_CHECK(x.dim() > 0, "split: expects at least a 1-dimensional tensor");
  if (is_list) return to_tuple(split_with_sizes(x, sizes, dim));
  return to_tuple(split_with_sizes(x, equal_parts(x, sizes.values[0], dim), dim));
}

nb::tuple chunk(const Tensor& x, int64_t chunks, int64_t dim) {
  TAPEGRAD_CHECK(x.dim() > 0, "chunk: expects at least a 1-dimensional tensor");
  TAPEGRAD_CHECK(chunks > 0, "chunk: chunk expects `chunks` to be greater than 0, got: ", chunks);
  int64_t size = x.size(wrap_dim("chunk", dim, x.dim()));
  if (size == 0) {
    check_count("chunk", chunks, "tensors", kTensorBytes);
    return to_tuple(split_with_sizes(x, DimVector(chunks, 0), dim));
  }
  int64_t length = size / chunks + (size % chunks != 0);
  return to_tuple(split_with_sizes(x, equal_parts(x, length, dim), dim));
}

Tensor flatten(const Tensor& x, int64_t start_dim, int64_t end_dim) {
  int64_t first = wrap_dim("flatten", start_dim, x.dim());
  int64_t last = wrap_dim("flatten", end_dim, x.dim());
  TAPEGRAD_CHECK(first <= last, "flatten() has invalid args: start_dim cannot come after end_dim");
  if (x.dim() == 0) return reshape(x, DimVector{1});
  if (first == last) return x;
  DimVector sizes;
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (d <= first || d > last) sizes.push_back(x.size(d));
    else sizes.back() *= x.size(d);
  }
  return reshape(x, sizes);
}

Tensor unflatten(const Tensor& x, int64_t dim, const IntList& sizes) {
  int64_t d = wrap_dim("unflatten", dim, x.dim());
  TAPEGRAD_CHECK(!sizes.values.empty(), "unflatten: sizes must be non-empty");
  DimVector all;
  for (int64_t i = 0; i < d; ++i) all.push_back(x.size(i));
  int64_t known = 1, inferred = 0;
  for (const int64_t size : sizes.values) size == -1 ? ++inferred : known *= size;
  TAPEGRAD_CHECK(inferred > 0 || known == x.size(d), "unflatten: Provided sizes ", to_string(sizes),
                 " don't multiply up to the size of dim ", d, " (", x.size(d),
                 ") in the input tensor");
  for (int64_t size : infer_sizes("unflatten", sizes, x.size(d))) all.push_back(size);
  for (int64_t i = d + 1; i < x.dim(); ++i) all.push_back(x.size(i));
  return view(x, all);
}

Tensor movedim(const Tensor& x, const IntList& source, const IntList& destination) {
  const auto each_once = [&](const IntList& dims, const char* which) {
    DimVector seen;
    for (const int64_t dim : dims.values) {
      const int64_t d = wrap_dim("movedim", dim, x.dim());
      TAPEGRAD_CHECK(std::find(seen.begin(), seen.end(), d) == seen.end(),
                     "movedim: repeated dim in `", which, "` (", to_string(dims), ")");
      seen.push_back(d);
    }
    return seen;
  };
  const DimVector from = each_once(source, "source"), to = each_once(destination, "destination");
  TAPEGRAD_CHECK(from.size() == to.size(), "movedim: Invalid source or destination dims: source (",
                 to_string(from), " dims) should contain the same number of dims as destination (",
                 to_string(to), " dims)");
  DimVector order(x.dim(), -1);
  for (size_t i = 0; i < from.size(); ++i) order[to[i]] = from[i];
  int64_t next = 0;
  for (int64_t& dim : order) {
    if (dim >= 0) continue;
    while (std::find(from.begin(), from.end(), next) != from.end()) ++next;
    dim = next++;
  }
  return permute(x, order);
}

Tensor t(const Tensor& x) {
  TAPEGRAD_CHECK(x.dim() <= 2, "t() expects a tensor with <= 2 dimensions, but self is ", x.dim(),
                 "D");
  return x.dim() < 2 ? view(x, x.sizes()) : transpose(x, 0, 1);
}

// In-place changes of shape: self takes over geometry and history of a view of what it was.
template <class View>
Tensor become_view(const char* op, const Tensor& self, View&& make) {
  bool recording = should_record(self);
  check_write(op, self, recording);
  Tensor before = alias(self, self.sizes(), self.strides(), self->offset());
  copy_history(before, self);
  Tensor y = make(before);
  self->set_geometry(y.sizes(), y.strides(), y->offset());
  note_write(op, self);
  if (!recording) return self;
  copy_history(self, y);
  ++ensure_meta(self).rewrites;  // views of self are places of what it is now
  return self;
}

const Signature kView{"view", 0, true, {"size", "dtype"}};
const Signature kReshape{"reshape", 0, true, {"shape"}};

// Each element as several smaller ones along the last dimension.
Geometry in_smaller_elements(const Tensor& x, int64_t ratio) {
  Geometry g{DimVector(x.sizes()), DimVector(x.strides()), x->offset() * ratio};
  for (int64_t& stride : g.strides) stride *= ratio;
  g.sizes[x.dim() - 1] *= ratio;
  g.strides[x.dim() - 1] = 1;
  return g;
}

void check_divisible(const std::string& fact, int64_t number, int64_t ratio,
                     const std::string& what) {
  TAPEGRAD_CHECK(number % ratio == 0, "view: self.", fact, " must be divisible by ", ratio, what,
                 ", but got ", number);
}

void check_larger_elements(const Tensor& x, int64_t ratio, const std::string& what) {
  check_divisible("size(-1)", x.size(x.dim() - 1), ratio, what);
  check_divisible("storage_offset()", x->offset(), ratio, what);
}

// Several elements of the last dimension as one.
Geometry in_larger_elements(const Tensor& x, int64_t ratio, const std::string& what) {
  Geometry g{DimVector(x.sizes()), DimVector(x.strides()), x->offset() / ratio};
  const int64_t last = x.dim() - 1;
  for (int64_t d = 0; d < last; ++d) {
    check_divisible(concat("stride(", d, ")"), x.stride(d), ratio, what);
    g.strides[d] /= ratio;
  }
  g.sizes[last] /= ratio;
  return g;
}

// Memory of others may begin anywhere.
void check_alignment(const Tensor& x, DType dtype) {
  const auto place = reinterpret_cast<uintptr_t>(x->storage().data());
  TAPEGRAD_CHECK(place % itemsize(real_dtype(dtype)) == 0, "view: the memory is not aligned to ",
                 itemsize(real_dtype(dtype)), " bytes, the size of ", name(dtype),
                 "; clone() the tensor first");
}

Tensor view_as_dtype(const Tensor& x, DType dtype) {
  check_device_dtype("view", dtype, x->device());
  if (is_limited(dtype)) intercepted_everywhere |= kLimitedTensors;
  const auto from = static_cast<int64_t>(itemsize(x.dtype()));
  const auto to = static_cast<int64_t>(itemsize(dtype));
  Tensor y = detach(x);
  if (from != to) {
    const std::string what = concat(" to view ", type_name(x.dtype()), " as ", type_name(dtype),
                                    " (different element sizes)");
    if (is_batched(x))
      fail<NotImplementedError>("view: vmap:", what, " is not supported: view it outside");
    TAPEGRAD_CHECK(x.dim() > 0, "view: self.dim() cannot be 0", what);
    if (to > from) {
      check_alignment(x, dtype);
      check_larger_elements(x, to / from, what);
    }
    TAPEGRAD_CHECK(x.stride(x.dim() - 1) == 1, "view: self.stride(-1) must be 1", what,
                   ", but got ", x.stride(x.dim() - 1));
    const Geometry g =
        from > to ? in_smaller_elements(x, from / to) : in_larger_elements(x, to / from, what);
    y->set_geometry(g.sizes, g.strides, g.offset);
  }
  y->set_storage(x->storage_ref(), dtype);
  return y;
}

Tensor view_method(const ParsedArguments& a) {
  if (a.has(1)) return view_as_dtype(a.self(), a.dtype(1, a.self().dtype()));
  DType dtype;
  if (a.position_count() == 1 && dtype_from_object(a.position(0), &dtype))
    return view_as_dtype(a.self(), dtype);
  return view(a.self(), a.sizes());
}

Tensor reshape_method(const ParsedArguments& a) { return reshape(a.self(), a.sizes()); }

void bind_reshaping(Binder& b) {
  define_method<kView, view_method>(b, R"(view(*shape) -> Tensor

A view of another shape; -1 stands for what is left. Given a dtype, the same bytes as elements of that
dtype: where they are larger or smaller, the last dimension is shorter or longer.

Example:
    >>> torch.arange(6).view(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
)");
  b.method("view_as", [](const Tensor& self, const Tensor& other) {
    return view(self, other.sizes());
  }, "other"_a, "A view with the shape of `other`.");
  define_method<kReshape, reshape_method>(b, R"(reshape(*shape) -> Tensor

Another shape: a view where that is possible, else a copy.
)");
  b.function("reshape", [](const Tensor& input, const IntList& shape) {
    return reshape(input, shape);
  }, "input"_a, "shape"_a, "Another shape: a view where that is possible, else a copy.");
  b.method("reshape_as", [](const Tensor& self, const Tensor& other) {
    return reshape(self, other.sizes());
  }, "other"_a, "The shape of `other`.");
  b.both("flatten", flatten, "start_dim"_a = 0, "end_dim"_a = -1,
         "Merges dimensions start_dim to end_dim into one.");
  b.both("unflatten", unflatten, "dim"_a, "sizes"_a, "Splits one dimension into several.");
  b.both("ravel", [](const Tensor& x) { return reshape(contiguous(x), DimVector{-1}); },
         "All elements in one dimension, contiguous: a view where that is possible, else a copy.");
  b.method("expand", [](const Tensor& self, const nb::args& args) {
    return expand(self, int_list_from_args("expand", args));
  }, "A view with dimensions of size one repeated; -1 keeps a size.");
  b.method("expand_as", [](const Tensor& self, const Tensor& other) {
    return expand(self, other.sizes());
  }, "other"_a, "A view broadcast to the shape of `other`.");
  b.both("broadcast_to", [](const Tensor& x, const IntList& size) { return expand(x, size); },
         "size"_a, "A view broadcast to the shape `size`.");
}

void bind_dimensions(Binder& b) {
  b.method("permute", [](const Tensor& self, const nb::args& args) {
    return permute(self, int_list_from_args("permute", args));
  }, "A view with the dimensions in another order.");
  b.function("permute", [](const Tensor& input, const IntList& dims) {
    return permute(input, dims);
  }, "input"_a, "dims"_a, "A view with the dimensions in another order.");
  b.both("transpose", transpose, "dim0"_a, "dim1"_a, "A view with two dimensions swapped.");
  b.both("swapaxes", transpose, "axis0"_a, "axis1"_a, "A view with two dimensions swapped.");
  b.both("swapdims", transpose, "dim0"_a, "dim1"_a, "A view with two dimensions swapped.");
  b.both("t", t, "The transpose of a matrix.");
  b.both("adjoint", [](const Tensor& x) {
    TAPEGRAD_CHECK(x.dim() != 1,
                   "adjoint: only supported on matrices or batches of matrices, got a "
                   "1-D tensor");
    return conj(x.dim() == 0 ? x : matrix_transpose(x));
  }, "The transpose of the last two dimensions.");
  b.both("movedim", movedim, "source"_a, "destination"_a, "Moves dimensions to other positions.");
  b.both("moveaxis", movedim, "source"_a, "destination"_a, "Moves dimensions to other positions.");
  b.both("squeeze", [](const Tensor& x) { return squeeze(x); },
         "Drops all dimensions of size one.");
  b.both("squeeze", [](const Tensor& x, const IntList& dim) { return squeeze(x, dim); }, "dim"_a,
         "Drops the given dimensions where they have size one.");
  b.both("unsqueeze", unsqueeze, "dim"_a, "Inserts a dimension of size one.");
  b.method("squeeze_", [](const Tensor& self) {
    return become_view("squeeze_", self, [](const Tensor& x) { return squeeze(x); });
  }, "squeeze() in place.");
  b.method("squeeze_", [](const Tensor& self, const IntList& dim) {
    return become_view("squeeze_", self, [&](const Tensor& x) { return squeeze(x, dim); });
  }, "dim"_a, "squeeze() in place.");
  b.method("unsqueeze_", [](const Tensor& self, int64_t dim) {
    return become_view("unsqueeze_", self, [&](const Tensor& x) { return unsqueeze(x, dim); });
  }, "dim"_a, "unsqueeze() in place.");
  b.method("transpose_", [](const Tensor& self, int64_t dim0, int64_t dim1) {
    return become_view("transpose_", self,
                       [&](const Tensor& x) { return transpose(x, dim0, dim1); });
  }, "dim0"_a, "dim1"_a, "transpose() in place.");
  b.method("t_", [](const Tensor& self) { return become_view("t_", self, t); }, "t() in place.");
  b.method("as_strided_",
           [](const Tensor& self, const IntList& size, const IntList& stride,
              std::optional<int64_t> storage_offset) {
    return become_view("as_strided_", self, [&](const Tensor& x) {
      return as_strided(x, size, stride, storage_offset);
    });
  },
           "size"_a, "stride"_a, "storage_offset"_a.none() = nb::none(), "as_strided() in place.");
}

}  // namespace

void bind_view(Binder& b) {
  bind_reshaping(b);
  bind_dimensions(b);
  b.both("select", select, "dim"_a, "index"_a, "The slice at `index`, without that dimension.");
  b.both("narrow", narrow, "dim"_a, "start"_a, "length"_a,
         "The part of a dimension from start on, `length` long.");
  b.method("unfold", unfold, "dimension"_a, "size"_a, "step"_a,
           "All windows of `size` along a dimension, as a new last dimension.");
  b.both("diagonal", diagonal, "offset"_a = 0, "dim1"_a = 0, "dim2"_a = 1,
         "A view of the diagonal of two dimensions.");
  b.both("as_strided",
         [](const Tensor& x, const IntList& size, const IntList& stride,
            std::optional<int64_t> storage_offset) {
    return as_strided(x, size, stride, storage_offset);
  },
         "size"_a, "stride"_a, "storage_offset"_a.none() = nb::none(),
         "A view of the storage with any sizes and strides that stay inside it.");
  b.both("unbind", [](const Tensor& x, int64_t dim) { return to_tuple(unbind(x, dim)); },
         "dim"_a = 0, "All slices along a dimension, as a tuple.");
  b.both("chunk", chunk, "chunks"_a, "dim"_a = 0, "At most `chunks` parts of equal size.");
  auto split_any = [](const Tensor& x, nb::handle sizes, int64_t dim) {
    IntList list;
    if (!int_list_from_object(sizes.ptr(), &list.values))
      fail<TypeError>("split: split_size_or_sections must be an int or a list of ints");
    return split(x, list, PySequence_Check(sizes.ptr()) && !is_tensor(sizes.ptr()), dim);
  };
  b.function("split", split_any, "tensor"_a, "split_size_or_sections"_a, "dim"_a = 0,
             "Parts of a given size, or of the sizes in a list, as views.");
  b.method("split", split_any, "split_size"_a, "dim"_a = 0,
           "Parts of a given size, or of the sizes in a list, as views.");
  b.both("split_with_sizes", [](const Tensor& x, const IntList& split_sizes, int64_t dim) {
    return to_tuple(split_with_sizes(x, split_sizes, dim));
  }, "split_sizes"_a, "dim"_a = 0, "Parts of the given sizes, as views.");
}

}  // namespace tapegrad::python
