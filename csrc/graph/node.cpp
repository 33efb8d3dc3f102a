#include "graph/node.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "graph/hooks.h"
#include "graph/record.h"
#include "intercept/batch.h"
#include "intercept/profile.h"

namespace tapegrad {

namespace {

int64_t node_count = 0;

// All entries that live. A place that is free holds the number of the next free one, with bit 0 set.
std::vector<uintptr_t> table;
uint32_t first_free = UINT32_MAX;

uint32_t take_place(Node* node) {
  if (first_free == UINT32_MAX) [[unlikely]] {
    table.push_back(reinterpret_cast<uintptr_t>(node));
    return static_cast<uint32_t>(table.size() - 1);
  }
  uint32_t place = first_free;
  first_free = static_cast<uint32_t>(table[place] >> 1);
  table[place] = reinterpret_cast<uintptr_t>(node);
  return place;
}

void leave_place(uint32_t place) noexcept {
  table[place] = uintptr_t{first_free} << 1 | 1;
  first_free = place;
}

// Note [Freeing a long chain]
// Dropping the last reference to an entry drops references to the entries before it. Done
// recursively this overflows the stack at some ten thousand entries, so the first destroy() on the
// way works through a list, and those it causes only add to the list.
std::vector<Node*> doomed;
bool draining = false;

// Of entries whose outputs differ over several batches, all of them.
auto& batches_of_entries = *new std::unordered_map<const Node*, std::vector<uint32_t>>();

}  // namespace

int64_t live_node_count() { return node_count; }

std::vector<Node*> live_nodes() {
  std::vector<Node*> nodes;
  for (uintptr_t entry : table)
    if (!(entry & 1)) nodes.push_back(reinterpret_cast<Node*>(entry));
  return nodes;
}
uint64_t next_sequence_number() { return next_sequence; }

size_t Node::trailing_bytes(size_t edge_count, size_t saved_count,
                            std::span<const Tensor> outputs) {
  size_t words = outputs.size();
  for (const Tensor& output : outputs) words += static_cast<size_t>(output.dim());
  return edge_count * sizeof(Edge) + saved_count * sizeof(SavedValue) + words * sizeof(int64_t);
}

void Node::set_up(size_t object_bytes, size_t bytes, size_t edge_count, size_t saved_count,
                  std::span<const Tensor> outputs) {
  ++node_count;
  place_ = take_place(this);
  bytes_ = static_cast<uint32_t>(bytes);
  edges_offset_ = static_cast<uint16_t>(object_bytes);
  edge_count_ = static_cast<uint32_t>(edge_count);
  saved_count_ = static_cast<uint16_t>(saved_count);
  output_count_ = static_cast<uint32_t>(outputs.size());
  if (batched_storages) [[unlikely]]
    note_vmaps(outputs);
  // The arrays follow the object and each other.
  char* end = reinterpret_cast<char*>(this) + object_bytes;
  for (size_t i = 0; i < edge_count; ++i, end += sizeof(Edge)) new (end) Edge();
  for (size_t i = 0; i < saved_count; ++i, end += sizeof(SavedValue)) new (end) SavedValue();
  auto* output = reinterpret_cast<Output*>(end);
  auto* words = reinterpret_cast<int64_t*>(end);
  auto begin = static_cast<uint32_t>(outputs.size());
  for (const Tensor& tensor : outputs) {
    const Sizes sizes = tensor.sizes();
    *output++ = {tensor.dtype(), static_cast<uint8_t>(sizes.size()), tensor->device(), begin};
    for (int64_t size : sizes) words[begin++] = size;
  }
}

void Node::note_vmaps(std::span<const Tensor> outputs) {
  std::vector<uint32_t> vmaps;
  for (const Tensor& output : outputs)
    for (const BatchDim& dim : Batches::of(output->storage())) vmaps.push_back(dim.vmap);
  for (uint32_t vmap : vmaps) vmap_ = std::max(vmap_, vmap);
  has_outer_vmaps_ =
      std::any_of(vmaps.begin(), vmaps.end(), [this](uint32_t vmap) { return vmap != vmap_; });
  if (has_outer_vmaps_) batches_of_entries[this] = std::move(vmaps);
}

bool Node::is_outer_vmap(uint32_t vmap) const {
  const std::vector<uint32_t>& vmaps = batches_of_entries.find(this)->second;
  return std::find(vmaps.begin(), vmaps.end(), vmap) != vmaps.end();
}

bool Node::is_behind_transpose() const {
  for (const Edge& edge : edges()) {
    const Node* node = edge.node.get();
    // What stands for an input with tangents is innermost for another reason: the input's own entry tells.
    if (node && node->is_placeholder()) node = node->edges()[0].node.get();
    if (node && node->vmap_ == kInnermost) return true;
  }
  return false;
}

void Node::stamp() {
  sequence_ = next_sequence++;
  line_ = SourceLine::here();
  lane_ = current_lane;
  if (batched_storages && is_behind_transpose()) [[unlikely]]
    vmap_ = kInnermost;
  for (const Edge& edge : edges())
    if (edge.node && edge.node->is_collected_) is_collected_ = true;
}

DType Node::leaf_dtype(size_t input) const {
  const Edge* edge = &edges()[input];
  const DType own = edge->node->output_dtype(edge->output_number);
  while (edge->node && edge->node->gradient_dtypes() == GradientDtypes::Any &&
         !edge->node->has_hooks())
    edge = &edge->node->edges()[0];
  const bool arrives = edge->node && edge->node->is_accumulator();
  return arrives ? edge->node->output_dtype(edge->output_number) : own;
}

Tensor Node::saved(size_t i) const {
  TAPEGRAD_CHECK(
      !released_, "backward: Trying to backward through the graph a second time: ", name(),
      ", recorded at ", line(), ", has already freed its saved values, in the backward at ",
      saved_values()[0].dropped_at(),
      "; specify retain_graph=True there if you need to go through the graph again");
  return saved_values()[i].get(*this);
}

void Node::release_saved(const SourceLine& sweep_line) {
  if (saved_count_ == 0 || released_) return;
  std::span<SavedValue> values = saved_values();
  // Numbers are attributes rather than saved values: nothing is gained by dropping them.
  auto is_number = [](const SavedValue& value) { return value.is_number(); };
  if (std::all_of(values.begin(), values.end(), is_number)) return;
  released_ = true;
  for (SavedValue& value : values) value.clear();
  values[0] = SavedValue::dropped(sweep_line);
}

void Node::free_now() noexcept {
  if (has_hooks_) forget_hooks(this);
  if (has_outer_vmaps_) [[unlikely]]
    batches_of_entries.erase(this);
  for (SavedValue& value : saved_values()) value.~SavedValue();
  for (Edge& edge : edges()) edge.~Edge();
  size_t bytes = bytes_;
  leave_place(place_);
  this->~Node();
  pool_free(this, bytes);
  --node_count;
}

void Node::destroy(Node* node) noexcept {
  doomed.push_back(node);
  if (draining) return;
  draining = true;
  while (!doomed.empty()) {
    Node* next = doomed.back();
    doomed.pop_back();
    next->free_now();
  }
  draining = false;
}

}  // namespace tapegrad
