#include "graph/accumulate.h"

#include "core/error.h"
#include "graph/record.h"
#include "graph/tape_memory.h"

namespace tapegrad {

namespace {

const EntryKind accumulate_entry("accumulate_grad", nullptr, EntryKind::Role::Graph, {},
                                 "AccumulateGrad");

class AccumulateGrad final : public Entry<accumulate_entry> {
 public:
  explicit AccumulateGrad(const Tensor& leaf) : leaf(leaf) { is_accumulator_ = true; }
  void set_innermost() { vmap_ = kInnermost; }
  ~AccumulateGrad() override {
    // The leaf may have become something else meanwhile: its own entry stays.
    if (leaf->meta() && leaf->meta()->node == this) leaf->meta()->node = nullptr;
  }
  // The sweep accumulates by itself: it knows whether the buffer may be taken over.
  void vjp(Gradients, Gradients) override {
    fail("AccumulateGrad: has no inputs to differentiate");
  }

  void visit(const Visitor& visitor) const override { visitor.tensor(leaf, visitor.state); }

  Tensor leaf;
};

}  // namespace

Ref<Node> accumulator_of(const Tensor& leaf) {
  AutogradMeta& meta = ensure_meta(leaf);
  if (meta.node) return Ref<Node>(meta.node);
  Ref<AccumulateGrad> node = Node::create<AccumulateGrad>(0, 0, std::span(&leaf, 1), leaf);
  node->stamp();
  if (meta.extra && meta.extra->takes_tangent) node->set_innermost();
  mark_leaf(leaf->storage());
  if (leaf->python_object() && holds_objects(leaf)) node->set_collected();
  meta.node = node.get();
  return node;
}

const Tensor& leaf_of(const Node& node) { return static_cast<const AccumulateGrad&>(node).leaf; }

}  // namespace tapegrad
