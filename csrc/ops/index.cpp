#include "ops/index.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/op.h"
#include "core/torch_names.h"
#include "graph/write_log.h"
#include "ops/autocast.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/inplace.h"
#include "ops/mask.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "spec/index.h"

namespace tapegrad {

namespace {

// One record per public op: the name is what errors begin with.
const Op index_op("index", {"before", "rule", "dims*"}, kComplex | kBare);
const Op index_select_op("index_select", {"before", "rule", "dims*"}, kComplex | kBare);
const Op index_put_op("index_put_", {"before", "rule", "accumulate", "dims*"},
                      kAnyOrder | kComplex | kBare);
const Op index_add_op("index_add_", {"before", "rule", "accumulate", "dims*"},
                      kAnyOrder | kComplex);
const Op index_copy_op("index_copy_", {"before", "rule", "accumulate", "dims*"}, kComplex | kBare);
const Op index_fill_op("index_fill_", {"before", "rule", "accumulate", "dims*"}, kComplex | kBare);

const EntryKind index_entry(index_op, {"indices*"});
const EntryKind index_put_entry("index_put", index_put_op, {"indices*"});
const EntryKind index_select_entry(index_select_op, {"index"});
const EntryKind index_add_entry("index_add", index_add_op, {"index"});
const EntryKind index_copy_entry("index_copy", index_copy_op, {"index"});
const EntryKind index_fill_entry("index_fill", index_fill_op, {"index"});

const CastRule index_put_rule("index_put", Cast::None, Cast::Widest);
const CastRule index_copy_rule("index_copy", Cast::Widest, Cast::None);

// Index tensors made ready for the kernels.
struct Prepared {
  std::vector<Tensor> given;    // as given, masks as indices
  std::vector<Tensor> columns;  // the same, contiguous and of one shape
  DimVector dims;               // which dimension each indexes, ascending
  DimVector order;              // all dimensions as [before, indexed, after]
  size_t before = 0;            // how many come before
  DimVector sizes;              // of the result: [before, tuples, after]
};

// Masks become the indices of their true elements, one tensor for each dimension they cover.
void expand_masks(const char* op, const Tensor& x, IndexList indices, Prepared& prepared) {
  int64_t dim = 0;
  for (const Tensor& index : indices) {
    if (!index.defined()) {
      ++dim;
      continue;
    }
    bool is_mask = index.dtype() == DType::Bool || index.dtype() == DType::UInt8;
    TAPEGRAD_CHECK_AS(IndexError,
                      is_mask || index.dtype() == DType::Int64 || index.dtype() == DType::Int32, op,
                      ": tensors used as indices must be long, int, byte or bool tensors, got ",
                      name(index.dtype()), "; call .long() first");
    TAPEGRAD_CHECK(
        index->device().is_cpu() || index->device() == x->device(), op,
        ": indices should be either on cpu or on the same device as the indexed tensor (",
        to_string(x->device()), "), got one on ", to_string(index->device()));
    int64_t covers = is_mask ? index.dim() : 1;
    TAPEGRAD_CHECK_AS(IndexError, dim + covers <= x.dim(), op,
                      ": too many indices for tensor of dimension ", x.dim());
    if (!is_mask) {
      prepared.columns.push_back(to_device(cast(index, DType::Int64), x->device()));
      prepared.dims.push_back(dim++);
      continue;
    }
    for (int64_t d = 0; d < covers; ++d)
      TAPEGRAD_CHECK_AS(IndexError, index.size(d) == x.size(dim + d), op,
                        ": The shape of the mask ", to_string(index.sizes()), " at index ", d,
                        " does not match the shape of the indexed tensor ", to_string(x.sizes()),
                        " at index ", dim + d);
    for (const Tensor& column : nonzero_columns(index)) {
      if (covers == 0) break;
      prepared.columns.push_back(to_device(column, x->device()));
      prepared.dims.push_back(dim++);
    }
  }
}

DimVector tuple_sizes(const char* op, std::span<const Tensor> columns) {
  DimVector sizes;
  for (const Tensor& column : columns) {
    DimVector merged(std::max(sizes.size(), column.sizes().size()), 1);
    bool fits = true;
    for (size_t i = 1; i <= merged.size(); ++i) {
      int64_t a = i <= sizes.size() ? sizes[sizes.size() - i] : 1;
      int64_t b = i <= column.sizes().size() ? column.size(column.sizes().size() - i) : 1;
      fits &= a == b || a == 1 || b == 1;
      merged[merged.size() - i] = a == 1 ? b : a;
    }
    if (!fits) {
      std::string shapes;
      for (const Tensor& each : columns)
        shapes += (shapes.empty() ? "" : ", ") + to_string(each.sizes());
      fail<IndexError>(op,
                       ": shape mismatch: indexing tensors could not be broadcast together "
                       "with shapes ",
                       shapes);
    }
    sizes = merged;
  }
  return sizes;
}

// A contiguous copy of x, broadcast to `sizes`; x itself where it is that already.
Tensor materialize(const Tensor& x, Sizes sizes) {
  if (x.is_contiguous() && same_sizes(x.sizes(), sizes)) return x;
  Tensor y = empty("index", sizes, x.dtype(), x->device());
  copy_into(y, x);
  return y;
}

Prepared prepare(const char* op, const Tensor& x, IndexList indices) {
  TAPEGRAD_CHECK_AS(IndexError, static_cast<int64_t>(indices.size()) <= x.dim(), op,
                    ": too many indices for tensor of dimension ", x.dim(), " (got ",
                    indices.size(), ")");
  Prepared prepared;
  expand_masks(op, x, indices, prepared);
  TAPEGRAD_CHECK(!prepared.columns.empty(), op, ": expected at least one index tensor");
  DimVector tuples = tuple_sizes(op, prepared.columns);
  prepared.given = prepared.columns;
  for (Tensor& column : prepared.columns) column = materialize(column, tuples);

  const DimVector& dims = prepared.dims;
  int64_t first = dims[0], last = dims[dims.size() - 1];
  bool adjacent = last - first + 1 == static_cast<int64_t>(dims.size());
  // Index tensors with whole dimensions between them: their shape goes to the front, as in NumPy.
  prepared.before = adjacent ? static_cast<size_t>(first) : 0;
  for (size_t d = 0; d < prepared.before; ++d) {
    prepared.order.push_back(static_cast<int64_t>(d));
    prepared.sizes.push_back(x.size(d));
  }
  for (int64_t d : dims) prepared.order.push_back(d);
  for (int64_t size : tuples) prepared.sizes.push_back(size);
  for (int64_t d = static_cast<int64_t>(prepared.before); d < x.dim(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) != dims.end()) continue;
    prepared.order.push_back(d);
    prepared.sizes.push_back(x.size(d));
  }
  return prepared;
}

// x with its dimensions in the order the kernels want.
Tensor reordered(const Tensor& x, Sizes order) {
  DimVector sizes, strides;
  for (int64_t d : order) {
    sizes.push_back(x.size(d));
    strides.push_back(x.stride(d));
  }
  return alias(x, sizes, strides, x->offset());
}

std::vector<Scalar> attributes_of(const Prepared& prepared, IndexRule rule) {
  std::vector<Scalar> attributes{Scalar(static_cast<int64_t>(prepared.before)),
                                 Scalar(static_cast<int>(rule))};
  for (int64_t d : prepared.dims) attributes.emplace_back(d);
  return attributes;
}

Tensor read(const Op& op, const Tensor& x, const Prepared& prepared, IndexRule rule) {
  Tensor y = empty(op.name, prepared.sizes, x.dtype(), x->device());
  std::vector<Tensor> inputs{reordered(x, prepared.order)};
  inputs.insert(inputs.end(), prepared.columns.begin(), prepared.columns.end());
  dispatch(op, inputs, attributes_of(prepared, rule), std::span(&y, 1));
  return y;
}

// What was read, in the memory order of x where whole dimensions were, of the indices elsewhere.
Tensor in_given_order(const Tensor& y, const Tensor& x, const Prepared& prepared) {
  bool usual = x.is_contiguous();
  for (const Tensor& index : prepared.given) usual = usual && index.is_contiguous();
  if (usual) return y;
  size_t tuple_rank = prepared.columns[0].sizes().size();
  size_t after = prepared.before + tuple_rank;
  DimVector strides(prepared.sizes.size(), 0);
  for (size_t d = 0; d < prepared.before; ++d) strides[d] = x.stride(prepared.order[d]);
  for (size_t d = after; d < strides.size(); ++d)
    strides[d] = x.stride(prepared.order[d - tuple_rank + prepared.dims.size()]);
  std::vector<Tensor> operands{alias(x, prepared.sizes, strides, x->offset())};
  for (const Tensor& index : prepared.given) {
    DimVector index_sizes(index.sizes()), index_strides(index.strides());
    for (size_t d = after; d < strides.size(); ++d) {
      index_sizes.push_back(1);
      index_strides.push_back(1);
    }
    for (size_t d = 0; d < prepared.before && !index_sizes.empty(); ++d) {
      index_strides.insert(0, index_sizes[0] * index_strides[0]);
      index_sizes.insert(0, 1);
    }
    operands.push_back(alias(index, index_sizes, index_strides, index->offset()));
  }
  std::vector<const Tensor*> pointers;
  for (const Tensor& operand : operands) pointers.push_back(&operand);
  return rearranged(y, elementwise_strides(prepared.sizes, pointers));
}

// Writes `values`, broadcast to the result's shape and of self's dtype, into self.
void write(const Op& op, const Tensor& self, const Prepared& prepared, const Tensor& given,
           bool accumulate, IndexRule rule) {
  const Tensor values = beside(given, self);
  TAPEGRAD_CHECK(can_expand(values.sizes(), prepared.sizes), op.name,
                 ": shape mismatch: value tensor of shape ", to_string(values.sizes()),
                 " cannot be broadcast to indexing result of shape ", to_string(prepared.sizes));
  auto apart = [&](const Tensor& x) {  // reading it must not see what is being written
    return x->storage_ref() == self->storage_ref() ? materialize(clone(detach(x)), x.sizes()) : x;
  };
  bool constant = values.numel() == 1 && !accumulate;
  Tensor target = reordered(self, prepared.order);
  Tensor source = constant ? values : materialize(values, prepared.sizes);
  std::vector<Tensor> inputs{target, apart(source)};
  for (const Tensor& column : prepared.columns) inputs.push_back(apart(column));
  std::vector<Scalar> attributes = attributes_of(prepared, rule);
  attributes.insert(attributes.begin() + 2, Scalar(accumulate));
  dispatch(op, inputs, attributes, std::span(&target, 1));
}

// Saved index tensors as a list of one for each leading dimension.
std::vector<Tensor> saved_list(const Node& node, Sizes dims) {
  std::vector<Tensor> list(dims.back() + 1);
  for (size_t i = 0; i < dims.size(); ++i) list[dims[i]] = node.saved(i);
  return list;
}

void save_columns(Node& node, const Prepared& prepared) {
  for (size_t i = 0; i < prepared.columns.size(); ++i) node.save_input(i, prepared.columns[i]);
}

struct IndexBackward final : Entry<index_entry> {
  IndexBackward(Sizes sizes, Sizes dims) : sizes(sizes), dims(dims) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor grad_x = zeros(sizes, grads[0].dtype(), grads[0]->device());
    index_put_(grad_x, saved_list(*this, dims), grads[0], true);
    grad_inputs[0] = grad_x;
  }
  DimVector sizes;
  DimVector dims;
};

struct IndexPutBackward final : Entry<index_put_entry> {
  IndexPutBackward(Sizes dims, bool accumulate) : dims(dims), accumulate(accumulate) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    std::vector<Tensor> list = saved_list(*this, dims);
    const Tensor& g = grads[0];
    if (needs(0))
      grad_inputs[0] =
          accumulate ? g : index_put(g, list, zeros({}, g.dtype(), g->device()), false);
    if (needs(1)) grad_inputs[1] = index(g, list);
  }
  DimVector dims;
  bool accumulate;
};

void check_put_dtype(const Tensor& x, const Tensor& values) {
  TAPEGRAD_CHECK(x.dtype() == values.dtype(),
                 "index_put_: Index put requires the source and destination dtypes match, got ",
                 type_name(x.dtype()), " for the destination and ", type_name(values.dtype()),
                 " for the source.");
}

}  // namespace

Tensor index(const Tensor& x, IndexList indices) {
  Prepared prepared = prepare("index", x, indices);
  Tensor y = in_given_order(read(index_op, x, prepared, IndexRule::Wrap), x, prepared);
  if (should_record(x))
    save_columns(record<IndexBackward>({&x}, y, prepared.columns.size(), x.sizes(), prepared.dims),
                 prepared);
  return y;
}

Tensor index_put(const Tensor& x, IndexList indices, const Tensor& values, bool accumulate) {
  if (autocast_devices) [[unlikely]]
    return run_cast(index_put_rule, [&](auto& x, auto& values) {
      return index_put(x, indices, values, accumulate);
    }, x, values);
  check_put_dtype(x, values);
  Prepared prepared = prepare("index_put", x, indices);
  Tensor y = clone(detach(x));
  write(index_put_op, y, prepared, values, accumulate, IndexRule::Wrap);
  if (should_record(x, values))
    save_columns(record<IndexPutBackward>({&x, &values}, y, prepared.columns.size(), prepared.dims,
                                          accumulate),
                 prepared);
  return y;
}

void index_put_(const Tensor& self, IndexList indices, const Tensor& values, bool accumulate) {
  check_put_dtype(self, values);
  bool recording = should_record(self, values);
  check_inplace("index_put_", self, recording);
  check_apart("index_put_", self, {&values});
  for (const Tensor& index : indices)
    if (index.defined()) check_apart("index_put_", self, {&index});
  Prepared prepared = prepare("index_put_", self, indices);
  write(index_put_op, self, prepared, values, accumulate, IndexRule::Wrap);
  note_write("index_put_", self);
  if (recording)
    save_columns(record_inplace<IndexPutBackward>(self, {&values}, prepared.columns.size(),
                                                  prepared.dims, accumulate),
                 prepared);
}

// ---- along one dimension

namespace {

// A vector of indices along `dim`, checked. A 0-d tensor is read as a vector of one element.
struct Along {
  Tensor x;  // as given, or as a vector where it was 0-d
  Prepared prepared;
  int64_t dim;
};

Along along(const char* op, const Tensor& x, int64_t dim, const Tensor& index, bool int64_only) {
  TAPEGRAD_CHECK_AS(IndexError, index.dim() <= 1, op,
                    ": Index is supposed to be a vector, but got one of shape ",
                    to_string(index.sizes()));
  TAPEGRAD_CHECK(index.dtype() == DType::Int64 || (index.dtype() == DType::Int32 && !int64_only),
                 op, ": Expected dtype ", int64_only ? "int64" : "int32 or int64",
                 " for index, got ", name(index.dtype()), "; call .long() first");
  int64_t d = wrap_dim(op, dim, x.dim());
  Along result{x.dim() == 0 ? alias(x, DimVector{1}, DimVector{1}, x->offset()) : x, {}, d};
  std::vector<Tensor> list(d + 1);
  list[d] = index.dim() == 0 ? reshape(index, DimVector{1}) : index;
  result.prepared = prepare(op, result.x, list);
  return result;
}

// The gradient of slices taken or written: index and dimension are what is needed of it.
struct IndexSelectBackward final : Entry<index_select_entry> {
  IndexSelectBackward(Sizes sizes, int64_t dim) : sizes(sizes), dim(dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor grad_x = zeros(sizes, grads[0].dtype(), grads[0]->device());
    index_add_(grad_x, dim, saved(0), grads[0], 1);
    grad_inputs[0] = grad_x;
  }
  DimVector sizes;
  int64_t dim;
};

struct IndexAddBackward final : Entry<index_add_entry> {
  IndexAddBackward(int64_t dim, Scalar alpha) : dim(dim), alpha(alpha) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (needs(0)) grad_inputs[0] = grads[0];
    if (!needs(1)) return;
    Tensor part = index_select(grads[0], dim, saved(0));
    double factor = alpha.as_double();
    grad_inputs[1] = factor == 1 ? part : mul(part, factor);
  }
  int64_t dim;
  Scalar alpha;
};

struct IndexCopyBackward final : Entry<index_copy_entry> {
  explicit IndexCopyBackward(int64_t dim) : dim(dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    const Tensor& g = grads[0];
    if (needs(0)) grad_inputs[0] = index_fill(g, dim, saved(0), zeros({}, g.dtype(), g->device()));
    if (needs(1)) grad_inputs[1] = index_select(g, dim, saved(0));
  }
  int64_t dim;
};

struct IndexFillBackward final : Entry<index_fill_entry> {
  explicit IndexFillBackward(int64_t dim) : dim(dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    const Tensor& g = grads[0];
    if (needs(0)) grad_inputs[0] = index_fill(g, dim, saved(0), zeros({}, g.dtype(), g->device()));
    if (!needs(1)) return;
    // Through a mask, because an index may come twice and its slice is filled once.
    Tensor filled = index_fill(zeros(g.sizes(), DType::Bool, g->device()), dim, saved(0),
                               ones({}, DType::Bool, g->device()));
    grad_inputs[1] = sum(where(filled, g, 0.0), {}, false);
  }
  int64_t dim;
};

void check_source(const char* op, const Tensor& x, int64_t dim, const Tensor& index,
                  const Tensor& source) {
  int64_t count = source.dim() == 0 ? 1 : 0;
  TAPEGRAD_CHECK(source.dim() == x.dim(), op,
                 ": source tensor shape must match self tensor shape, excluding the specified "
                 "dimension, got self.shape = ",
                 to_string(x.sizes()), " source.shape = ", to_string(source.sizes()));
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (d == dim) count = source.size(d);
    else
      TAPEGRAD_CHECK(source.size(d) == x.size(d), op,
                     ": source tensor shape must match self tensor shape, excluding the specified "
                     "dimension, got self.shape = ",
                     to_string(x.sizes()), " source.shape = ", to_string(source.sizes()));
  }
  TAPEGRAD_CHECK(index.numel() == count, op, ": Number of indices (", index.numel(),
                 ") should be equal to source.size(dim): (", count, "), for dim: ", dim);
  TAPEGRAD_CHECK(source.dtype() == x.dtype(), op, ": self (", name(x.dtype()), ") and source (",
                 name(source.dtype()), ") must have the same scalar type");
}

Tensor scaled(const Tensor& source, Scalar alpha) {
  if (alpha.as_double() == 1) return source;
  GradMode off(false);
  Tensor factor = scalar_tensor(alpha, source.dtype(), source->device());
  return mul(source, factor);
}

// Writes the checked source along a dimension.
void write_along(const Op& op, const Tensor& self, int64_t dim, const Tensor& index,
                 const Tensor& source, bool accumulate, IndexRule rule, bool int64_only) {
  Along place = along(op.name, self, dim, index, int64_only);
  if (self.dim() > 0 || source.numel() != 1)
    return write(op, place.x, place.prepared, source, accumulate, rule);
  Tensor vector = alias(source, DimVector{1}, DimVector{1}, source->offset());
  write(op, place.x, place.prepared, vector, accumulate, rule);
}

void write_index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                     Scalar alpha) {
  check_source("index_add_", self, wrap_dim("index_add_", dim, self.dim()), index, source);
  write_along(index_add_op, self, dim, index, scaled(source, alpha), true, IndexRule::NoWrapRuntime,
              false);
}

// index_copy takes a single value for a vector of one element, and the other way round.
Tensor copied_source(const Tensor& x, const Tensor& source) {
  bool mixed = x.dim() + source.dim() == 1 && source.numel() == 1;
  return mixed ? reshape(source, x.dim() == 0 ? DimVector{} : DimVector{1}) : source;
}

void write_index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  int64_t d = wrap_dim("index_copy_", dim, self.dim());
  TAPEGRAD_CHECK_AS(IndexError, source.dim() == self.dim(),
                    "index_copy_: the dimensionality of source (", source.dim(),
                    ") must match that of the destination (", self.dim(), ")");
  int64_t count = source.dim() == 0 ? 1 : source.size(d);
  TAPEGRAD_CHECK_AS(IndexError, index.numel() == count, "index_copy_: Number of indices (",
                    index.numel(), ") should be equal to source.size(dim) (", count, ")");
  check_source("index_copy_", self, d, index, source);
  write_along(index_copy_op, self, dim, index, source, false, IndexRule::NoWrap, true);
}

void write_index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  TAPEGRAD_CHECK(value.dim() == 0,
                 "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                 value.dim(), " dimension(s).");
  TAPEGRAD_CHECK_AS(IndexError, index.dtype() == DType::Int64,
                    "index_fill_: expected dtype int64 for index, got ", name(index.dtype()),
                    "; call .long() first");
  write_along(index_fill_op, self, dim, index, beside(cast(detach(value), self.dtype()), self),
              false, IndexRule::Wrap, true);
}

}  // namespace

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  Along place = along("index_select", x, dim, index, false);
  TAPEGRAD_CHECK(x.dim() > 0 || index.numel() == 1,
                 "index_select: index to scalar can have only 1 value, got ", index.numel());
  Tensor y = read(index_select_op, place.x, place.prepared, IndexRule::NoWrap);
  if (x.dim() == 0) y->set_geometry({}, {}, 0);
  if (should_record(x))
    record<IndexSelectBackward>({&x}, y, 1, x.sizes(), place.dim).save_input(0, index);
  return y;
}

Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                 Scalar alpha) {
  Tensor y = clone(detach(x), MemoryFormat::Contiguous);
  write_index_add(y, dim, index, source, alpha);
  if (should_record(x, source))
    record<IndexAddBackward>({&x, &source}, y, 1, dim, alpha).save_input(0, index);
  return y;
}

void index_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                Scalar alpha) {
  bool recording = should_record(self, source);
  check_inplace("index_add_", self, recording);
  check_apart("index_add_", self, {&index, &source});
  write_index_add(self, dim, index, source, alpha);
  note_write("index_add_", self);
  if (recording)
    record_inplace<IndexAddBackward>(self, {&source}, 1, dim, alpha).save_input(0, index);
}

Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& given) {
  if (autocast_devices) [[unlikely]]
    return run_cast(index_copy_rule, [&](auto& x, auto& source) {
      return index_copy(x, dim, index, source);
    }, x, given);
  Tensor source = copied_source(x, given);
  Tensor y = clone(detach(x), MemoryFormat::Contiguous);
  write_index_copy(y, dim, index, source);
  if (should_record(x, source))
    record<IndexCopyBackward>({&x, &source}, y, 1, dim).save_input(0, index);
  return y;
}

void index_copy_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& given) {
  Tensor source = copied_source(self, given);
  bool recording = should_record(self, source);
  check_inplace("index_copy_", self, recording);
  check_apart("index_copy_", self, {&index, &source});
  write_index_copy(self, dim, index, source);
  note_write("index_copy_", self);
  if (recording) record_inplace<IndexCopyBackward>(self, {&source}, 1, dim).save_input(0, index);
}

Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& value) {
  Tensor y = clone(detach(x));
  write_index_fill(y, dim, index, value);
  if (should_record(x, value))
    record<IndexFillBackward>({&x, &value}, y, 1, dim).save_input(0, index);
  return y;
}

void index_fill_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  bool recording = should_record(self, value);
  check_inplace("index_fill_", self, recording);
  check_apart("index_fill_", self, {&index});
  write_index_fill(self, dim, index, value);
  note_write("index_fill_", self);
  if (recording) record_inplace<IndexFillBackward>(self, {&value}, 1, dim).save_input(0, index);
}

// ---- flat

namespace {

void check_flat_index(const char* op, const Tensor& x, const Tensor& index) {
  TAPEGRAD_CHECK(index.dtype() == DType::Int64, op,
                 "(): Expected a long tensor for index, but got ", type_name(index.dtype()));
  TAPEGRAD_CHECK_AS(IndexError, x.numel() > 0 || index.numel() == 0, op,
                    ": tried to index into an empty tensor");
}

void check_put(const char* op, const Tensor& x, const Tensor& index, const Tensor& source) {
  check_flat_index(op, x, index);
  TAPEGRAD_CHECK_AS(IndexError, source.numel() == index.numel(), op,
                    "(): Expected source and index to have the same number of elements, but got ",
                    "source.numel() = ", source.numel(), ", index.numel() = ", index.numel());
  TAPEGRAD_CHECK(source.dtype() == x.dtype(), op,
                 ": self and source expected to have the same dtype, but got ", name(x.dtype()),
                 " and ", name(source.dtype()));
}

}  // namespace

Tensor take(const Tensor& x, const Tensor& place) {
  check_flat_index("take", x, place);
  return index(reshape(x, DimVector{-1}), std::array{contiguous(place)});
}

Tensor put(const Tensor& x, const Tensor& place, const Tensor& source, bool accumulate) {
  check_put("put", x, place, source);
  Tensor flat =
      index_put(reshape(x, DimVector{-1}), {&place, 1}, reshape(source, place.sizes()), accumulate);
  return rearranged(reshape(flat, x.sizes()), strides_like(*x.impl()));
}

void put_(const Tensor& self, const Tensor& place, const Tensor& source, bool accumulate) {
  check_put("put_", self, place, source);
  check_apart("put_", self, {&place, &source});
  if (!self.is_contiguous()) return copy_(self, put(self, place, source, accumulate));
  index_put_(view(self, DimVector{-1}), {&place, 1}, reshape(source, place.sizes()), accumulate);
}

}  // namespace tapegrad
