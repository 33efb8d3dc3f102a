// Call: a call of an op as a value, which names its operands and holds none of them.
//
// See Note [What a call means] in core/op.h. Memory is named by a number that whoever keeps the call
// gives: a program its values (intercept/program.h), a recipe its own operands (graph/recipe.h). A Python
// number in an expression is no memory at all but a literal of the call.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "core/layout.h"
#include "core/op.h"

namespace tapegrad {

// A 0-d tensor made of a Python number, weak in promotion: a literal of the calls that it takes part in.
Tensor wrapped_number(Scalar number);
// The same of a complex number, which is too long for a literal: calls hold its tensor.
Tensor wrapped_complex(Complex<double> number);
inline bool is_literal(const TensorImpl& x) {
  return x.is_wrapped_number() && x.dim() == 0 && !is_complex(x.dtype());
}
// The number such a tensor was made of, which is not complex.
Scalar number_of(const TensorImpl& wrapped);
inline Scalar number_of(const Tensor& wrapped) { return number_of(*wrapped.impl()); }

class Call {
 public:
  struct Operand {
    static constexpr uint32_t kLiteral = UINT32_MAX;

    bool is_literal() const { return memory == kLiteral; }

    int64_t offset = 0;   // in elements; the bits of a literal
    uint32_t memory = 0;  // which, in the numbers of whoever keeps the call
    uint32_t dims = 0;    // where its sizes and strides begin
    DType dtype{};
    uint8_t rank = 0;
    Device device;
  };
  // An operand to make a call of.
  struct Named {
    uint32_t memory;
    Placement placement;
    Scalar literal{};  // if there is no memory
  };

  Call() = default;
  // Memory gets the number 0; the caller gives others.
  explicit Call(const OpCall& call);
  // `op` is null for what happens beside ops, see Program::Step.
  Call(const Op* op, std::span<const Named> inputs, std::span<const Scalar> attributes,
       std::span<const Named> outputs);
  Call(Call&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Call& operator=(Call&& other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Call();

  const Op* op() const { return block_->op; }
  std::span<Operand> inputs() const { return {operands(), block_->input_count}; }
  std::span<Operand> outputs() const {
    return {operands() + block_->input_count, block_->output_count};
  }
  std::span<Operand> all() const {
    return {operands(), size_t{block_->input_count} + block_->output_count};
  }
  std::span<const Scalar> attributes() const {
    return {reinterpret_cast<const Scalar*>(operands() + all().size()), block_->attribute_count};
  }
  Placement placement(const Operand& operand) const;
  Scalar literal(const Operand& operand) const;
  // The operand in a storage, `shift` elements further on than where it was; a literal needs none.
  Ref<TensorImpl> tensor(const Operand& operand, Ref<Storage> storage, int64_t shift = 0) const;

  // The same op with the same attributes, on the same places of memory of the same numbers.
  friend bool operator==(const Call& a, const Call& b);

 private:
  // Operands, attributes and dimensions lie behind it.
  struct Block {
    const Op* op;
    uint32_t bytes, input_count, output_count, attribute_count;
  };

  Operand* operands() const { return reinterpret_cast<Operand*>(block_ + 1); }
  int64_t* dims() const {
    return reinterpret_cast<int64_t*>(const_cast<Scalar*>(attributes().data()) +
                                      block_->attribute_count);
  }
  void allocate(const Op* op, size_t inputs, std::span<const Scalar> attributes, size_t outputs,
                size_t words);
  void put(Operand& operand, const Placement& placement, uint32_t& at);
  void put_literal(Operand& operand, DType dtype, Scalar value);

  Block* block_ = nullptr;
};

}  // namespace tapegrad
