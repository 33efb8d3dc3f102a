// The reverse sweep.
//
// Entries waiting to run sit in a heap ordered by sequence number, the newest on top (waiting.h). Each
// waits with one buffer per output in which its incoming gradient adds up. Since every edge leads to an
// older entry, an entry that comes to the top can receive nothing more: it runs, its gradients are
// validated against what its edges expect, and are added to the buffers of older entries.
//
// Start reading at sweep(), at the end of this file, which does that until nothing waits. SteppedSweep
// (stepped_sweep.h) takes the same steps one at a time, for a debugger. Listeners are notified of sweeps
// and of the entries that run (events.h).
//
// Invariants
// - A buffer is written in place only if the sweep made it and is its only owner (add_into).
//   A gradient that arrived from elsewhere, or was handed to two entries, is never written to.
// - An undefined gradient stands for zero and is never made into zeros unless an op needs it.
// - The sweep holds its state on its own stack frame: sweeps may nest (a hook may call backward) and
//   run on several threads at once.
#include "engine/sweep.h"

#include <algorithm>
#include <unordered_set>

#include "core/error.h"
#include "core/parallel.h"
#include "core/sparse.h"
#include "engine/anomaly.h"
#include "engine/events.h"
#include "graph/accumulate.h"
#include "graph/record.h"
#include "intercept/batch.h"
#include "ops/batch.h"
#include "ops/complex.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

// See Note [Dtypes of gradients].
void widen(Tensor& a, Tensor& b, DType dtype) {
  for (DType each : {a.dtype(), b.dtype()})
    if (itemsize(each) > itemsize(dtype)) dtype = each;
  a = cast(a, dtype);
  b = cast(b, dtype);
}

// sum += term, in place where that is safe. `sum` may be undefined. They are gradients for an edge.
void add_into(Tensor& sum, Tensor term, const Edge& edge) {
  if (!sum.defined()) {
    sum = std::move(term);
    return;
  }
  // Batches or sparse tensors: one test of what is intercepted.
  const bool special = intercepted_everywhere & (bit(Interceptor::Vmap) | kSparseTensors);
  if (special && (is_sparse(*sum.impl()) || is_sparse(*term.impl()))) {
    sum = sparse_calls.add(sum, term);
    return;
  }
  const DType dtype = edge.node->output_dtype(edge.output_number);
  if (sum.dtype() != dtype || term.dtype() != dtype) [[unlikely]]
    widen(sum, term, dtype);
  bool plain = !is_differentiating() && !(special && batched_storages) &&
               sum.dtype() == term.dtype() && same_sizes(sum.sizes(), term.sizes());
  if (plain && is_sole_owner(sum)) {
    add_to_own(sum, term);
  } else if (plain && is_sole_owner(term)) {
    add_to_own(term, sum);
    sum = std::move(term);
  } else {
    sum = add(sum, term);
  }
}

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

// Whether hooks run before or after the entry does.
bool is_observed(const Node& node) {
  const NodeHooks* hooks = find_hooks(node);
  return hooks && (hooks->before || hooks->after);
}

// Computing with everything that is rare.
void compute_watched(Node& node, Gradients grads, Gradients grad_inputs, bool stepping) {
  Notification notification;
  if (sweep_watch & kWatchListeners) notification.entry_runs(node);
  if (sparse_tensors && node.kind().role != EntryKind::Role::Custom) {
    // The derivatives of ops know dense gradients.
    for (Tensor& grad : grads)
      if (grad.defined() && is_sparse(*grad.impl())) grad = sparse_calls.to_dense(grad);
  }
  // What it makes belongs to the vmap in which the entry was recorded.
  VmapScope scope(std::max(node.vmap(), storage_context.vmap));
  if (stepping) return annotated(node, [&] { run_vjp(node, grads, grad_inputs); });
  NodeHooks* hooks = find_hooks(node);
  if (hooks && hooks->before)
    annotated(node, [&] { HookList::calls.before(hooks->before.object(), grads); });
  // A hook that runs afterwards sees what came in, but an entry may use its memory up.
  std::vector<Tensor> before(grads.begin(), grads.end());
  annotated(node, [&] { run_vjp(node, grads, grad_inputs); });
  if (anomaly.enabled && anomaly.check_nan) check_gradients(node, grad_inputs);
  hooks = find_hooks(node);
  if (hooks && hooks->after)
    annotated(node, [&] { HookList::calls.after(hooks->after.object(), grad_inputs, before); });
}

// What an entry has saved may be the memory of another lane, and its last owner the tape.
void note_saved_use(const Node& node) {
  for (const SavedValue& value : node.saved_values())
    value.with_stored([&](const Tensor& x) { lane_calls.note_use(x->storage(), node.lane()); });
}

// A leaf's gradient has arrived.
void run_accumulator(Pending& pending, bool create_graph, Lane caller) {
  Node& node = *pending.node;
  NodeHooks* hooks = find_hooks(node);
  if (hooks && hooks->before) HookList::calls.before(hooks->before.object(), pending.buffers());
  if (!pending.grad.defined()) return;
  Notification notification;
  if (sweep_watch & kWatchListeners) [[unlikely]]
    notification.entry_runs(node);
  Tensor leaf = leaf_of(node);
  if (!requires_grad(leaf)) return;  // it was switched off after the op was recorded
  // A hook that runs afterwards sees what came in.
  Tensor arrived = hooks && hooks->after ? pending.grad : Tensor();
  accumulate_leaf(leaf, std::move(pending.grad), create_graph);
  if (lanes_in_use && leaf->meta()->grad.defined()) [[unlikely]]
    lane_calls.note_use(leaf->meta()->grad->storage(), caller);
  if (const AutogradExtras* extra = leaf->meta()->extra; extra && extra->accumulate_hooks)
    HookList::calls.notify(extra->accumulate_hooks.object(), leaf);
  hooks = find_hooks(node);
  if (hooks && hooks->after) HookList::calls.after(hooks->after.object(), {}, {&arrived, 1});
}

thread_local RunningScope* running = nullptr;
uint64_t last_sweep = 0;

}  // namespace

uint64_t sweeps_begun() { return last_sweep; }

Tensor take_from_running(const Node& node, size_t input);
static const bool kTakesWaiting = (take_waiting = take_from_running, true);

Sweep::Sweep(std::span<const Tensor> roots, Targets& targets, SweepOptions options)
    : roots_(roots),
      targets_(targets),
      options_(options),
      line_(SourceLine::here()),
      number_(++last_sweep),
      leaf_uses_(options.stepping ? nullptr : LeafUses::wanted(roots)) {}

void Sweep::begin(const Tensor& root, Tensor grad) {
  Edge edge = real_edge(root);
  if (!edge.node || !targets_.is_useful(edge.node.get())) return;
  if (lanes_in_use) [[unlikely]]
    send_across(edge, std::move(grad), lane_);
  else add_into(waiting_.buffer(edge), std::move(grad), edge);
}

[[gnu::always_inline]] inline void Sweep::compute_here(Pending& pending, Gradients grad_inputs) {
  Node& node = *pending.node;
  computing_ = &node;
  UnwantedScope scope(node, targets_);
  constexpr uint32_t kSpecial = bit(Interceptor::Vmap) | kSparseTensors;
  if (node.has_hooks() || sweep_watch || (intercepted_everywhere & kSpecial)) [[unlikely]]
    compute_watched(node, pending.buffers(), grad_inputs, options_.stepping);
  else annotated(node, [&] { run_vjp(node, pending.buffers(), grad_inputs); });
}

[[gnu::always_inline]] inline void Sweep::send_here(Node& node, Gradients grad_inputs) {
  std::span<Edge> edges = node.edges();
  const bool casts = options_.stepping || is_differentiating() || batched_storages;
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    if (!edge.node || !grad_inputs[i].defined() || !targets_.is_useful(edge.node.get())) continue;
    Tensor grad = validated(std::move(grad_inputs[i]), node, edge, casts);
    if (lanes_in_use) [[unlikely]]
      send_across(edge, std::move(grad), current_lane);
    else add_into(waiting_.buffer(edge), std::move(grad), edge);
  }
}

// Sends a gradient that was computed in a lane, the current one, to an entry that may be of another one. It is added
// up there. What others hold as well is copied on the way: the last owner of a gradient may write to it, which in
// another lane could happen before they have read it.
void Sweep::send_across(const Edge& edge, Tensor grad, Lane from) {
  const Lane to = lane_of(*edge.node);
  if (from != to) {
    if (!is_differentiating() && !is_sole_owner(grad)) grad = clone(grad);
    lane_calls.order(from, to);
    lane_calls.note_use(grad->storage(), to);
  }
  if (to != lane_ && std::find(other_lanes_.begin(), other_lanes_.end(), to) == other_lanes_.end())
    other_lanes_.push_back(to);
  const LaneScope scope(to);
  add_into(waiting_.buffer(edge), std::move(grad), edge);
}

void Sweep::join_lanes() {
  for (const Lane lane : other_lanes_) lane_calls.order(lane, lane_);
  other_lanes_.clear();
}

// Gradients of the entry's outputs in, gradients for its edges out into the waiting heap.
[[gnu::always_inline]] inline void Sweep::run_entry(Pending& pending) {
  Node& node = *pending.node;
  const size_t count = node.edges().size();
  constexpr size_t kInline = 4;
  Tensor inline_grads[kInline];
  std::vector<Tensor> heap_grads(count > kInline ? count : 0);
  Gradients grad_inputs(count > kInline ? heap_grads.data() : inline_grads, count);
  compute_here(pending, grad_inputs);
  if (lanes_in_use) [[unlikely]]
    note_saved_use(node);
  if (!options_.retain_graph) node.release_saved(line_);
  send_here(node, grad_inputs);
  computing_ = nullptr;
  if (leaf_uses_) [[unlikely]]
    run_ready_leaves(node);
}

void Sweep::run_ready_leaves(Node& node) {
  for (const Edge& edge : node.edges()) {
    if (!edge.node || !edge.node->is_accumulator() || !leaf_uses_->is_last(edge.node.get()))
      continue;
    if (!waiting_.find(edge.node.get())) continue;
    Pending leaf = waiting_.take(edge.node.get());
    if (lanes_in_use) run_in_lane(leaf);
    else run(leaf);
  }
}

void Sweep::put_into_own_dtypes(Pending& pending) {
  const Node& node = *pending.node;
  if (!node.has_hooks() && !targets_.is_target(&node)) return;
  const Gradients grads = pending.buffers();
  for (size_t i = 0; i < grads.size(); ++i)
    if (grads[i].defined()) grads[i] = cast(grads[i], node.output_dtype(i));
}

Tensor Sweep::give_waiting(const Node& node, size_t input) {
  if (computing_ != &node || options_.stepping || options_.transposing) return {};
  const Edge& edge = node.edges()[input];
  // What waits is added up in the lane of the entry that it waits for.
  if (lanes_in_use && edge.node && lane_of(*edge.node) != current_lane) return {};
  Pending* const pending = waiting_.find(edge.node.get());
  if (!pending) return {};
  Tensor& sum = pending->buffers()[edge.output_number];
  const bool is_usable = sum.defined() && is_sole_owner(sum) && sum.is_contiguous() &&
                         sum.dtype() == edge.node->output_dtype(edge.output_number);
  return is_usable ? std::exchange(sum, Tensor()) : Tensor();
}

Tensor take_from_running(const Node& node, size_t input) {
  // Whether somebody looks at what the entry gives.
  const bool is_seen = node.has_hooks() || (sweep_watch & kWatchAnomaly);
  if (!running || is_seen || is_differentiating() || batched_storages) return {};
  return running->sweep_.give_waiting(node, input);
}

[[gnu::always_inline]] inline void Sweep::run(Pending& pending) {
  Node& node = *pending.node;
  if (node.takes_other_dtypes()) [[unlikely]]
    put_into_own_dtypes(pending);
  if (node.has_hooks() || node.is_accumulator())
    annotated(node, [&] { run_tensor_hooks(node, pending.buffers()); });
  if (node.has_hooks()) store_retained(node, pending.buffers(), targets_, options_.create_graph);
  const bool is_target = targets_.is_target(&node);
  const bool accumulates = is_target && targets_.accumulates();
  if (node.is_accumulator() && (accumulates || !targets_.restricted()))
    return annotated(node, [&] { run_accumulator(pending, options_.create_graph, lane_); });
  if (is_target) targets_.collect(&node, pending.buffers(), options_.create_graph);
  if (node.is_accumulator()) return;
  // The hooks of an entry whose output is given a .grad run, although its gradients lead nowhere.
  if (targets_.leads_on(&node) || (accumulates && is_observed(node))) run_entry(pending);
}

void Sweep::run_in_lane(Pending& pending) {
  const LaneScope lane(lane_of(*pending.node));
  run(pending);
}

void Sweep::compute(Pending& pending, Gradients grad_inputs) {
  compute_here(pending, grad_inputs);
  computing_ = nullptr;
  if (lanes_in_use) note_saved_use(*pending.node);
}
void Sweep::send(Node& node, Gradients grad_inputs) { send_here(node, grad_inputs); }

RunningScope::RunningScope(Sweep& sweep)
    : sweep_(sweep),
      number_(sweep.number()),
      roots_(sweep.roots()),
      targets_(&sweep.targets()),
      outer_(std::exchange(running, this)),
      autocast_(std::exchange(autocast_devices, 0)) {
  ++sweeps_running;
}
RunningScope::~RunningScope() {
  running = outer_;
  autocast_devices = autocast_;
  --sweeps_running;
}

uint64_t current_sweep() {
  TAPEGRAD_CHECK(running, "autograd: expected to be called from a hook while backward runs");
  return running->number_;
}

std::string line_of_running_entry() {
  const Node* const entry = running ? running->sweep_.computing() : nullptr;
  return entry ? entry->line() : std::string();
}

std::vector<bool> will_reach(std::span<Node* const> nodes) {
  TAPEGRAD_CHECK(running, "autograd: expected to be called from a hook while backward runs");
  std::unordered_set<const Node*> reached = reachable_from(running->roots_);
  std::vector<bool> result;
  for (Node* node : nodes)
    result.push_back(reached.contains(node) && running->targets_->is_useful(node));
  return result;
}

Tensor validated(Tensor grad, const Node& consumer, const Edge& edge, bool casts) {
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
  if (grad.dtype() != dtype &&
      (casts || !producer.takes_gradient(grad.dtype(), edge.output_number, consumer)))
    grad = cast(grad, dtype);
  if (device_storages) grad = to_device(grad, producer.output_device(edge.output_number));
  return grad;
}

std::vector<Tensor> run_alone(Node& node, std::vector<Tensor> grads) {
  TAPEGRAD_CHECK_AS(TypeError, grads.size() == node.output_count(), node.name(), ": expected ",
                    node.output_count(), " arguments, a gradient for each output, got ",
                    grads.size(), " instead");
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
  annotated(node, [&] { run_vjp(node, grads, grad_inputs); });
  for (size_t i = 0; i < edges.size(); ++i) {
    if (!edges[i].node) grad_inputs[i] = Tensor();
    else if (grad_inputs[i].defined())
      grad_inputs[i] = validated(std::move(grad_inputs[i]), node, edges[i]);
  }
  return grad_inputs;
}

static std::vector<Tensor> run_to_end(std::span<const Tensor> roots, std::span<const Tensor> grads,
                                      std::span<const Tensor> inputs, bool accumulate,
                                      SweepOptions options) {
  if (is_intercepted_here(Interceptor::Tangents)) resolve_pending();
  Targets targets(roots, inputs, accumulate);
  GradMode mode(options.create_graph);
  Sweep sweep(roots, targets, options);
  RunningScope scope(sweep);
  for (size_t i = 0; i < roots.size(); ++i) sweep.begin(roots[i], grads[i]);
  try {
    while (!sweep.done()) {
      Pending pending = sweep.next();
      if (lanes_in_use) [[unlikely]]
        sweep.run_in_lane(pending);
      else sweep.run(pending);
    }
  } catch (...) {
    sweep.join_lanes();
    throw;
  }
  sweep.join_lanes();
  std::vector<Tensor> found = targets.take();
  if (lanes_in_use) [[unlikely]]
    for (const Tensor& grad : found)
      if (grad.defined()) lane_calls.note_use(grad->storage(), current_lane);
  return found;
}

static std::vector<Tensor> run_and_call(std::span<const Tensor> roots,
                                        std::span<const Tensor> grads,
                                        std::span<const Tensor> inputs, bool accumulate,
                                        SweepOptions options) {
  try {
    std::vector<Tensor> result = run_to_end(roots, grads, inputs, accumulate, options);
    if (calls_wait_for_sweeps() && !running) [[unlikely]]
      run_calls_after_sweeps();
    return result;
  } catch (...) {
    if (!running) drop_calls_after_sweeps();
    throw;
  }
}

std::vector<Tensor> sweep(std::span<const Tensor> roots, std::span<const Tensor> grads,
                          std::span<const Tensor> inputs, bool accumulate, SweepOptions options) {
  if (!(sweep_watch & kWatchListeners)) [[likely]]
    return run_and_call(roots, grads, inputs, accumulate, options);
  Notification notification;
  try {
    notification.sweep_begins(
        {roots, options.retain_graph, sweeps_running > 0, options.transposing});
    std::vector<Tensor> result = run_and_call(roots, grads, inputs, accumulate, options);
    notification.finish();
    return result;
  } catch (...) {
    notification.finish();
    throw;
  }
}

}  // namespace tapegrad
