// Non-leaf tensors that asked to keep their gradient: retain_grad().
//
// An entry has no room for such rarities, so they live in a table beside it, and the entry only
// knows that there is something to look up.
#pragma once

#include "graph/node.h"

namespace tapegrad {

void retain_grad(const Tensor& tensor);
// Stores the finished gradients of an entry in the tensors that asked for them.
void store_retained(const Node& node, Gradients grads);

// For the graph's own bookkeeping: the tensor's history changes, or the tensor or entry goes away.
void forget_retained(const Node* node, TensorImpl* tensor);
void forget_retained(const Node* node);
void add_retained(Node* node, uint32_t output_number, TensorImpl* tensor);

}  // namespace tapegrad
