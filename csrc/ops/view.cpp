// View ops. Each computes a geometry and records one line of how its gradient goes back.
#include "ops/view.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/limits.h"
#include "graph/record.h"
#include "graph/view.h"
#include "ops/autocast.h"
#include "ops/complex.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/join.h"
#include "ops/view_history.h"

namespace tapegrad {

using Role = EntryKind::Role;
const EntryKind select_entry("select", Role::View);
const EntryKind slice_entry("slice", Role::View);
const EntryKind unsqueeze_entry("unsqueeze", Role::View);

namespace {

const EntryKind view_entry("view", Role::View);
const EntryKind unsafe_view_entry("unsafe_view", Role::View);
const EntryKind expand_entry("expand", Role::View);
const EntryKind diagonal_entry("diagonal", Role::View);
const EntryKind permute_entry("permute", Role::View);
const EntryKind split_with_sizes_entry("split_with_sizes", Role::View);
const EntryKind squeeze_entry("squeeze", Role::View);
const EntryKind transpose_entry("transpose", Role::View);
const EntryKind unbind_entry("unbind", Role::View);
const EntryKind unfold_entry("unfold", Role::View);
const EntryKind view_as_real_entry("view_as_real", Role::View);
const EntryKind view_as_complex_entry("view_as_complex", Role::View);
const CastRule view_as_complex_rule("view_as_complex", Cast::Float32, Cast::None);

Tensor make_view(const Tensor& x, Sizes sizes, Sizes strides, int64_t offset) {
  Tensor y = alias(x, sizes, strides, offset);
  mark_view(y, x);
  return y;
}

struct ViewBackward final : VariantEntry {
  ViewBackward(const EntryKind& kind, Sizes sizes) : VariantEntry(kind), sizes(sizes) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = reshape(grads[0], sizes);
  }
  DimVector sizes;
};

struct ExpandBackward final : Entry<expand_entry> {
  // The sweep sums the broadcast dimensions away.
  void vjp(Gradients grads, Gradients grad_inputs) override { grad_inputs[0] = grads[0]; }
};

struct PermuteBackward final : VariantEntry {
  PermuteBackward(const EntryKind& kind, Sizes inverse) : VariantEntry(kind), inverse(inverse) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = permute(grads[0], inverse);
  }
  DimVector inverse;
};

// Squeeze and unsqueeze: the same elements with other ones among the sizes.
struct SqueezeBackward final : VariantEntry {
  SqueezeBackward(const EntryKind& kind, Sizes sizes) : VariantEntry(kind), sizes(sizes) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = reshape(grads[0], sizes);
  }
  DimVector sizes;
};

// Views that show a part: the gradient of the rest is zero. `geometry` is the part's place in a
// contiguous tensor of the input's shape.
struct PartBackward final : VariantEntry {
  PartBackward(const EntryKind& kind, Sizes sizes, Geometry geometry)
      : VariantEntry(kind), sizes(sizes), geometry(std::move(geometry)) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = embed(grads[0], sizes, geometry);
  }
  DimVector sizes;
  Geometry geometry;
};

// Of several outputs that show parts which together are all of the input along one dimension.
struct SplitBackward final : VariantEntry {
  SplitBackward(const EntryKind& kind, Sizes sizes, int64_t dim, bool keeps_dim)
      : VariantEntry(kind), sizes(sizes), dim(dim), keeps_dim(keeps_dim) {}
  void vjp(Gradients grads, Gradients grad_inputs) override;
  DimVector sizes;
  int64_t dim;
  bool keeps_dim;
};

// The tensor whose parts along a dimension these are, in their order, if it is all that their memory holds; nothing
// otherwise. Attention has its gradients so.
Tensor whole_of(Gradients parts, Sizes sizes, int64_t dim, bool keeps_dim) {
  const Tensor& first = parts[0];
  if (is_differentiating() || parts.size() < 2 || !first.defined() || !parts[1].defined())
    return {};
  if (first->offset() != 0 || first->storage().is_batched()) return {};
  const int64_t step = parts[1]->offset();
  DimVector strides(first.strides());
  if (!keeps_dim) strides.insert(static_cast<size_t>(dim), step);
  if (step != (keeps_dim ? first.size(dim) : 1) * strides[static_cast<size_t>(dim)]) return {};
  int64_t offset = 0;
  for (const Tensor& part : parts) {
    if (!part.defined() || requires_grad(part) || part.dtype() != first.dtype() ||
        part->storage_ref() != first->storage_ref() || part->offset() != offset ||
        !same_sizes(part.sizes(), first.sizes()) || !same_sizes(part.strides(), first.strides()))
      return {};
    offset += step;
  }
  const Tensor whole = alias(first, sizes, strides, 0);
  const auto nbytes = static_cast<size_t>(whole.numel()) * itemsize(whole.dtype());
  return nbytes == whole->storage().nbytes() ? whole : Tensor();
}

void SplitBackward::vjp(Gradients grads, Gradients grad_inputs) {
  grad_inputs[0] = whole_of(grads, sizes, dim, keeps_dim);
  if (grad_inputs[0].defined()) return;
  std::vector<Tensor> parts;
  DType dtype = output_dtype(0);
  for (size_t i = 0; i < grads.size(); ++i) {
    Tensor part = grads[i].defined() ? grads[i] : zeros(output_sizes(i), dtype, output_device(i));
    parts.push_back(keeps_dim ? part : unsqueeze(part, dim));
  }
  grad_inputs[0] = cat(parts, dim);
}

// The same geometry, were x contiguous: what a gradient of x is.
Geometry part_of_contiguous(const Tensor& x, int64_t dim, int64_t start, int64_t length,
                            int64_t step, bool drop) {
  Geometry g{DimVector(x.sizes()), contiguous_strides(x.sizes()), 0};
  g.offset = start * g.strides[dim];
  g.sizes[dim] = length;
  g.strides[dim] *= step;
  if (drop) {
    g.sizes.erase(dim);
    g.strides.erase(dim);
  }
  return g;
}

Tensor part(const EntryKind& kind, const Tensor& x, int64_t dim, int64_t start, int64_t length,
            int64_t step, bool drop) {
  DimVector sizes(x.sizes()), strides(x.strides());
  int64_t offset = x->offset() + start * strides[dim];
  sizes[dim] = length;
  strides[dim] *= step;
  if (drop) {
    sizes.erase(dim);
    strides.erase(dim);
  }
  Tensor y = make_view(x, sizes, strides, offset);
  if (should_record(x))
    record<PartBackward>({&x}, y, 0, kind, x.sizes(),
                         part_of_contiguous(x, dim, start, length, step, drop));
  return y;
}

}  // namespace

Tensor as_strided(const Tensor& x, Sizes sizes, Sizes strides, std::optional<int64_t> offset) {
  TAPEGRAD_CHECK(sizes.size() == strides.size(),
                 "as_strided: mismatch in length of strides and "
                 "shape: ",
                 strides.size(), " and ", sizes.size());
  int64_t start = offset.value_or(x->offset());
  TAPEGRAD_CHECK(start >= 0, "as_strided: storage_offset must be non-negative, got ", start);
  int64_t numel = checked_numel("as_strided", sizes);
  int64_t last = start;
  for (size_t d = 0; d < sizes.size(); ++d) {
    TAPEGRAD_CHECK(strides[d] >= 0,
                   "as_strided: Negative strides are not supported at the moment, got strides: ",
                   to_string(strides));
    int64_t reach;
    bool overflow = __builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) ||
                    __builtin_add_overflow(last, reach, &last);
    TAPEGRAD_CHECK(!overflow, "as_strided: sizes and strides are too large");
  }
  int64_t available = static_cast<int64_t>(x->storage().nbytes() / itemsize(x.dtype()));
  TAPEGRAD_CHECK(numel == 0 || last < available, "as_strided: setStorage: sizes ", to_string(sizes),
                 ", strides ", to_string(strides), ", storage offset ", start, ", and itemsize ",
                 itemsize(x.dtype()), " are out of bounds for storage of size ",
                 x->storage().nbytes());
  Tensor y = make_view(x, sizes, strides, start);
  if (should_record(x)) {
    Geometry place{DimVector(sizes), DimVector(strides), start - x->offset()};
    record_as_strided(x, y, std::move(place));
  }
  return y;
}

namespace {

Tensor view_with(const Tensor& x, Sizes sizes, Sizes strides) {
  Tensor y = make_view(x, sizes, strides, x->offset());
  if (should_record(x)) record<ViewBackward>({&x}, y, 0, view_entry, x.sizes());
  return y;
}

}  // namespace

Tensor view(const Tensor& x, Sizes requested) {
  DimVector sizes = infer_sizes("view", requested, x.numel());
  DimVector strides;
  TAPEGRAD_CHECK(view_strides(x.sizes(), x.strides(), sizes, strides), "view: size ",
                 to_string(sizes), " asked of size ", to_string(x.sizes()), " and stride ",
                 to_string(x.strides()),
                 ": view size is not compatible with input tensor's size "
                 "and stride (at least one dimension spans across two contiguous subspaces). Use "
                 ".reshape(...) instead.");
  return view_with(x, sizes, strides);
}

Tensor unsafe_view(const Tensor& x, Sizes sizes) {
  Tensor y = alias(x, sizes, contiguous_strides(sizes), x->offset());
  if (should_record(x)) record<ViewBackward>({&x}, y, 0, unsafe_view_entry, x.sizes());
  return y;
}

Tensor reshape(const Tensor& x, Sizes requested) {
  DimVector sizes = infer_sizes("reshape", requested, x.numel());
  DimVector strides;
  if (view_strides(x.sizes(), x.strides(), sizes, strides)) return view_with(x, sizes, strides);
  return unsafe_view(contiguous(x), sizes);
}

Tensor expand(const Tensor& x, Sizes requested) {
  TAPEGRAD_CHECK(static_cast<int64_t>(requested.size()) >= x.dim(),
                 "expand: the number of sizes provided (", requested.size(),
                 ") must be greater or equal to the number of dimensions in the tensor (", x.dim(),
                 ")");
  DimVector sizes(requested);
  size_t lead = requested.size() - x.dim();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != -1) continue;
    TAPEGRAD_CHECK(i >= lead,
                   "expand: The expanded size of the tensor (-1) isn't allowed in a "
                   "leading, non-existing dimension ",
                   i);
    sizes[i] = x.size(i - lead);
  }
  checked_numel("expand", sizes);
  for (size_t i = sizes.size(); i-- > lead;)
    TAPEGRAD_CHECK(x.size(i - lead) == sizes[i] || x.size(i - lead) == 1,
                   "expand: The expanded size of the tensor (", sizes[i],
                   ") must match the existing size (", x.size(i - lead),
                   ") at non-singleton dimension ", i, ". Target sizes: ", to_string(sizes),
                   ". Tensor sizes: ", to_string(x.sizes()));
  DimVector strides = expand_strides(x.sizes(), x.strides(), sizes);
  // New dimensions that are not repeated get the strides that unsqueeze() would give them.
  for (size_t i = x.dim() > 0 ? lead : 0; i-- > 0;)
    if (sizes[i] == 1) strides[i] = wrapping_product(sizes[i + 1], strides[i + 1]);
  Tensor y = make_view(x, sizes, strides, x->offset());
  if (should_record(x)) record<ExpandBackward>({&x}, y, 0);
  return y;
}

Tensor permute_as(const char* op, const EntryKind& kind, const Tensor& x, Sizes dims) {
  TAPEGRAD_CHECK(static_cast<int64_t>(dims.size()) == x.dim(), op,
                 ": number of dimensions in the tensor input does not match the length of the "
                 "desired ordering of dimensions, input.dim() = ",
                 x.dim(), " is not equal to len(dims) = ", dims.size());
  DimVector order = wrap_dims(op, dims, x.dim());
  DimVector sizes(order.size()), strides(order.size()), inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    sizes[i] = x.size(order[i]);
    strides[i] = x.stride(order[i]);
    inverse[order[i]] = static_cast<int64_t>(i);
  }
  Tensor y = make_view(x, sizes, strides, x->offset());
  if (should_record(x))
    record<PermuteBackward>({&x}, y, 0, kind, inverse)
        .set_gradient_dtypes(Node::GradientDtypes::Any);
  return y;
}

Tensor permute(const Tensor& x, Sizes dims) {
  return permute_as("permute", permute_entry, x, dims);
}

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1) {
  int64_t a = wrap_dim("transpose", dim0, x.dim());
  int64_t b = wrap_dim("transpose", dim1, x.dim());
  DimVector dims(x.dim());
  std::iota(dims.begin(), dims.end(), 0);
  if (x.dim() > 0) std::swap(dims[a], dims[b]);
  return permute_as("transpose", transpose_entry, x, dims);
}

Tensor squeeze(const Tensor& x, Sizes requested) {
  DimVector dims = wrap_dims("squeeze", requested, x.dim());
  DimVector sizes, strides;
  for (int64_t d = 0; d < x.dim(); ++d) {
    bool drop = x.size(d) == 1 && std::find(dims.begin(), dims.end(), d) != dims.end();
    if (drop) continue;
    sizes.push_back(x.size(d));
    strides.push_back(x.stride(d));
  }
  Tensor y = make_view(x, sizes, strides, x->offset());
  if (should_record(x)) record<SqueezeBackward>({&x}, y, 0, squeeze_entry, x.sizes());
  return y;
}

Tensor squeeze(const Tensor& x) {
  DimVector dims(x.dim());
  std::iota(dims.begin(), dims.end(), 0);
  return squeeze(x, dims);
}

Tensor unsqueeze(const Tensor& x, int64_t dim) {
  int64_t d = wrap_dim("unsqueeze", dim, x.dim() + 1);
  DimVector sizes(x.sizes()), strides(x.strides());
  int64_t stride = d < x.dim() ? sizes[d] * strides[d] : 1;
  sizes.insert(d, 1);
  strides.insert(d, stride);
  Tensor y = make_view(x, sizes, strides, x->offset());
  if (should_record(x)) record<SqueezeBackward>({&x}, y, 0, unsqueeze_entry, x.sizes());
  return y;
}

Tensor select(const Tensor& x, int64_t dim, int64_t index) {
  TAPEGRAD_CHECK_AS(IndexError, x.dim() > 0,
                    "select: cannot index a 0-dim tensor; use item() to "
                    "convert a 0-dim tensor to a number");
  int64_t d = wrap_dim("select", dim, x.dim());
  int64_t size = x.size(d);
  TAPEGRAD_CHECK_AS(IndexError, index >= -size && index < size, "select(): index ", index,
                    " out of range for tensor of size ", to_string(x.sizes()), " at dimension ", d);
  return part(select_entry, x, d, index < 0 ? index + size : index, 1, 1, true);
}

Tensor slice(const Tensor& x, int64_t dim, int64_t start, int64_t end, int64_t step) {
  TAPEGRAD_CHECK(x.dim() > 0, "slice: cannot slice a 0-dim tensor");
  TAPEGRAD_CHECK_AS(ValueError, step > 0, "slice: step must be greater than zero, got ", step);
  int64_t d = wrap_dim("slice", dim, x.dim());
  int64_t size = x.size(d);
  start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
  end = std::clamp<int64_t>(end < 0 ? end + size : end, start, size);
  int64_t length = (end - start) / step + ((end - start) % step != 0);
  return part(slice_entry, x, d, start, length, step, false);
}

Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  TAPEGRAD_CHECK(x.dim() > 0, "narrow() cannot be applied to a 0-dim tensor.");
  int64_t d = wrap_dim("narrow", dim, x.dim());
  int64_t size = x.size(d);
  TAPEGRAD_CHECK(length >= 0, "narrow(): length must be non-negative, got ", length);
  TAPEGRAD_CHECK_AS(IndexError, start >= -size && start <= size,
                    "narrow: start out of range (expected to be in range of [", -size, ", ", size,
                    "], but got ", start, ")");
  if (start < 0) start += size;
  TAPEGRAD_CHECK(length <= size - start, "narrow: start (", start, ") + length (", length,
                 ") exceeds dimension size (", size, ")");
  return part(slice_entry, x, d, start, length, 1, false);
}

Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step) {
  int64_t d = wrap_dim("unfold", dim, x.dim());
  int64_t available = x.dim() == 0 ? 1 : x.size(d);
  TAPEGRAD_CHECK(size >= 0 && size <= available, "unfold: maximum size for tensor at dimension ", d,
                 " is ", available, " but size is ", size);
  TAPEGRAD_CHECK(step > 0, "unfold: step is ", step, " but must be > 0");
  auto unfolded = [&](Sizes sizes, Sizes strides, int64_t offset) {
    Geometry g{DimVector(sizes), DimVector(strides), offset};
    int64_t stride = g.sizes.empty() ? 1 : g.strides[d];
    if (!g.sizes.empty()) {
      g.sizes[d] = (available - size) / step + 1;
      g.strides[d] = stride * step;
    }
    g.sizes.push_back(size);
    g.strides.push_back(stride);
    return g;
  };
  Geometry g = unfolded(x.sizes(), x.strides(), x->offset());
  Tensor y = make_view(x, g.sizes, g.strides, g.offset);
  if (should_record(x))
    record<PartBackward>({&x}, y, 0, unfold_entry, x.sizes(),
                         unfolded(x.sizes(), contiguous_strides(x.sizes()), 0));
  return y;
}

Tensor diagonal(const Tensor& x, int64_t offset, int64_t dim0, int64_t dim1) {
  int64_t a = wrap_dim("diagonal", dim0, x.dim());
  int64_t b = wrap_dim("diagonal", dim1, x.dim());
  TAPEGRAD_CHECK(x.dim() >= 2 && a != b, "diagonal: diagonal dimensions cannot be identical ", dim0,
                 ", ", dim1);
  auto diagonal_of = [&](Sizes sizes, Sizes strides, int64_t start) {
    Geometry g{DimVector(sizes), DimVector(strides), start};
    int64_t length =
        offset >= 0 ? std::min(sizes[a], sizes[b] - offset) : std::min(sizes[a] + offset, sizes[b]);
    if (length > 0) g.offset += offset >= 0 ? offset * strides[b] : -offset * strides[a];
    g.sizes.push_back(std::max<int64_t>(length, 0));
    g.strides.push_back(strides[a] + strides[b]);
    for (int64_t d : {std::max(a, b), std::min(a, b)}) {
      g.sizes.erase(d);
      g.strides.erase(d);
    }
    return g;
  };
  Geometry g = diagonal_of(x.sizes(), x.strides(), x->offset());
  Tensor y = make_view(x, g.sizes, g.strides, g.offset);
  if (should_record(x))
    record<PartBackward>({&x}, y, 0, diagonal_entry, x.sizes(),
                         diagonal_of(x.sizes(), contiguous_strides(x.sizes()), 0));
  return y;
}

namespace {

struct ViewAsRealBackward final : Entry<view_as_real_entry> {
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = view_as_complex(contiguous(grads[0]));
  }
};

struct ViewAsComplexBackward final : Entry<view_as_complex_entry> {
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = view_as_real(grads[0]);
  }
};

// The memory that x shows, as elements of another dtype.
Tensor view_of_dtype(const Tensor& x, DType dtype, Sizes sizes, Sizes strides, int64_t offset) {
  Tensor y(TensorImpl::create(x->storage_ref(), dtype, sizes, strides, offset));
  y->set_data_alias(x->is_data_alias());
  mark_view(y, x);
  return y;
}

}  // namespace

Tensor view_as_real(const Tensor& x) {
  TAPEGRAD_CHECK(is_complex(x.dtype()), "view_as_real is only supported for complex tensors, got ",
                 name(x.dtype()));
  TAPEGRAD_CHECK(x.dim() < kMaxRank, "view_as_real: too many dimensions, ", x.dim());
  const Tensor alias = real_alias(x);
  Tensor y = view_of_dtype(x, alias.dtype(), alias.sizes(), alias.strides(), alias->offset());
  if (should_record(x)) record<ViewAsRealBackward>({&x}, y, 0);
  return y;
}

Tensor view_as_complex(const Tensor& x) {
  if (autocast_devices) [[unlikely]]
    return run_cast(view_as_complex_rule, [](const Tensor& x) { return view_as_complex(x); }, x);
  TAPEGRAD_CHECK(
      x.dtype() == DType::Float32 || x.dtype() == DType::Float64,
      "view_as_complex is only supported for float32 and float64 tensors, but got a tensor "
      "of ",
      name(x.dtype()));
  TAPEGRAD_CHECK(x.dim() > 0, "view_as_complex: Input tensor must have one or more dimensions");
  DimVector sizes(x.sizes()), strides(x.strides());
  TAPEGRAD_CHECK(sizes.back() == 2,
                 "view_as_complex: Tensor must have a last dimension of size 2, "
                 "got shape ",
                 to_string(x.sizes()));
  TAPEGRAD_CHECK(strides.back() == 1,
                 "view_as_complex: Tensor must have a last dimension with stride 1; "
                 "call .contiguous() first");
  sizes.erase(sizes.size() - 1);
  strides.erase(strides.size() - 1);
  for (size_t d = 0; d < strides.size(); ++d) {
    TAPEGRAD_CHECK(strides[d] % 2 == 0,
                   "view_as_complex: Tensor must have a stride divisible by 2 for all but last "
                   "dimension; call .contiguous() first");
    strides[d] /= 2;
  }
  TAPEGRAD_CHECK(x->offset() % 2 == 0,
                 "view_as_complex: Tensor must have a storage_offset divisible by "
                 "2; call .clone() first");
  Tensor y = view_of_dtype(x, complex_dtype(x.dtype()), sizes, strides, x->offset() / 2);
  if (should_record(x)) record<ViewAsComplexBackward>({&x}, y, 0);
  return y;
}

Tensor detach(const Tensor& x) { return alias(x, x.sizes(), x.strides(), x->offset()); }

// To be called in a loop that makes many tensors.
static void pause_for_interrupts(size_t made) {
  constexpr size_t kBetween = 1 << 16;
  if (made % kBetween == kBetween - 1 && check_interrupts) check_interrupts();
}

std::vector<Tensor> split_with_sizes(const Tensor& x, Sizes lengths, int64_t dim) {
  TAPEGRAD_CHECK(x.dim() > 0, "split: expects at least a 1-dimensional tensor");
  int64_t d = wrap_dim("split", dim, x.dim());
  int64_t total = 0;
  for (int64_t length : lengths) {
    TAPEGRAD_CHECK(length >= 0, "split: expects split_sizes have only non-negative entries, got ",
                   to_string(lengths));
    TAPEGRAD_CHECK(!__builtin_add_overflow(total, length, &total), "split: sizes too large");
  }
  TAPEGRAD_CHECK(total == x.size(d),
                 "split: split_with_sizes expects split_sizes to sum exactly to ", x.size(d),
                 " (input tensor's size at dimension ", d,
                 "), but got split_sizes=", to_string(lengths));
  check_count("split", static_cast<int64_t>(lengths.size()), "tensors", kTensorBytes);
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (int64_t length : lengths) {
    pause_for_interrupts(parts.size());
    DimVector sizes(x.sizes());
    sizes[d] = length;
    parts.push_back(make_view(x, sizes, x.strides(), x->offset() + start * x.stride(d)));
    start += length;
  }
  if (should_record(x) && !parts.empty())
    record<SplitBackward>({&x}, std::span<const Tensor>(parts), 0, split_with_sizes_entry,
                          x.sizes(), d, true);
  mark_multi_output_views(parts);
  return parts;
}

std::vector<Tensor> unbind(const Tensor& x, int64_t dim) {
  TAPEGRAD_CHECK_AS(IndexError, x.dim() > 0,
                    "unbind: dimension specified as 0 but tensor has no dimensions");
  int64_t d = wrap_dim("unbind", dim, x.dim());
  DimVector sizes(x.sizes()), strides(x.strides());
  sizes.erase(d);
  strides.erase(d);
  check_count("unbind", x.size(d), "tensors", kTensorBytes);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < x.size(d); ++i) {
    pause_for_interrupts(parts.size());
    parts.push_back(make_view(x, sizes, strides, x->offset() + i * x.stride(d)));
  }
  if (should_record(x) && !parts.empty())
    record<SplitBackward>({&x}, std::span<const Tensor>(parts), 0, unbind_entry, x.sizes(), d,
                          false);
  mark_multi_output_views(parts);
  return parts;
}

}  // namespace tapegrad
