#include "engine/stepped_sweep.h"

#include <algorithm>

#include "core/error.h"
#include "graph/grad_mode.h"

namespace tapegrad {

namespace {

// The program looks at gradients, and sets them, in its own lane between the steps: it and that of an entry wait for
// each other. See Note [Lanes].
void hand_to_lane(Gradients grads, Lane lane) {
  if (lane == current_lane) return;
  lane_calls.order(current_lane, lane);
  for (const Tensor& grad : grads)
    if (grad.defined()) lane_calls.note_use(grad->storage(), lane);
}
void take_from_lane(Gradients grads, Lane lane) {
  if (lane == current_lane) return;
  lane_calls.order(lane, current_lane);
  for (const Tensor& grad : grads)
    if (grad.defined()) lane_calls.note_use(grad->storage(), current_lane);
}

}  // namespace

SteppedSweep::SteppedSweep(std::vector<Tensor> roots, const std::vector<Tensor>& grads)
    : roots_(std::move(roots)),
      targets_(roots_, {}, false),
      sweep_(roots_, targets_, {.retain_graph = true, .stepping = true}) {
  TAPEGRAD_CHECK(roots_.size() == grads.size(), "rewind: got ", roots_.size(), " roots and ",
                 grads.size(), " gradients");
  GradMode off(false);
  for (size_t i = 0; i < roots_.size(); ++i) {
    TAPEGRAD_CHECK(same_sizes(grads[i].sizes(), roots_[i].sizes()),
                   "rewind: expected a gradient of shape ", to_string(roots_[i].sizes()), ", got ",
                   to_string(grads[i].sizes()));
    sweep_.begin(roots_[i], grads[i]);
  }
}

Pending& SteppedSweep::current() {
  TAPEGRAD_CHECK(current_, "rewind: no entry is about to run; call next() first");
  return *current_;
}

Node* SteppedSweep::next() {
  current_.reset();
  if (sweep_.done()) return nullptr;
  current_.emplace(sweep_.next());
  return current_->node.get();
}

Gradients SteppedSweep::grads() {
  Gradients grads = current().buffers();
  take_from_lane(grads, current().node->lane());
  return grads;
}

std::vector<Tensor> SteppedSweep::run() {
  Pending& pending = current();
  Node& node = *pending.node;
  std::vector<Tensor> found(node.edges().size());
  Gradients grads = pending.buffers();
  if (std::none_of(grads.begin(), grads.end(), [](const Tensor& g) { return g.defined(); }))
    return found;
  GradMode off(false);
  RunningScope scope(sweep_);
  hand_to_lane(grads, node.lane());
  compute(pending, found);
  take_from_lane(found, node.lane());
  return found;
}

// In the entry's lane.
void SteppedSweep::compute(Pending& pending, Gradients found) {
  Node& node = *pending.node;
  const LaneScope lane(node.lane());
  sweep_.compute(pending, found);
  for (size_t i = 0; i < found.size(); ++i) {
    const Edge& edge = node.edges()[i];
    if (!edge.node) found[i] = Tensor();
    else if (found[i].defined()) found[i] = validated(std::move(found[i]), node, edge);
  }
}

void SteppedSweep::send(std::vector<Tensor> grad_inputs) {
  Node& node = *current().node;
  TAPEGRAD_CHECK(grad_inputs.size() == node.edges().size(), node.name(), ": expected ",
                 node.edges().size(), " gradients, one for each input, got ", grad_inputs.size());
  GradMode off(false);
  sweep_.send(node, grad_inputs);
}

std::vector<Node*> SteppedSweep::waiting() {
  std::vector<Node*> nodes;
  sweep_.waiting().for_each([&](const Pending& pending) { nodes.push_back(pending.node.get()); });
  std::sort(nodes.begin(), nodes.end(),
            [](const Node* a, const Node* b) { return a->sequence() > b->sequence(); });
  return nodes;
}

Tensor SteppedSweep::adjoint(const Node& node, size_t output_number) {
  TAPEGRAD_CHECK_AS(IndexError, output_number < node.output_count(), node.name(), ": has ",
                    node.output_count(), " outputs, but output ", output_number, " was asked for");
  Pending* pending = sweep_.waiting().find(&node);
  if (!pending) return {};
  const Gradients grad = pending->buffers().subspan(output_number, 1);
  take_from_lane(grad, node.lane());
  return grad[0];
}

void SteppedSweep::set_adjoint(Node& node, size_t output_number, Tensor grad) {
  TAPEGRAD_CHECK_AS(IndexError, output_number < node.output_count(), node.name(), ": has ",
                    node.output_count(), " outputs, but output ", output_number, " was asked for");
  TAPEGRAD_CHECK_AS(ValueError, !current_ || node.sequence() < current_->node->sequence(),
                    "rewind: expected an entry that is still to run, got ", node.name());
  sweep_.waiting().buffer({Ref<Node>(&node), static_cast<uint32_t>(output_number)}) =
      std::move(grad);
}

void SteppedSweep::visit(const Node::Visitor& visitor) const {
  auto show = [&](const Pending& pending) {
    visitor.node(pending.node.get(), visitor.state);
    visitor.tensor(pending.grad, visitor.state);
    for (const Tensor& grad : pending.grads) visitor.tensor(grad, visitor.state);
  };
  for (const Tensor& root : roots_) visitor.tensor(root, visitor.state);
  if (current_) show(*current_);
  sweep_.waiting().for_each(show);
}

}  // namespace tapegrad
