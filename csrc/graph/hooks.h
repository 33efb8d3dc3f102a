// Hooks: Python functions that see, and may replace, gradients on their way.
//
// An entry has no room for such rarities, so they live in a table beside it, and the entry only
// knows that there is something to look up. The hooks of a leaf live with the leaf, because its
// accumulating entry comes and goes with the graphs that lead to it.
//
// A list of hooks is an ordered Python dict, which the handle of each hook refers to weakly: what is
// in the dict is called, in order.
#pragma once

#include <vector>

#include "graph/node.h"

namespace tapegrad {

// A counted Python object, as the graph sees it.
class HookList {
 public:
  struct Calls {
    void (*retain)(void* hooks);
    void (*release)(void* hooks) noexcept;
    // Each hook gets the gradient and may return another.
    Tensor (*call)(void* hooks, const Tensor& grad);
    // Each hook gets the tensor.
    void (*notify)(void* hooks, const Tensor& tensor);
    // Node hooks: before the entry runs (may replace grads), and after (may replace grad_inputs).
    void (*before)(void* hooks, Gradients grads);
    void (*after)(void* hooks, Gradients grad_inputs, Gradients grads);
  };
  static inline Calls calls{};

  HookList() = default;
  explicit HookList(void* hooks) : hooks_(hooks) { calls.retain(hooks_); }
  HookList(HookList&& other) noexcept : hooks_(std::exchange(other.hooks_, nullptr)) {}
  HookList& operator=(HookList&& other) noexcept {
    std::swap(hooks_, other.hooks_);
    return *this;
  }
  ~HookList() {
    if (hooks_) calls.release(hooks_);
  }
  explicit operator bool() const { return hooks_ != nullptr; }
  void* object() const { return hooks_; }

 private:
  void* hooks_ = nullptr;
};

// What is attached to an entry besides what every entry has.
struct NodeHooks {
  struct OfOutput {
    uint32_t output_number;
    HookList hooks;
  };
  struct Retained {
    uint32_t output_number;
    TensorImpl* tensor;  // takes itself off the list when it dies
  };
  std::vector<OfOutput> tensor_hooks;
  std::vector<Retained> retained;
  HookList before;
  HookList after;
  HookList metadata;  // a dict for the user's notes
};

// The hooks of an entry, made on first use; null if there are none.
NodeHooks& ensure_hooks(Node& node);
NodeHooks* find_hooks(const Node& node);

void retain_grad(const Tensor& tensor);
// Runs the hooks of the entry's outputs on their finished gradients.
void run_tensor_hooks(Node& node, Gradients grads);

// For the graph's own bookkeeping: the tensor's history changes, or the tensor or entry goes away.
void forget_retained(const Node* node, TensorImpl* tensor);
void forget_hooks(const Node* node);
void add_retained(Node* node, uint32_t output_number, TensorImpl* tensor);

}  // namespace tapegrad
