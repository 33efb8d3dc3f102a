// What the function transforms are built on: dual levels, batches, and the edges of a transform.
#include <unordered_set>

#include "core/error.h"
#include "graph/record.h"
#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/view.h"
#include "python/binding.h"

namespace tapegrad::python {

namespace {

// ---- forward mode

// Whether the tensor, or what it is a view of, has a history or tangents.
bool is_followed(const Tensor& x) {
  if (requires_grad(x) || has_tangent(x)) return true;
  const AutogradMeta* meta = x->meta();
  const bool is_view = meta && meta->extra && meta->extra->base.defined();
  return is_view && is_followed(meta->extra->base);
}

// A tensor over the memory of x with its history, but not a view of x: a write to it must not give x the
// tangent that it will get.
Tensor dual_of(const Tensor& x) {
  if (!is_followed(x)) return alias(x, x.sizes(), x.strides(), x->offset());
  Tensor y = view(x, x.sizes());
  AutogradExtras& extra = ensure_extras(y);
  extra.base = Tensor();
  extra.primal = x;
  return y;
}

Tensor make_dual(const Tensor& x, const Tensor& tangent, uint32_t level) {
  TAPEGRAD_CHECK_AS(ValueError, has_gradient(x.dtype()),
                    "make_dual: expected primal to be floating point or complex, got ",
                    name(x.dtype()));
  TAPEGRAD_CHECK(tangent.dtype() == x.dtype(), "make_dual: expected tangent to have the dtype ",
                 name(x.dtype()), " of primal, got ", name(tangent.dtype()));
  TAPEGRAD_CHECK(same_sizes(x.sizes(), tangent.sizes()),
                 "make_dual: expected tangent to have the shape ", to_string(x.sizes()),
                 " of primal, got ", to_string(tangent.sizes()));
  TAPEGRAD_CHECK(!tangent_of(x, level).defined(),
                 "make_dual: the tensor has a tangent at this level already");
  Tensor dual = dual_of(x);
  std::vector<Tangent> tangents = tangents_of(dual);
  // A write to the dual must not change a tangent that lies in the same memory.
  bool shared = tangent->storage_ref() == x->storage_ref();
  tangents.push_back({level, shared ? clone(tangent) : tangent});
  set_tangents(dual, std::move(tangents));
  return dual;
}

// The value without what the level added to it, and the tangent.
std::pair<Tensor, Tensor> unpack_dual(const Tensor& x, uint32_t level) {
  Tensor tangent = tangent_of(x, level);
  if (!tangent.defined()) return {x, tangent};
  std::vector<Tangent> rest = tangents_of(x);
  std::erase_if(rest, [&](const Tangent& entry) { return entry.level == level; });
  Tensor primal = alias(x, x.sizes(), x.strides(), x->offset());
  if (Node* node = grad_fn(x)) put_history(primal, Ref<Node>(node), x->meta()->output_number);
  if (!rest.empty()) set_tangents(primal, std::move(rest));
  return {primal, tangent};
}

std::pair<uint32_t, uint32_t> show_levels(uint32_t first, uint32_t limit) {
  VisibleLevels before = std::exchange(visible_levels, {first, limit});
  return {before.first, before.limit};
}

// ---- reverse-mode transforms

// Where the graph of a transform begins: its inputs, as the function sees them.
const EntryKind transform_input_entry("transform_input", nullptr, EntryKind::Role::Graph, {},
                                      "TransformInput");

struct TransformInput final : Entry<transform_input_entry> {
  explicit TransformInput(uint32_t transform) : transform(transform) { is_transform_input_ = true; }
  void vjp(Gradients grads, Gradients grad_inputs) override { grad_inputs[0] = grads[0]; }
  uint32_t transform;
};

uint32_t last_transform = 0;
std::unordered_set<uint32_t> running_transforms;

struct Outer {
  uint32_t transform;
  uint64_t start;
};
thread_local std::vector<Outer> outer_transforms;

uint32_t enter_transform() {
  running_transforms.insert(++last_transform);
  outer_transforms.push_back({storage_context.transform, transform_start});
  storage_context.transform = last_transform;
  transform_start = next_sequence_number();
  return last_transform;
}

void exit_transform(uint32_t transform) {
  TAPEGRAD_CHECK(!outer_transforms.empty(), "transform: none is running");
  running_transforms.erase(transform);
  storage_context.transform = outer_transforms.back().transform;
  transform_start = outer_transforms.back().start;
  outer_transforms.pop_back();
}

// x as a value of which the function's derivative is wanted; whatever depends on it requires grad.
Tensor transform_input(const Tensor& x, uint32_t transform) {
  Tensor y = alias(x, x.sizes(), x.strides(), x->offset());
  if (forward_levels) set_tangents(y, tangents_of(x));
  Ref<TransformInput> node = Node::create<TransformInput>(1, 0, std::span(&x, 1), transform);
  node->edges()[0] = real_edge(x);
  node->stamp();
  put_history(y, std::move(node), 0);
  return y;
}

// Whether the graph of the tensors leads to something that others want the gradient of: a leaf, or the
// input of a transform that runs around this one.
bool reaches_outside(const std::vector<Tensor>& tensors, uint32_t transform) {
  std::vector<Node*> nodes;
  std::unordered_set<const Node*> seen;
  auto add = [&](Node* node) {
    if (node && seen.insert(node).second) nodes.push_back(node);
  };
  for (const Tensor& tensor : tensors) add(real_edge(tensor).node.get());
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]->is_accumulator()) return true;
    auto* input = dynamic_cast<TransformInput*>(nodes[i]);
    if (input && input->transform != transform && running_transforms.contains(input->transform))
      return true;
    for (const Edge& edge : nodes[i]->edges()) add(edge.node.get());
  }
  return false;
}

// The value without history. Tangents stay.
Tensor without_history(const Tensor& x) {
  if (!requires_grad(x)) return x;
  Tensor y = detach(x);
  if (forward_levels) set_tangents(y, tangents_of(x));
  return y;
}

// Turns inference mode off for a transform; returns whether it was on.
bool leave_inference() {
  if (!(storage_context.flags & Storage::kInference)) return false;
  storage_context.flags &= ~uint32_t{Storage::kInference};
  ++transforms_in_inference;
  return true;
}

void return_to_inference() {
  storage_context.flags |= Storage::kInference;
  --transforms_in_inference;
}

// ---- vmap

uint32_t enter_vmap_with(int64_t size, const std::string& randomness, uint32_t former) {
  Randomness kind = randomness == "same"        ? Randomness::Same
                    : randomness == "different" ? Randomness::Different
                                                : Randomness::Error;
  return enter_vmap(size, kind, former);
}

}  // namespace

void bind_transforms(Binder& b) {
  b.function("_enter_dual_level", enter_forward_level, "Starts a level of forward mode.");
  b.function("_exit_dual_level", exit_forward_level, "level"_a, "Ends the innermost level.");
  b.function("_make_dual", make_dual, "tensor"_a, "tangent"_a, "level"_a,
             "A view of the tensor that carries a tangent.");
  b.function("_unpack_dual", unpack_dual, "tensor"_a, "level"_a,
             "(primal, tangent) of a level; the tangent is None if there is none.");
  b.function("_tangent_levels", [](const Tensor& x) {
    std::vector<uint32_t> levels;
    for (const Tangent& tangent : tangents_of(x)) levels.push_back(tangent.level);
    return levels;
  }, "tensor"_a, "The levels at which the tensor carries a tangent.");
  b.function("_set_tangent",
             [](const Tensor& x, const Tensor& tangent, uint32_t level) {
    stop_waiting(x);
    AutogradExtras& extra = ensure_extras(x);
    if (!extra.tangents) set_tangents(x, {});
    extra.tangents->entries.push_back({level, tangent});
  }, "tensor"_a, "tangent"_a, "level"_a,
             "Gives the output of a custom function, and what was saved of it, a tangent.");
  b.function("_hide_dual_levels", [] { return show_levels(next_forward_level(), UINT32_MAX); },
             "Puts all running levels out of sight; returns what _show_dual_levels() takes.");
  b.function("_limit_dual_levels",
             [](uint32_t limit) { return show_levels(visible_levels.first, limit); }, "limit"_a,
             "Puts levels from `limit` on out of sight; returns what _show_dual_levels() takes.");
  b.function("_show_dual_levels", [](std::pair<uint32_t, uint32_t> levels) {
    show_levels(levels.first, levels.second);
  }, "levels"_a, "Makes those levels visible that were before.");
  b.function("_enter_transform", enter_transform, "Starts a reverse-mode transform.");
  b.function("_exit_transform", exit_transform, "transform"_a, "Ends a reverse-mode transform.");
  b.function("_transform_input", transform_input, "tensor"_a, "transform"_a,
             "The tensor as the transformed function sees it.");
  b.function("_reaches_outside", reaches_outside, "tensors"_a, "transform"_a,
             "Whether somebody outside the transform may want a gradient through the tensors.");
  b.function("_without_history", without_history, "tensor"_a, "The value without history.");
  b.function("_leave_inference", leave_inference,
             "Turns inference mode off for a transform; returns whether it was on.");
  b.function("_return_to_inference", return_to_inference, "Turns it on again.");
  b.function(
      "_enter_vmap", enter_vmap_with, "size"_a, "randomness"_a, "former"_a = 0,
      "Starts a vmap and returns its number: a new one, or the one it had when it ran first.");
  b.function("_exit_vmap", exit_vmap, "Ends the innermost vmap.");
  b.function("_hide_batch", hide_batch, "tensor"_a, "dim"_a, "vmap"_a,
             "Turns a dimension into the batch of a vmap.");
  b.function("_reveal_batch", reveal_batch, "tensor"_a, "dim"_a, "vmap"_a, "size"_a,
             "Turns the batch of a vmap into a dimension.");
  b.function("_is_batched_at", is_batched_at, "tensor"_a, "vmap"_a,
             "Whether the tensor differs over the batch of a vmap.");
  b.function("_running_vmaps", [] {
    std::vector<std::pair<uint32_t, int64_t>> vmaps;
    for (const RunningVmap& running : running_vmaps) vmaps.emplace_back(running.vmap, running.size);
    return vmaps;
  }, "(number, size) of each running vmap, outermost first.");
}

}  // namespace tapegrad::python
