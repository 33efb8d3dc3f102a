// Note [In-place on views]
//
// A view shares memory with its base (a view of a view has the first one's base). Writing to one of
// them in place changes what the others show, so it must change their histories too:
//
// - A recorded write to the *base* gives the base a new history. A view notices, by the
//   storage's version, that its history is older than the last write; the next time it is asked for,
//   it is made anew as "this place of the base".
// - A recorded write to a *view* makes a new history for the base: CopySlices, an entry whose
//   gradient is the base's gradient with the written place replaced by what the in-place op's own
//   entry makes of it. The view then takes its history from the base as above.
//
// Both need to name the view's place inside a gradient of the base, which is a contiguous tensor of
// the base's shape. So the base must itself be contiguous; others are refused. Also refused, as in
// PyTorch: views made by ops with several outputs (split, unbind), and views made while recording
// was off whose base is written with recording on.
#include "ops/view_history.h"

#include "core/error.h"
#include "core/op.h"
#include "cpu/kernels.h"
#include "graph/record.h"
#include "graph/view.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/pointwise.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const Op embed_op{"embed", {cpu::embed, nullptr}};

struct EmbedBackward final : Node {
  explicit EmbedBackward(Geometry geometry) : geometry(std::move(geometry)) {}
  const char* name() const override { return "EmbedBackward0"; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = extract(grads[0], geometry);
  }
  Geometry geometry;
};

struct ExtractBackward final : Node {
  ExtractBackward(Sizes sizes, Geometry geometry) : sizes(sizes), geometry(std::move(geometry)) {}
  const char* name() const override { return "AsStridedBackward0"; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = embed(grads[0], sizes, geometry);
  }
  DimVector sizes;
  Geometry geometry;
};

// A contiguous copy of x with zeros at the place: the part of a gradient that a write lets through.
Tensor erase(const Tensor& x, const Geometry& place);

struct EraseBackward final : Node {
  explicit EraseBackward(Geometry place) : place(std::move(place)) {}
  const char* name() const override { return "EraseBackward0"; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = erase(grads[0], place);
  }
  Geometry place;
};

Tensor erase(const Tensor& x, const Geometry& place) {
  Tensor y(TensorImpl::empty(x.dtype(), x.sizes(), x.numel()));
  copy_into(y, x);
  fill_into(alias(y, place.sizes, place.strides, place.offset), 0);
  if (should_record(x)) record<EraseBackward>({&x}, y, 0, place);
  return y;
}

bool within(const Geometry& geometry, int64_t numel) {
  int64_t last = geometry.offset;
  for (size_t d = 0; d < geometry.sizes.size(); ++d) {
    if (geometry.sizes[d] == 0) return true;
    last += (geometry.sizes[d] - 1) * geometry.strides[d];
  }
  return geometry.offset >= 0 && last < numel;
}

// The view's place in a contiguous tensor of its base's shape.
Geometry place_in_base(const Tensor& view, const Tensor& base) {
  TAPEGRAD_CHECK(base.is_contiguous(), "in-place on a view: the base of shape ",
                 to_string(base.sizes()),
                 " is not contiguous, and such a base is not supported; use .contiguous() on it "
                 "first, or an out-of-place op");
  Geometry place{DimVector(view.sizes()), DimVector(view.strides()),
                 view->offset() - base->offset()};
  TAPEGRAD_CHECK(within(place, base.numel()),
                 "in-place on a view: the view reaches outside its base; use an out-of-place op");
  return place;
}

struct CopySlices final : Node {
  CopySlices(Geometry place, Ref<Node> inner) : place(std::move(place)), inner(std::move(inner)) {}
  const char* name() const override { return "CopySlices"; }

  // Edge 0 is the base as it was; the others are the inner entry's edges after its first.
  void vjp(Gradients grads, Gradients grad_inputs) override {
    std::vector<Tensor> inner_grads(inner->edges().size());
    Tensor grad_part = extract(grads[0], place);
    inner->vjp({&grad_part, 1}, inner_grads);
    if (needs(0)) {
      Tensor rest = erase(grads[0], place);
      Tensor part = inner_grads[0];
      grad_inputs[0] = part.defined() ? add(rest, embed(part, rest.sizes(), place)) : rest;
    }
    for (size_t i = 1; i < inner_grads.size(); ++i) grad_inputs[i] = inner_grads[i];
  }

  void release_saved() override { inner->release_saved(); }

  Geometry place;
  Ref<Node> inner;
};

}  // namespace

Tensor embed(const Tensor& part, Sizes sizes, const Geometry& geometry) {
  Tensor whole = zeros(sizes, part.dtype());
  Tensor place = alias(whole, geometry.sizes, geometry.strides, geometry.offset);
  dispatch(embed_op, {part}, {}, {place});
  if (should_record(part)) record<EmbedBackward>({&part}, whole, 0, geometry);
  return whole;
}

Tensor extract(const Tensor& x, const Geometry& geometry) {
  Tensor source = contiguous(x);
  Tensor place =
      alias(source, geometry.sizes, geometry.strides, source->offset() + geometry.offset);
  Tensor y(TensorImpl::empty(x.dtype(), geometry.sizes, place.numel()));
  copy_into(y, place);
  if (should_record(source)) record<ExtractBackward>({&source}, y, 0, source.sizes(), geometry);
  return y;
}

void mark_view(const Tensor& view, const Tensor& x) {
  const AutogradMeta* meta = x->meta();
  bool x_is_view = meta && meta->extra && meta->extra->base.defined();
  Extra& extra = ensure_extra(view);
  extra.base = x_is_view ? meta->extra->base : x;
  extra.view_version = view->storage().version();
  extra.no_grad_view = !grad_enabled || (x_is_view && meta->extra->no_grad_view);
  extra.multi_output_view = x_is_view && meta->extra->multi_output_view;
}

void mark_multi_output_views(std::span<const Tensor> views) {
  for (const Tensor& view : views) ensure_extra(view).multi_output_view = true;
}

void update_view_history(const Tensor& view) {
  Extra& extra = *view->meta()->extra;
  if (!extra.base.defined() || extra.no_grad_view) return;
  uint32_t version = view->storage().version();
  if (extra.view_version == version || !requires_grad(extra.base)) return;
  // Only a write that the base's history knows of changes the view's.
  if (is_leaf(extra.base)) return;
  TAPEGRAD_CHECK(!extra.multi_output_view,
                 "a view made by an op with several outputs (split, chunk, unbind) is used after "
                 "its base was modified in place; this is forbidden, use .clone() on the view");
  Geometry place = place_in_base(view, extra.base);
  Ref<ExtractBackward> node = Node::create<ExtractBackward>(1, 0, std::span(&view, 1),
                                                            extra.base.sizes(), std::move(place));
  node->edges()[0] = gradient_edge(extra.base);
  node->stamp();
  set_history(view, std::move(node), 0);
  extra.view_version = version;
}

void check_view_write(const char* op, const Tensor& tensor) {
  const AutogradMeta* meta = tensor->meta();
  if (!meta || !meta->extra || !meta->extra->base.defined()) return;
  const Extra& extra = *meta->extra;
  TAPEGRAD_CHECK(
      !extra.multi_output_view, op,
      ": output of an op with several views (split, chunk, unbind) is a view and is being "
      "modified inplace; this is forbidden, use .clone() first");
  TAPEGRAD_CHECK(
      !extra.no_grad_view, op,
      ": a view was created in no_grad mode and is being modified inplace with grad mode "
      "enabled; make the view and the write in the same mode");
  TAPEGRAD_CHECK(!(requires_grad(extra.base) && is_leaf(extra.base)), op,
                 ": a view of a leaf Variable that requires grad is being used in an in-place "
                 "operation; wrap the write in no_grad(), or write to a .clone()");
  place_in_base(tensor, extra.base);
}

void rebase_history(const Tensor& tensor, Ref<Node> node) {
  AutogradMeta& meta = ensure_meta(tensor);
  if (!meta.extra || !meta.extra->base.defined()) return set_history(tensor, std::move(node), 0);
  Extra& extra = *meta.extra;
  const Tensor& base = extra.base;
  Geometry place = place_in_base(tensor, base);
  size_t edges = node->edges().size();
  Ref<CopySlices> slices =
      Node::create<CopySlices>(edges, 0, std::span(&base, 1), std::move(place), node);
  slices->edges()[0] = gradient_edge(base);
  for (size_t i = 1; i < edges; ++i) slices->edges()[i] = node->edges()[i];
  slices->stamp();
  set_history(base, std::move(slices), 0);
  extra.view_version = tensor->storage().version() - 1;  // out of date on purpose
  meta.requires_grad = true;
  update_view_history(tensor);
}

}  // namespace tapegrad
