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

// What a trace asks of a plan, wherever it runs.
class TracePlan {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  explicit TracePlan(const Program& program) : program_(program) {}
  virtual ~TracePlan() = default;
  TracePlan(const TracePlan&) = delete;
  TracePlan& operator=(const TracePlan&) = delete;

  // Puts memory into the operands of a value, `shift` bytes further on than it was. False if an element would
  // lie across those of the memory, or outside of it.
  virtual bool give(uint32_t value, const Ref<Storage>& storage, int64_t shift) = 0;
  // Memory for a fresh value that nobody else can see, taken instead of allocating some; false where it does not fit, or
  // where it may be needed again because a guard fails.
  virtual bool offer(uint32_t value, const Ref<Storage>& storage) = 0;
  // Whether it can run now; asked when all is given and offered.
  virtual bool is_ready() { return true; }
  // Runs all steps. Returns the number of the first guard that does not hold, with what was found in
  // its place, or kNone; what was written until then is put back. If a kernel fails, failed_early() says
  // whether nothing that existed before was written.
  virtual size_t run(std::vector<char>& found) = 0;
  // The tensors that a run has written in memory that existed before.
  virtual std::span<TensorImpl* const> written() const = 0;
  // The memory of a value, until end().
  virtual const Ref<Storage>& memory(uint32_t value) const = 0;
  // Lets go of what was given and of what is fresh.
  virtual void end() noexcept = 0;
  virtual std::span<Scalar> attributes(size_t step) = 0;

  bool failed_early() const { return failed_early_; }
  const Program& program() const { return program_; }
  bool is_busy = false;

 protected:
  const Program& program_;
  bool failed_early_ = false;
};

class Plan final : public TracePlan {
 public:
  struct Home {
    // Kept is for a GraphPlan (python/graph_plan.h): made in memory that every run hands out again.
    enum class Kind : uint8_t { Arena, Constant, Fixed, Given, Fresh, Tile, Kept };
    Kind kind = Kind::Arena;
    int64_t offset = 0;      // in the arena
    Ref<Storage> storage{};  // that is fixed
  };

  // The program outlives the plan. All of it must be on the CPU.
  Plan(const Program& program, std::vector<Home> homes, size_t arena_bytes);
  // Runs steps tile by tile: Note [Steps that run in tiles] in intercept/plan_groups.cpp. Values with an offset are the
  // group's alone, and lie in so many bytes that each thread has; their home is Tile. `cuts` are of all operands.
  struct GroupRows {
    size_t begin, end;       // the steps
    int64_t rows, length;    // how many, and how many elements each has
    int64_t tile, together;  // rows of a tile, and of tiles that one thread runs in order
    size_t tile_bytes;
  };
  struct Cut {
    int64_t stride = 0, multiple = 1, part = 1;
    size_t lead = 0;
    std::vector<int64_t> sizes, strides;
    bool is_whole = false;
  };
  void add_group(const GroupRows& rows, std::span<const Cut> cuts,
                 std::span<const std::pair<uint32_t, int64_t>> inner);

  // Where a step up to this one refuses the values that it gets, what was written is put back, as where a guard
  // does not hold.
  void undo_errors(size_t step);
  bool give(uint32_t value, const Ref<Storage>& storage, int64_t shift) override;
  bool offer(uint32_t value, const Ref<Storage>& storage) override;
  size_t run(std::vector<char>& found) override;
  std::span<TensorImpl* const> written() const override { return written_; }
  const Ref<Storage>& memory(uint32_t value) const override { return memory_[value]; }
  void end() noexcept override;
  std::span<Scalar> attributes(size_t step) override;
  // After a run that failed late: the step that did, and whether all of a value had been written before it.
  size_t failed_at() const { return failed_at_; }
  bool was_made(uint32_t value) const;
  size_t arena_bytes() const { return arena_ ? arena_->nbytes() : 0; }

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

  // An operand of a group: a tile of a value, or the plan's own tensor.
  struct TileOperand {
    uint32_t value = 0;
    int64_t offset = 0;  // of the first row, or in the thread's bytes
    bool is_inner = false;
    TensorImpl* whole = nullptr;
    DType dtype = DType::Float32;
    int64_t stride = 0, multiple = 1, part = 1;
    size_t lead = 0;
    DimVector sizes{}, strides{};  // of a tile, with the rows behind the lead
    bool has_rows() const { return stride != 0 && part == 1; }
  };
  // What the kernel of a step is told besides its attributes: Note [Calls of tiles] in cpu/tile.h.
  enum class Told : uint8_t { Nothing, Element, RowOfPart };
  // What one thread works with.
  struct Worker {
    std::vector<Ref<TensorImpl>> tensors;  // null for whole ones
    std::vector<TensorImpl*> operands;
    int64_t count = 0;  // of rows that the operands show
  };
  struct Group {
    GroupRows rows;
    int64_t part = 1;  // rows whose sums belong together
    std::vector<TileOperand> operands{};
    std::vector<Told> told{};  // by step
    std::vector<Worker> workers{};
  };
  TileOperand tile_operand(const Call::Operand& named, TensorImpl* shown, const Cut& cut,
                           const GroupRows& rows) const;
  void run_group(Group& group);
  void add_worker(Group& group);
  const Ref<Storage>& tile_memory(size_t thread);
  void show_memory(Group& group, bool is_nowhere);
  void show_rows(const Group& group, Worker& worker, int64_t begin, int64_t count) const;
  void run_tile(const Group& group, Worker& worker, int64_t begin, int64_t count) const;

  void settle_homes(std::vector<Home> homes, size_t arena_bytes);
  void add_step(const Program::Step& step);
  TensorImpl* operand(const Call& call, const Call::Operand& operand);
  void note_written();
  void put(uint32_t value, const Ref<Storage>& storage);
  void execute(const Instruction& instruction) const;
  bool holds(const Instruction& instruction, std::vector<char>& found) const;
  std::vector<Saved> save() const;

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
  std::vector<Ref<Storage>> tile_memory_;  // by thread, for one group at a time
  std::vector<uint32_t>
      group_at_;  // by step: one more than the number of the group that begins there
  size_t first_outside_write_ = kNone, last_guard_ = kNone;
  size_t failed_at_ = 0;
  size_t first_offered_write_ = kNone;  // of the memory that was offered for this run
};

}  // namespace tapegrad
