#include "graph/record.h"

#include "core/error.h"
#include "graph/accumulate.h"
#include "graph/view.h"

namespace tapegrad {

namespace {

void destroy_meta(TensorImpl* tensor, AutogradMeta* meta) noexcept {
  if (meta->retains_grad) forget_retained(meta->node, tensor);
  if (!meta->is_leaf && meta->node) meta->node->release();
  if (meta->extra) {
    meta->extra->~AutogradExtras();
    pool_free(meta->extra, sizeof(AutogradExtras));
  }
  meta->~AutogradMeta();
  pool_free(meta, sizeof(AutogradMeta));
}

[[maybe_unused]] const bool installed = [] {
  destroy_autograd_meta = destroy_meta;
  return true;
}();

}  // namespace

AutogradMeta& ensure_meta(const Tensor& tensor) {
  if (!tensor->meta()) tensor->set_meta(new (pool_allocate(sizeof(AutogradMeta))) AutogradMeta());
  return *tensor->meta();
}

AutogradExtras& ensure_extras(const Tensor& tensor) {
  AutogradMeta& meta = ensure_meta(tensor);
  if (!meta.extra) meta.extra = new (pool_allocate(sizeof(AutogradExtras))) AutogradExtras();
  return *meta.extra;
}

bool is_leaf(const Tensor& tensor) { return grad_fn(tensor) == nullptr; }

bool begins_graph(const Tensor& tensor) {
  const Node* node = grad_fn(tensor);
  return !node || node->is_transform_input();
}

Node* grad_fn(const Tensor& tensor) {
  AutogradMeta* meta = tensor->meta();
  if (!meta) return nullptr;
  if (meta->extra) update_view_history(tensor);
  return meta->is_leaf ? nullptr : meta->node;
}

Edge real_edge(const Tensor& tensor) {
  AutogradMeta* meta = tensor->meta();
  if (!meta || !requires_grad(tensor)) return {};
  if (meta->extra) [[unlikely]]
    update_view_history(tensor);
  if (!meta->is_leaf) return {Ref<Node>(meta->node), meta->output_number};
  // A view without history whose base began to require grad later: no gradient comes to it.
  if (!meta->requires_grad) [[unlikely]]
    return {};
  return {accumulator_of(tensor), 0};
}

Edge gradient_edge(const Tensor& tensor) {
  AutogradMeta* meta = tensor->meta();
  if (!meta) return {};
  if (forward_levels) [[unlikely]]
    return placeholder_edge(tensor, grad_enabled ? real_edge(tensor) : Edge());
  return real_edge(tensor);
}

void set_requires_grad(const Tensor& tensor, bool value) {
  TAPEGRAD_CHECK(
      !value || !tensor->storage().is_inference() || (storage_context.flags & Storage::kInference),
      "requires_grad_: setting requires_grad=True on inference tensor outside "
      "InferenceMode is not allowed; use its .clone()");
  TAPEGRAD_CHECK(!value || has_gradient(tensor.dtype()),
                 "requires_grad_: only Tensors of floating point and complex dtype can require "
                 "gradients, got ",
                 name(tensor.dtype()), "; call .float() first");
  if (!is_leaf(tensor)) {
    TAPEGRAD_CHECK(value,
                   "requires_grad_: you can only change requires_grad flags of leaf variables; "
                   "use .detach() to get a tensor without history");
    return;
  }
  if (value || tensor->meta()) ensure_meta(tensor).requires_grad = value;
}

void set_history(const Tensor& tensor, Ref<Node> node, uint32_t output_number) {
  if (forward_levels) [[unlikely]]
    return set_dual_history(tensor, std::move(node), output_number);
  if (check_forward) [[unlikely]]
    check_forward(tensor, *node);
  put_history(tensor, std::move(node), output_number);
}

void copy_history(const Tensor& to, const Tensor& from) {
  if (forward_levels) share_tangents(to, from);
  if (Node* node = grad_fn(from)) put_history(to, Ref<Node>(node), from->meta()->output_number);
}

void put_history(const Tensor& tensor, Ref<Node> node, uint32_t output_number) {
  AutogradMeta& meta = ensure_meta(tensor);
  if (meta.retains_grad) {
    forget_retained(meta.node, tensor.impl());
    add_retained(node.get(), output_number, tensor.impl());
  }
  if (!meta.is_leaf && meta.node) meta.node->release();
  meta.node = node.detach();
  meta.output_number = output_number;
  if (meta.node->is_collected() && tensor->python_object()) [[unlikely]]
    track_tensor(tensor);
  meta.is_leaf = false;
  meta.requires_grad = true;
}

}  // namespace tapegrad
