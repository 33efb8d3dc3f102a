#include "engine/leaf_uses.h"

#include "graph/record.h"

namespace tapegrad {

LeafUses::LeafUses(std::span<const Tensor> roots) {
  for (const Node* node : reachable_from(roots))
    for (const Edge& edge : node->edges())
      if (edge.node && edge.node->is_accumulator()) ++left_[edge.node.get()];
  // What is sent to a root comes from no entry: it is not counted.
  for (const Tensor& root : roots) left_.erase(real_edge(root).node.get());
}

bool LeafUses::is_last(const Node* leaf) {
  auto found = left_.find(leaf);
  return found != left_.end() && --found->second == 0;
}

}  // namespace tapegrad
