// Node: an entry of the tape. It says which op ran, from which entries its inputs came (edges), what
// the op saved, where in the Python source it happened, and how to turn gradients of its outputs
// into gradients of its inputs (vjp).
//
// Data structure. A node is one block of memory: the C++ object of the op's own type, whose members
// are the op's attributes, followed by three arrays: edges, saved values, and output shapes.
//
// Invariant. Sequence numbers grow as entries are made, and an edge always leads to a smaller one.
// So descending order of sequence numbers is a topological order: the sweep needs no dependency
// count, and the entries reachable from an output, sorted, are the tape.
//
// Start reading at graph/record.h for how an entry is made, at engine/sweep.cpp for how it is used.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/lane.h"
#include "core/source.h"
#include "core/tensor.h"
#include "graph/entry_kind.h"
#include "graph/saved_value.h"

namespace tapegrad {

class Node;

// Which output of which entry a value came from. No node: the value needs no gradient.
struct Edge {
  Ref<Node> node;
  uint32_t output_number = 0;
};

using Gradients = std::span<Tensor>;

// Of the entry that a sweep is running, the inputs whose gradient the sweep has no use for, by bit.
struct Unwanted {
  const Node* node = nullptr;
  uint64_t inputs = 0;
};
inline thread_local Unwanted unwanted;
// The entry that runs as a part of another one, and the history of its output: not the entry itself,
// which nothing leads to, but what the other entry made of it.
struct RunningPart {
  const Node* entry = nullptr;
  Node* output = nullptr;
};
inline thread_local RunningPart running_part;
// Set by the engine: hands over what waits for an input of the entry that a sweep is running, to be added to in place
// and given back as the gradient of that input. Undefined where nothing waits, or where others hold it as well.
inline Tensor (*take_waiting)(const Node& node, size_t input) = nullptr;
// How many sweeps are running on this thread, one inside the other.
inline thread_local uint32_t sweeps_running = 0;

class Node {
 public:
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // What it has in common with others: the op, the names of what it saves.
  virtual const EntryKind& kind() const = 0;
  // "MulBackward0". Custom functions have names of their own.
  virtual const char* name() const { return kind().name.c_str(); }
  // "mul": what the tape calls it.
  virtual std::string function() const { return kind().function; }

  // One gradient per output comes in (undefined means zero), one per edge goes out. Only those
  // with needs(i) must be filled; the sweep sums broadcast dimensions away and casts. Written with
  // recorded ops, so that it is differentiable again.
  virtual void vjp(Gradients grads, Gradients grad_inputs) = 0;

  bool needs(size_t input) const {
    if (unwanted.node == this && input < 64 && unwanted.inputs >> input & 1) [[unlikely]]
      return false;
    return static_cast<bool>(edges()[input].node);
  }
  std::span<Edge> edges() const { return {at<Edge>(edges_offset_), edge_count_}; }

  // Saved value i, checked: fails when it was overwritten, or dropped by an earlier sweep.
  Tensor saved(size_t i) const;
  std::span<SavedValue> saved_values() const {
    return {at<SavedValue>(edges_offset_ + edge_count_ * sizeof(Edge)), saved_count_};
  }
  // The edges must be set: the history of a saved input is one of them.
  void save_input(size_t i, const Tensor& tensor) {
    saved_values()[i] = SavedValue::input(tensor, *this, i);
  }
  void save_output(size_t i, const Tensor& tensor) {
    saved_values()[i] = SavedValue::output(tensor, *this, i);
  }
  // How the derivative reads saved value i, whose elements these are in the order of memory.
  virtual SavedReading reading(size_t, const Tensor&) const { return {}; }
  // Where saved value i stands among the names of its kind: entries that leave some out differ.
  virtual size_t saved_place(size_t i) const { return i; }
  std::string saved_name(size_t i) const { return kind().saved_name(saved_place(i)); }
  // What else the entry knows, readable as _saved_dim and the like.
  struct Attribute {
    const char* name;
    std::variant<bool, int64_t, double, DimVector> value;
  };
  virtual std::vector<Attribute> attributes() const { return {}; }
  // Drops the saved values, in a sweep that runs at this line: an ephemeral tape's entries do so as
  // the sweep passes.
  virtual void release_saved(const SourceLine& sweep_line);
  bool released() const { return released_; }
  // True for the entry at which a leaf's gradient arrives, see accumulate.h.
  bool is_accumulator() const { return is_accumulator_; }
  // True for what stands on an edge while a tangent waits, see forward.h.
  bool is_placeholder() const { return is_placeholder_; }
  // True where the graph of a reverse-mode transform begins: its output is a leaf to the function inside.
  bool is_transform_input() const { return is_transform_input_; }
  // True for an entry that serves forward mode alone and is nobody's history.
  bool is_forward_only() const { return is_forward_only_; }
  void set_forward_only() { is_forward_only_ = true; }
  // The entry that this one runs as a part of itself, if any.
  virtual Node* inner_entry() { return nullptr; }
  // Of an entry that stands for a write to a part of its output: that part of a value of its shape.
  virtual Tensor written_part(const Tensor&) { return {}; }
  // Whether the collector of cycles must go through the entry: it, or one before it, holds something
  // of Python's.
  bool is_collected() const { return is_collected_; }
  void set_collected() { is_collected_ = true; }
  // Shows the collector what else the entry keeps alive: tensors, other entries, Python's
  // objects.
  struct Visitor {
    void (*tensor)(const Tensor&, void* state);
    void (*node)(Node*, void* state);
    void (*object)(void* object, void* state);
    void* state;
  };
  virtual void visit(const Visitor&) const {}

  // Gradients are validated against the shape and dtype of the output they belong to.
  size_t output_count() const { return output_count_; }
  DType output_dtype(size_t i) const { return outputs()[i].dtype; }
  Device output_device(size_t i) const { return outputs()[i].device; }
  Sizes output_sizes(size_t i) const {
    const Output& output = outputs()[i];
    return {reinterpret_cast<const int64_t*>(outputs().data()) + output.sizes_begin, output.rank};
  }

  // Note [Dtypes of gradients]
  // A gradient has the dtype of the value that it belongs to. Around casts, which mixed precision is full of,
  // that would cost passes over memory: a product could write the gradient of a cast weight in the dtype of the
  // weight at once, and a norm whose result was cast could read the gradient of that as it is. So some entries
  // give or take other dtypes, and say so when they are recorded:
  // - Widens: it gives gradients of float32 for inputs of a half type, where they go to a leaf of float32;
  // - Halves: its derivative reads half types beside values of float32;
  // - Any: it hands its gradient on with no more than another shape, like a cast or a transpose.
  // A gradient that goes from the first or third kind to the second or third, or that is narrower than its value, is
  // left as it is. All others are rounded to the dtype of their value, as PyTorch does. What adds up is added in the
  // widest dtype, and whoever looks at the gradient of an entry (hooks, retain_grad, grad) gets that of the value. A
  // sweep that is recorded, or that is run step by step, casts everything.
  enum class GradientDtypes : uint8_t { Own, Widens, Halves, Any };
  GradientDtypes gradient_dtypes() const { return gradient_dtypes_; }
  void set_gradient_dtypes(GradientDtypes dtypes) { gradient_dtypes_ = dtypes; }
  bool takes_other_dtypes() const { return gradient_dtypes_ >= GradientDtypes::Halves; }
  // Whether a gradient of an output, given by a later entry, may be of this dtype, other than the output's.
  bool takes_gradient(DType dtype, size_t output, const Node& from) const {
    if (!takes_other_dtypes()) return false;
    const DType own = output_dtype(output);
    if (gradient_dtypes_ == GradientDtypes::Halves)
      return is_reduced_float(dtype) && own == DType::Float32;
    const bool is_given = from.gradient_dtypes_ == GradientDtypes::Widens ||
                          from.gradient_dtypes_ == GradientDtypes::Any;
    return is_floating(dtype) && is_floating(own) && (is_given || itemsize(dtype) < itemsize(own));
  }
  // The dtype in which the gradient of an input ends up in a leaf, if there are only entries in between that hand it
  // on; else that of the input.
  DType leaf_dtype(size_t input) const;

  // Whether there is something to look up in hooks.h.
  bool has_hooks() const { return has_hooks_; }
  void set_has_hooks(bool value) { has_hooks_ = value; }

  // The innermost vmap over whose batch an output differs, see intercept/batch.h.
  uint32_t vmap() const { return vmap_; }
  // Whether an output differs over the batch of a vmap. Gradients that differ over a finished one which
  // the outputs do not differ over are summed before they get here.
  bool differs_over(uint32_t vmap) const {
    return vmap_ == vmap || vmap_ == kInnermost || (has_outer_vmaps_ && is_outer_vmap(vmap));
  }
  // The vmap() of entries behind the input of a transposed vjp (engine/tangent.cpp), whose gradient is a
  // tangent: each element of any batch has its own, nothing is summed.
  static constexpr uint32_t kInnermost = UINT32_MAX;

  // Where it was recorded, and where a sweep runs it: see Note [Lanes].
  Lane lane() const { return lane_; }

  uint64_t sequence() const { return sequence_; }
  // Gives the entry its place in the tape and notes source line and lane; called once, after the edges
  // are set, because making an edge may itself make entries.
  void stamp();
  std::string line() const { return line_.text(); }

  uint32_t count() const { return count_; }
  void retain() { ++count_; }
  void release() noexcept {
    if (--count_ == 0) destroy(this);
  }

  template <class N, class... Arguments>
  static Ref<N> create(size_t edge_count, size_t saved_count, std::span<const Tensor> outputs,
                       Arguments&&... arguments) {
    size_t bytes = trailing_bytes(edge_count, saved_count, outputs) + sizeof(N);
    N* node = new (pool_allocate(bytes)) N(std::forward<Arguments>(arguments)...);
    node->Node::set_up(sizeof(N), bytes, edge_count, saved_count, outputs);
    return Ref<N>::adopt(node);
  }

 protected:
  Node() = default;
  virtual ~Node() = default;

 private:
  struct Output {
    DType dtype;
    uint8_t rank;
    Device device;
    uint32_t sizes_begin;  // in words from the start of the output array
  };
  static_assert(sizeof(Output) == 8);

  template <class T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(const_cast<char*>(reinterpret_cast<const char*>(this)) + offset);
  }
  std::span<Output> outputs() const {
    return {
        at<Output>(edges_offset_ + edge_count_ * sizeof(Edge) + saved_count_ * sizeof(SavedValue)),
        output_count_};
  }
  static size_t trailing_bytes(size_t edge_count, size_t saved_count,
                               std::span<const Tensor> outputs);
  void set_up(size_t object_bytes, size_t bytes, size_t edge_count, size_t saved_count,
              std::span<const Tensor> outputs);
  // Frees this node and all that only it keeps alive, without recursion.
  static void destroy(Node* node) noexcept;
  void free_now() noexcept;
  bool is_behind_transpose() const;
  void note_vmaps(std::span<const Tensor> outputs);
  bool is_outer_vmap(uint32_t vmap) const;

  uint32_t count_ = 1;
  uint32_t bytes_ = 0;
  uint64_t sequence_ = 0;
  [[no_unique_address]] SourceLine line_;
  uint32_t place_ = 0;  // in the table of those that live; in the line's padding
  uint32_t edge_count_ = 0;
  uint32_t output_count_ = 0;
  uint16_t edges_offset_ = 0;
  uint16_t saved_count_ = 0;

 protected:
  uint32_t vmap_ = 0;
  bool is_accumulator_ = false;
  bool is_placeholder_ = false;
  bool is_transform_input_ = false;

 private:
  bool released_ = false;
  bool has_hooks_ = false;
  bool is_forward_only_ : 1 = false;
  bool is_collected_ : 1 = false;
  bool has_outer_vmaps_ : 1 = false;  // outputs differ over several batches
  GradientDtypes gradient_dtypes_ : 2 = GradientDtypes::Own;
  uint8_t spare_ : 3 = 0;  // so that the byte is written whole
  Lane lane_ = 0;
};

// An entry of a class that has one kind, and of one that has several.
template <const EntryKind& kKind>
class Entry : public Node {
 public:
  const EntryKind& kind() const final { return kKind; }
};
class VariantEntry : public Node {
 public:
  explicit VariantEntry(const EntryKind& kind) : kind_(kind) {}
  const EntryKind& kind() const final { return kind_; }

 private:
  const EntryKind& kind_;
};

int64_t live_node_count();
// All live entries, in no particular order.
std::vector<Node*> live_nodes();
// Entries made from now on have this sequence number or a larger one.
uint64_t next_sequence_number();

}  // namespace tapegrad
