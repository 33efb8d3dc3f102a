// The reverse sweep: from outputs to gradients.
#pragma once

#include <span>
#include <vector>

#include "engine/leaf_uses.h"
#include "engine/targets.h"
#include "engine/waiting.h"
#include "graph/autocast.h"
#include "graph/node.h"

namespace tapegrad {

struct SweepOptions {
  bool retain_graph = false;  // keep saved values for another sweep
  bool create_graph = false;  // record the sweep itself, for higher-order gradients
  bool transposing = false;   // it computes a tangent (graph/forward.h), and is no user's backward
  bool stepping = false;      // for SteppedSweep: no hooks run, and leaves get no gradient
};

// A sweep that is under way: sweep() below runs one to its end, SteppedSweep an entry at a time.
class Sweep {
 public:
  // What is passed must outlive it.
  Sweep(std::span<const Tensor> roots, Targets& targets, SweepOptions options);
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  // Sends a gradient to where a root comes from.
  void begin(const Tensor& root, Tensor grad);
  // Whether all entries have run.
  bool done() const { return waiting_.empty(); }
  // The newest entry that waits: nothing more can arrive for it.
  Pending next() { return waiting_.pop(); }
  // Everything that a sweep does with an entry: hooks, targets, computing its gradients, sending them on.
  void run(Pending& pending);
  // The same in the entry's lane: see Note [Lanes].
  void run_in_lane(Pending& pending);

  // The two halves of running an entry that is no leaf's: computing the gradients for its edges...
  void compute(Pending& pending, Gradients grad_inputs);
  // ... and adding them to what waits for the entries there.
  void send(Node& node, Gradients grad_inputs);

  Waiting& waiting() { return waiting_; }
  const Waiting& waiting() const { return waiting_; }
  std::span<const Tensor> roots() const { return roots_; }
  const Targets& targets() const { return targets_; }
  // What waits for an edge of the entry that is running, if it may be added to in place: see take_waiting.
  Tensor give_waiting(const Node& node, size_t input);
  // Makes the caller's lane wait for what was put into others, whose results it may use: see Note [Lanes].
  void join_lanes();
  uint64_t number() const { return number_; }
  const Node* computing() const { return computing_; }

 private:
  // On the path of every entry: parts of run() in sweep.cpp, where compute() and send() call them, too.
  void compute_here(Pending& pending, Gradients grad_inputs);
  void send_here(Node& node, Gradients grad_inputs);
  void run_entry(Pending& pending);
  void send_across(const Edge& edge, Tensor grad, Lane from);
  [[gnu::noinline, gnu::cold]] void run_ready_leaves(Node& node);
  // Before somebody looks: see Note [Dtypes of gradients].
  void put_into_own_dtypes(Pending& pending);
  // Where an entry runs: see Note [Lanes].
  Lane lane_of(const Node& node) const {
    return lanes_are_captured && node.is_accumulator() ? lane_ : node.lane();
  }

  std::span<const Tensor> roots_;
  Targets& targets_;
  SweepOptions options_;
  SourceLine line_;  // where it was started
  uint64_t number_;
  Waiting waiting_;
  std::unique_ptr<LeafUses> leaf_uses_;  // null unless leaves run early
  const Node* computing_ = nullptr;      // the entry that runs, from computing to sending, or null
  Lane lane_ = current_lane;             // the caller's
  std::vector<Lane> other_lanes_;        // in which entries have run
};

// While it lives, a sweep is the one that runs on this thread. Derivatives take operands as they are.
class RunningScope {
 public:
  explicit RunningScope(Sweep& sweep);
  ~RunningScope();
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;

 private:
  friend uint64_t current_sweep();
  friend std::vector<bool> will_reach(std::span<Node* const> nodes);
  friend Tensor take_from_running(const Node& node, size_t input);
  friend std::string line_of_running_entry();

  Sweep& sweep_;
  uint64_t number_;
  std::span<const Tensor> roots_;
  const Targets* targets_;
  RunningScope* outer_;
  uint8_t autocast_;
};

// How many sweeps have begun, on any thread.
uint64_t sweeps_begun();

// Set by the binding layer: adds to the exception being handled which entry it came from.
inline void (*annotate_error)(const Node& node) = nullptr;

// The sweep that runs on this thread, for hooks that ask: its number, and which of some entries it
// will come to.
uint64_t current_sweep();
std::vector<bool> will_reach(std::span<Node* const> nodes);
// The source line that recorded the entry which runs on this thread now, or an empty string.
std::string line_of_running_entry();

// A gradient must have the shape and dtype of the value it belongs to. Broadcast dimensions are
// summed away, and so are batches of a vmap that the value knows nothing of; dtypes are cast, those that
// the entry takes as they are only where `casts` is set. Anything else is an error of the op that made it.
Tensor validated(Tensor grad, const Node& consumer, const Edge& edge, bool casts = true);

// Runs one entry by itself: the gradients of its inputs for those of its outputs, undefined where there
// is none. No hooks, and nothing is released. At a leaf's entry the gradient is accumulated.
std::vector<Tensor> run_alone(Node& node, std::vector<Tensor> grads);

// Sends `grads` (one per root, same shape) back from `roots`.
//
// Without inputs, gradients arrive in the .grad of all leaves that are reached, and nothing is
// returned. With inputs, only the way to them is walked; then `accumulate` decides between adding
// to the inputs' .grad and returning the gradients, undefined for an input that is not reached.
std::vector<Tensor> sweep(std::span<const Tensor> roots, std::span<const Tensor> grads,
                          std::span<const Tensor> inputs, bool accumulate, SweepOptions options);

}  // namespace tapegrad
