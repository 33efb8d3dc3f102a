// SavedValue: the single point where a tensor enters the tape and leaves it again.
//
// Note [What a saved value keeps alive]
// The bytes, and as little else as possible. An input that an edge of the entry leads to is kept as
// a bare alias: its history can be recovered from the edge, so neither the Python object nor what
// autograd attached to it needs to live on. An output is kept likewise, because its history *is* the entry.
// Leaves and values without history are kept as they are. Under saved_tensors_hooks, what the pack
// hook returned is kept instead of the tensor. Under a coding policy (graph/coding.h), the codes are.
#pragma once

#include <cstdint>

#include <vector>

#include "core/source.h"
#include "core/tensor.h"
#include "spec/saved_use.h"

namespace tapegrad {

class Node;
struct Coded;

// What an entry says about a value that it saves, for codings.
struct SavedReading {
  SavedUse use = SavedUse::Smooth;
  Tensor sides{};                 // of a Test: a value of two kinds that tells the sides apart
  std::vector<Scalar> windows{};  // of places of maxima: see pack_places in ops/compress.cpp
};

// Set by the binding layer: packing and unpacking by Python functions.
struct SavedHooks {
  // `history` is the entry that made the value, with its output number, if no edge leads there.
  void* (*pack)(const Tensor& tensor, Node* history, uint32_t number) = nullptr;
  Tensor (*unpack)(void* packed) = nullptr;
  Node* (*history)(void* packed, uint32_t* number) = nullptr;
  void (*release)(void* packed) noexcept = nullptr;
};
inline SavedHooks saved_hooks;
// Whether hooks are active on this thread.
inline thread_local bool packing = false;

class SavedValue {
 public:
  SavedValue() = default;
  // An input of the recorded op, whose edges are set already.
  static SavedValue input(const Tensor& tensor, const Node& owner, size_t index);
  // An output of the recorded op.
  static SavedValue output(const Tensor& tensor, const Node& owner, size_t index);
  // What is left once a sweep has dropped the value: the line of that sweep.
  static SavedValue dropped(const SourceLine& sweep_line);

  SavedValue(SavedValue&& other) noexcept { swap(other); }
  SavedValue& operator=(SavedValue&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SavedValue() {
    if (content_) free_content();
  }

  // Lets go of the tensor.
  void clear() {
    if (content_) free_content();
    kind_ = Kind::Whole;
  }

  // The tensor, after the check that nobody has written to it since. `owner` is the saving entry.
  Tensor get(const Node& owner) const;
  bool defined() const { return content_ && kind_ != Kind::Dropped; }
  // Whether it is a Python number that took part in the op.
  bool is_number() const { return kind_ == Kind::Whole && content_ && impl()->is_wrapped_number(); }
  // Shows the held tensor, if there is one, without counting a reference.
  template <class Visit>
  void with_tensor(Visit&& visit) const {
    static_assert(sizeof(Tensor) == sizeof(void*));
    if ((kind_ == Kind::Whole || kind_ == Kind::Overwritten) && content_)
      visit(*reinterpret_cast<const Tensor*>(&content_));
  }
  // Shows each tensor that the value keeps alive: the tensor, or its codes.
  template <class Visit>
  void with_stored(Visit&& visit) const {
    with_tensor(visit);
    if (kind_ == Kind::Coded && content_)
      for (const Tensor& part : coded_parts()) visit(part);
  }
  // The codes, or null.
  const Coded* coded() const {
    return kind_ == Kind::Coded ? static_cast<const Coded*>(content_) : nullptr;
  }
  // The Python object that a pack hook returned, or null.
  void* packed() const { return kind_ == Kind::Packed ? content_ : nullptr; }
  // Where its history comes from: its own, one of the entry's edges, or the entry itself.
  enum class History : uint8_t { Own, Edge, Output };
  History history() const { return history_; }
  // The line of the sweep that dropped the value.
  std::string dropped_at() const;
  // Notes that a replay has given the bytes other values, which no version tells; or that they are
  // right again.
  void set_overwritten(bool overwritten) {
    if (content_ && (kind_ == Kind::Whole || kind_ == Kind::Overwritten))
      kind_ = overwritten ? Kind::Overwritten : Kind::Whole;
  }
  // Replaces the tensor by what a pack hook makes of it.
  void repack();

 private:
  enum class Kind : uint8_t { Whole, Packed, Dropped, Coded, Overwritten };

  void hold(Tensor tensor);
  // The entry at which the gradient of a packed leaf arrives; null if it is none.
  Node* packed_leaf(const Node& owner) const;
  void check_writes(const Node& owner, const Tensor& value) const;
  void pack(const Tensor& tensor);
  bool encode(const Tensor& tensor, const Node& owner, size_t index);
  std::span<const Tensor> coded_parts() const;
  void free_content() noexcept;
  TensorImpl* impl() const { return static_cast<TensorImpl*>(content_); }
  void swap(SavedValue& other) noexcept {
    std::swap(content_, other.content_);
    std::swap(version_, other.version_);
    std::swap(number_, other.number_);
    std::swap(kind_, other.kind_);
    std::swap(history_, other.history_);
  }

  void* content_ = nullptr;  // a TensorImpl, a packed object, a code object, or Coded: owned
  uint32_t version_ = 0;     // of the storage when it was saved; the line of a dropped value
  uint16_t number_ = 0;      // of the edge or output that is the value's history
  Kind kind_ = Kind::Whole;
  History history_ = History::Own;
};
static_assert(sizeof(SavedValue) == 16);

}  // namespace tapegrad
