// The reverse sweep.
//
// Entries waiting to run sit in a heap ordered by sequence number, the newest on top. Each waits with
// one buffer per output in which its incoming gradient adds up. Since every edge leads to an older
// entry, an entry that comes to the top can receive nothing more: it runs, its gradients are
// validated against what its edges expect, and are added to the buffers of older entries.
//
// Invariants
// - A buffer is written in place only if the sweep made it and is its only owner (add_into).
//   A gradient that arrived from elsewhere, or was handed to two entries, is never written to.
// - An undefined gradient stands for zero and is never made into zeros unless an op needs it.
// - The sweep holds its state on its own stack frame: sweeps may nest (a hook may call backward) and
//   run on several threads at once.
#include "engine/sweep.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/parallel.h"
#include "graph/accumulate.h"
#include "graph/record.h"
#include "graph/retain.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"

namespace tapegrad {

namespace {

bool is_sole_owner(const Tensor& tensor) {
  return !tensor->python_object() && tensor->count() == 1 && tensor->storage().use_count() == 1;
}

// sum += term, in place where that is safe. `sum` may be undefined.
void add_into(Tensor& sum, Tensor term) {
  if (!sum.defined()) {
    sum = std::move(term);
  } else if (!grad_enabled && is_sole_owner(sum) && sum.dtype() == term.dtype()) {
    const Tensor* operands[] = {&sum, &term};
    pointwise_inplace(PointwiseId::add, operands, {});
  } else if (!grad_enabled && is_sole_owner(term) && sum.dtype() == term.dtype()) {
    const Tensor* operands[] = {&term, &sum};
    pointwise_inplace(PointwiseId::add, operands, {});
    sum = std::move(term);
  } else {
    sum = add(sum, term);
  }
}

// A gradient must have the shape and dtype of the value it belongs to. Broadcast dimensions are
// summed away and dtypes cast; anything else is an error of the op that made it.
Tensor validated(Tensor grad, const Node& consumer, const Edge& edge) {
  const Node& producer = *edge.node;
  Sizes sizes = producer.output_sizes(edge.output_number);
  DType dtype = producer.output_dtype(edge.output_number);
  if (!same_sizes(grad.sizes(), sizes)) {
    TAPEGRAD_CHECK(can_expand(sizes, grad.sizes()), consumer.name(),
                   ": returned a gradient of shape ", to_string(grad.sizes()),
                   " for a value of shape ", to_string(sizes), "; recorded at ", consumer.line());
    grad = sum_to_size(grad, sizes);
  }
  if (grad.dtype() != dtype) grad = cast(grad, dtype);
  return grad;
}

// An entry waiting to run.
struct Pending {
  Ref<Node> node;
  std::vector<Tensor> grads;  // one per output; for a single output, `grad` is used instead
  Tensor grad;

  explicit Pending(Ref<Node> entry) : node(std::move(entry)) {
    if (node->output_count() > 1) grads.resize(node->output_count());
  }
  Gradients buffers() { return grads.empty() ? Gradients(&grad, 1) : Gradients(grads); }
};

// The heap of waiting entries, searchable by node.
class Waiting {
 public:
  bool empty() const { return heap_.empty(); }

  // The buffer for gradients of this edge; makes the entry wait if it does not yet.
  Tensor& buffer(const Edge& edge) { return find(edge.node).buffers()[edge.output_number]; }

  Pending pop() {
    std::pop_heap(heap_.begin(), heap_.end(), older);
    Pending top = std::move(*heap_.back());
    if (is_indexed()) index_.erase(top.node.get());
    spare_.push_back(std::move(heap_.back()));
    heap_.pop_back();
    return top;
  }

 private:
  using Slot = std::unique_ptr<Pending>;
  // A few waiting entries are found by looking through them; more are indexed.
  static constexpr size_t kScanLimit = 16;

  static bool older(const Slot& a, const Slot& b) {
    return a->node->sequence() < b->node->sequence();
  }
  bool is_indexed() const { return !index_.empty(); }

  Pending& find(const Ref<Node>& node) {
    if (is_indexed()) {
      if (auto found = index_.find(node.get()); found != index_.end()) return *found->second;
    } else {
      for (const Slot& slot : heap_)
        if (slot->node == node) return *slot;
    }
    return insert(node);
  }

  Pending& insert(const Ref<Node>& node) {
    Slot slot;
    if (spare_.empty()) {
      slot = std::make_unique<Pending>(node);
    } else {
      slot = std::move(spare_.back());
      spare_.pop_back();
      *slot = Pending(node);
    }
    Pending& pending = *slot;
    heap_.push_back(std::move(slot));
    std::push_heap(heap_.begin(), heap_.end(), older);
    if (is_indexed()) index_.emplace(node.get(), &pending);
    else if (heap_.size() > kScanLimit)
      for (const Slot& waiting : heap_) index_.emplace(waiting->node.get(), waiting.get());
    return pending;
  }

  std::vector<Slot> heap_;
  std::vector<Slot> spare_;
  std::unordered_map<const Node*, Pending*> index_;
};

// Adds an arriving gradient to a leaf's .grad. With the lock held throughout, so that sweeps on
// several threads add to a shared leaf one after the other.
void accumulate_leaf(const Tensor& leaf, Tensor grad, bool create_graph) {
  NoBlockingSection hold;
  AutogradMeta& meta = ensure_meta(leaf);
  if (!meta.grad.defined()) {
    // The leaf gets a buffer of its own, laid out as the leaf is, unless this one is ours to give.
    bool ours = is_sole_owner(grad) && same_sizes(grad.strides(), leaf.strides());
    if (create_graph || ours) {
      meta.grad = std::move(grad);
    } else {
      meta.grad = empty_like_layout(leaf, grad.dtype());
      copy_into(meta.grad, grad);
    }
  } else if (create_graph || requires_grad(meta.grad)) {
    meta.grad = add(meta.grad, grad);
  } else {
    const Tensor* operands[] = {&meta.grad, &grad};
    pointwise_inplace(PointwiseId::add, operands, {});
  }
}

// Which gradients the caller asked for: the place (entry, output) of each input.
class Targets {
 public:
  Targets(std::span<const Tensor> roots, std::span<const Tensor> inputs, bool accumulate)
      : inputs_(inputs), accumulate_(accumulate), results_(inputs.size()) {
    for (const Tensor& input : inputs) {
      TAPEGRAD_CHECK(requires_grad(input),
                     "backward: one of the differentiated Tensors does not require grad");
      edges_.push_back(gradient_edge(input));
    }
    if (!inputs.empty()) find_useful(roots);
  }

  bool restricted() const { return !inputs_.empty(); }
  // Whether a gradient sent to this entry can reach a target.
  bool is_useful(const Node* node) const { return !restricted() || useful_.contains(node); }
  bool is_target(const Node* node) const { return targets_.contains(node); }

  // Takes the finished gradients of an entry that some target is an output of.
  void collect(const Node* node, Gradients grads, bool create_graph) {
    for (size_t i = 0; i < edges_.size(); ++i) {
      if (edges_[i].node.get() != node) continue;
      const Tensor& grad = grads[edges_[i].output_number];
      if (!grad.defined()) continue;
      if (accumulate_) accumulate_leaf(inputs_[i], grad, create_graph);
      else results_[i] = grad;
    }
  }

  std::vector<Tensor> take() { return std::move(results_); }

 private:
  // Walks everything reachable, then marks from old to new: an entry is useful if it is a target or
  // leads to a useful one.
  void find_useful(std::span<const Tensor> roots) {
    for (const Edge& edge : edges_) targets_.insert(edge.node.get());
    std::vector<Node*> reachable;
    std::unordered_set<const Node*> seen;
    auto visit = [&](Node* node) {
      if (node && seen.insert(node).second) reachable.push_back(node);
    };
    for (const Tensor& root : roots) visit(gradient_edge(root).node.get());
    for (size_t i = 0; i < reachable.size(); ++i)
      for (const Edge& edge : reachable[i]->edges()) visit(edge.node.get());
    std::sort(reachable.begin(), reachable.end(),
              [](Node* a, Node* b) { return a->sequence() < b->sequence(); });
    for (Node* node : reachable) {
      bool useful = targets_.contains(node);
      for (const Edge& edge : node->edges()) useful |= useful_.contains(edge.node.get());
      if (useful) useful_.insert(node);
    }
  }

  std::span<const Tensor> inputs_;
  bool accumulate_;
  std::vector<Edge> edges_;
  std::unordered_set<const Node*> targets_;
  std::unordered_set<const Node*> useful_;
  std::vector<Tensor> results_;
};

// Runs one entry: gradients of its outputs in, gradients for its edges out into the waiting heap.
void run_entry(Pending& pending, Waiting& waiting, const Targets& targets, SweepOptions options) {
  Node& node = *pending.node;
  std::span<Edge> edges = node.edges();
  constexpr size_t kInline = 4;
  Tensor inline_grads[kInline];
  std::vector<Tensor> heap_grads(edges.size() > kInline ? edges.size() : 0);
  Gradients grad_inputs(edges.size() > kInline ? heap_grads.data() : inline_grads, edges.size());
  node.vjp(pending.buffers(), grad_inputs);
  if (!options.retain_graph) node.release_saved();
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    if (!edge.node || !grad_inputs[i].defined() || !targets.is_useful(edge.node.get())) continue;
    add_into(waiting.buffer(edge), validated(std::move(grad_inputs[i]), node, edge));
  }
}

}  // namespace

std::vector<Tensor> sweep(std::span<const Tensor> roots, std::span<const Tensor> grads,
                          std::span<const Tensor> inputs, bool accumulate, SweepOptions options) {
  Targets targets(roots, inputs, accumulate);
  GradMode mode(options.create_graph);
  Waiting waiting;
  for (size_t i = 0; i < roots.size(); ++i) {
    Edge edge = gradient_edge(roots[i]);
    if (edge.node && targets.is_useful(edge.node.get())) add_into(waiting.buffer(edge), grads[i]);
  }
  while (!waiting.empty()) {
    Pending pending = waiting.pop();
    Node& node = *pending.node;
    if (node.has_retained()) store_retained(node, pending.buffers());
    if (targets.is_target(&node)) targets.collect(&node, pending.buffers(), options.create_graph);
    if (!node.is_accumulator()) run_entry(pending, waiting, targets, options);
    else if (!targets.restricted())
      accumulate_leaf(leaf_of(node), std::move(pending.grad), options.create_graph);
  }
  return targets.take();
}

}  // namespace tapegrad
