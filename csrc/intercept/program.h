// Program: calls captured as they ran, to be looked at, kept and run again.
//
// Note [What a captured call holds]
// Names of bytes, see Note [What a call means]: a program gives every storage that a step names a number,
// its *value*. A value is either *made* by the program, then a run has memory of its own for it, or it
// comes from outside, then whoever runs the program says which memory it is. The program holds the storages that
// it saw, so that two never have one address; those that it made, and that nobody else holds any more, it lets go
// of now and then, with their numbers, so that listening takes not much more memory than the calls themselves.
// The tensors that were read from outside are held, too: a tensor may be given another shape or other
// memory afterwards (resize_, set_, .data =), which whoever runs the program again must notice.
//
// Note [What a captured program must see]
// What goes on besides calls. Bytes that go to the host are a guard: the same must be found there
// again. Bytes that come from the host into fresh memory are a constant, put there again. Memory whose
// address has left can be read and written unseen: a call that reads it is guarded, one that writes it
// is a reason not to run the program again. And so is memory that another thread uses meanwhile.
// Memory that was made while the program listened, and that a call reads though none has written it,
// holds what some op put there on the host: its bytes are a constant as well.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/call.h"
#include "intercept/capture.h"

namespace tapegrad {

class Program {
 public:
  static constexpr uint32_t kNever = UINT32_MAX;

  struct Value {
    Ref<Storage> storage;  // where it was when the program listened, if that is still held
    size_t nbytes = 0;
    Device device;
    bool is_made = false;                         // by the program
    bool is_read = false;                         // what was there before the program is read
    bool is_written = false;                      // by a step
    bool is_whole = false;                        // all of it has been written, so far
    uint32_t first_write = kNever, last_use = 0;  // steps
    ByteRange used{};                             // by all steps
  };
  struct Step {
    // Without an op: a guard, which has an input, or a constant, which has an output.
    Call call;
    std::vector<char> bytes{};  // that a guard saw, or that came from outside
    std::string line{};         // of the source, if known

    // That of the op, "read" for a guard, or "constant".
    const char* name() const {
      if (call.op()) return call.op()->name;
      return is_guard() ? "read" : "constant";
    }
    bool is_guard() const { return !call.op() && !call.inputs().empty(); }
    bool is_constant() const { return !call.op() && call.inputs().empty(); }
  };
  // Memory that another thread used while the program listened.
  struct Foreign {
    Tensor tensor;
    bool is_written;
  };
  // A tensor from outside, and what it was when it was first read.
  struct Used {
    Tensor tensor, alias;
  };
  // The memory of a value in a run.
  struct Bound {
    Ref<Storage> storage;
    int64_t shift = 0;  // how many bytes further on than it was
  };

  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { stop(); }

  // Listens on this thread, until stop().
  void start();
  void stop() noexcept;

  void append(const OpCall& call);
  // `host` shows the same elements on the CPU.
  void append_read(const Tensor& x, const Tensor& host);
  void append_constant(const Tensor& x);
  // The bytes of a storage were copied to other memory, which is its memory from now on.
  void append_move(Storage& storage, const Placement& before, const Placement& after);
  // The address of the bytes is known outside; `is_seen` if what they are matters from now on.
  void append_shared(const Tensor& x, bool is_seen);

  // A program from its parts, which may be anybody's: refuses what no capture gives.
  uint32_t add_value(size_t nbytes, Device device, bool is_made);
  void add_step(Step step);

  // Notes a line with each step from now on, as the function tells it.
  void keep_lines(std::string (*line)()) { line_ = line; }
  // Says where guards from a step on were looked at, unless that is known.
  void place_guards(size_t first, const std::string& line);
  // Lets go of memory that nobody else can see.
  void drop_temporaries();

  // Executes every step, on this memory; values without any get some, which goes after its last use unless
  // the value is `kept`. Fails where a guard sees other bytes than before, and puts back what was
  // written until then.
  std::vector<Bound> run(const char* who, std::vector<Bound> memory,
                         std::span<const uint32_t> kept) const;
  // On the memory that the program saw.
  void replay() const;

  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Used>& used() const { return used_; }
  const std::unordered_map<const Storage*, Foreign>& foreign() const { return foreign_; }
  // Something happened that is no step.
  void refuse(std::string reason) {
    if (refusal_.empty()) refusal_ = std::move(reason);
  }
  // Why the program must not run again, or empty.
  const std::string& refusal() const { return refusal_; }

  // The same steps, on the same memory and from the same bytes.
  friend bool operator==(const Program& a, const Program& b);

  // What programs that listen on other threads learn of a call, or of a look at a tensor.
  static void note_elsewhere(std::span<TensorImpl* const> inputs,
                             std::span<TensorImpl* const> outputs);

 private:
  uint32_t number_of(const TensorImpl& x, bool is_output);
  uint32_t add_storage(Storage& owner, bool is_made);
  int64_t shift_of(const TensorImpl& x);
  Call::Named name(const TensorImpl& x, bool is_output);
  void append_constant_of(uint32_t number);
  void note_tensor(TensorImpl* x, uint32_t number);
  void push(Step step);
  void note_use(const Call& call, const Call::Operand& operand, bool is_output);
  void add_foreign(TensorImpl* operand, bool is_written);
  void check_shared(const OpCall& call);

  std::vector<Step> steps_;
  std::vector<Value> values_;
  std::unordered_map<const Storage*, uint32_t> numbers_;
  std::vector<uint32_t> held_;  // made values with a storage
  size_t made_bytes_ = 0;       // since some were let go
  std::vector<Used> used_;
  std::unordered_set<const TensorImpl*> used_tensors_;
  std::unordered_map<const Storage*, Foreign> foreign_;
  struct Shared {
    Tensor tensor;  // holds the memory, so that it stays the one that was shared
    bool is_seen;
  };
  std::unordered_map<const Storage*, Shared> shared_;
  std::string refusal_;
  std::string (*line_)() = nullptr;
  const void* thread_ = nullptr;  // the address of one of the thread's own variables
  bool listens_ = false;
};

}  // namespace tapegrad
