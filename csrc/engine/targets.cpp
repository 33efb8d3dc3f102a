#include "engine/targets.h"

#include <algorithm>

#include "core/error.h"
#include "core/layout.h"
#include "core/parallel.h"
#include "core/sparse.h"
#include "graph/record.h"
#include "intercept/batch.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/pointwise.h"

namespace tapegrad {

// A copy of `grad` laid out as `like` is if that has no gaps; recorded where the sweep is.
static Tensor copy_in_layout(const Tensor& grad, const Tensor& like, bool recorded) {
  Tensor y = is_dense(*like.impl()) ? empty_like_layout(like, grad.dtype())
                                    : empty_like(grad, like.sizes(), grad.dtype());
  if (recorded) copy_(y, grad);
  else copy_into(y, grad);
  return y;
}

// A view of all of its memory that nobody else has, such as the transpose of a product, without what it is a view of: then
// that memory may be its own. Others are returned as they are.
static Tensor without_base(Tensor grad) {
  const AutogradMeta* meta = grad->meta();
  if (!meta || !meta->extra || !meta->extra->base.defined() || requires_grad(grad)) return grad;
  const auto shown = static_cast<size_t>(grad.numel()) * itemsize(grad.dtype());
  if (grad->python_object() || grad->count() > 1 || shown != grad->storage().nbytes()) return grad;
  return alias(grad, grad.sizes(), grad.strides(), grad->offset());
}

static void accumulate_sparse(const Tensor& leaf, AutogradMeta& meta, const Tensor& grad,
                              bool create_graph) {
  // Python may do anything to the leaf meanwhile.
  const Tensor sum = meta.grad;
  Tensor result = sparse_calls.accumulate(sum, grad, create_graph);
  AutogradMeta& after = ensure_meta(leaf);
  after.grad = std::move(result);
  if (requires_grad(after.grad) && track_tensor) track_tensor(leaf);
}

// With the lock held throughout, so that sweeps on several threads add to a shared leaf one after the
// other.
void accumulate_leaf(const Tensor& leaf, Tensor grad, bool create_graph) {
  NoBlockingSection hold;
  AutogradMeta& meta = ensure_meta(leaf);
  if (grad->storage().has(Storage::kBatched | Storage::kVoid)) [[unlikely]] {
    TAPEGRAD_CHECK(
        !is_batched(grad) || is_batched(leaf),
        "backward: inside vmap, gradients differ over the batch and cannot be added to the "
        ".grad of a tensor that does not; use torch.func.grad");
    if (is_sparse(*grad.impl())) return accumulate_sparse(leaf, meta, grad, create_graph);
  }
  if (!meta.grad.defined()) {
    // The leaf gets a buffer of its own, laid out as the leaf is, unless this one is ours to give.
    if (same_sizes(grad.strides(), leaf.strides())) grad = without_base(std::move(grad));
    bool ours = is_sole_owner(grad) && same_sizes(grad.strides(), leaf.strides());
    if (ours) meta.grad = std::move(grad);
    else meta.grad = copy_in_layout(grad, leaf, create_graph);
  } else if (meta.grad->storage().has(Storage::kVoid) && is_sparse(*meta.grad.impl())) {
    accumulate_sparse(leaf, meta, grad, create_graph);
  } else if (create_graph || requires_grad(meta.grad)) {
    meta.grad = add(meta.grad, grad);
  } else {
    const Tensor* operands[] = {&meta.grad, &grad};
    pointwise_inplace(PointwiseId::add, operands, {});
  }
  if (requires_grad(meta.grad) && track_tensor) track_tensor(leaf);
}

std::unordered_set<const Node*> reachable_from(std::span<const Tensor> roots) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> found;
  auto visit = [&](const Node* node) {
    if (node && seen.insert(node).second) found.push_back(node);
  };
  for (const Tensor& root : roots) visit(real_edge(root).node.get());
  for (size_t i = 0; i < found.size(); ++i)
    for (const Edge& edge : found[i]->edges()) visit(edge.node.get());
  return seen;
}

Targets::Targets(std::span<const Tensor> roots, std::span<const Tensor> inputs, bool accumulate)
    : inputs_(inputs), accumulate_(accumulate), results_(inputs.size()) {
  for (const Tensor& input : inputs) {
    TAPEGRAD_CHECK(requires_grad(input),
                   "backward: one of the differentiated Tensors does not require grad");
    edges_.push_back(real_edge(input));
  }
  if (!inputs.empty()) find_useful(roots);
}

bool Targets::accumulates(const Tensor& tensor) const {
  return accumulate_ && std::any_of(inputs_.begin(), inputs_.end(),
                                    [&](const Tensor& input) { return input.is_same(tensor); });
}

void Targets::collect(const Node* node, Gradients grads, bool create_graph) {
  for (size_t i = 0; i < edges_.size(); ++i) {
    if (edges_[i].node.get() != node) continue;
    const Tensor& grad = grads[edges_[i].output_number];
    if (!grad.defined()) continue;
    if (accumulate_) accumulate_leaf(inputs_[i], grad, create_graph);
    else results_[i] = grad;
  }
}

void Targets::find_useful(std::span<const Tensor> roots) {
  for (const Edge& edge : edges_) targets_.insert(edge.node.get());
  std::unordered_set<const Node*> found = reachable_from(roots);
  std::vector<const Node*> reachable(found.begin(), found.end());
  std::sort(reachable.begin(), reachable.end(),
            [](const Node* a, const Node* b) { return a->sequence() < b->sequence(); });
  for (const Node* node : reachable) {
    bool leads = false;
    for (const Edge& edge : node->edges()) leads |= useful_.contains(edge.node.get());
    if (leads) leading_.insert(node);
    if (leads || targets_.contains(node)) useful_.insert(node);
  }
}

}  // namespace tapegrad
