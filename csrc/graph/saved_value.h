// SavedValue: the single point where a tensor enters the tape and leaves it again.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tapegrad {

class Node;

class SavedValue {
 public:
  SavedValue() = default;
  // An input of the recorded op. Keeps the tensor with its history, for higher-order gradients.
  static SavedValue input(const Tensor& tensor);
  // An output of the recorded op. The tensor's history *is* the entry that saves it, so it is
  // kept without history, which would be a cycle, and given it back when read.
  static SavedValue output(const Tensor& tensor);

  // The tensor, after the check that nobody has written to it since. `owner` is the saving entry.
  Tensor get(const Node& owner) const;
  bool defined() const { return tensor_.defined(); }
  void reset() { tensor_ = Tensor(); }
  // As held, unchecked: for inspection.
  const Tensor& peek() const { return tensor_; }

 private:
  Tensor tensor_;
  uint32_t version_ = 0;
  uint16_t output_number_ = 0;
  bool is_output_ = false;
};
static_assert(sizeof(SavedValue) == 16);

}  // namespace tapegrad
