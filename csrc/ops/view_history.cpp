// Note [In-place on views]
//
// A view shares memory with its base (a view of a view has the first one's base). Writing to one of
// them in place changes what the others show, so it must change their histories too:
//
// - A recorded write to the *base* gives the base a new history, and the base counts how often that
//   happened (AutogradMeta::rewrites). A view notices by this count that its history is older than
//   the last write; the next time it is asked for, it is made anew as "this place of the base".
// - A recorded write to a *view* makes a new history for the base: CopySlices, an entry whose
//   gradient is the base's gradient with the written place replaced by what the in-place op's own
//   entry makes of it. The view then takes its history from the base as above.
//
// The invariant: a view's history is right exactly as long as its base has the history it was made
// from. Only rebase_history() ends that, and it is the last thing that an in-place op does. So an op
// may write s and read a view of s, and ask for the edges of both when the bytes are written and
// the version is bumped already: it still gets them as they were before. The storage's version does
// not decide, because it changes in the middle of an op, and for writes that are not recorded, which
// change no history. (One case goes by the version, because in PyTorch it does: a view that was
// made before its base began to require grad has no history, and gets one with the next write.)
//
// An entry that runs as a part of CopySlices may have saved its output. That value is a place of the
// base as CopySlices left it, and for a derivative of the derivative that is its history: see
// RunningPart.
//
// Both need to name the view's place inside a gradient of the base: the gradient is laid out in
// memory as the base is, and there the view's strides name its place. Refused, as in PyTorch, are
// writes to views made by ops with several outputs (split, unbind) or returned by custom functions, and to
// views made while recording was off whose base is written with recording on.
#include "ops/view_history.h"

#include <algorithm>

#include "core/error.h"
#include "core/op.h"
#include "graph/record.h"
#include "graph/view.h"
#include "ops/complex.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/pointwise.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const Op embed_op("embed", {}, kComplex);

using Role = EntryKind::Role;
const EntryKind embed_entry(embed_op);
const EntryKind as_strided_entry("as_strided", Role::View);
const EntryKind erase_entry("erase", copy_op);
const EntryKind copy_slices_entry("copy_slices", nullptr, Role::Graph, {}, "CopySlices");

// Where one of a part and its whole is complex and the other is not, places are told in real numbers: the
// complex one is opened, and closed again.
struct RealForm {
  bool whole = false, part = false;
  static RealForm of(const Tensor& view, const Tensor& base) {
    const bool whole = is_complex(base.dtype()), part = is_complex(view.dtype());
    return {whole && !part, part && !whole};
  }
};
Tensor opened(const Tensor& x, bool is_complex) { return is_complex ? view_as_real(x) : x; }
Tensor closed(const Tensor& x, bool is_complex) {
  return is_complex ? view_as_complex(contiguous(x)) : x;
}

struct EmbedBackward final : Entry<embed_entry> {
  EmbedBackward(Layout whole, Geometry place) : whole(std::move(whole)), place(std::move(place)) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = extract(grads[0], whole, place);
  }
  Layout whole;
  Geometry place;
};

struct ExtractBackward final : Entry<as_strided_entry> {
  ExtractBackward(Layout whole, Geometry place, RealForm form = {})
      : whole(std::move(whole)), place(std::move(place)), form(form) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = closed(embed(opened(grads[0], form.part), whole, place), form.whole);
  }
  Layout whole;
  Geometry place;
  RealForm form;
};

// Of an as_strided that reaches outside its input, or whose input's elements share memory: both are
// places in `length` elements of memory. Elements that share a place share its gradient.
struct ReachingBackward final : Entry<as_strided_entry> {
  ReachingBackward(int64_t length, Geometry input, Geometry place, bool shared)
      : length(length), input(std::move(input)), place(std::move(place)), shared(shared) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor memory = embed(grads[0], {&length, 1}, place);
    if (shared) {
      Tensor owners =
          embed(ones(input.sizes, memory.dtype(), memory->device()), {&length, 1}, input);
      memory = div(memory, maximum(owners, ones({}, memory.dtype(), memory->device())));
    }
    grad_inputs[0] = extract(memory, input);
  }
  int64_t length;
  Geometry input;
  Geometry place;
  bool shared;
};

// How many elements of memory a layout reaches over.
int64_t span_of(const Layout& layout) {
  int64_t last = 0;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] == 0) return 0;
    last += (layout.sizes[d] - 1) * layout.strides[d];
  }
  return last + 1;
}

// Fresh memory in that layout. Unless the layout is dense there are gaps, which are zero.
Tensor empty_in_layout(const Layout& layout, const Tensor& like) {
  int64_t span = span_of(layout);
  int64_t numel = 1;
  for (int64_t size : layout.sizes) numel *= size;
  Tensor memory = empty_like(like, {&span, 1}, like.dtype());
  if (numel != span) fill_into(memory, 0);
  return alias(memory, layout.sizes, layout.strides, 0);
}

// x in that layout, as a copy unless it is so already.
Tensor in_layout(const Tensor& x, const Layout& layout) {
  if (same_sizes(x.strides(), layout.strides)) return x;
  Tensor y = empty_in_layout(layout, x);
  copy_into(y, x);
  return y;
}

// A copy of x in that layout with zeros at the place: the part of a gradient that a write lets
// through.
Tensor erase(const Tensor& x, const Layout& whole, const Geometry& place);

struct EraseBackward final : Entry<erase_entry> {
  EraseBackward(Layout whole, Geometry place) : whole(std::move(whole)), place(std::move(place)) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = erase(grads[0], whole, place);
  }
  Layout whole;
  Geometry place;
};

Tensor erase(const Tensor& x, const Layout& whole, const Geometry& place) {
  Tensor y = empty_in_layout(whole, x);
  copy_into(y, x);
  fill_into(alias(y, place.sizes, place.strides, place.offset), 0);
  if (should_record(x)) record<EraseBackward>({&x}, y, 0, whole, place);
  return y;
}

bool within(const Geometry& geometry, int64_t span) {
  int64_t last = geometry.offset;
  for (size_t d = 0; d < geometry.sizes.size(); ++d) {
    if (geometry.sizes[d] == 0) return true;
    last += (geometry.sizes[d] - 1) * geometry.strides[d];
  }
  return geometry.offset >= 0 && last < span;
}

Layout layout_of(const Tensor& x) { return {DimVector(x.sizes()), DimVector(x.strides())}; }

Layout layout_of(const Tensor& base, RealForm form) {
  return layout_of(form.whole ? real_alias(base) : base);
}

// The view's place in memory laid out as its base is.
Geometry place_in_base(const Tensor& shown, const Tensor& shown_in, RealForm form) {
  const Tensor view = form.part ? real_alias(shown) : shown;
  const Tensor base = form.whole ? real_alias(shown_in) : shown_in;
  Geometry place{DimVector(view.sizes()), DimVector(view.strides()),
                 view->offset() - base->offset()};
  TAPEGRAD_CHECK(within(place, span_of(layout_of(base))),
                 "in-place on a view: the view reaches outside its base; use an out-of-place op");
  return place;
}

class PartScope {
 public:
  PartScope(const Node& entry, Ref<Node> output)
      : output_(std::move(output)),
        outer_(std::exchange(running_part, {output_ ? &entry : nullptr, output_.get()})) {}
  ~PartScope() { running_part = outer_; }
  PartScope(const PartScope&) = delete;
  PartScope& operator=(const PartScope&) = delete;

 private:
  Ref<Node> output_;
  RunningPart outer_;
};

struct CopySlices final : Entry<copy_slices_entry> {
  CopySlices(Layout whole, Geometry place, RealForm form, Ref<Node> inner)
      : whole(std::move(whole)), place(std::move(place)), form(form), inner(std::move(inner)) {}

  // Edge 0 is the base as it was; the others are the inner entry's edges after its first.
  void vjp(Gradients grads, Gradients grad_inputs) override {
    std::vector<Tensor> inner_grads(inner->edges().size());
    const Tensor grad = opened(grads[0], form.whole);
    Tensor grad_part = closed(extract(grad, whole, place), form.part);
    {
      PartScope scope(*inner, grad_enabled ? part_history(grad_part) : Ref<Node>());
      run_vjp(*inner, {&grad_part, 1}, inner_grads);
    }
    if (needs(0)) {
      Tensor rest = erase(grad, whole, place);
      Tensor part = inner_grads[0];
      if (part.defined()) rest = add(rest, embed(opened(part, form.part), whole, place));
      grad_inputs[0] = closed(rest, form.whole);
    }
    for (size_t i = 1; i < inner_grads.size(); ++i) grad_inputs[i] = inner_grads[i];
  }

  void release_saved(const SourceLine& sweep_line) override { inner->release_saved(sweep_line); }
  Node* inner_entry() override { return inner.get(); }
  Tensor written_part(const Tensor& value) override {
    return closed(extract(opened(value, form.whole), whole, place), form.part);
  }

  // The history of what the inner entry wrote, which has the shape of its gradient.
  Ref<Node> part_history(const Tensor& grad_part) {
    Ref<ExtractBackward> node =
        Node::create<ExtractBackward>(1, 0, std::span(&grad_part, 1), whole, place, form);
    node->edges()[0] = {Ref<Node>(this), 0};
    node->stamp();
    return node;
  }
  void visit(const Visitor& visitor) const override { visitor.node(inner.get(), visitor.state); }

  Layout whole;
  Geometry place;
  RealForm form;
  Ref<Node> inner;
};

}  // namespace

Tensor embed(const Tensor& part, Sizes sizes, const Geometry& place) {
  checked_numel("embed", sizes);
  return embed(part, {DimVector(sizes), contiguous_strides(sizes)}, place);
}

Tensor embed(const Tensor& part, const Layout& whole, const Geometry& place) {
  if (is_bare(part.dtype())) {  // which are not added
    const DType wide = is_float8(part.dtype()) ? DType::Float32 : DType::Int64;
    return cast(embed(cast(part, wide), whole, place), part.dtype());
  }
  Tensor y = empty_in_layout(whole, part);
  fill_into(y, 0);
  dispatch(embed_op, {part}, {}, {alias(y, place.sizes, place.strides, place.offset)});
  if (should_record(part)) record<EmbedBackward>({&part}, y, 0, whole, place);
  return y;
}

Tensor extract(const Tensor& x, const Geometry& place) {
  return extract(x, {DimVector(x.sizes()), contiguous_strides(x.sizes())}, place);
}

Tensor extract(const Tensor& x, const Layout& whole, const Geometry& place) {
  Tensor source = in_layout(x, whole);
  Tensor part = alias(source, place.sizes, place.strides, source->offset() + place.offset);
  Tensor y = empty_like(x, place.sizes, x.dtype());
  copy_into(y, part);
  if (should_record(x)) record<ExtractBackward>({&x}, y, 0, whole, place);
  return y;
}

namespace {

// Whether two elements may lie in the same place: false only if each stride steps over all that the
// smaller ones reach.
bool overlaps_itself(const Layout& layout) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t d = 0; d < layout.sizes.size(); ++d)
    if (layout.sizes[d] > 1) dims.emplace_back(layout.strides[d], layout.sizes[d]);
  std::sort(dims.begin(), dims.end());
  int64_t reach = 1;
  for (auto [stride, size] : dims) {
    if (stride < reach) return true;
    reach += (size - 1) * stride;
  }
  return false;
}

}  // namespace

void record_as_strided(const Tensor& x, const Tensor& y, Geometry place) {
  Layout whole = layout_of(x);
  bool shared = overlaps_itself(whole);
  if (!shared && within(place, span_of(whole))) {
    record<ExtractBackward>({&x}, y, 0, std::move(whole), std::move(place));
    return;
  }
  // Memory that both fit in: what lies outside x has no gradient.
  int64_t begin = std::min<int64_t>(place.offset, 0);
  Geometry own{std::move(whole.sizes), std::move(whole.strides), -begin};
  place.offset -= begin;
  int64_t length = std::max(own.offset + span_of({own.sizes, own.strides}),
                            place.offset + span_of({place.sizes, place.strides}));
  record<ReachingBackward>({&x}, y, 0, length, std::move(own), std::move(place), shared);
}

namespace {

uint32_t rewrites_of(const Tensor& base) { return base->meta() ? base->meta()->rewrites : 0; }

// The view's history is that of its place in the base, as both are now.
void mark_current(const Tensor& view, AutogradExtras& extra) {
  extra.base_rewrites = rewrites_of(extra.base);
  extra.view_version = view->storage().version();
}

bool is_current(const Tensor& view, const AutogradExtras& extra) {
  if (extra.base_rewrites != rewrites_of(extra.base)) return false;
  return !view->meta()->is_leaf || extra.view_version == view->storage().version();
}

}  // namespace

void mark_view(const Tensor& view, const Tensor& x) {
  const AutogradMeta* meta = x->meta();
  bool x_is_view = meta && meta->extra && meta->extra->base.defined();
  AutogradExtras& extra = ensure_extras(view);
  extra.base = x_is_view ? meta->extra->base : x;
  mark_current(view, extra);
  extra.no_grad_view = !grad_enabled || (x_is_view && meta->extra->no_grad_view);
  extra.inference_view =
      (storage_context.flags & Storage::kInference) || (x_is_view && meta->extra->inference_view);
  extra.multi_output_view = x_is_view && meta->extra->multi_output_view;
}

void mark_multi_output_views(std::span<const Tensor> views) {
  for (const Tensor& view : views) ensure_extras(view).multi_output_view = true;
}

namespace {

const Tensor& base_or_self(const Tensor& x) {
  const AutogradMeta* meta = x->meta();
  return meta && meta->extra && meta->extra->base.defined() ? meta->extra->base : x;
}

bool is_overwritten(const Tensor& x) {
  const AutogradMeta* meta = x->meta();
  return meta && meta->extra && meta->extra->overwritten;
}

// Notes a write to a tensor that was made of another, which must not be used from now on.
void spoil_primals(const Tensor& written) {
  const AutogradMeta* meta = base_or_self(written)->meta();
  if (!meta || !meta->extra || !meta->extra->primal.defined()) return;
  const Tensor& primal = base_or_self(meta->extra->primal);
  ensure_extras(primal).overwritten = true;
  spoil_primals(primal);
}

}  // namespace

void update_view_history(const Tensor& view) {
  AutogradExtras& extra = *view->meta()->extra;
  TAPEGRAD_CHECK(
      !is_overwritten(base_or_self(view)), "forward mode: a tensor of shape ",
      to_string(view.sizes()),
      " is used after it was modified inplace through a dual tensor made of it; make the "
      "dual of a .clone()");
  if (!extra.base.defined() || is_current(view, extra)) return;
  bool follows = !extra.no_grad_view && requires_grad(extra.base);
  if (!follows && !has_tangent(extra.base)) return;
  GradMode mode(grad_enabled && !extra.no_grad_view);  // tangents follow in any case
  TAPEGRAD_CHECK(
      !extra.multi_output_view,
      "output of an op with several views (split, chunk, unbind) or of a custom function "
      "is a view and its base or another view of its base has been modified inplace; "
      "this is forbidden, use .clone() on the view first");
  const RealForm form = RealForm::of(view, extra.base);
  Ref<ExtractBackward> node =
      Node::create<ExtractBackward>(1, 0, std::span(&view, 1), layout_of(extra.base, form),
                                    place_in_base(view, extra.base, form), form);
  mark_current(view, extra);
  node->edges()[0] = gradient_edge(extra.base);
  node->stamp();
  set_history(view, std::move(node), 0);
}

namespace {

void check_leaf_view(const char* op, const Tensor& view, const Tensor& leaf) {
  TAPEGRAD_CHECK(!(requires_grad(view) && begins_graph(leaf)), op,
                 ": a view of a leaf Variable that requires grad is being used in an in-place "
                 "operation; wrap the write in no_grad(), or write to a .clone()");
}

}  // namespace

void check_view_write(const char* op, const Tensor& tensor, bool recording) {
  const AutogradMeta* meta = tensor->meta();
  if (!meta || !meta->extra) return;
  if (const AutogradMeta* root = base_or_self(tensor)->meta(); root && root->extra)
    if (recording && root->extra->primal.defined())
      check_leaf_view(op, tensor, root->extra->primal);
  if (!meta->extra->base.defined()) return;
  const AutogradExtras& extra = *meta->extra;
  if (!recording && !requires_grad(tensor) && !requires_grad(extra.base)) return;
  TAPEGRAD_CHECK(
      !extra.multi_output_view, op,
      ": This view is the output of a function that returns multiple views (split, chunk, unbind) "
      "or a custom Function: it is a view and is being modified inplace. Such functions do not "
      "allow the output views to be modified inplace; use .clone() first");
  TAPEGRAD_CHECK(
      !extra.inference_view, op,
      ": A view was created in inference mode and is being modified inplace in normal mode; make "
      "the view outside inference_mode");
  TAPEGRAD_CHECK(
      !(extra.no_grad_view && grad_enabled), op,
      ": A view was created in no_grad mode and is being modified inplace with grad mode "
      "enabled; make the view and the write in the same mode");
  check_leaf_view(op, tensor, extra.base);
  place_in_base(tensor, extra.base, RealForm::of(tensor, extra.base));
}

namespace {

// The inner entry may have saved what was written, which gets its tangents together with the base.
void await_part(const Tensor& part, const Node* entry) {
  bool waits = !pending_tangents.empty() && pending_tangents.back().node.get() == entry;
  if (!waits) return stop_waiting(part);
  pending_tangents.back().part = part;
  if (!is_waiting(part)) await_tangents(part);
}

}  // namespace

void rebase_history(const Tensor& tensor, Ref<Node> node, uint32_t output_number) {
  AutogradMeta& meta = ensure_meta(tensor);
  if (meta.extra) spoil_primals(tensor);
  if (!meta.extra || !meta.extra->base.defined()) {
    ++meta.rewrites;
    return set_history(tensor, std::move(node), output_number);
  }
  const Tensor& base = meta.extra->base;
  size_t edges = node->edges().size();
  const RealForm form = RealForm::of(tensor, base);
  Ref<CopySlices> slices =
      Node::create<CopySlices>(edges, 0, std::span(&base, 1), layout_of(base, form),
                               place_in_base(tensor, base, form), form, node);
  slices->edges()[0] = gradient_edge(base);
  for (size_t i = 1; i < edges; ++i) slices->edges()[i] = node->edges()[i];
  slices->stamp();
  if (slices->inner->is_collected()) slices->set_collected();
  // The view takes its new history from the base when it is asked for it. Not before, because the op
  // may still be filling in its entry.
  ++ensure_meta(base).rewrites;
  Node* entry = slices.get();
  set_history(base, std::move(slices), 0);
  if (forward_levels) [[unlikely]]
    await_part(tensor, entry);
}

}  // namespace tapegrad
