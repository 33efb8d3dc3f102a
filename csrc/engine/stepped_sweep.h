// A sweep that stops before and after every entry, so that gradients can be inspected and replaced:
// tapegrad/tape/sweeping.py. The graph is retained, no hooks run, and leaves get no gradient.
#pragma once

#include <optional>
#include <vector>

#include "engine/sweep.h"

namespace tapegrad {

class SteppedSweep {
 public:
  SteppedSweep(std::vector<Tensor> roots, const std::vector<Tensor>& grads);

  // Goes on to the next entry, and returns it: null when all have run.
  Node* next();
  // The gradients of its outputs. They are all there, and others may be put in their place.
  Gradients grads();
  // Runs it: the gradients for its edges, undefined where none is wanted.
  std::vector<Tensor> run();
  // Sends these on instead, or the same.
  void send(std::vector<Tensor> grad_inputs);

  // The entries for which gradients have arrived, the next to run first.
  std::vector<Node*> waiting();
  // What has arrived for an output of an entry; undefined if nothing has.
  Tensor adjoint(const Node& node, size_t output_number);
  // Replaces it; the entry waits from then on. It must be older than the current one.
  void set_adjoint(Node& node, size_t output_number, Tensor grad);

  // Shows the collector of cycles what it holds.
  void visit(const Node::Visitor& visitor) const;

 private:
  Pending& current();
  void compute(Pending& pending, Gradients found);

  std::vector<Tensor> roots_;
  Targets targets_;
  Sweep sweep_;
  std::optional<Pending> current_;
};

}  // namespace tapegrad
