#include "ops/scatter.h"

#include <limits>

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

const Op gather_op("gather", {"dim"}, kComplex | kBare);
const Op scatter_op("scatter", {"dim", "mode"}, kAnyOrder | kHolomorphic);

const CastRule scatter_add_rule("scatter_add", Cast::None, Cast::Widest);

const EntryKind gather_entry(gather_op, {"index"});
const EntryKind scatter_entry(scatter_op, {"index"});
const EntryKind scatter_add_entry("scatter_add", scatter_op, {{"index", {1}}});
const EntryKind scatter_reduce_entry("scatter_reduce", scatter_op,
                                     {"index", "self", "src", "result"});

// The kernels know no 0-d tensors: as a vector of one element.
Tensor at_least_vector(const Tensor& x) {
  return x.dim() == 0 ? alias(x, DimVector{1}, DimVector{1}, x->offset()) : x;
}

Tensor as_int64_index(const char* op, const Tensor& index) {
  const bool names_places = index.dtype() == DType::Int64 || index.dtype() == DType::Int32;
  TAPEGRAD_CHECK(names_places || index.numel() == 0, op,
                 "(): Expected dtype int32/int64 for index, got ", name(index.dtype()),
                 "; call .long() first");
  return cast(index, DType::Int64);
}

int64_t rank_at_least_one(const Tensor& x) { return std::max<int64_t>(x.dim(), 1); }

void check_index_shape(const char* op, const Tensor& x, int64_t dim, const Tensor& index) {
  TAPEGRAD_CHECK(rank_at_least_one(index) == rank_at_least_one(x), op,
                 "(): Index tensor must have the same number of dimensions as input tensor, got ",
                 index.dim(), " and ", x.dim());
  for (int64_t d = 0; d < index.dim(); ++d)
    TAPEGRAD_CHECK(d == dim || index.size(d) <= (x.dim() == 0 ? 1 : x.size(d)), op,
                   ": Size does not match at dimension ", d, " expected index ",
                   to_string(index.sizes()), " to be no larger than self ", to_string(x.sizes()),
                   " apart from dimension ", dim);
}

struct GatherBackward final : Entry<gather_entry> {
  GatherBackward(Sizes sizes, int64_t dim) : sizes(sizes), dim(dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor grad_x = zeros(sizes, grads[0].dtype(), grads[0]->device());
    scatter_add_(grad_x, dim, saved(0), grads[0]);
    grad_inputs[0] = grad_x;
  }
  DimVector sizes;
  int64_t dim;
};

struct ScatterBackward final : Entry<scatter_entry> {
  explicit ScatterBackward(int64_t dim) : dim(dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    const Tensor& g = grads[0];
    if (needs(0)) grad_inputs[0] = scatter(g, dim, saved(0), zeros({}, g.dtype(), g->device()));
    if (needs(1)) grad_inputs[1] = gather(g, dim, saved(0));
  }
  int64_t dim;
};

struct ScatterAddBackward final : Entry<scatter_add_entry> {
  explicit ScatterAddBackward(int64_t dim) : dim(dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (needs(0)) grad_inputs[0] = grads[0];
    if (needs(1)) grad_inputs[1] = gather(grads[0], dim, saved(0));
  }
  int64_t dim;
};

}  // namespace

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index) {
  int64_t d = wrap_dim("gather", dim, x.dim());
  Tensor places = as_int64_index("gather", index);
  if (index.numel() > 0) check_index_shape("gather", x, d, index);
  Tensor y = empty_like(x, index.sizes(), x.dtype());
  if (index.numel() > 0)
    dispatch(gather_op, {at_least_vector(x), at_least_vector(places)}, {d}, {at_least_vector(y)});
  if (should_record(x)) record<GatherBackward>({&x}, y, 1, x.sizes(), d).save_input(0, places);
  return y;
}

// ---- scatter

namespace {

// Checked operands of a scatter.
struct Scattered {
  int64_t dim;
  Tensor index;
  // As given, or the part of it that the index covers: a recorded view, so that its gradient
  // finds the way back.
  Tensor source;
};

Scattered check_scatter(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                        const Tensor& source) {
  Scattered result{wrap_dim(op, dim, self.dim()), as_int64_index(op, index), beside(source, self)};
  TAPEGRAD_CHECK(source.dtype() == self.dtype(), op,
                 "(): Expected self.dtype to be equal to src.dtype, got ", name(self.dtype()),
                 " and ", name(source.dtype()));
  if (index.numel() == 0) return result;
  check_index_shape(op, self, result.dim, index);
  if (source.dim() == 0) return result;
  TAPEGRAD_CHECK(source.dim() == rank_at_least_one(index), op,
                 "(): Index tensor must have the same number of dimensions as src, got ",
                 index.dim(), " and ", source.dim());
  for (int64_t d = 0; d < index.dim(); ++d) {
    TAPEGRAD_CHECK(index.size(d) <= source.size(d), op, ": expected index ",
                   to_string(index.sizes()), " to be no larger size than src ",
                   to_string(source.sizes()));
    if (index.size(d) < source.size(d)) result.source = narrow(result.source, d, 0, index.size(d));
  }
  return result;
}

void write(const Tensor& self, const Scattered& operands, ScatterMode mode) {
  if (operands.index.numel() == 0) return;
  auto apart = [&](const Tensor& x) {  // reading it must not see what is being written
    return x->storage_ref() == self->storage_ref() ? clone(detach(x)) : x;
  };
  Tensor index = at_least_vector(apart(operands.index));
  Tensor source = at_least_vector(apart(operands.source));
  DimVector strides = expand_strides(source.sizes(), source.strides(), index.sizes());
  dispatch(scatter_op,
           {at_least_vector(self), index, alias(source, index.sizes(), strides, source->offset())},
           {operands.dim, static_cast<int>(mode)}, {at_least_vector(self)});
}

// Scatters into a copy of x, or into self.
template <class N>
Tensor scattered(const char* op, const Tensor& x, int64_t dim, const Tensor& index,
                 const Tensor& source, ScatterMode mode) {
  Scattered operands = check_scatter(op, x, dim, index, source);
  Tensor y = clone(detach(x), MemoryFormat::Contiguous);
  write(y, operands, mode);
  if (should_record(x, source))
    record<N>({&x, &operands.source}, y, 1, operands.dim).save_input(0, operands.index);
  return y;
}

template <class N>
void scatter_inplace(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                     const Tensor& source, ScatterMode mode) {
  bool recording = should_record(self, source);
  check_inplace(op, self, recording);
  check_apart(op, self, {&index, &source});
  Scattered operands = check_scatter(op, self, dim, index, source);
  write(self, operands, mode);
  note_write(op, self);
  if (recording)
    record_inplace<N>(self, {&operands.source}, 1, operands.dim).save_input(0, operands.index);
}

}  // namespace

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  return scattered<ScatterBackward>("scatter", x, dim, index, source, ScatterMode::Set);
}

void scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  scatter_inplace<ScatterBackward>("scatter_", self, dim, index, source, ScatterMode::Set);
}

Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  if (autocast_devices) [[unlikely]]
    return run_cast(scatter_add_rule, [&](auto& x, auto& source) {
      return scatter_add(x, dim, index, source);
    }, x, source);
  return scattered<ScatterAddBackward>("scatter_add", x, dim, index, source, ScatterMode::Add);
}

void scatter_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  scatter_inplace<ScatterAddBackward>("scatter_add_", self, dim, index, source, ScatterMode::Add);
}

// ---- scatter_reduce

ScatterReduce scatter_reduce_named(std::string_view name) {
  if (name == "sum") return ScatterReduce::Sum;
  if (name == "prod") return ScatterReduce::Product;
  if (name == "mean") return ScatterReduce::Mean;
  if (name == "amax") return ScatterReduce::Maximum;
  if (name == "amin") return ScatterReduce::Minimum;
  fail("scatter_reduce: reduce argument must be either sum, prod, mean, amax or amin, got ", name);
}

ScatterReduce scatter_operation_named(std::string_view name) {
  if (name == "add") return ScatterReduce::Sum;
  if (name == "multiply") return ScatterReduce::Product;
  fail("scatter: reduce argument must be either add or multiply, got ", name);
}

namespace {

ScatterMode mode_of(ScatterReduce reduce) {
  switch (reduce) {
    case ScatterReduce::None:
      return ScatterMode::Set;
    case ScatterReduce::Product:
      return ScatterMode::Multiply;
    case ScatterReduce::Maximum:
      return ScatterMode::Maximum;
    case ScatterReduce::Minimum:
      return ScatterMode::Minimum;
    default:
      return ScatterMode::Add;
  }
}

// What leaves any value unchanged.
Scalar neutral_element(ScatterReduce reduce, DType dtype) {
  bool lowest = reduce == ScatterReduce::Maximum;
  if (reduce == ScatterReduce::Product) return 1;
  if (!lowest && reduce != ScatterReduce::Minimum) return 0;
  if (dtype == DType::Bool) return !lowest;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (is_floating(dtype)) return lowest ? -kInfinity : kInfinity;
  return visit_dtype("scatter_reduce", dtype, [&](auto type) -> Scalar {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>)
      return static_cast<int64_t>(lowest ? std::numeric_limits<T>::min()
                                         : std::numeric_limits<T>::max());
    else return 0;
  });
}

// How many values met at each place, at least one.
Tensor counts(const Tensor& self, int64_t dim, const Tensor& index, bool include_self) {
  Tensor start = full(self.sizes(), include_self ? 1 : 0, self.dtype(), self->device());
  Tensor count = scatter_add(start, dim, index, ones(index.sizes(), self.dtype(), self->device()));
  return masked_fill(count, eq(count, 0), ones({}, count.dtype(), count->device()));
}

// The value, into y, which holds self.
void reduce_into(const Tensor& y, const Scattered& operands, ScatterReduce reduce,
                 bool include_self) {
  if (reduce == ScatterReduce::Mean && y.dtype() == DType::Bool)
    fail_unsupported_dtype("scatter_reduce", y.dtype());
  if (!include_self)
    write(y,
          {operands.dim, operands.index,
           scalar_tensor(neutral_element(reduce, y.dtype()), y.dtype(), y->device())},
          ScatterMode::Set);
  write(y, operands, mode_of(reduce));
  if (reduce != ScatterReduce::Mean || operands.index.numel() == 0) return;
  GradMode off(false);
  Tensor count = counts(y, operands.dim, operands.index, include_self);
  copy_into(y, is_integral(y.dtype()) ? floor_divide(y, count) : div(y, count));
}

struct ScatterReduceBackward final : Entry<scatter_reduce_entry> {
  ScatterReduceBackward(int64_t dim, ScatterReduce reduce, bool include_self)
      : dim(dim), reduce(reduce), include_self(include_self) {}
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override;
  void mean_vjp(const Tensor& g, Gradients grad_inputs);
  void extremum_vjp(const Tensor& g, Gradients grad_inputs);
  void product_vjp(const Tensor& g, Gradients grad_inputs);

  int64_t dim;
  ScatterReduce reduce;
  bool include_self;
};

// Saved: index, and except for a sum self, source, result.
void ScatterReduceBackward::vjp(Gradients grads, Gradients grad_inputs) {
  const Tensor& g = grads[0];
  Tensor index = saved(0);
  if (reduce == ScatterReduce::Mean) {
    mean_vjp(g, grad_inputs);
  } else if (reduce == ScatterReduce::Sum) {
    if (needs(0)) grad_inputs[0] = g;
    if (needs(1)) grad_inputs[1] = gather(g, dim, index);
  } else if (reduce == ScatterReduce::Product) {
    product_vjp(g, grad_inputs);
  } else {
    extremum_vjp(g, grad_inputs);
  }
  if (needs(0) && !include_self)
    grad_inputs[0] = scatter(grad_inputs[0], dim, index,
                             zeros({}, grad_inputs[0].dtype(), grad_inputs[0]->device()));
}

void ScatterReduceBackward::mean_vjp(const Tensor& g, Gradients grad_inputs) {
  Tensor index = saved(0);
  Tensor shared = div(g, counts(g, dim, index, include_self));
  if (needs(0)) grad_inputs[0] = shared;
  if (needs(1)) grad_inputs[1] = gather(shared, dim, index);
}

// Equal extrema share the gradient.
void ScatterReduceBackward::extremum_vjp(const Tensor& g, Gradients grad_inputs) {
  Tensor index = saved(0), self = saved(1), source = saved(2), result = saved(3);
  Tensor self_wins = cast(eq(self, result), g.dtype());
  Tensor source_wins = cast(eq(source, gather(result, dim, index)), g.dtype());
  Tensor winners = scatter_add(self_wins, dim, index, source_wins);
  Tensor shared = div(g, masked_fill(winners, eq(winners, 0), ones({}, g.dtype(), g->device())));
  if (needs(0)) grad_inputs[0] = mul(self_wins, shared);
  if (needs(1)) grad_inputs[1] = mul(source_wins, gather(shared, dim, index));
}

// The product of all the others: the result divided by one's own value, or, where that is zero, the
// product computed without it.
void ScatterReduceBackward::product_vjp(const Tensor& g, Gradients grad_inputs) {
  Tensor index = saved(0), self = saved(1), source = saved(2), result = saved(3);
  Tensor one = ones({}, g.dtype(), g->device());
  if (needs(0)) {
    Tensor nonzero_self = masked_fill(self, eq(self, 0), one);
    Tensor others = scatter_reduce(nonzero_self, dim, index, source, reduce, include_self);
    grad_inputs[0] = div(mul(g, others), nonzero_self);
  }
  if (!needs(1)) return;
  Tensor is_zero = eq(source, 0);
  Tensor zeros_met = scatter_add(zeros(self.sizes(), g.dtype(), g->device()), dim, index,
                                 cast(is_zero, g.dtype()));
  Tensor only_zero = logical_and(is_zero, eq(gather(zeros_met, dim, index), 1));
  Tensor others =
      scatter_reduce(self, dim, index, masked_fill(source, only_zero, one), reduce, include_self);
  Tensor divided = div(gather(mul(g, result), dim, index), masked_fill(source, is_zero, one));
  grad_inputs[1] = where(only_zero, gather(mul(g, others), dim, index), divided);
}

void save_for_reduce(ScatterReduceBackward& node, const Scattered& operands, const Tensor& self,
                     const Tensor& result) {
  node.save_input(0, operands.index);
  if (node.reduce == ScatterReduce::Sum || node.reduce == ScatterReduce::Mean) return;
  node.save_input(1, self);
  node.save_input(2, operands.source);
  node.save_output(3, result);
}

// A number is scattered everywhere: the index's shape is what its gradient rules expect.
Tensor as_source(const Tensor& source, const Tensor& index) {
  return source.dim() == 0 && index.dim() > 0 ? expand(source, index.sizes()) : source;
}

}  // namespace

Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                      ScatterReduce reduce, bool include_self) {
  Scattered operands = check_scatter("scatter_reduce", x, dim, index, as_source(source, index));
  Tensor y = clone(detach(x), MemoryFormat::Contiguous);
  reduce_into(y, operands, reduce, include_self);
  if (should_record(x, source))
    save_for_reduce(record<ScatterReduceBackward>({&x, &operands.source}, y, 4, operands.dim,
                                                  reduce, include_self),
                    operands, x, y);
  return y;
}

void scatter_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                     ScatterReduce reduce, bool include_self) {
  bool recording = should_record(self, source);
  check_inplace("scatter_reduce_", self, recording);
  check_apart("scatter_reduce_", self, {&index, &source});
  // The derivative needs what self held, so the recorded form computes aside and copies.
  if (recording)
    return copy_(self, scatter_reduce(clone(self), dim, index, source, reduce, include_self));
  reduce_into(self, check_scatter("scatter_reduce_", self, dim, index, as_source(source, index)),
              reduce, include_self);
  note_write("scatter_reduce_", self);
}

Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<int64_t> dim) {
  TAPEGRAD_CHECK(index.dtype() == DType::Int64 || index.dtype() == DType::Int32,
                 "take_along_dim: dtype of indices should be Long but got ",
                 type_name(index.dtype()));
  if (!dim) return take_along_dim(reshape(x, DimVector{-1}), reshape(index, DimVector{-1}), 0);
  TAPEGRAD_CHECK(x.dim() == index.dim(),
                 "take_along_dim: input and indices should have the same number of dimensions, but "
                 "got ",
                 x.dim(), " dimensions for input, and ", index.dim(), " dimensions for indices");
  int64_t d = wrap_dim("take_along_dim", *dim, x.dim());
  DimVector x_sizes(x.sizes()), index_sizes(index.sizes());
  if (x.dim() > 0) {
    x_sizes[d] = index_sizes[d] = 1;
    DimVector common = broadcast_sizes("take_along_dim", x_sizes, index_sizes);
    x_sizes = index_sizes = common;
    x_sizes[d] = x.size(d);
    index_sizes[d] = index.size(d);
  }
  Tensor places = expand(index, index_sizes);
  int64_t size = x.dim() == 0 ? 1 : x.size(d);
  places = where(lt(places, 0), add(places, wrapped_number(size)), places);
  return gather(expand(x, x_sizes), d, places);
}

}  // namespace tapegrad
