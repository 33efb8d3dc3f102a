// Forward mode: tangents that travel with tensors.
//
// Note [Tangents by transposing]
// A tensor may carry tangents, one for each dual level it takes part in. When an op runs on such a
// tensor, its entry is made as for the tape, with a placeholder on each edge whose input carries
// tangents. The tangent of the output is then the transpose of the entry's own vjp: vjp is
// linear in g and recorded, so sweeping back from the gradients it makes, with the input tangents
// as seeds, gives J times tangent at g. One rule per op thus serves both modes, at every order.
//
// The entry is complete only when its op has finished filling it in, so the tangents of its outputs
// wait until one of them is asked for, or until the next kernel is about to run, whichever comes
// first: nothing can be overwritten in between. Until then a placeholder is an entry like others, which
// passes gradients on to the input's own history, so that the graph can be walked meanwhile.
//
// Levels are numbered by a counter that only grows; inner ones are larger. The tangent of a level is
// computed while only smaller levels are visible, so nested perturbations cannot be confused. What it
// is computed from carries the tangents of those smaller levels, the op's own outputs included: a
// derivative may be written with them. So all outputs get the tangents of one level before any
// gets those of the next.
#pragma once

#include <vector>

#include "core/tensor.h"
#include "graph/node.h"

namespace tapegrad {

struct Tangent {
  uint32_t level;
  Tensor value;
};

// The tangents of a tensor, shared by its aliases on the tape. All of them are known, because a level
// that ends takes its tangents from them: a tangent may have a history that leads back to itself.
struct Tangents {
  Tangents();
  ~Tangents();
  std::vector<Tangent> entries;
  bool waiting = false;  // they have yet to be computed
  uint32_t born;         // the innermost level that ran when the list was made
  void retain() { ++count; }
  void release() noexcept {
    if (--count == 0) delete this;
  }
  uint32_t count = 1;
};

// The number of active levels on this thread: none in most programs.
inline thread_local int forward_levels = 0;
// Which levels are visible: from the first one on, up to the limit.
struct VisibleLevels {
  uint32_t first = 0;
  uint32_t limit = UINT32_MAX;
};
inline thread_local VisibleLevels visible_levels;

uint32_t enter_forward_level();
void exit_forward_level(uint32_t level);
bool is_forward_level(uint32_t level);
// The number that the next level will have.
uint32_t next_forward_level();

bool has_tangent_now(const Tensor& x);
inline bool has_tangent(const Tensor& x) { return forward_levels && has_tangent_now(x); }
// The tangent of x at a level; undefined if it has none.
Tensor tangent_of(const Tensor& x, uint32_t level);
// The visible tangents of x.
std::vector<Tangent> tangents_of(const Tensor& x);
void set_tangents(const Tensor& x, std::vector<Tangent> tangents);
// Gives x a new list of tangents, to be filled in later and shared by aliases made meanwhile. To be
// called after the edges of an entry that writes x in place have been made, which look at the old list.
void await_tangents(const Tensor& x);
bool is_waiting(const Tensor& x);
// They are being filled in, or there will be none after all.
void stop_waiting(const Tensor& x);
void share_tangents(const Tensor& to, const Tensor& from);

// Stands on an edge for an input that carries tangents; its own edge is that of the input.
inline const EntryKind placeholder_entry("placeholder", nullptr, EntryKind::Role::Graph, {},
                                         "Placeholder");
struct Placeholder final : Entry<placeholder_entry> {
  explicit Placeholder(std::vector<Tangent> tangents) : tangents(std::move(tangents)) {
    is_placeholder_ = true;
  }
  void vjp(Gradients grads, Gradients grad_inputs) override { grad_inputs[0] = grads[0]; }
  const Edge& real() const { return edges()[0]; }
  // Tangents that differ over a batch belong to each of its elements: nothing is to be summed here.
  void set_innermost() { vmap_ = kInnermost; }
  std::vector<Tangent> tangents;
};
Edge placeholder_edge(const Tensor& x, Edge real);

// An entry whose outputs wait for their tangents.
struct PendingTangent {
  struct Output {
    uint32_t number;
    Tensor tensor;
  };
  Ref<Node> node;
  std::vector<Output> outputs;
  Tensor part;    // the view that was written, where the entry is the base's
  bool recorded;  // whether recording was on
  VisibleLevels visible;
  uint32_t vmap;  // the innermost one that ran
};
inline thread_local std::vector<PendingTangent> pending_tangents;
// Set by the engine: computes the tangents that wait.
inline void (*resolve_pending)() = nullptr;

// The op that was to fill in an entry has failed: nobody waits for tangents of its outputs any more.
void abandon_tangents(const Node& node);

// Makes `tensor` an output of `node` while levels are active: its tangents wait if the node has
// placeholders, and it gets the node as its history if the node leads to one.
void set_dual_history(const Tensor& tensor, Ref<Node> node, uint32_t output_number);

}  // namespace tapegrad
