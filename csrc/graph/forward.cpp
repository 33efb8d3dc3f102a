#include "graph/forward.h"

#include <algorithm>
#include <unordered_set>

#include "core/error.h"
#include "core/op.h"
#include "graph/record.h"
#include "graph/view.h"

namespace tapegrad {

namespace {

uint32_t last_level = 0;
auto& all_tangents = *new std::unordered_set<Tangents*>();
thread_local std::vector<uint32_t> active_levels;

bool is_visible(const Tangent& tangent) {
  return tangent.level < forward_limit && is_forward_level(tangent.level);
}

// Moves the tangents of a level out of all tensors; they die with the returned list.
std::vector<Tangent> take_level(uint32_t level) {
  std::vector<Tangent> taken;
  for (Tangents* tangents : all_tangents) {
    auto ended = [&](const Tangent& entry) { return entry.level == level; };
    for (Tangent& entry : tangents->entries)
      if (ended(entry)) taken.push_back(entry);
    std::erase_if(tangents->entries, ended);
  }
  return taken;
}

}  // namespace

Tangents::Tangents() { all_tangents.insert(this); }
Tangents::~Tangents() { all_tangents.erase(this); }

uint32_t enter_forward_level() {
  active_levels.push_back(++last_level);
  ++forward_levels;
  return last_level;
}

void exit_forward_level(uint32_t level) {
  TAPEGRAD_CHECK(!active_levels.empty() && active_levels.back() == level,
                 "forward mode: trying to exit a dual level that is not the innermost one");
  auto end = [&] {
    active_levels.pop_back();
    --forward_levels;
    take_level(level);
  };
  // Tangents of outer levels may wait among those of this one. The level ends even if one fails.
  try {
    if (dispatch_watch & kWatchPending) resolve_pending();
  } catch (...) {
    end();
    throw;
  }
  end();
}

bool is_forward_level(uint32_t level) {
  return std::find(active_levels.begin(), active_levels.end(), level) != active_levels.end();
}

bool has_tangent_now(const Tensor& x) {
  if (dispatch_watch & kWatchPending) resolve_pending();
  const AutogradMeta* meta = x->meta();
  if (!meta || !meta->extra || (storage_context.flags & Storage::kInference)) return false;
  update_view_history(x);
  if (dispatch_watch & kWatchPending) resolve_pending();
  const Tangents* tangents = meta->extra->tangents.get();
  return tangents && std::any_of(tangents->entries.begin(), tangents->entries.end(), is_visible);
}

std::vector<Tangent> tangents_of(const Tensor& x) {
  std::vector<Tangent> result;
  if (!has_tangent(x)) return result;
  for (const Tangent& tangent : x->meta()->extra->tangents->entries)
    if (is_visible(tangent)) result.push_back(tangent);
  return result;
}

Tensor tangent_of(const Tensor& x, uint32_t level) {
  for (Tangent& tangent : tangents_of(x))
    if (tangent.level == level) return tangent.value;
  return {};
}

void reserve_tangents(const Tensor& x) {
  Extra& extra = ensure_extra(x);
  if (!extra.tangents) extra.tangents = Ref<Tangents>::adopt(new Tangents());
}

void set_tangents(const Tensor& x, std::vector<Tangent> tangents) {
  reserve_tangents(x);
  x->meta()->extra->tangents->entries = std::move(tangents);
}

void share_tangents(const Tensor& to, const Tensor& from) {
  const AutogradMeta* meta = from->meta();
  if (!meta || !meta->extra || !meta->extra->tangents) return;
  ensure_extra(to).tangents = meta->extra->tangents;
}

void Placeholder::vjp(Gradients, Gradients) {
  fail("forward mode: a placeholder was reached by a sweep; this is a bug");
}

Edge placeholder_edge(const Tensor& x, Edge real) {
  std::vector<Tangent> tangents = tangents_of(x);
  if (tangents.empty()) return real;
  Ref<Placeholder> node =
      Node::create<Placeholder>(0, 0, std::span(&x, 1), std::move(real), std::move(tangents));
  node->stamp();
  return {std::move(node), 0};
}

bool attach_forward(const Tensor& tensor, const Ref<Node>& node, uint32_t output_number) {
  bool dual = false, real = false;
  for (const Edge& edge : node->edges()) {
    if (!edge.node) continue;
    bool placeholder = edge.node->is_placeholder();
    dual |= placeholder;
    real |= !placeholder || static_cast<Placeholder&>(*edge.node).real.node;
  }
  if (!dual) return true;
  reserve_tangents(tensor);
  pending_tangents.push_back({node, output_number, tensor, grad_enabled, forward_limit});
  watch(kWatchPending, true);
  if (!(grad_enabled && real)) node->set_forward_only();
  return grad_enabled && real;
}

}  // namespace tapegrad
