#include "graph/record.h"

#include "core/error.h"
#include "graph/accumulate.h"
#include "graph/retain.h"
#include "graph/view.h"

namespace tapegrad {

namespace {

void destroy_meta(TensorImpl* tensor, AutogradMeta* meta) noexcept {
  if (meta->retains_grad) forget_retained(meta->node, tensor);
  if (!meta->is_leaf && meta->node) meta->node->release();
  delete meta->extra;
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

Extra& ensure_extra(const Tensor& tensor) {
  AutogradMeta& meta = ensure_meta(tensor);
  if (!meta.extra) meta.extra = new Extra();
  return *meta.extra;
}

bool is_leaf(const Tensor& tensor) { return grad_fn(tensor) == nullptr; }

Node* grad_fn(const Tensor& tensor) {
  AutogradMeta* meta = tensor->meta();
  if (!meta) return nullptr;
  if (meta->extra) update_view_history(tensor);
  return meta->is_leaf ? nullptr : meta->node;
}

Edge gradient_edge(const Tensor& tensor) {
  AutogradMeta* meta = tensor->meta();
  if (!meta || !requires_grad(tensor)) return {};
  if (meta->extra) [[unlikely]]
    update_view_history(tensor);
  if (!meta->is_leaf) return {Ref<Node>(meta->node), meta->output_number};
  return {accumulator_of(tensor), 0};
}

void set_requires_grad(const Tensor& tensor, bool value) {
  TAPEGRAD_CHECK(!value || is_floating(tensor.dtype()),
                 "requires_grad_: only Tensors of floating point dtype can require gradients, got ",
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
  AutogradMeta& meta = ensure_meta(tensor);
  if (meta.retains_grad) {
    forget_retained(meta.node, tensor.impl());
    add_retained(node.get(), output_number, tensor.impl());
  }
  if (!meta.is_leaf && meta.node) meta.node->release();
  meta.node = node.detach();
  meta.output_number = output_number;
  meta.is_leaf = false;
  meta.requires_grad = true;
}

}  // namespace tapegrad
