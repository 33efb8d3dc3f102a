// How an op becomes an entry of the tape, and what the graph attaches to a tensor.
#pragma once

#include <initializer_list>
#include <memory>

#include "graph/forward.h"
#include "graph/grad_mode.h"
#include "graph/hooks.h"
#include "graph/node.h"

namespace tapegrad {

// What autograd attaches to a tensor: its place in the graph, its gradient, its view base.
struct AutogradMeta {
  // A non-leaf owns a reference to the entry that made it. A leaf points, without owning, to
  // the entry that accumulates its gradient while some graph keeps that alive.
  Node* node = nullptr;
  uint32_t output_number = 0;
  uint32_t rewrites = 0;  // how many recorded in-place writes gave it a new history
  bool is_leaf = true;
  bool requires_grad = false;
  bool retains_grad = false;
  Tensor grad;
  struct AutogradExtras* extra = nullptr;
};

// The parts of AutogradMeta that few tensors need.
struct AutogradExtras {
  Tensor base;                 // of a view: the tensor whose memory it shows
  uint32_t base_rewrites = 0;  // the base's, as of the view's history
  uint32_t view_version = 0;   // the storage's, as of the view's history
  bool multi_output_view = false;
  bool no_grad_view = false;  // made while recording was off: its history does not follow the base
  bool inference_view = false;  // the same, in inference mode
  bool overwritten = false;     // by a write that neither its history nor its tangents know of
  bool takes_tangent = false;   // a leaf whose gradient is a tangent, see engine/tangent.cpp
  HookList hooks;               // of a leaf, on its gradient
  HookList accumulate_hooks;    // of a leaf, after its gradient has arrived
  Ref<Tangents> tangents;       // of forward mode
  Tensor primal;  // shares its memory, but not what a write to this one does to its tangents
  std::shared_ptr<TensorImpl*> self;  // for those who remember the tensor without holding it

  AutogradExtras() = default;
  AutogradExtras(const AutogradExtras&) = delete;
  AutogradExtras& operator=(const AutogradExtras&) = delete;
  ~AutogradExtras() {
    if (self) *self = nullptr;
  }
};

// Set by the binding layer: the tensor's history holds something of Python's, which may lead back to
// the tensor.
inline void (*track_tensor)(const Tensor& tensor) = nullptr;
// The sequence number at which the innermost reverse-mode transform of this thread began.
inline thread_local uint64_t transform_start = 0;
// Set while anomaly mode is on, on any thread: checks what a recorded op has made.
inline void (*check_forward)(const Tensor& output, const Node& node) = nullptr;

AutogradMeta& ensure_meta(const Tensor& tensor);
AutogradExtras& ensure_extras(const Tensor& tensor);

inline bool requires_grad(const Tensor& tensor) {
  const AutogradMeta* meta = tensor->meta();
  if (!meta) return false;
  if (meta->requires_grad) return true;
  // A view whose base got a history after the view was made.
  const AutogradExtras* extra = meta->extra;
  return extra && extra->base.defined() && !extra->no_grad_view && requires_grad(extra->base);
}

// Whether the derivative with respect to this input is wanted, in either mode.
inline bool is_active(const Tensor& input) {
  return (grad_enabled && requires_grad(input)) || has_tangent(input);
}

template <class... Tensors>
bool should_record(const Tensors&... inputs) {
  if (forward_levels) [[unlikely]]
    return (is_active(inputs) || ...);
  return grad_enabled && (requires_grad(inputs) || ...);
}
// Whether derivatives must themselves be made of recorded ops.
inline bool is_differentiating() { return grad_enabled || forward_levels; }

bool is_leaf(const Tensor& tensor);
// Whether a graph begins at the tensor: a leaf, or the input of a transform. Gradients of it are asked
// for, so a recorded op must not write to it.
bool begins_graph(const Tensor& tensor);
// The entry that made the tensor, or null for a leaf. Brings a view's history up to date first.
Node* grad_fn(const Tensor& tensor);
// Where the tensor's gradient flows to: its entry, or for a leaf the accumulating one.
Edge real_edge(const Tensor& tensor);
// The same as an edge of a new entry: forward mode puts a placeholder there.
Edge gradient_edge(const Tensor& tensor);

void set_requires_grad(const Tensor& tensor, bool value);
// Makes `node`'s output number `output_number` the history of a tensor that the node's op made.
void set_history(const Tensor& tensor, Ref<Node> node, uint32_t output_number);
// The same for another tensor that stands at the same place in the graph.
void put_history(const Tensor& tensor, Ref<Node> node, uint32_t output_number);
void copy_history(const Tensor& to, const Tensor& from);

// Makes an entry of type N whose edges lead to the inputs and whose outputs are `outputs`.
// The caller then saves values and fills in attributes. Only to be called if should_record().
template <class N, class... Arguments>
N& record(std::initializer_list<const Tensor*> inputs, std::span<const Tensor> outputs,
          size_t saved_count, Arguments&&... arguments) {
  Ref<N> node =
      Node::create<N>(inputs.size(), saved_count, outputs, std::forward<Arguments>(arguments)...);
  std::span<Edge> edges = node->edges();
  size_t i = 0;
  for (const Tensor* input : inputs) edges[i++] = gradient_edge(*input);
  node->stamp();
  N& result = *node;
  if (outputs.size() == 1) {
    set_history(outputs[0], std::move(node), 0);
  } else {
    for (uint32_t k = 0; k < outputs.size(); ++k) set_history(outputs[k], node, k);
  }
  return result;
}
template <class N, class... Arguments>
N& record(std::initializer_list<const Tensor*> inputs, const Tensor& output, size_t saved_count,
          Arguments&&... arguments) {
  return record<N>(inputs, std::span<const Tensor>(&output, 1), saved_count,
                   std::forward<Arguments>(arguments)...);
}

}  // namespace tapegrad
