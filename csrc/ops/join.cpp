#include "ops/join.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/op.h"
#include "graph/record.h"
#include "graph/view.h"
#include "graph/write_log.h"
#include "intercept/capture.h"
#include "ops/autocast.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/promotion.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "ops/view_history.h"

namespace tapegrad {

namespace {

// Up to so many repeats are laid side by side like different tensors, which is faster than copying
// runs of so few elements.
constexpr int64_t kFewRepeats = 32;

const Op cat_op("cat", {"dim"}, kComplex | kBare);
const Op flip_op("flip", {}, kComplex | kBare);
const Op triangle_op("triangle", {"diagonal", "upper"}, kComplex | kBare);
const Op repeat_indices_op("repeat_interleave", {}, kNoDerivative);
const Op total_repeats_op("total_repeats", {}, kNoDerivative | kHostRead);

const EntryKind cat_entry(cat_op);
const EntryKind stack_entry("stack", cat_op);
const EntryKind repeat_entry("repeat", copy_op);
const EntryKind few_repeats_entry("repeat_interleave", cat_op);
const EntryKind many_repeats_entry("repeat_interleave", copy_op);
const EntryKind flip_entry(flip_op);
const EntryKind roll_entry("roll", copy_op);
const EntryKind triu_entry("triu", triangle_op);
const EntryKind tril_entry("tril", triangle_op);

const CastRule cat_rule("cat", Cast::Widest, Cast::None);
const CastRule stack_rule("stack", Cast::Widest, Cast::None);

struct CatBackward final : Entry<cat_entry> {
  explicit CatBackward(int64_t dim) : dim(dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    int64_t start = 0;
    for (size_t i = 0; i < grad_inputs.size(); ++i) {
      if (needs(i))
        grad_inputs[i] = lengths[i] < 0 ? zeros(DimVector{0}, grads[0].dtype(), grads[0]->device())
                                        : narrow(grads[0], dim, start, lengths[i]);
      start += std::max<int64_t>(lengths[i], 0);
    }
  }
  int64_t dim;
  DimVector lengths;  // along dim; -1 for an empty vector that was left out
};

struct StackBackward final : Entry<stack_entry> {
  explicit StackBackward(int64_t dim) : dim(dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    for (size_t i = 0; i < grad_inputs.size(); ++i)
      if (needs(i)) grad_inputs[i] = select(grads[0], dim, static_cast<int64_t>(i));
  }
  int64_t dim;
};

struct RepeatBackward final : Entry<repeat_entry> {
  RepeatBackward(Sizes split, Sizes repeat_dims) : split(split), repeat_dims(repeat_dims) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = sum(reshape(grads[0], split), repeat_dims, false);
  }
  DimVector split;        // every repeated dimension as two: how often, and the size
  DimVector repeat_dims;  // the "how often" ones
};

struct RepeatInterleaveBackward final : VariantEntry {
  RepeatInterleaveBackward(const EntryKind& kind, Sizes split, int64_t dim)
      : VariantEntry(kind), split(split), dim(dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = sum(reshape(grads[0], split), {&dim, 1}, false);
  }
  DimVector split;  // the repeated dimension as two: the size, and how often
  int64_t dim;      // the "how often" one
};

struct FlipBackward final : Entry<flip_entry> {
  explicit FlipBackward(Sizes dims) : dims(dims) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = flip(grads[0], dims);
  }
  DimVector dims;
};

struct RollBackward final : Entry<roll_entry> {
  RollBackward(Sizes back, Sizes dims) : back(back), dims(dims) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = roll(grads[0], back, dims);
  }
  DimVector back;
  DimVector dims;
};

struct TriangleBackward final : VariantEntry {
  TriangleBackward(int64_t diagonal, bool upper)
      : VariantEntry(upper ? triu_entry : tril_entry), diagonal(diagonal), upper(upper) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = upper ? triu(grads[0], diagonal) : tril(grads[0], diagonal);
  }
  int64_t diagonal;
  bool upper;
};

// An entry with one edge per tensor of a list.
template <class N>
N& record_list(std::span<const Tensor> inputs, const Tensor& output, int64_t dim) {
  Ref<N> node = Node::create<N>(inputs.size(), 0, std::span(&output, 1), dim);
  for (size_t i = 0; i < inputs.size(); ++i) node->edges()[i] = gradient_edge(inputs[i]);
  node->stamp();
  N& result = *node;
  set_history(output, std::move(node), 0);
  return result;
}

bool any_recorded(std::span<const Tensor> tensors) {
  return is_differentiating() &&
         std::any_of(tensors.begin(), tensors.end(), [](auto& x) { return is_active(x); });
}

// Lays the pieces side by side along dim. Their other sizes agree.
Tensor join(const char* op, std::span<const Tensor> pieces, int64_t dim, DType dtype) {
  DimVector sizes(pieces[0].sizes());
  bool direct = true;
  sizes[dim] = 0;
  for (const Tensor& piece : pieces) {
    sizes[dim] += piece.size(dim);
    direct &= piece.is_contiguous() && piece.dtype() == dtype;
  }
  Tensor out = empty(op, sizes, dtype, pieces[0]->device());
  if (direct) {
    Scalar attribute(dim);
    dispatch(cat_op, pieces, std::span(&attribute, 1), std::span(&out, 1));
    return out;
  }
  int64_t start = 0;
  for (const Tensor& piece : pieces) {
    copy_into(alias(out, piece.sizes(), out.strides(), start * out.stride(dim)), piece);
    start += piece.size(dim);
  }
  return out;
}

DType common_dtype(std::span<const Tensor> tensors) {
  const DType first = tensors[0].dtype();
  if (std::all_of(tensors.begin(), tensors.end(), [&](auto& x) { return x.dtype() == first; }))
    return first;
  ResultType type;
  for (const Tensor& x : tensors) type.add(x);
  return type.get();
}

// PyTorch lets a vector of no elements stand for nothing in a list of any rank.
bool is_empty_vector(const Tensor& x) { return x.dim() == 1 && x.size(0) == 0; }

void check_cat(const Tensor& first, const Tensor& x, size_t position, int64_t dim) {
  TAPEGRAD_CHECK(x.dim() == first.dim(), "cat: Tensors must have same number of dimensions: got ",
                 first.dim(), " and ", x.dim());
  for (int64_t d = 0; d < x.dim(); ++d)
    TAPEGRAD_CHECK(d == dim || x.size(d) == first.size(d),
                   "cat: Sizes of tensors must match except in dimension ", dim, ". Expected size ",
                   first.size(d), " but got size ", x.size(d), " for tensor number ", position,
                   " in the list");
}

// The format that all of them have, in which they are joined.
MemoryFormat common_format(std::span<const Tensor> tensors) {
  MemoryFormat format = suggested_format(*tensors[0].impl());
  for (const Tensor& x : tensors.subspan(1))
    if (suggested_format(*x.impl()) != format) return MemoryFormat::Contiguous;
  return format;
}

}  // namespace

Tensor cat(std::span<const Tensor> tensors, int64_t dim) {
  if (autocast_devices) [[unlikely]]
    return run_cast_list(cat_rule, [&](auto& tensors) { return cat(tensors, dim); }, tensors);
  TAPEGRAD_CHECK_AS(ValueError, !tensors.empty(), "cat: expected a non-empty list of Tensors");
  for (size_t i = 0; i < tensors.size(); ++i)
    TAPEGRAD_CHECK(tensors[i].dim() > 0, "cat: zero-dimensional tensor (at position ", i,
                   ") cannot be concatenated; use stack, or .reshape(1) first");
  std::vector<Tensor> without_empty;
  std::span<const Tensor> pieces = tensors;
  if (std::any_of(tensors.begin(), tensors.end(), is_empty_vector)) {
    std::remove_copy_if(tensors.begin(), tensors.end(), std::back_inserter(without_empty),
                        is_empty_vector);
    pieces = without_empty;
  }
  int64_t d = pieces.empty() ? 0 : wrap_dim("cat", dim, pieces[0].dim());
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!is_empty_vector(tensors[i])) check_cat(pieces[0], tensors[i], i, d);
  DType dtype = common_dtype(tensors);
  Tensor out = pieces.empty() ? empty("cat", DimVector{0}, dtype, tensors[0]->device())
                              : join("cat", pieces, d, dtype);
  if (out.dim() >= 4)
    out = rearranged(out, format_strides("cat", out.sizes(), common_format(tensors)));
  if (any_recorded(tensors)) {
    DimVector& lengths = record_list<CatBackward>(tensors, out, d).lengths;
    for (const Tensor& x : tensors) lengths.push_back(is_empty_vector(x) ? -1 : x.size(d));
  }
  return out;
}

namespace {

// Those of the tensors joined along d, which is then divided.
DimVector stack_strides(std::span<const Tensor> tensors, int64_t d) {
  DimVector sizes(tensors[0].sizes());
  auto count = static_cast<int64_t>(tensors.size());
  if (d == tensors[0].dim()) {
    sizes.push_back(count);
    return contiguous_strides(sizes);
  }
  int64_t size = sizes[d];
  sizes[d] = wrapping_product(size, count);
  DimVector strides = format_strides("stack", sizes, common_format(tensors));
  strides.insert(d, wrapping_product(std::max<int64_t>(size, 1), strides[d]));
  return strides;
}

}  // namespace

Tensor stack(std::span<const Tensor> tensors, int64_t dim) {
  if (autocast_devices) [[unlikely]]
    return run_cast_list(stack_rule, [&](auto& tensors) { return stack(tensors, dim); }, tensors);
  TAPEGRAD_CHECK(!tensors.empty(), "stack: stack expects a non-empty TensorList");
  int64_t d = wrap_dim("stack", dim, tensors[0].dim() + 1);
  std::vector<Tensor> pieces;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    TAPEGRAD_CHECK(same_sizes(x.sizes(), tensors[0].sizes()),
                   "stack: stack expects each tensor to be equal size, but got ",
                   to_string(tensors[0].sizes()), " at entry 0 and ", to_string(x.sizes()),
                   " at entry ", i);
    DimVector sizes(x.sizes()), strides(x.strides());
    sizes.insert(d, 1);
    strides.insert(d, 1);
    pieces.push_back(alias(x, sizes, strides, x->offset()));
  }
  Tensor out =
      rearranged(join("stack", pieces, d, common_dtype(tensors)), stack_strides(tensors, d));
  if (any_recorded(tensors)) record_list<StackBackward>(tensors, out, d);
  return out;
}

namespace {

// The target's geometry with every dimension split into (repeat, size), so that one broadcast copy
// fills all repeats.
struct RepeatPlan {
  DimVector out_sizes;
  DimVector split_sizes;
  DimVector source_sizes;
  DimVector source_strides;
  DimVector repeat_dims;
};

RepeatPlan plan_repeat(const Tensor& x, Sizes repeats) {
  RepeatPlan plan;
  auto lead = static_cast<int64_t>(repeats.size()) - x.dim();
  for (int64_t i = 0; i < static_cast<int64_t>(repeats.size()); ++i) {
    bool exists = i >= lead;
    int64_t size = exists ? x.size(i - lead) : 1;
    int64_t total;
    TAPEGRAD_CHECK(!__builtin_mul_overflow(size, repeats[i], &total) && repeats[i] >= 0,
                   "repeat: expected repeats that are not negative and whose product with the "
                   "sizes can be addressed, got ",
                   to_string(repeats));
    plan.out_sizes.push_back(total);
    plan.repeat_dims.push_back(static_cast<int64_t>(plan.split_sizes.size()));
    plan.split_sizes.push_back(repeats[i]);
    plan.source_sizes.push_back(1);
    plan.source_strides.push_back(0);
    if (!exists) continue;
    plan.split_sizes.push_back(size);
    plan.source_sizes.push_back(size);
    plan.source_strides.push_back(x.stride(i - lead));
  }
  return plan;
}

}  // namespace

Tensor repeat(const Tensor& x, Sizes repeats) {
  TAPEGRAD_CHECK(static_cast<int64_t>(repeats.size()) >= x.dim(),
                 "repeat: Number of dimensions of repeat dims can not be smaller than number of "
                 "dimensions of tensor, got ",
                 repeats.size(), " and ", x.dim());
  RepeatPlan plan = plan_repeat(x, repeats);
  Tensor out = empty("repeat", plan.out_sizes, x.dtype(), x->device());
  Tensor split = alias(out, plan.split_sizes, contiguous_strides(plan.split_sizes), 0);
  copy_into(split, alias(x, plan.source_sizes, plan.source_strides, x->offset()));
  if (should_record(x)) record<RepeatBackward>({&x}, out, 0, plan.split_sizes, plan.repeat_dims);
  return out;
}

Tensor tile(const Tensor& x, Sizes repeats) {
  DimVector all(repeats);
  while (static_cast<int64_t>(all.size()) < x.dim()) all.insert(0, 1);
  return repeat(x, all);
}

Tensor repeat_interleave(const Tensor& x, int64_t repeats, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size) {
  TAPEGRAD_CHECK(repeats >= 0, "repeat_interleave: repeats must be non-negative, got ", repeats);
  Tensor source = dim ? x : reshape(x, DimVector{-1});
  if (source.dim() == 0) source = unsqueeze(source, 0);
  int64_t d = wrap_dim("repeat_interleave", dim.value_or(0), source.dim());
  DimVector sizes(source.sizes());
  int64_t total;
  TAPEGRAD_CHECK(!__builtin_mul_overflow(sizes[d], repeats, &total), "repeat_interleave: ", repeats,
                 " repeats of size ", sizes[d], " cannot be addressed");
  TAPEGRAD_CHECK(!output_size || *output_size == total,
                 "repeat_interleave: invalid output_size, expected ", total, " but got ",
                 output_size.value_or(0));
  DimVector split(sizes), strides(source.strides());
  split.insert(d + 1, 1);
  strides.insert(d + 1, 0);
  Tensor part = alias(source, split, strides, source->offset());
  split[d + 1] = repeats;
  sizes[d] = total;
  Tensor y;
  const bool few = repeats > 0 && repeats <= kFewRepeats;
  if (few) {
    y = join("repeat_interleave", std::vector<Tensor>(repeats, part), d + 1, x.dtype());
  } else {
    y = empty("repeat_interleave", split, x.dtype(), x->device());
    copy_into(y, part);
  }
  y->set_geometry(sizes, contiguous_strides(sizes), 0);
  if (should_record(source))
    record<RepeatInterleaveBackward>({&source}, y, 0, few ? few_repeats_entry : many_repeats_entry,
                                     split, d + 1);
  return y;
}

Tensor repeat_interleave_indices(const Tensor& repeats, std::optional<int64_t> output_size) {
  TAPEGRAD_CHECK(repeats.dim() == 1,
                 "repeat_interleave: only accepts a 1-d vector as repeats, got ", repeats.dim(),
                 " dimensions");
  TAPEGRAD_CHECK_AS(NotImplementedError,
                    repeats.dtype() == DType::Int64 || repeats.dtype() == DType::Int32,
                    "repeat_interleave: expected repeats of dtype int64 or int32, got ",
                    name(repeats.dtype()), "; call .long() first");
  Tensor counts = contiguous(cast(repeats, DType::Int64));
  Tensor total = empty_like(counts, {}, DType::Int64);
  dispatch(total_repeats_op, {counts}, {}, {total});
  int64_t length = *read_on_host<int64_t>(total);
  TAPEGRAD_CHECK(length >= 0, "repeat_interleave: repeats can not be negative");
  TAPEGRAD_CHECK(!output_size || *output_size == length, "repeat_interleave: output_size ",
                 output_size.value_or(0), " does not match the required size ", length);
  Tensor out = empty("repeat_interleave", DimVector{length}, DType::Int64, counts->device());
  dispatch(repeat_indices_op, {counts}, {}, {out});
  return out;
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size) {
  Tensor source = dim ? x : reshape(x, DimVector{-1});
  if (source.dim() == 0) source = unsqueeze(source, 0);
  int64_t d = wrap_dim("repeat_interleave", dim.value_or(0), source.dim());
  TAPEGRAD_CHECK(repeats.dim() <= 1, "repeat_interleave: repeats must be 0-dim or 1-dim tensor");
  bool same_for_all = repeats.dim() == 0 || repeats.size(0) == 1;
  TAPEGRAD_CHECK(same_for_all || repeats.size(0) == source.size(d),
                 "repeat_interleave: repeats must have the same size as input along dim, but got "
                 "repeats.size(0) = ",
                 repeats.dim() == 0 ? 1 : repeats.size(0), " and input.size(", d,
                 ") = ", source.size(d));
  Tensor counts =
      same_for_all ? expand(reshape(repeats, DimVector{1}), DimVector{source.size(d)}) : repeats;
  return index_select(source, d, repeat_interleave_indices(counts, output_size));
}

Tensor flip(const Tensor& x, Sizes requested) {
  DimVector dims = wrap_dims("flip", requested, x.dim());
  DimVector strides(x.strides());
  int64_t offset = x->offset();
  if (x.dim() > 0 && x.numel() > 0) {
    for (int64_t d : dims) {
      offset += (x.size(d) - 1) * strides[d];
      strides[d] = -strides[d];
    }
  }
  Tensor out = empty_like_layout(x, x.dtype());
  dispatch(flip_op, {alias(x, x.sizes(), strides, offset)}, {}, {out});
  if (should_record(x)) record<FlipBackward>({&x}, out, 0, dims);
  return out;
}

namespace {

// Copies x into out, rolled along dims: each of them falls into two parts that change places.
void roll_into(const Tensor& out, const Tensor& x, Sizes shifts, Sizes dims) {
  if (dims.empty()) return copy_into(out, x);
  int64_t d = dims[0], size = x.size(d);
  int64_t shift = (shifts[0] % size + size) % size;
  auto part = [&](const Tensor& whole, int64_t start, int64_t length) {
    DimVector sizes(whole.sizes());
    sizes[d] = length;
    return alias(whole, sizes, whole.strides(), whole->offset() + start * whole.stride(d));
  };
  roll_into(part(out, shift, size - shift), part(x, 0, size - shift), shifts.subspan(1),
            dims.subspan(1));
  if (shift > 0)
    roll_into(part(out, 0, shift), part(x, size - shift, shift), shifts.subspan(1),
              dims.subspan(1));
}

}  // namespace

Tensor roll(const Tensor& x, Sizes shifts, Sizes requested) {
  TAPEGRAD_CHECK(!shifts.empty(), "roll: expected at least one shift");
  if (requested.empty() && shifts.size() == 1) {
    int64_t flat = 0;
    return reshape(roll(reshape(x, DimVector{-1}), shifts, {&flat, 1}), x.sizes());
  }
  TAPEGRAD_CHECK(shifts.size() == requested.size(),
                 "roll: shifts and dimensions must align. shifts: ", shifts.size(),
                 ", dims:", requested.size());
  TAPEGRAD_CHECK_AS(IndexError, x.dim() > 0, "roll: Dimension specified as ", requested[0],
                    " but tensor has no dimensions");
  // The same dimension may be given twice: its shifts add up.
  DimVector dims, sums;
  for (size_t i = 0; i < requested.size(); ++i) {
    int64_t d = wrap_dim("roll", requested[i], x.dim());
    int64_t shift = x.size(d) > 0 ? shifts[i] % x.size(d) : 0;
    auto known = std::find(dims.begin(), dims.end(), d);
    if (known != dims.end()) {
      sums[known - dims.begin()] += shift;
    } else {
      dims.push_back(d);
      sums.push_back(shift);
    }
  }
  Tensor out = empty_like(x);
  if (x.numel() > 0) roll_into(out, x, sums, dims);
  // Two parts change places; where one of them is empty, it has no format.
  if (std::find(sums.begin(), sums.end(), 0) == sums.end()) out = in_format_of(out, x);
  if (should_record(x)) {
    DimVector back(sums);
    for (int64_t& shift : back) shift = -shift;
    record<RollBackward>({&x}, out, 0, back, dims);
  }
  return out;
}

namespace {

void check_matrices(const char* op, const Tensor& x) {
  TAPEGRAD_CHECK(x.dim() >= 2, op, ": input tensor must have at least 2 dimensions, got ", x.dim());
}

Tensor triangle(const char* op, const Tensor& x, int64_t diagonal, bool upper) {
  check_matrices(op, x);
  Tensor out = empty_like(x);
  dispatch(triangle_op, {x}, {diagonal, upper}, {out});
  if (should_record(x)) record<TriangleBackward>({&x}, out, 0, diagonal, upper);
  return out;
}

void triangle_inplace(const char* op, const Tensor& self, int64_t diagonal, bool upper) {
  check_matrices(op, self);
  bool recording = should_record(self);
  check_inplace(op, self, recording);
  dispatch(triangle_op, {self}, {diagonal, upper}, {self});
  note_write(op, self);
  if (!recording) return;
  auto node = Node::create<TriangleBackward>(1, 0, std::span(&self, 1), diagonal, upper);
  node->edges()[0] = gradient_edge(self);
  node->stamp();
  rebase_history(self, std::move(node));
}

}  // namespace

Tensor tril(const Tensor& x, int64_t diagonal) { return triangle("tril", x, diagonal, false); }
Tensor triu(const Tensor& x, int64_t diagonal) { return triangle("triu", x, diagonal, true); }
void tril_(const Tensor& self, int64_t diagonal) {
  triangle_inplace("tril_", self, diagonal, false);
}
void triu_(const Tensor& self, int64_t diagonal) {
  triangle_inplace("triu_", self, diagonal, true);
}

Tensor diag(const Tensor& x, int64_t offset) {
  TAPEGRAD_CHECK(x.dim() == 1 || x.dim() == 2, "diag: Supports 1D or 2D tensors. Got ", x.dim(),
                 "D");
  if (x.dim() == 2) return clone(diagonal(x, offset, 0, 1), MemoryFormat::Contiguous);
  constexpr int64_t kMost = int64_t{1} << 31;  // already more than can be allocated
  TAPEGRAD_CHECK(offset > -kMost && offset < kMost, "diag: a matrix with the diagonal ", offset,
                 " has more elements than can be addressed");
  int64_t size = x.size(0) + std::abs(offset);
  int64_t start = offset >= 0 ? offset : -offset * size;
  return embed(x, DimVector{size, size}, Geometry{{x.size(0)}, {size + 1}, start});
}

}  // namespace tapegrad
