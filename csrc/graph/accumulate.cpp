#include "graph/accumulate.h"

#include "core/error.h"
#include "graph/record.h"

namespace tapegrad {

namespace {

class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf) : leaf(leaf) { is_accumulator_ = true; }
  ~AccumulateGrad() override { leaf->meta()->node = nullptr; }
  const char* name() const override { return "AccumulateGrad"; }
  // The sweep accumulates by itself: it knows whether the buffer may be taken over.
  void vjp(Gradients, Gradients) override {
    fail("AccumulateGrad: has no inputs to differentiate");
  }

  Tensor leaf;
};

}  // namespace

Ref<Node> accumulator_of(const Tensor& leaf) {
  AutogradMeta& meta = ensure_meta(leaf);
  if (meta.node) return Ref<Node>(meta.node);
  Ref<AccumulateGrad> node = Node::create<AccumulateGrad>(0, 0, std::span(&leaf, 1), leaf);
  node->stamp();
  meta.node = node.get();
  return node;
}

const Tensor& leaf_of(const Node& node) { return static_cast<const AccumulateGrad&>(node).leaf; }

}  // namespace tapegrad
