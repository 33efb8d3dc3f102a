// Forward mode: tangents that travel with tensors.
//
// Note [Tangents by transposing]
// A tensor may carry tangents, one for each dual level it takes part in. When an op runs on such a
// tensor, its entry is made as for the tape, with a placeholder on each edge whose input carries
// tangents. The tangent of the output is then the transpose of the entry's own vjp: vjp is
// linear in g and recorded, so sweeping back from the gradients it makes, with the input tangents
// as seeds, gives J times tangent at g. One rule per op thus serves both modes, at every order.
//
// The entry is complete only when its op has finished filling it in, so the tangent waits
// ("pending") until it is asked for, or until the next kernel is about to run, whichever comes first:
// nothing can be overwritten in between.
//
// Levels are numbered by a counter that only grows; inner ones are larger. The tangent of a level is
// computed while only smaller levels are visible, so nested perturbations cannot be confused.
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
  void retain() { ++count; }
  void release() noexcept {
    if (--count == 0) delete this;
  }
  uint32_t count = 1;
};

// The number of active levels on this thread: none in most programs.
inline thread_local int forward_levels = 0;
// Levels from this one on are not visible.
inline thread_local uint32_t forward_limit = UINT32_MAX;

uint32_t enter_forward_level();
void exit_forward_level(uint32_t level);
bool is_forward_level(uint32_t level);

bool has_tangent_now(const Tensor& x);
inline bool has_tangent(const Tensor& x) { return forward_levels && has_tangent_now(x); }
// The tangent of x at a level; undefined if it has none.
Tensor tangent_of(const Tensor& x, uint32_t level);
// The visible tangents of x.
std::vector<Tangent> tangents_of(const Tensor& x);
void set_tangents(const Tensor& x, std::vector<Tangent> tangents);
// Makes room for tangents that will be computed later, to be shared by aliases made meanwhile.
void reserve_tangents(const Tensor& x);
void share_tangents(const Tensor& to, const Tensor& from);

// Stands on an edge for an input that carries tangents.
struct Placeholder final : Node {
  Placeholder(Edge real, std::vector<Tangent> tangents)
      : real(std::move(real)), tangents(std::move(tangents)) {
    is_placeholder_ = true;
  }
  const char* name() const override { return "Placeholder"; }
  void vjp(Gradients, Gradients) override;
  Edge real;
  std::vector<Tangent> tangents;
};
Edge placeholder_edge(const Tensor& x, Edge real);

// An output whose tangents have yet to be computed.
struct PendingTangent {
  Ref<Node> node;
  uint32_t output_number;
  Tensor output;
  bool recorded;  // whether recording was on
  uint32_t limit;
};
inline thread_local std::vector<PendingTangent> pending_tangents;

// Notes that `tensor` is an output of `node` if the node has placeholders. False if the tensor is not
// to get the node as its history.
bool attach_forward(const Tensor& tensor, const Ref<Node>& node, uint32_t output_number);

}  // namespace tapegrad
