#include "graph/saved_value.h"

#include <algorithm>

#include "core/error.h"
#include "core/layout.h"
#include "core/op.h"
#include "graph/accumulate.h"
#include "graph/budget.h"
#include "graph/coding.h"
#include "graph/forward.h"
#include "graph/packing.h"
#include "graph/record.h"
#include "graph/view.h"
#include "graph/write_log.h"

namespace tapegrad {

namespace {

Tensor bare_alias(const Tensor& x) {
  Tensor y(x->bare_alias());
  if (forward_levels) share_tangents(y, x);
  return y;
}

// Whether the tensor has tangents, or will have once they are computed. Those of levels that have ended
// make no difference, nor those of levels that are put out of sight.
bool carries_tangents(const Tensor& x) {
  const AutogradMeta* meta = x->meta();
  if (!forward_levels || !meta || !meta->extra || !meta->extra->tangents) return false;
  const Tangents& tangents = *meta->extra->tangents;
  auto counts = [](uint32_t level) {
    return level >= visible_levels.first && is_forward_level(level);
  };
  return counts(tangents.born) ||
         std::any_of(tangents.entries.begin(), tangents.entries.end(),
                     [&](const Tangent& tangent) { return counts(tangent.level); });
}

// A packed value would come back without its tangents, and a number is an attribute of the call.
bool is_packable(const Tensor& x) { return !carries_tangents(x) && !x->is_wrapped_number(); }

void check_savable(const Tensor& tensor, const Node& owner) {
  if (!tensor->storage().is_inference() || transforms_in_inference) [[likely]]
    return;
  abandon_tangents(owner);
  TAPEGRAD_CHECK(false, "Inference tensors cannot be saved for backward: a tensor of shape ",
                 to_string(tensor.sizes()),
                 " was made in inference_mode and meets a recorded op; use its .clone() outside "
                 "inference_mode");
}

// A pack hook may run ops while the entry is not complete: tangents of its outputs, which are computed
// before the next op runs, go on waiting meanwhile.
class TangentsWait {
 public:
  TangentsWait() : waiting_(std::exchange(pending_tangents, {})) {
    intercept_here(Interceptor::Tangents, false);
  }
  ~TangentsWait() {
    waiting_.insert(waiting_.end(), std::make_move_iterator(pending_tangents.begin()),
                    std::make_move_iterator(pending_tangents.end()));
    pending_tangents = std::move(waiting_);
    intercept_here(Interceptor::Tangents, !pending_tangents.empty());
  }
  TangentsWait(const TangentsWait&) = delete;
  TangentsWait& operator=(const TangentsWait&) = delete;

 private:
  std::vector<PendingTangent> waiting_;
};

// Does something on behalf of an entry that is not complete, and will not be if that fails.
template <class Body>
void or_abandon(const Node& owner, Body&& body) {
  const PackingScope scope(owner);
  try {
    body();
  } catch (...) {
    abandon_tangents(owner);
    throw;
  }
}

}  // namespace

// On the way of every recorded op: worth being part of its callers.
[[gnu::always_inline]] inline void SavedValue::hold(Tensor tensor) {
  if (is_intercepted_here(Interceptor::Budget)) [[unlikely]]
    Budget::admit(tensor->storage());
  version_ = tensor->storage().version();
  add_saver(*tensor.impl());
  content_ = tensor.detach_reference();
}

void SavedValue::pack(const Tensor& tensor) {
  Edge own = history_ == History::Own && requires_grad(tensor) ? real_edge(tensor) : Edge();
  GradMode off(false);
  const TangentsWait wait;
  content_ = saved_hooks.pack(alias(tensor, tensor.sizes(), tensor.strides(), tensor->offset()),
                              own.node.get(), own.output_number);
  kind_ = Kind::Packed;
}

// Whether the bytes are a parameter's, or another leaf's: they live without the tape.
static bool shows_leaf(const Tensor& tensor) {
  const AutogradMeta* meta = tensor->meta();
  if (!meta) return false;
  if (meta->extra && meta->extra->base.defined()) return shows_leaf(meta->extra->base);
  return meta->is_leaf && meta->requires_grad;
}

bool SavedValue::encode(const Tensor& tensor, const Node& owner, size_t index) {
  if (forward_levels || tensor->storage().is_batched() || tensor->is_wrapped_number()) return false;
  const bool has_history = history_ != History::Own;
  // A history that would be lost.
  if (!has_history && requires_grad(tensor)) return false;
  if (tensor->storage().has(Storage::kLeaf) || shows_leaf(tensor)) return false;
  Coded* coded = coding_hooks.encode(tensor, owner, index, has_history);
  if (!coded) return false;
  content_ = coded;
  kind_ = Kind::Coded;
  return true;
}

std::span<const Tensor> SavedValue::coded_parts() const { return coded()->payload->parts; }

SavedValue SavedValue::input(const Tensor& tensor, const Node& owner, size_t index) {
  SavedValue value;
  if (!tensor.defined()) return value;
  check_savable(tensor, owner);
  AutogradMeta* meta = tensor->meta();
  bool non_leaf = meta && !meta->is_leaf;
  if (non_leaf || (packing && requires_grad(tensor))) {
    if (meta->extra) update_view_history(tensor);
    std::span<Edge> edges = owner.edges();
    for (size_t i = 0; meta->node && i < edges.size() && i < UINT16_MAX; ++i) {
      if (edges[i].node.get() != meta->node || edges[i].output_number != meta->output_number)
        continue;
      value.history_ = History::Edge;
      value.number_ = static_cast<uint16_t>(i);
      break;
    }
  }
  if (!(packing || coding)) [[likely]]
    value.hold(value.history_ == History::Edge ? bare_alias(tensor) : tensor);
  else if (packing && is_packable(tensor)) or_abandon(owner, [&] { value.pack(tensor); });
  else if (!coding || !value.encode(tensor, owner, index))
    value.hold(value.history_ == History::Edge ? bare_alias(tensor) : tensor);
  return value;
}

SavedValue SavedValue::output(const Tensor& tensor, const Node& owner, size_t index) {
  check_savable(tensor, owner);
  SavedValue value;
  // What is written in place has yet the history it had before, and will be the only output.
  const AutogradMeta* meta = tensor->meta();
  value.number_ =
      meta && meta->node == &owner ? static_cast<uint16_t>(meta->output_number) : uint16_t{0};
  value.history_ = History::Output;
  if (packing && is_packable(tensor)) or_abandon(owner, [&] { value.pack(tensor); });
  else if (!coding || !value.encode(tensor, owner, index)) value.hold(bare_alias(tensor));
  return value;
}

SavedValue SavedValue::dropped(const SourceLine& sweep_line) {
  SavedValue value;
  value.kind_ = Kind::Dropped;
  SourceLine line = sweep_line.copy();
  auto [code, offset] = line.detach();
  value.content_ = code;
  value.version_ = static_cast<uint32_t>(offset);
  return value;
}

std::string SavedValue::dropped_at() const {
  if (kind_ != Kind::Dropped || !content_) return "unknown line";
  return source_hooks.resolve(content_, static_cast<int32_t>(version_));
}

void SavedValue::free_content() noexcept {
  void* content = std::exchange(content_, nullptr);
  switch (kind_) {
    case Kind::Whole:
    case Kind::Overwritten: {
      Ref<TensorImpl> tensor = Ref<TensorImpl>::adopt(static_cast<TensorImpl*>(content));
      remove_saver(*tensor);
      break;
    }
    case Kind::Packed:
      saved_hooks.release(content);
      break;
    case Kind::Dropped:
      source_hooks.release(content);
      break;
    case Kind::Coded:
      delete static_cast<Coded*>(content);
      break;
  }
}

void SavedValue::repack() {
  TAPEGRAD_CHECK((kind_ == Kind::Whole || kind_ == Kind::Coded) && content_,
                 "register_hooks: the saved value has hooks already, or was dropped");
  Tensor tensor = kind_ == Kind::Coded ? coding_hooks.decode(*coded()) : Tensor(impl());
  SavedValue packed;
  packed.number_ = number_;
  packed.history_ = history_;
  packed.pack(tensor);
  swap(packed);
}

Node* SavedValue::packed_leaf(const Node& owner) const {
  if (kind_ != Kind::Packed || history_ == History::Output) return nullptr;
  uint32_t number = 0;
  Node* node = history_ == History::Edge ? owner.edges()[number_].node.get()
                                         : saved_hooks.history(content_, &number);
  return node && node->is_accumulator() ? node : nullptr;
}

// The value has been written: refuses to use it, unless it was beside it or through `.data`.
void SavedValue::check_writes(const Node& owner, const Tensor& value) const {
  std::string culprit;
  const Writes writes = writes_since(value, version_, culprit);
  if (writes == Writes::None) return;
  if (writes == Writes::ThroughData && !data_writes_are_errors)
    return warn_of_data_write(
        concat(owner.name(), ": a tensor of shape ", to_string(value.sizes()), ", saved by ",
               owner.name(), " at ", owner.line(), ", was overwritten through .data by ", culprit,
               "; the gradient is computed with what is there now, as in PyTorch. "
               "torch.autograd.set_data_writes(\"error\") makes this an error"));
  fail(owner.name(),
       ": one of the variables needed for gradient computation has been modified by an "
       "inplace operation: a tensor of shape ",
       to_string(value.sizes()), ", saved by ", owner.name(), " at ", owner.line(),
       ", was overwritten by ", culprit, " (it is at version ", value->storage().version(),
       "; expected version ", version_,
       " instead); use an out-of-place op there, or give the first op a .clone()");
}

Tensor SavedValue::get(const Node& owner) const {
  if (!content_) return {};
  if (kind_ == Kind::Overwritten) [[unlikely]]
    fail(
        owner.name(),
        ": one of the variables needed for gradient computation has been overwritten by a replay: a "
        "tensor of shape ",
        to_string(impl()->sizes()), ", saved by ", owner.name(), " at ", owner.line(),
        "; compute it again from there, or give the op a .clone()");
  Tensor value = kind_ == Kind::Packed  ? saved_hooks.unpack(content_)
                 : kind_ == Kind::Coded ? coding_hooks.decode(*coded())
                                        : Tensor(impl());
  if (kind_ == Kind::Whole && value->storage().version() != version_) [[unlikely]] {
    check_writes(owner, value);
  }
  // A leaf is itself, as it is without hooks, whether or not the sweep is recorded: a derivative may
  // switch recording on and ask for gradients of what was saved.
  if (Node* accumulator = packed_leaf(owner)) {
    const Tensor& leaf = leaf_of(*accumulator);
    if (shows_same(value, leaf)) return leaf;
    Tensor copy = bare_alias(value);
    put_history(copy, Ref<Node>(accumulator), 0);
    return copy;
  }
  if (!grad_enabled || owner.is_forward_only()) return value;
  if (history_ == History::Own && kind_ != Kind::Packed) return value;
  // With its history, so that the derivative of the derivative finds its way.
  Tensor with_history = bare_alias(value);
  if (history_ == History::Own) {
    uint32_t number = 0;
    Node* node = saved_hooks.history(content_, &number);
    if (!node) return value;
    put_history(with_history, Ref<Node>(node), number);
  } else if (history_ == History::Output) {
    if (running_part.entry == &owner) put_history(with_history, Ref<Node>(running_part.output), 0);
    else put_history(with_history, Ref<Node>(const_cast<Node*>(&owner)), number_);
  } else {
    const Edge& edge = owner.edges()[number_];
    if (edge.node && !edge.node->is_placeholder())
      put_history(with_history, edge.node, edge.output_number);
  }
  return with_history;
}

}  // namespace tapegrad
