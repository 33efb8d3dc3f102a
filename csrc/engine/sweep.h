// The reverse sweep: from outputs to gradients.
#pragma once

#include <span>
#include <vector>

#include "graph/node.h"

namespace tapegrad {

struct SweepOptions {
  bool retain_graph = false;  // keep saved values for another sweep
  bool create_graph = false;  // record the sweep itself, for higher-order gradients
};

// Set by the binding layer: adds to the exception being handled which entry it came from.
inline void (*annotate_error)(const Node& node) = nullptr;

// The sweep that runs on this thread, for hooks that ask: its number, and which of some entries it
// will come to.
uint64_t current_sweep();
std::vector<bool> will_reach(std::span<Node* const> nodes);

// A gradient must have the shape and dtype of the value it belongs to. Broadcast dimensions are
// summed away, and so are batches of a vmap that the value knows nothing of; dtypes are cast.
// Anything else is an error of the op that made it.
Tensor validated(Tensor grad, const Node& consumer, const Edge& edge);

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
