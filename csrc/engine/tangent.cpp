#include "engine/tangent.h"

#include <algorithm>

#include "core/op.h"
#include "engine/sweep.h"
#include "graph/forward.h"
#include "graph/record.h"
#include "ops/create.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

// Makes only levels below the given one visible, for a while.
class ForwardLimit {
 public:
  explicit ForwardLimit(uint32_t limit) : outer_(std::exchange(forward_limit, limit)) {}
  ~ForwardLimit() { forward_limit = outer_; }
  ForwardLimit(const ForwardLimit&) = delete;
  ForwardLimit& operator=(const ForwardLimit&) = delete;

 private:
  uint32_t outer_;
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

// J times the inputs' tangents of one level: the transpose of vjp, see the note.
Tensor transpose_vjp(const PendingTangent& pending, uint32_t level) {
  Node& node = *pending.node;
  Sizes sizes = node.output_sizes(pending.output_number);
  DType dtype = node.output_dtype(pending.output_number);
  ForwardLimit limit(level);
  GradMode on(true);
  Tensor g = zeros(sizes, dtype);
  set_requires_grad(g, true);
  std::vector<Tensor> grads(node.output_count());
  grads[pending.output_number] = g;
  std::span<Edge> edges = node.edges();
  std::vector<Tensor> grad_inputs(edges.size());
  node.vjp(grads, grad_inputs);
  std::vector<Tensor> roots, seeds;
  for (size_t i = 0; i < edges.size(); ++i) {
    const Placeholder* placeholder = placeholder_of(edges[i]);
    if (!placeholder || !grad_inputs[i].defined()) continue;
    Tensor seed = tangent_at(*placeholder, level);
    if (!seed.defined()) continue;
    Tensor root = validated(std::move(grad_inputs[i]), node, edges[i]);
    if (!requires_grad(root)) continue;
    roots.push_back(std::move(root));
    seeds.push_back(std::move(seed));
  }
  Tensor result;
  if (!roots.empty()) {
    GradMode mode(pending.recorded);
    result = sweep(roots, seeds, {&g, 1}, false, {false, pending.recorded})[0];
  }
  if (!result.defined()) return zeros(sizes, dtype);
  if (pending.recorded || !requires_grad(result)) return result;
  Tensor bare = detach(result);
  share_tangents(bare, result);
  return bare;
}

void resolve(const PendingTangent& pending) {
  ForwardLimit limit(pending.limit);
  std::vector<uint32_t> levels;
  for (const Edge& edge : pending.node->edges())
    if (const Placeholder* placeholder = placeholder_of(edge))
      for (const Tangent& tangent : placeholder->tangents)
        if (std::find(levels.begin(), levels.end(), tangent.level) == levels.end())
          levels.push_back(tangent.level);
  std::sort(levels.begin(), levels.end());
  std::vector<Tangent> tangents;
  for (uint32_t level : levels)
    if (is_forward_level(level)) tangents.push_back({level, transpose_vjp(pending, level)});
  set_tangents(pending.output, std::move(tangents));
}

// The entry is an ordinary one from now on.
void remove_placeholders(Node* node) {
  for (; node; node = node->inner_entry())
    for (Edge& edge : node->edges())
      if (const Placeholder* placeholder = placeholder_of(edge)) edge = Edge(placeholder->real);
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
    watch(kWatchPending, false);
    PlaceholderGuard guard{taken};
    for (const PendingTangent& pending : taken) resolve(pending);
  }
  watch(kWatchPending, false);
}

}  // namespace

void install_tangents() { resolve_pending = resolve_all; }

}  // namespace tapegrad
