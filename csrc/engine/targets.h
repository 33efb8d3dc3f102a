// What a sweep is asked for: gradients of certain tensors, or of all leaves it reaches.
#pragma once

#include <span>
#include <unordered_set>
#include <vector>

#include "graph/node.h"

namespace tapegrad {

// Adds an arriving gradient to a tensor's .grad.
void accumulate_leaf(const Tensor& leaf, Tensor grad, bool create_graph);

// All entries that the roots' histories lead to.
std::unordered_set<const Node*> reachable_from(std::span<const Tensor> roots);

// Which gradients the caller asked for: the place (entry, output) of each input.
class Targets {
 public:
  Targets(std::span<const Tensor> roots, std::span<const Tensor> inputs, bool accumulate);

  bool restricted() const { return !inputs_.empty(); }
  // Whether a gradient sent to this entry can reach a target.
  bool is_useful(const Node* node) const { return !restricted() || useful_.contains(node); }
  bool is_target(const Node* node) const { return targets_.contains(node); }
  // Whether the way to a target goes on beyond this entry. An entry that only receives one does not
  // run.
  bool leads_on(const Node* node) const { return !restricted() || leading_.contains(node); }

  // Whether the caller asked for gradients in .grad: of anything, and of this tensor.
  bool accumulates() const { return accumulate_; }
  bool accumulates(const Tensor& tensor) const;

  // Takes the finished gradients of an entry that some target is an output of.
  void collect(const Node* node, Gradients grads, bool create_graph);

  std::vector<Tensor> take() { return std::move(results_); }

 private:
  // Walks everything reachable, then marks from old to new: an entry is useful if it is a target or
  // leads to a useful one.
  void find_useful(std::span<const Tensor> roots);

  std::span<const Tensor> inputs_;
  bool accumulate_;
  std::vector<Edge> edges_;
  std::unordered_set<const Node*> targets_;
  std::unordered_set<const Node*> useful_;   // targets and what leads to them
  std::unordered_set<const Node*> leading_;  // what leads to them
  std::vector<Tensor> results_;
};

}  // namespace tapegrad
