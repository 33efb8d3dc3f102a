#include "ops/subscript.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/error.h"
#include "graph/record.h"
#include "graph/view.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const EntryKind alias_entry("alias", EntryKind::Role::View);

struct SubscriptBackward final : VariantEntry {
  SubscriptBackward(const EntryKind& kind, Sizes sizes, Geometry place)
      : VariantEntry(kind), sizes(sizes), place(std::move(place)) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    const Tensor& g = grads[0];
    // What shows all elements shows them in order, and nothing is zero.
    grad_inputs[0] = g.numel() == count() ? reshape(g, sizes) : embed(g, sizes, place);
  }
  int64_t count() const {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  }
  DimVector sizes;
  Geometry place;
};

// The stride of dimension d in a contiguous tensor of x's shape.
int64_t contiguous_stride(const Tensor& x, int64_t d) {
  int64_t stride = 1;
  for (int64_t k = d + 1; k < x.dim(); ++k) stride *= std::max<int64_t>(x.size(k), 1);
  return stride;
}

}  // namespace

Subscript::Subscript(const Tensor& x)
    : x_(x), contiguous_(x.is_contiguous()), offset_(x->offset()), kind_(&alias_entry) {}

void Subscript::check_next(const char* what) const {
  TAPEGRAD_CHECK_AS(
      IndexError, x_.dim() > 0, what,
      " is an invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a 0-dim "
      "tensor to a number");
  TAPEGRAD_CHECK_AS(IndexError, left() > 0, "index: too many indices for tensor of dimension ",
                    x_.dim());
}

void Subscript::append(int64_t size, int64_t step) {
  sizes_.push_back(size);
  // A step beyond the end takes one element: its stride is never used.
  auto stepped = [&](int64_t stride) {
    int64_t product;
    return __builtin_mul_overflow(stride, step, &product) ? stride : product;
  };
  strides_.push_back(stepped(x_.stride(next_)));
  if (!contiguous_) place_strides_.push_back(stepped(contiguous_stride(x_, next_)));
}

void Subscript::select(int64_t index) {
  check_next("index");
  int64_t size = x_.size(next_);
  TAPEGRAD_CHECK_AS(IndexError, index >= -size && index < size, "index ", index,
                    " is out of bounds for dimension ", next_, " with size ", size);
  if (index < 0) index += size;
  offset_ += index * x_.stride(next_);
  if (!contiguous_) place_offset_ += index * contiguous_stride(x_, next_);
  ++next_;
  kind_ = &select_entry;
}

void Subscript::slice(int64_t start, int64_t stop, int64_t step) {
  check_next("slice");
  TAPEGRAD_CHECK_AS(ValueError, step > 0, "slice: step must be greater than zero, got ", step);
  int64_t size = x_.size(next_);
  start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
  stop = std::clamp<int64_t>(stop < 0 ? stop + size : stop, start, size);
  int64_t length = (stop - start) / step + ((stop - start) % step != 0);
  offset_ += start * x_.stride(next_);
  if (!contiguous_) place_offset_ += start * contiguous_stride(x_, next_);
  append(length, step);
  ++next_;
  kind_ = &slice_entry;
}

void Subscript::keep(int64_t count) {
  TAPEGRAD_CHECK_AS(IndexError, count <= left(), "index: too many indices for tensor of dimension ",
                    x_.dim());
  for (; count > 0; --count, ++next_) append(x_.size(next_), 1);
}

void Subscript::insert() {
  int64_t inner = next_ < x_.dim() ? x_.size(next_) * x_.stride(next_) : 1;
  sizes_.push_back(1);
  strides_.push_back(inner);
  if (!contiguous_) place_strides_.push_back(1);
  kind_ = &unsqueeze_entry;
}

bool Subscript::is_identity() const {
  return same_sizes(sizes_, x_.sizes()) && same_sizes(strides_, x_.strides()) &&
         offset_ == x_->offset();
}

Tensor Subscript::alias() const { return tapegrad::alias(x_, sizes_, strides_, offset_); }

Tensor Subscript::view() const {
  Tensor y = alias();
  mark_view(y, x_);
  if (should_record(x_)) {
    Geometry place{sizes_, contiguous_ ? strides_ : place_strides_,
                   contiguous_ ? offset_ - x_->offset() : place_offset_};
    record<SubscriptBackward>({&x_}, y, 0, *kind_, x_.sizes(), std::move(place));
  }
  return y;
}

}  // namespace tapegrad
