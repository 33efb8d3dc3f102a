// Program: op calls captured as they ran, to be run again.
//
// Note [What a captured call holds]
// Names of bytes, see Note [What a call means]: aliases of its operands as they were. The tensor
// itself may be given another shape or other memory afterwards (resize_, set_, .data =, an out= that
// shrinks). Whoever runs the program again must know that, too, where the tensor came from outside:
// so the tensors themselves are held beside the aliases.
//
// Note [What a captured program must see]
// What goes on besides calls. Bytes that go to the host are a guard: the same must be found there
// again. Bytes that come from the host into fresh memory are a constant, put there again. Memory whose
// address has left can be read and written unseen: a call that reads it is guarded, one that writes it
// is a reason not to run the program again. And so is memory that another thread uses meanwhile.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "intercept/capture.h"

namespace tapegrad {

class Program {
 public:
  struct Step {
    const Op* op;  // null for a guard, which has an input, and for a constant, which has an output
    std::vector<Tensor> inputs;
    std::vector<Scalar> attributes;
    std::vector<Tensor> outputs;
    std::vector<char> bytes;        // that a guard saw, or that came from outside
    std::vector<Tensor> tensors{};  // whose aliases the inputs are
  };
  // Memory that another thread used while the program listened.
  struct Foreign {
    Tensor tensor;
    bool is_written;
  };

  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { stop(); }

  // Listens on this thread, until stop().
  void start();
  void stop() noexcept;

  void append(const OpCall& call);
  void append_read(const Tensor& x);
  void append_constant(const Tensor& x);
  // The address of the bytes is known outside; `is_seen` if what they are matters from now on.
  void append_shared(const Tensor& x, bool is_seen);

  // Executes every step again, on the same bytes. Fails where a guard sees other bytes than before.
  void replay() const;
  const std::vector<Step>& steps() const { return steps_; }
  const std::unordered_map<const Storage*, Foreign>& foreign() const { return foreign_; }
  // Something happened that is no step.
  void refuse(std::string reason) {
    if (refusal_.empty()) refusal_ = std::move(reason);
  }
  // Why the program must not run again, or empty.
  const std::string& refusal() const { return refusal_; }

  // What programs that listen on other threads learn of a call, or of a look at a tensor.
  static void note_elsewhere(std::span<TensorImpl* const> inputs,
                             std::span<TensorImpl* const> outputs);

 private:
  void add_foreign(TensorImpl* operand, bool is_written);
  void check_shared(const OpCall& call);

  std::vector<Step> steps_;
  std::unordered_map<const Storage*, Foreign> foreign_;
  struct Shared {
    Tensor tensor;  // holds the memory, so that it stays the one that was shared
    bool is_seen;
  };
  std::unordered_map<const Storage*, Shared> shared_;
  std::string refusal_;
  const void* thread_ = nullptr;  // the address of one of the thread's own variables
  bool listens_ = false;
};

}  // namespace tapegrad
