#include "graph/hooks.h"

#include <unordered_map>

#include "core/error.h"
#include "graph/accumulate.h"
#include "graph/record.h"

namespace tapegrad {

namespace {

// Never freed: at the end of the process the interpreter is gone before it.
auto& table = *new std::unordered_map<const Node*, NodeHooks>();

}  // namespace

NodeHooks& ensure_hooks(Node& node) {
  node.set_has_hooks(true);
  return table[&node];
}

NodeHooks* find_hooks(const Node& node) {
  if (!node.has_hooks()) return nullptr;
  auto found = table.find(&node);
  return found == table.end() ? nullptr : &found->second;
}

void add_retained(Node* node, uint32_t output_number, TensorImpl* tensor) {
  ensure_hooks(*node).retained.push_back({output_number, tensor});
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

void run_tensor_hooks(Node& node, Gradients grads) {
  if (node.is_accumulator()) {
    const AutogradExtras* extra = leaf_of(node)->meta()->extra;
    if (extra && extra->hooks && grads[0].defined())
      grads[0] = HookList::calls.call(extra->hooks.object(), grads[0]);
  }
  NodeHooks* hooks = find_hooks(node);
  if (!hooks) return;
  // By index: a hook may register another, which then runs in the next sweep.
  for (size_t i = 0, count = hooks->tensor_hooks.size(); i < count; ++i) {
    Tensor& grad = grads[hooks->tensor_hooks[i].output_number];
    if (grad.defined()) grad = HookList::calls.call(hooks->tensor_hooks[i].hooks.object(), grad);
    hooks = find_hooks(node);
    if (!hooks) return;
  }
}

void forget_retained(const Node* node, TensorImpl* tensor) {
  auto found = table.find(node);
  if (found == table.end()) return;
  std::erase_if(found->second.retained,
                [&](const NodeHooks::Retained& entry) { return entry.tensor == tensor; });
}

void forget_hooks(const Node* node) {
  auto found = table.find(node);
  if (found == table.end()) return;
  NodeHooks gone = std::move(found->second);  // freeing a hook may free other entries
  table.erase(found);
}

}  // namespace tapegrad
