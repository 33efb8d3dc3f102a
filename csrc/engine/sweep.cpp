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
#include "engine/anomaly.h"
#include "engine/targets.h"
#include "graph/accumulate.h"
#include "graph/record.h"
#include "intercept/batch.h"
#include "intercept/profile.h"
#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

// sum += term, in place where that is safe. `sum` may be undefined.
void add_into(Tensor& sum, Tensor term) {
  if (!sum.defined()) {
    sum = std::move(term);
    return;
  }
  bool plain = !is_differentiating() && !batched_storages && sum.dtype() == term.dtype() &&
               same_sizes(sum.sizes(), term.sizes());
  if (plain && is_sole_owner(sum)) {
    add_to_own(sum, term);
  } else if (plain && is_sole_owner(term)) {
    add_to_own(term, sum);
    sum = std::move(term);
  } else {
    sum = add(sum, term);
  }
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

struct Sweep {
  bool retain_graph;
  bool create_graph;
  SourceLine line;  // where the sweep was started
};

// Runs something on behalf of an entry: an exception says which.
template <class Body>
void annotated(const Node& node, Body&& body) {
  try {
    body();
  } catch (...) {
    if (annotate_error) annotate_error(node);
    throw;
  }
}

// The same with everything that is rare.
void run_watched(Node& node, Gradients grads, Gradients grad_inputs) {
  const ProfileScope profiled(node.name(), Profile::Kind::Backward, node.sequence());
  // What it makes belongs to the vmap in which the entry was recorded.
  VmapScope scope(std::max(node.vmap(), storage_context.vmap));
  NodeHooks* hooks = find_hooks(node);
  if (hooks && hooks->before)
    annotated(node, [&] { HookList::calls.before(hooks->before.object(), grads); });
  // A hook that runs afterwards sees what came in, but an entry may use its memory up.
  std::vector<Tensor> before(grads.begin(), grads.end());
  annotated(node, [&] { node.vjp(grads, grad_inputs); });
  if (anomaly.enabled && anomaly.check_nan) check_gradients(node, grad_inputs);
  hooks = find_hooks(node);
  if (hooks && hooks->after)
    annotated(node, [&] { HookList::calls.after(hooks->after.object(), grad_inputs, before); });
}

// While it lives, an entry computes only the gradients that lead to a target.
class UnwantedScope {
 public:
  UnwantedScope(const Node& node, const Targets& targets) : before_(unwanted) {
    if (!targets.restricted()) return;
    unwanted = {&node, 0};
    std::span<const Edge> edges = node.edges();
    for (size_t i = 0; i < std::min<size_t>(edges.size(), 64); ++i)
      if (edges[i].node && !targets.is_useful(edges[i].node.get()))
        unwanted.inputs |= uint64_t{1} << i;
  }
  ~UnwantedScope() { unwanted = before_; }
  UnwantedScope(const UnwantedScope&) = delete;
  UnwantedScope& operator=(const UnwantedScope&) = delete;

 private:
  Unwanted before_;
};

// Runs one entry: gradients of its outputs in, gradients for its edges out into the waiting heap.
void run_entry(Pending& pending, Waiting& waiting, const Targets& targets, const Sweep& options) {
  Node& node = *pending.node;
  std::span<Edge> edges = node.edges();
  constexpr size_t kInline = 4;
  Tensor inline_grads[kInline];
  std::vector<Tensor> heap_grads(edges.size() > kInline ? edges.size() : 0);
  Gradients grad_inputs(edges.size() > kInline ? heap_grads.data() : inline_grads, edges.size());
  UnwantedScope scope(node, targets);
  const bool profiled = is_intercepted_here(Interceptor::Profile);
  if (node.has_hooks() || anomaly.enabled || batched_storages || profiled) [[unlikely]]
    run_watched(node, pending.buffers(), grad_inputs);
  else annotated(node, [&] { node.vjp(pending.buffers(), grad_inputs); });
  if (!options.retain_graph) node.release_saved(options.line);
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    if (!edge.node || !grad_inputs[i].defined() || !targets.is_useful(edge.node.get())) continue;
    add_into(waiting.buffer(edge), validated(std::move(grad_inputs[i]), node, edge));
  }
}

// Adds to the .grad of non-leaf tensors that asked to keep it.
void store_retained(Node& node, Gradients grads, const Targets& targets, bool create_graph) {
  const NodeHooks* hooks = find_hooks(node);
  if (!hooks) return;
  std::vector<NodeHooks::Retained> retained = hooks->retained;
  for (const NodeHooks::Retained& entry : retained) {
    Tensor tensor(entry.tensor);
    const Tensor& grad = grads[entry.output_number];
    if (grad.defined() && !targets.accumulates(tensor)) accumulate_leaf(tensor, grad, create_graph);
  }
}

// A leaf's gradient has arrived.
void run_accumulator(Pending& pending, bool create_graph) {
  Node& node = *pending.node;
  NodeHooks* hooks = find_hooks(node);
  if (hooks && hooks->before) HookList::calls.before(hooks->before.object(), pending.buffers());
  if (!pending.grad.defined()) return;
  const ProfileScope profiled("AccumulateGrad", Profile::Kind::Backward, node.sequence());
  Tensor leaf = leaf_of(node);
  if (!requires_grad(leaf)) return;  // it was switched off after the op was recorded
  accumulate_leaf(leaf, std::move(pending.grad), create_graph);
  if (const AutogradExtras* extra = leaf->meta()->extra; extra && extra->accumulate_hooks)
    HookList::calls.notify(extra->accumulate_hooks.object(), leaf);
  hooks = find_hooks(node);
  if (hooks && hooks->after) HookList::calls.after(hooks->after.object(), {}, pending.buffers());
}

// What hooks may ask about the sweep that calls them.
struct Running {
  uint64_t number;
  std::span<const Tensor> roots;
  const Targets* targets;
  Running* outer;
};
thread_local Running* running = nullptr;
uint64_t last_sweep = 0;

class RunningScope {
 public:
  RunningScope(std::span<const Tensor> roots, const Targets& targets)
      : state_{++last_sweep, roots, &targets, running}, profile_(profiling) {
    running = &state_;
    ++sweeps_running;
    if (profile_) profile_->enter_sweep();
  }
  ~RunningScope() {
    running = state_.outer;
    --sweeps_running;
    if (profile_ && profile_ == profiling) profile_->leave_sweep();
  }
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;

 private:
  Running state_;
  Profile* profile_;
};

}  // namespace

uint64_t current_sweep() {
  TAPEGRAD_CHECK(running, "autograd: expected to be called from a hook while backward runs");
  return running->number;
}

std::vector<bool> will_reach(std::span<Node* const> nodes) {
  TAPEGRAD_CHECK(running, "autograd: expected to be called from a hook while backward runs");
  std::unordered_set<const Node*> reached = reachable_from(running->roots);
  std::vector<bool> result;
  for (Node* node : nodes)
    result.push_back(reached.contains(node) && running->targets->is_useful(node));
  return result;
}

Tensor validated(Tensor grad, const Node& consumer, const Edge& edge) {
  const Node& producer = *edge.node;
  if (is_batched(grad)) [[unlikely]]
    grad = sum_finished_batches(grad, producer);
  Sizes sizes = producer.output_sizes(edge.output_number);
  DType dtype = producer.output_dtype(edge.output_number);
  if (!same_sizes(grad.sizes(), sizes)) {
    TAPEGRAD_CHECK(can_expand(sizes, grad.sizes()), consumer.name(),
                   ": returned a gradient of shape ", to_string(grad.sizes()),
                   " for a value of shape ", to_string(sizes), "; recorded at ", consumer.line());
    grad = sum_to_size(grad, sizes);
  }
  if (grad.dtype() != dtype) grad = cast(grad, dtype);
  if (device_storages) grad = to_device(grad, producer.output_device(edge.output_number));
  return grad;
}

std::vector<Tensor> run_alone(Node& node, std::vector<Tensor> grads) {
  TAPEGRAD_CHECK(grads.size() == node.output_count(), node.name(), ": expected ",
                 node.output_count(), " gradients, one for each output, got ", grads.size());
  bool any = false;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) continue;
    any = true;
    TAPEGRAD_CHECK(can_expand(grads[i].sizes(), node.output_sizes(i)), node.name(),
                   ": expected a gradient of shape ", to_string(node.output_sizes(i)), ", got ",
                   to_string(grads[i].sizes()));
    grads[i] = cast(expand(grads[i], node.output_sizes(i)), node.output_dtype(i));
  }
  std::span<Edge> edges = node.edges();
  std::vector<Tensor> grad_inputs(edges.size());
  if (!any) return grad_inputs;
  if (node.is_accumulator()) {
    accumulate_leaf(leaf_of(node), std::move(grads[0]), grad_enabled);
    return grad_inputs;
  }
  annotated(node, [&] { node.vjp(grads, grad_inputs); });
  for (size_t i = 0; i < edges.size(); ++i) {
    if (!edges[i].node) grad_inputs[i] = Tensor();
    else if (grad_inputs[i].defined())
      grad_inputs[i] = validated(std::move(grad_inputs[i]), node, edges[i]);
  }
  return grad_inputs;
}

std::vector<Tensor> sweep(std::span<const Tensor> roots, std::span<const Tensor> grads,
                          std::span<const Tensor> inputs, bool accumulate, SweepOptions options) {
  if (is_intercepted_here(Interceptor::Tangents)) resolve_pending();
  Targets targets(roots, inputs, accumulate);
  GradMode mode(options.create_graph);
  RunningScope scope(roots, targets);
  Sweep state{options.retain_graph, options.create_graph, SourceLine::here()};
  Waiting waiting;
  for (size_t i = 0; i < roots.size(); ++i) {
    Edge edge = real_edge(roots[i]);
    if (edge.node && targets.is_useful(edge.node.get())) add_into(waiting.buffer(edge), grads[i]);
  }
  while (!waiting.empty()) {
    Pending pending = waiting.pop();
    Node& node = *pending.node;
    if (node.has_hooks() || node.is_accumulator())
      annotated(node, [&] { run_tensor_hooks(node, pending.buffers()); });
    if (node.has_hooks()) store_retained(node, pending.buffers(), targets, options.create_graph);
    if (targets.is_target(&node)) targets.collect(&node, pending.buffers(), options.create_graph);
    if (node.is_accumulator()) {
      if (!targets.restricted())
        annotated(node, [&] { run_accumulator(pending, options.create_graph); });
    } else if (targets.leads_on(&node)) {
      run_entry(pending, waiting, targets, state);
    }
  }
  return targets.take();
}

}  // namespace tapegrad
