#include "ops/batch.h"

#include <algorithm>

#include "core/layout.h"
#include "graph/record.h"
#include "ops/copy.h"
#include "ops/reduce.h"

namespace tapegrad {

namespace {

const EntryKind vmap_in_entry("vmap_in", EntryKind::Role::Graph);
const EntryKind vmap_out_entry("vmap_out", EntryKind::Role::Graph);

struct HideBackward final : Entry<vmap_in_entry> {
  HideBackward(int64_t dim, uint32_t vmap, int64_t size) : dim(dim), vmap(vmap), size(size) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = reveal_batch(grads[0], dim, vmap, size);
  }
  int64_t dim;
  uint32_t vmap;
  int64_t size;
};

struct RevealBackward final : Entry<vmap_out_entry> {
  RevealBackward(int64_t dim, uint32_t vmap) : dim(dim), vmap(vmap) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = hide_batch(grads[0], dim, vmap);
  }
  int64_t dim;
  uint32_t vmap;
};

Tensor recorded_reveal(const Tensor& x, const Tensor& y, int64_t dim, uint32_t vmap) {
  if (should_record(x)) record<RevealBackward>({&x}, y, 0, dim, vmap);
  return y;
}

// A copy of x with its batch as dimension `dim`, laid out as if all of it had been computed at once.
Tensor without_gaps(const Tensor& x, const Tensor& shown, int64_t dim) {
  GradMode off(false);
  Tensor y = empty_like(shown);
  DimVector strides = strides_like(*x.impl());
  strides.insert(dim, x.numel());
  y->set_geometry(shown.sizes(), strides, 0);
  copy_into(y, shown);
  return y;
}

}  // namespace

Tensor hide_batch(const Tensor& x, int64_t dim, uint32_t vmap) {
  Tensor y = Batches::hide(x, dim, vmap);
  if (has_tangent(x)) ensure_extras(y).primal = x;
  if (should_record(x)) record<HideBackward>({&x}, y, 0, dim, vmap, x.size(dim));
  return y;
}

Tensor reveal_batch(const Tensor& x, int64_t dim, uint32_t vmap, int64_t size) {
  Tensor y = Batches::reveal(x, dim, vmap, size);
  if (Batches::has_gaps(x->storage(), vmap)) y = without_gaps(x, y, dim);
  return recorded_reveal(x, y, dim, vmap);
}

Tensor sum_finished_batches(Tensor x, const Node& receiver) {
  auto is_finished = [&](const BatchDim& dim) {
    return !receiver.differs_over(dim.vmap) &&
           std::none_of(running_vmaps.begin(), running_vmaps.end(),
                        [&](auto& running) { return running.vmap == dim.vmap; });
  };
  while (true) {
    std::span<const BatchDim> dims = Batches::of(x->storage());
    auto found = std::find_if(dims.begin(), dims.end(), is_finished);
    if (found == dims.end()) return x;
    int64_t first = 0;
    Tensor all = Batches::reveal(x, 0, found->vmap, found->size);
    x = sum(recorded_reveal(x, all, 0, found->vmap), {&first, 1}, false);
  }
}

}  // namespace tapegrad
