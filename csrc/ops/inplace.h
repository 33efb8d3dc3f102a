// How an op that wrote to its first operand is recorded.
#pragma once

#include <initializer_list>

#include "graph/record.h"
#include "graph/view.h"

namespace tapegrad {

// Makes an entry of type N whose edges lead to `self` as it was and to the others, and gives it to
// `self`, and to what self is a view of, as the new history. Call it after the write.
template <class N, class... Arguments>
N& record_inplace(const Tensor& self, std::initializer_list<const Tensor*> others,
                  size_t saved_count, Arguments&&... arguments) {
  Ref<N> node = Node::create<N>(1 + others.size(), saved_count, std::span(&self, 1),
                                std::forward<Arguments>(arguments)...);
  std::span<Edge> edges = node->edges();
  edges[0] = gradient_edge(self);
  size_t i = 1;
  for (const Tensor* other : others) edges[i++] = gradient_edge(*other);
  node->stamp();
  N& result = *node;
  rebase_history(self, std::move(node));
  return result;
}

}  // namespace tapegrad
