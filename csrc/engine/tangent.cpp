// Computing tangents: graph/forward.h, Note [Tangents by transposing].
#include <algorithm>

#include "core/op.h"
#include "engine/sweep.h"
#include "graph/forward.h"
#include "graph/record.h"
#include "intercept/batch.h"
#include "ops/complex.h"
#include "ops/create.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

// Makes other levels visible, for a while.
class VisibleScope {
 public:
  explicit VisibleScope(VisibleLevels levels) : outer_(std::exchange(visible_levels, levels)) {}
  ~VisibleScope() { visible_levels = outer_; }
  VisibleScope(const VisibleScope&) = delete;
  VisibleScope& operator=(const VisibleScope&) = delete;

 private:
  VisibleLevels outer_;
};

const Placeholder* placeholder_of(const Edge& edge) {
  if (!edge.node || !edge.node->is_placeholder()) return nullptr;
  return static_cast<const Placeholder*>(edge.node.get());
}

Tensor tangent_at(const Placeholder& placeholder, uint32_t level) {
  for (const Tangent& tangent : placeholder.tangents)
    if (tangent.level == level) return tangent.value;
  return {};
}

// Zeros whose gradient will be J times tangent, whatever batches that differs over.
Tensor transpose_input(Sizes sizes, DType dtype, Device device) {
  Tensor g = zeros(sizes, dtype, device);
  set_requires_grad(g, true);
  ensure_extras(g).takes_tangent = true;
  return g;
}

Tensor without_history(const Tensor& x) {
  if (!requires_grad(x)) return x;
  Tensor bare = detach(x);
  share_tangents(bare, x);
  return bare;
}

// J times the inputs' tangents of one level: the transpose of vjp, see the note.
Tensor transpose_vjp(const PendingTangent& pending, uint32_t output_number, uint32_t level) {
  Node& node = *pending.node;
  Sizes sizes = node.output_sizes(output_number);
  DType dtype = node.output_dtype(output_number);
  GradMode on(true);
  const Device device = node.output_device(output_number);
  Tensor g = transpose_input(sizes, dtype, device);
  std::vector<Tensor> grads(node.output_count());
  grads[output_number] = g;
  std::span<Edge> edges = node.edges();
  std::vector<Tensor> grad_inputs(edges.size());
  run_vjp(node, grads, grad_inputs);
  std::vector<Tensor> roots, seeds;
  bool has_history = false;
  for (size_t i = 0; i < edges.size(); ++i) {
    const Placeholder* placeholder = placeholder_of(edges[i]);
    has_history |= placeholder ? bool(placeholder->real().node) : bool(edges[i].node);
    if (!placeholder || !grad_inputs[i].defined()) continue;
    Tensor seed = tangent_at(*placeholder, level);
    if (!seed.defined()) continue;
    has_history |= requires_grad(seed);
    Tensor root = validated(std::move(grad_inputs[i]), node, edges[i]);
    if (!requires_grad(root)) continue;
    roots.push_back(std::move(root));
    seeds.push_back(std::move(seed));
  }
  GradMode mode(pending.recorded);
  const SweepOptions options{.create_graph = pending.recorded, .transposing = true};
  Tensor result;
  if (!roots.empty()) result = sweep(roots, seeds, {&g, 1}, false, options)[0];
  if (!result.defined()) return zeros(sizes, dtype, device);
  // A vjp that is not linear in its single steps leaves g in the history of what does not depend on it.
  return pending.recorded && has_history ? result : without_history(result);
}

std::vector<uint32_t> levels_of(const Node& node) {
  std::vector<uint32_t> levels;
  for (const Edge& edge : node.edges())
    if (const Placeholder* placeholder = placeholder_of(edge))
      for (const Tangent& tangent : placeholder->tangents)
        if (is_forward_level(tangent.level)) levels.push_back(tangent.level);
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  return levels;
}

std::vector<Tangent>& entries_of(const Tensor& x) { return x->meta()->extra->tangents->entries; }

void resolve_level(const PendingTangent& pending, uint32_t level) {
  VisibleScope visible({pending.visible.first, level});
  std::vector<Tensor> tangents;
  for (const PendingTangent::Output& output : pending.outputs)
    tangents.push_back(transpose_vjp(pending, output.number, level));
  if (pending.part.defined()) {
    GradMode mode(pending.recorded);
    entries_of(pending.part).push_back({level, pending.node->written_part(tangents[0])});
  }
  for (size_t i = 0; i < tangents.size(); ++i)
    entries_of(pending.outputs[i].tensor).push_back({level, std::move(tangents[i])});
}

// The state of the thread as it was when the op ran; another may have begun since.
class OpScope {
 public:
  explicit OpScope(const PendingTangent& pending)
      : context_(storage_context),
        packing_(packing),
        autocast_(std::exchange(autocast_devices, 0)) {  // derivatives take operands as they are
    storage_context.vmap = std::max(pending.node->vmap(), pending.vmap);
    storage_context.flags &= ~uint32_t{Storage::kInference};
    // What serves forward mode alone is no saved value that a user's hook should see.
    packing &= pending.recorded;
  }
  ~OpScope() {
    storage_context = context_;
    packing = packing_;
    autocast_devices = autocast_;
  }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

 private:
  StorageContext context_;
  bool packing_;
  uint8_t autocast_;
};

void resolve(const PendingTangent& pending) {
  OpScope scope(pending);
  for (uint32_t level : levels_of(*pending.node)) resolve_level(pending, level);
}

// The entry is an ordinary one from now on.
void remove_placeholders(Node* node) {
  for (; node; node = node->inner_entry())
    for (Edge& edge : node->edges())
      if (const Placeholder* placeholder = placeholder_of(edge)) edge = Edge(placeholder->real());
}

// Also when a derivative fails: no entry keeps a placeholder.
struct PlaceholderGuard {
  const std::vector<PendingTangent>& taken;
  ~PlaceholderGuard() {
    for (const PendingTangent& pending : taken) remove_placeholders(pending.node.get());
  }
};

void resolve_all() {
  while (!pending_tangents.empty()) {
    std::vector<PendingTangent> taken = std::exchange(pending_tangents, {});
    intercept_here(Interceptor::Tangents, false);
    PlaceholderGuard guard{taken};
    for (const PendingTangent& pending : taken) {
      for (const PendingTangent::Output& output : pending.outputs) stop_waiting(output.tensor);
      if (pending.part.defined()) stop_waiting(pending.part);
    }
    for (const PendingTangent& pending : taken) resolve(pending);
  }
  intercept_here(Interceptor::Tangents, false);
}

[[maybe_unused]] const bool installed = [] {
  resolve_pending = resolve_all;
  return install(Interceptor::Tangents, [](const OpCall& call, const Next& next) {
    resolve_all();
    next(call);
  });
}();

}  // namespace

}  // namespace tapegrad
