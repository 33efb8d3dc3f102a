#include "ops/mask.h"

#include <cmath>

#include "core/error.h"
#include "core/op.h"
#include "core/torch_names.h"
#include "graph/write_log.h"
#include "intercept/capture.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/inplace.h"
#include "ops/join.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "spec/mask.h"

namespace tapegrad {

namespace {

const Op count_mask_op("count_mask", {}, kNoDerivative | kHostRead);
const Op nonzero_op("nonzero", {}, kNoDerivative);
const Op masked_select_op("masked_select", {}, kComplex | kBare);
const Op masked_fill_op("masked_fill", {}, kComplex | kBare);
const Op masked_scatter_op("masked_scatter", {}, kComplex | kBare);

const EntryKind masked_select_entry(masked_select_op, {"mask"});
const EntryKind masked_fill_entry(masked_fill_op, {"mask"});
const EntryKind masked_scatter_entry(masked_scatter_op, {"mask"});

// A mask ready for the kernels, with the number of true elements of each block and of all.
struct Counted {
  Tensor mask;
  Tensor counts;
  int64_t total = 0;
};

// Of each block.
Tensor count_blocks(const Tensor& mask) {
  int64_t blocks = (mask.numel() + kMaskBlock - 1) / kMaskBlock;
  Tensor counts = empty_like(mask, DimVector{blocks}, DType::Int64);
  dispatch(count_mask_op, {mask}, {}, {counts});
  return counts;
}

int64_t sum_on_host(const Tensor& block_counts) {
  const auto counts = read_on_host<int64_t>(block_counts);
  int64_t total = 0;
  for (int64_t b = 0; b < block_counts.numel(); ++b) total += counts[b];
  return total;
}

Counted count(const Tensor& mask) {
  Counted counted{mask, count_blocks(mask)};
  counted.total = sum_on_host(counted.counts);
  return counted;
}

// A contiguous copy of shape `sizes`, outside the tape; x itself where it is that already.
Tensor spread(const Tensor& x, Sizes sizes) {
  if (x.is_contiguous() && same_sizes(x.sizes(), sizes)) return x;
  Tensor y = empty("mask", sizes, x.dtype(), x->device());
  copy_into(y, x);
  return y;
}

void check_mask(const char* op, const Tensor& mask) {
  TAPEGRAD_CHECK(mask.dtype() == DType::Bool, op,
                 " only supports boolean masks, but got mask with dtype ", type_name(mask.dtype()),
                 "; compare with zero or call .bool() first");
}

// Which elements are not zero, as a contiguous mask.
Tensor mask_of(const Tensor& x) {
  Tensor mask = x.dtype() == DType::Bool ? detach(x) : cast(detach(x), DType::Bool);
  return spread(mask, x.sizes());
}

// One row for each dimension.
Tensor nonzero_rows(const Tensor& x) {
  Counted counted = count(mask_of(x));
  Tensor rows = empty("nonzero", DimVector{x.dim(), counted.total}, DType::Int64, x->device());
  dispatch(nonzero_op, {counted.mask, counted.counts}, {}, {rows});
  return rows;
}

}  // namespace

Tensor nonzero(const Tensor& x) {
  // Column by column in memory, as in PyTorch: whoever indexes with the result takes columns.
  Tensor rows = nonzero_rows(x);
  int64_t total = rows.size(1);
  return alias(rows, DimVector{total, x.dim()}, DimVector{1, total}, 0);
}

std::vector<Tensor> nonzero_columns(const Tensor& x) {
  Tensor rows = nonzero_rows(x.dim() == 0 ? reshape(detach(x), DimVector{1}) : x);
  std::vector<Tensor> columns;
  DimVector length{rows.size(1)}, stride{1};
  for (int64_t d = 0; d < rows.size(0); ++d)
    columns.push_back(alias(rows, length, stride, d * rows.size(1)));
  return columns;
}

// ---- masked_select

namespace {

struct MaskedSelectBackward final : Entry<masked_select_entry> {
  explicit MaskedSelectBackward(Sizes sizes) : sizes(sizes) {}
  // In the broadcast shape; the sweep sums it to the input's.
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor grad_x = zeros(sizes, grads[0].dtype(), grads[0]->device());
    masked_scatter_(grad_x, saved(0), grads[0]);
    grad_inputs[0] = grad_x;
  }
  DimVector sizes;
};

}  // namespace

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  check_mask("masked_select", mask);
  DimVector sizes = broadcast_sizes("masked_select", x.sizes(), mask.sizes());
  Counted counted = count(spread(mask, sizes));
  Tensor y = empty("masked_select", DimVector{counted.total}, x.dtype(), x->device());
  dispatch(masked_select_op, {spread(x, sizes), counted.mask, counted.counts}, {}, {y});
  if (should_record(x)) record<MaskedSelectBackward>({&x}, y, 1, sizes).save_input(0, mask);
  return y;
}

// ---- masked_fill

namespace {

struct MaskedFillBackward final : Entry<masked_fill_entry> {
  void vjp(Gradients grads, Gradients grad_inputs) override {
    const Tensor& g = grads[0];
    Tensor mask = saved(0);
    if (needs(0)) grad_inputs[0] = masked_fill(g, mask, zeros({}, g.dtype(), g->device()));
    if (needs(1)) grad_inputs[1] = sum(where(mask, g, 0.0), {}, false);
  }
};

// Fills where the mask is true: x itself is the target, or `out` is a fresh contiguous tensor.
void fill_masked(const Tensor& out, const Tensor& x, const Tensor& mask, const Tensor& value) {
  Tensor filler = cast(detach(value), x.dtype());
  dispatch(masked_fill_op, {spread(x, out.sizes()), spread(mask, out.sizes()), filler}, {}, {out});
}

void check_fill(const char* op, const Tensor& mask, const Tensor& value) {
  check_mask(op, mask);
  TAPEGRAD_CHECK(value.dim() == 0, op,
                 " only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
                 " dimension(s).");
}

}  // namespace

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value) {
  check_fill("masked_fill", mask, value);
  DimVector sizes = broadcast_sizes("masked_fill", x.sizes(), mask.sizes());
  Tensor y = empty("masked_fill", sizes, x.dtype(), x->device());
  fill_masked(y, x, mask, value);
  if (should_record(x, value)) record<MaskedFillBackward>({&x, &value}, y, 1).save_input(0, mask);
  return y;
}

void masked_fill_(const Tensor& self, const Tensor& mask, const Tensor& value) {
  bool recording = should_record(self, value);
  check_inplace("masked_fill_", self, recording);
  check_fill("masked_fill_", mask, value);
  TAPEGRAD_CHECK(can_expand(mask.sizes(), self.sizes()), "masked_fill_: output with shape ",
                 to_string(self.sizes()), " doesn't match the broadcast shape of the mask ",
                 to_string(mask.sizes()));
  if (self.is_contiguous()) {
    fill_masked(self, self, mask, value);
  } else {
    Tensor y = empty("masked_fill_", self.sizes(), self.dtype(), self->device());
    fill_masked(y, self, mask, value);
    copy_into(self, y);
  }
  note_write("masked_fill_", self);
  if (recording) record_inplace<MaskedFillBackward>(self, {&value}, 1).save_input(0, mask);
}

Tensor fill_value(const char* op, Scalar value, DType dtype) {
  check_fits(op, value, dtype);
  return scalar_tensor(value, dtype, Device{});
}

// ---- masked_scatter

namespace {

struct MaskedScatterBackward final : Entry<masked_scatter_entry> {
  explicit MaskedScatterBackward(Sizes source_sizes) : source_sizes(source_sizes) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    const Tensor& g = grads[0];
    Tensor mask = saved(0);
    if (needs(0)) grad_inputs[0] = masked_fill(g, mask, zeros({}, g.dtype(), g->device()));
    if (!needs(1)) return;
    // The source may have more elements than were used.
    Tensor used = masked_select(g, mask);
    int64_t numel = 1;
    for (int64_t size : source_sizes) numel *= size;
    Tensor parts[] = {used, zeros(DimVector{numel - used.numel()}, g.dtype(), g->device())};
    grad_inputs[1] = reshape(numel > used.numel() ? cat(parts, 0) : used, source_sizes);
  }
  DimVector source_sizes;
};

// Into `out`, contiguous, which holds what stays.
void scatter_masked(const char* op, const Tensor& out, const Tensor& mask, const Tensor& source) {
  check_mask(op, mask);
  TAPEGRAD_CHECK(source.dtype() == out.dtype(), op,
                 ": expected self and source to have same dtypes but got ", name(out.dtype()),
                 " and ", name(source.dtype()));
  if (out->device().is_meta()) return;
  const Tensor whole = spread(mask, out.sizes());
  const Tensor counts = count_blocks(whole);
  // Elsewhere the kernel looks at it, and the host does not wait.
  if (const int64_t total = out->device().is_cpu() ? sum_on_host(counts) : 0;
      source.numel() < total)
    fail(op, ": Number of elements of source < number of ones in mask (", source.numel(), " and ",
         total, ")");
  Tensor values = spread(source, source.sizes());
  if (values->storage_ref() == out->storage_ref()) values = clone(detach(values));
  dispatch(masked_scatter_op, {out, whole, counts, values}, {}, {out});
}

}  // namespace

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  DimVector sizes = broadcast_sizes("masked_scatter", x.sizes(), mask.sizes());
  Tensor y = empty("masked_scatter", sizes, x.dtype(), x->device());
  copy_into(y, x);
  scatter_masked("masked_scatter", y, mask, source);
  if (should_record(x, source))
    record<MaskedScatterBackward>({&x, &source}, y, 1, source.sizes()).save_input(0, mask);
  return y;
}

void masked_scatter_(const Tensor& self, const Tensor& mask, const Tensor& source) {
  bool recording = should_record(self, source);
  check_inplace("masked_scatter_", self, recording);
  TAPEGRAD_CHECK(can_expand(mask.sizes(), self.sizes()), "masked_scatter_: the mask's shape ",
                 to_string(mask.sizes()), " cannot be broadcast to shape ",
                 to_string(self.sizes()));
  Tensor target = spread(self, self.sizes());
  scatter_masked("masked_scatter_", target, mask, source);
  if (!target.is_same(self)) copy_into(self, target);
  note_write("masked_scatter_", self);
  if (recording)
    record_inplace<MaskedScatterBackward>(self, {&source}, 1, source.sizes()).save_input(0, mask);
}

}  // namespace tapegrad
