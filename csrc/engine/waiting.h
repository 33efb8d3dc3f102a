// The entries that are waiting to run in a sweep, with the gradients that have arrived for them.
#pragma once

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <vector>

#include "graph/node.h"

namespace tapegrad {

// An entry waiting to run.
struct Pending {
  Ref<Node> node;
  std::vector<Tensor> grads;  // one per output; for a single output, `grad` is used instead
  Tensor grad;

  explicit Pending(Ref<Node> entry) : node(std::move(entry)) {
    if (node->output_count() > 1) grads.resize(node->output_count());
  }
  Gradients buffers() { return grads.empty() ? Gradients(&grad, 1) : Gradients(grads); }
};

// The heap of waiting entries, the newest on top, searchable by node.
class Waiting {
 public:
  bool empty() const { return heap_.empty(); }

  // The buffer for gradients of this edge; makes the entry wait if it does not yet.
  Tensor& buffer(const Edge& edge) { return at(edge.node).buffers()[edge.output_number]; }

  // What waits for an entry, or null. Part of sending every gradient.
  [[gnu::always_inline]] Pending* find(const Node* node) {
    if (is_indexed()) {
      auto found = index_.find(node);
      return found != index_.end() ? found->second : nullptr;
    }
    for (const Slot& slot : heap_)
      if (slot->node.get() == node) return slot.get();
    return nullptr;
  }

  Pending pop() {
    std::pop_heap(heap_.begin(), heap_.end(), older);
    return take_last();
  }

  // Takes an entry that waits, out of its turn.
  Pending take(const Node* node) {
    auto found = std::find_if(heap_.begin(), heap_.end(),
                              [&](const Slot& slot) { return slot->node.get() == node; });
    std::swap(*found, heap_.back());
    Pending taken = take_last();
    std::make_heap(heap_.begin(), heap_.end(), older);
    return taken;
  }

  // In no particular order.
  template <class Body>
  void for_each(Body&& body) const {
    for (const Slot& slot : heap_) body(*slot);
  }

 private:
  using Slot = std::unique_ptr<Pending>;
  // A few waiting entries are found by a linear scan; more are indexed.
  static constexpr size_t kScanLimit = 16;

  static bool older(const Slot& a, const Slot& b) {
    return a->node->sequence() < b->node->sequence();
  }
  bool is_indexed() const { return !index_.empty(); }

  [[gnu::always_inline]] Pending take_last() {
    Pending taken = std::move(*heap_.back());
    if (is_indexed()) index_.erase(taken.node.get());
    spare_.push_back(std::move(heap_.back()));
    heap_.pop_back();
    return taken;
  }

  Pending& at(const Ref<Node>& node) {
    Pending* found = find(node.get());
    return found ? *found : insert(node);
  }

  Pending& insert(const Ref<Node>& node) {
    Slot slot;
    if (spare_.empty()) {
      slot = std::make_unique<Pending>(node);
    } else {
      slot = std::move(spare_.back());
      spare_.pop_back();
      *slot = Pending(node);
    }
    Pending& pending = *slot;
    heap_.push_back(std::move(slot));
    std::push_heap(heap_.begin(), heap_.end(), older);
    if (is_indexed()) index_.emplace(node.get(), &pending);
    else if (heap_.size() > kScanLimit)
      for (const Slot& waiting : heap_) index_.emplace(waiting->node.get(), waiting.get());
    return pending;
  }

  std::vector<Slot> heap_;
  std::vector<Slot> spare_;
  std::unordered_map<const Node*, Pending*> index_;
};

}  // namespace tapegrad
