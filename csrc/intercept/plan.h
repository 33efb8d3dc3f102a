// Plan: a captured program, made ready to run many times on the CPU.
//
// Note [What a plan fixes]
// A program says which bytes each call names; a plan says where they are. A value lives in one of five
// places: in the plan's arena, where values that are not needed at the same time share memory; in memory of its
// own, if it is a constant; in the storage that the program saw, such as a parameter's; in what is given for
// one run, such as an argument; or in memory that is allocated in every run because it outlives it, such as a
// result. The operands of all
// calls are made once. A run puts what is given and what is fresh into the operands that show it, and then
// calls one kernel after the other: no dispatch, no Python, and no allocation but for what outlives the run.
//
// A plan belongs to one run at a time; whoever finds it busy does without.
#pragma once

#include <span>
#include <vector>

#include "intercept/program.h"

namespace tapegrad {

class Plan {
 public:
  struct Home {
    enum class Kind : uint8_t { Arena, Constant, Fixed, Given, Fresh, Tile };
    Kind kind = Kind::Arena;
    int64_t offset = 0;      // in the arena
    Ref<Storage> storage{};  // that is fixed
  };

  // The program outlives the plan. All of it must be on the CPU.
  Plan(const Program& program, std::vector<Home> homes, size_t arena_bytes);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  static constexpr size_t kNone = SIZE_MAX;

  // Runs steps from `begin` up to `end`, pointwise all of them over so many elements in order, tile by tile. Values with
  // an offset are theirs alone, and lie in so many bytes that each thread has; their home is Tile.
  void add_group(size_t begin, size_t end, int64_t numel, int64_t tile, size_t tile_bytes,
                 std::span<const std::pair<uint32_t, int64_t>> inner);

  // Puts memory into the operands of a value, `shift` bytes further on than it was. False if an element would
  // lie across those of the memory, or outside of it.
  bool give(uint32_t value, const Ref<Storage>& storage, int64_t shift);
  // Memory for a fresh value that nobody else can see, taken instead of allocating some; false where it does not fit, or
  // where it may be needed again because a guard fails.
  bool offer(uint32_t value, const Ref<Storage>& storage);
  // Runs all steps. Returns the number of the first guard that does not hold, with what was found in
  // its place, or kNone; what was written until then is put back. If a kernel fails, failed_early() says
  // whether nothing that existed before was written.
  size_t run(std::vector<char>& found);
  bool failed_early() const { return failed_early_; }
  // Notes writes to memory that existed before, as in-place ops do: calls visit(tensor) for each place.
  template <class Visit>
  void each_written(Visit&& visit) const {
    for (TensorImpl* written : written_) visit(Tensor(written));
  }
  // The memory of a value, until end().
  const Ref<Storage>& memory(uint32_t value) const { return memory_[value]; }
  // Lets go of what was given and of what is fresh.
  void end() noexcept;

  std::span<Scalar> attributes(size_t step);
  const Program& program() const { return program_; }
  size_t arena_bytes() const { return arena_ ? arena_->nbytes() : 0; }
  bool is_busy = false;

 private:
  struct Instruction {
    Kernel kernel;              // null for a guard or a constant
    const Program::Step* step;  // null for a constant that is there already
    uint32_t operands, inputs, outputs;
    uint32_t attributes, attribute_count;
  };
  struct Shown {
    Ref<TensorImpl> tensor;
    int64_t offset;  // without a shift
  };
  struct Saved {
    Tensor place, content;
  };

  // An operand of a group: a tile of a value, or a number as it is.
  struct TileOperand {
    uint32_t value;
    int64_t offset;  // of the first element, or in the thread's bytes
    bool is_inner;
    TensorImpl* number;  // or null
    DType dtype;
  };
  // What one thread works with.
  struct Worker {
    Ref<Storage> bytes;
    std::vector<Ref<TensorImpl>> tensors;  // null for numbers
    std::vector<TensorImpl*> operands;
  };
  struct Group {
    size_t begin, end;
    int64_t numel, tile;
    size_t tile_bytes;
    std::vector<TileOperand> operands;
    std::vector<Worker> workers;
  };
  void run_group(Group& group);
  void add_worker(Group& group);
  void run_tile(const Group& group, const Worker& worker, int64_t begin, int64_t count) const;

  void settle_homes(std::vector<Home> homes, size_t arena_bytes);
  void add_step(const Program::Step& step);
  TensorImpl* operand(const Call& call, const Call::Operand& operand);
  void note_written();
  void put(uint32_t value, const Ref<Storage>& storage);
  void execute(const Instruction& instruction) const;
  bool holds(const Instruction& instruction, std::vector<char>& found) const;
  std::vector<Saved> save() const;

  const Program& program_;
  Ref<Storage> arena_, nowhere_;
  std::vector<Home::Kind> kinds_;
  std::vector<Ref<Storage>> memory_;       // by value
  std::vector<int64_t> shifts_;            // by value, of what is given
  std::vector<std::vector<Shown>> shown_;  // by value
  std::vector<uint32_t> fresh_, given_;
  std::vector<Ref<TensorImpl>> literals_;
  std::vector<Instruction> instructions_;
  std::vector<TensorImpl*> operands_;
  std::vector<Scalar> attributes_;
  std::vector<TensorImpl*> written_;
  std::vector<Group> groups_;
  std::vector<uint32_t>
      group_at_;  // by step: one more than the number of the group that begins there
  size_t first_outside_write_ = kNone, last_guard_ = kNone;
  size_t first_offered_write_ = kNone;  // of the memory that was offered for this run
  bool failed_early_ = false;
};

}  // namespace tapegrad
