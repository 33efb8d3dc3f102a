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

// Sends `grads` (one per root, same shape) back from `roots`.
//
// Without inputs, gradients arrive in the .grad of all leaves that are reached, and nothing is
// returned. With inputs, only the way to them is walked; then `accumulate` decides between adding
// to the inputs' .grad and returning the gradients, undefined for an input that is not reached.
std::vector<Tensor> sweep(std::span<const Tensor> roots, std::span<const Tensor> grads,
                          std::span<const Tensor> inputs, bool accumulate, SweepOptions options);

}  // namespace tapegrad
