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
  return tangent.level >= visible_levels.first && tangent.level < visible_levels.limit &&
         is_forward_level(tangent.level);
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

Tangents::Tangents() : born(active_levels.empty() ? 0 : active_levels.back()) {
  all_tangents.insert(this);
}
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
    if (is_intercepted_here(Interceptor::Tangents)) resolve_pending();
  } catch (...) {
    end();
    throw;
  }
  end();
}

bool is_forward_level(uint32_t level) {
  return std::find(active_levels.begin(), active_levels.end(), level) != active_levels.end();
}

uint32_t next_forward_level() { return last_level + 1; }

bool has_tangent_now(const Tensor& x) {
  const AutogradMeta* meta = x->meta();
  if (!meta || !meta->extra || (storage_context.flags & Storage::kInference)) return false;
  update_view_history(x);
  const Tangents* tangents = meta->extra->tangents.get();
  if (!tangents) return false;
  // Only then: another entry may wait that its op has not finished filling in.
  if (tangents->waiting) resolve_pending();
  return std::any_of(tangents->entries.begin(), tangents->entries.end(), is_visible);
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

void await_tangents(const Tensor& x) {
  Ref<Tangents>& tangents = ensure_extras(x).tangents;
  tangents = Ref<Tangents>::adopt(new Tangents());
  tangents->waiting = true;
}

bool is_waiting(const Tensor& x) {
  const AutogradMeta* meta = x->meta();
  return meta && meta->extra && meta->extra->tangents && meta->extra->tangents->waiting;
}

void stop_waiting(const Tensor& x) {
  if (is_waiting(x)) x->meta()->extra->tangents->waiting = false;
}

void set_tangents(const Tensor& x, std::vector<Tangent> tangents) {
  AutogradExtras& extra = ensure_extras(x);
  extra.tangents = Ref<Tangents>::adopt(new Tangents());
  extra.tangents->entries = std::move(tangents);
}

void share_tangents(const Tensor& to, const Tensor& from) {
  const AutogradMeta* meta = from->meta();
  if (!meta || !meta->extra || !meta->extra->tangents) return;
  ensure_extras(to).tangents = meta->extra->tangents;
}

Edge placeholder_edge(const Tensor& x, Edge real) {
  std::vector<Tangent> tangents = tangents_of(x);
  if (tangents.empty()) return real;
  Ref<Placeholder> node = Node::create<Placeholder>(1, 0, std::span(&x, 1), std::move(tangents));
  node->edges()[0] = std::move(real);
  node->stamp();
  node->set_innermost();
  return {std::move(node), 0};
}

namespace {

struct Sources {
  bool dual = false;  // some input carries tangents
  bool real = false;  // some input has a history
};

Sources sources_of(const Node& node) {
  Sources found;
  for (const Edge& edge : node.edges()) {
    if (!edge.node) continue;
    bool placeholder = edge.node->is_placeholder();
    found.dual |= placeholder;
    found.real |= !placeholder || static_cast<Placeholder&>(*edge.node).real().node;
  }
  return found;
}

void wait_for_tangents(const Tensor& tensor, const Ref<Node>& node, uint32_t output_number) {
  if (!is_waiting(tensor)) await_tangents(tensor);
  if (pending_tangents.empty() || pending_tangents.back().node != node)
    pending_tangents.push_back({node, {}, {}, grad_enabled, visible_levels, storage_context.vmap});
  pending_tangents.back().outputs.push_back({output_number, tensor});
  intercept_here(Interceptor::Tangents, true);
}

bool is_part_of(const Node& node, Node* entry) {
  while (entry && entry != &node) entry = entry->inner_entry();
  return entry != nullptr;
}

}  // namespace

void abandon_tangents(const Node& node) {
  std::erase_if(pending_tangents, [&](const PendingTangent& pending) {
    if (!is_part_of(node, pending.node.get())) return false;
    for (const PendingTangent::Output& output : pending.outputs) stop_waiting(output.tensor);
    if (pending.part.defined()) stop_waiting(pending.part);
    return true;
  });
  intercept_here(Interceptor::Tangents, !pending_tangents.empty());
}

void set_dual_history(const Tensor& tensor, Ref<Node> node, uint32_t output_number) {
  auto [dual, real] = sources_of(*node);
  bool is_history = !dual || (grad_enabled && real);
  // Before anything waits: the check runs kernels.
  if (is_history && check_forward) check_forward(tensor, *node);
  if (dual) wait_for_tangents(tensor, node, output_number);
  else stop_waiting(tensor);
  if (is_history) return put_history(tensor, std::move(node), output_number);
  for (Node* entry = node.get(); entry; entry = entry->inner_entry()) entry->set_forward_only();
}

}  // namespace tapegrad
