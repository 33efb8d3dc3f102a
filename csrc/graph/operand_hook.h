// Where autocast stands: between an op that is called and its record. A hook may replace the operands
// before the op looks at their dtypes, by what it computes from them with recorded ops; all that comes
// after (the tape, vmap, forward mode, budgets, programs) sees an ordinary op on ordinary tensors.
//
// The hook belongs to a thread. Matrix products ask for it; other ops that are to be cast will. It is not
// in force while a sweep runs or a tangent is computed: derivatives take operands as they are.
#pragma once

#include <span>
#include <utility>

#include "core/tensor.h"

namespace tapegrad {

struct OperandHook {
  void (*call)(void* state, const char* op, std::span<Tensor> operands) = nullptr;
  void* state = nullptr;
  explicit operator bool() const { return call != nullptr; }
};
inline thread_local OperandHook operand_hook;

// Lets the hook replace the operands, and lifts it for a while: neither the ops that it calls nor the op
// with its new operands ask again.
class WithoutOperandHook {
 public:
  WithoutOperandHook(const char* op, std::span<Tensor> operands)
      : hook_(std::exchange(operand_hook, {})) {
    try {
      hook_.call(hook_.state, op, operands);
    } catch (...) {
      operand_hook = hook_;
      throw;
    }
  }
  ~WithoutOperandHook() { operand_hook = hook_; }
  WithoutOperandHook(const WithoutOperandHook&) = delete;
  WithoutOperandHook& operator=(const WithoutOperandHook&) = delete;

 private:
  OperandHook hook_;
};

}  // namespace tapegrad
