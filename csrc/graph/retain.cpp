#include "graph/retain.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "graph/record.h"

namespace tapegrad {

namespace {

struct Retained {
  uint32_t output_number;
  TensorImpl* tensor;  // takes itself off the list when it dies
};
std::unordered_map<const Node*, std::vector<Retained>> retained;

}  // namespace

void add_retained(Node* node, uint32_t output_number, TensorImpl* tensor) {
  retained[node].push_back({output_number, tensor});
  node->set_has_retained(true);
}

void retain_grad(const Tensor& tensor) {
  TAPEGRAD_CHECK(requires_grad(tensor),
                 "retain_grad: can't retain_grad on Tensor that has requires_grad=False");
  Node* node = grad_fn(tensor);
  AutogradMeta& meta = ensure_meta(tensor);
  if (!node || meta.retains_grad) return;
  meta.retains_grad = true;
  add_retained(node, meta.output_number, tensor.impl());
}

void store_retained(const Node& node, Gradients grads) {
  for (const Retained& entry : retained[&node])
    entry.tensor->meta()->grad = grads[entry.output_number];
}

void forget_retained(const Node* node, TensorImpl* tensor) {
  auto found = retained.find(node);
  if (found == retained.end()) return;
  std::erase_if(found->second, [&](const Retained& entry) { return entry.tensor == tensor; });
}

void forget_retained(const Node* node) { retained.erase(node); }

}  // namespace tapegrad
