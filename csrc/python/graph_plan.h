// GraphPlan: a captured program, made ready to run many times on a CUDA device.
//
// Note [Traces on a device]
// The steps of a program are put into CUDA graphs (cuda/graph.h) by calling them, in order, while a stream is captured:
// calls are held and merged as they were (Note [Held calls]), and memory comes from a pool of the plan's own. A run is
// one launch for each graph. Steps that a graph cannot hold are called between graphs in every run: those with operands
// on the CPU (counts of optimizers, batches that are moved), steps of optimizers, whose numbers are read anew, and
// guards. All graphs are captured before anything runs, so that a program that cannot be captured leaves no trace.
//
// Addresses in a graph are fixed. Lasting tensors are used where they are. What is given for a run is copied to memory of
// the plan, and back if it is written. Results are copied to memory of their own after the graphs have run. Gradients are
// handed out as they are, and written by the next run if by then nobody else holds them; where somebody does, the plan
// is not ready and the function runs itself.
//
// Random numbers are counted from where the generator is when a run begins: a step's offset is its distance from there,
// behind the mark of the graph's first generator (Note [Random numbers of captured work]).
#pragma once

#include <memory>
#include <vector>

#include "cuda/graph.h"
#include "intercept/plan.h"

namespace tapegrad::python {

class GraphPlan final : public TracePlan {
 public:
  // The program outlives the plan, and uses the CPU and one CUDA device.
  GraphPlan(const Program& program, std::vector<Plan::Home> homes, int device);

  // Where the device's generator was when the program began, and when it ended.
  void set_random(uint64_t seed, uint64_t begin, uint64_t end);
  // The step is not part of a graph: its attributes change.
  void leave_out(size_t step) { is_live_[step] = true; }
  // Captures the graphs. Throws ValueError where that cannot be done; nothing has run then.
  void capture();

  bool give(uint32_t value, const Ref<Storage>& storage, int64_t shift) override;
  bool offer(uint32_t value, const Ref<Storage>& storage) override;
  bool is_ready() override;
  size_t run(std::vector<char>& found) override;
  std::span<TensorImpl* const> written() const override { return written_; }
  const Ref<Storage>& memory(uint32_t value) const override;
  void end() noexcept override;
  std::span<Scalar> attributes(size_t step) override { return attributes_.at(step); }

 private:
  using Kind = Plan::Home::Kind;
  // A graph of steps, or one step by itself.
  struct Part {
    size_t begin, end;
    std::unique_ptr<cuda::Graph> graph;
  };
  struct Given {
    Ref<Storage> storage;
    int64_t shift = 0;  // how many bytes further on than it was
  };

  bool is_on_device(uint32_t value) const { return !program_.values()[value].device.is_cpu(); }
  bool is_fixed(uint32_t value) const { return homes_[value].kind == Kind::Fixed; }
  void find_parts();
  void check_guards() const;
  void find_memory();
  void capture_part(Part& part);
  void call_step(size_t step);
  void drop_used(size_t step);
  bool run_step(size_t step, std::vector<char>& found);
  Ref<TensorImpl> operand(const Call& call, const Call::Operand& operand);
  void copy_given(bool back);
  void make_fresh();
  void note_written();

  const int device_;
  std::vector<Plan::Home> homes_;
  std::vector<bool> is_live_;                    // by step: not part of a graph
  std::vector<std::vector<Scalar>> attributes_;  // by step
  std::vector<Part> parts_;
  std::vector<Ref<Storage>> memory_;  // by value: what graphs use
  std::vector<bool> is_held_;         // by value: needed outside of graphs
  std::vector<int64_t> places_;       // by value: how many bytes further on it lies in that memory
  std::vector<Given> given_;          // by value
  std::vector<Ref<Storage>> fresh_;   // by value: what a run hands out
  std::vector<bool> is_offered_;      // by value
  std::vector<Ref<TensorImpl>> written_tensors_;
  std::vector<TensorImpl*> written_;
  size_t first_outside_write_ = kNone, last_guard_ = kNone;
  cuda::PoolId pool_;
  cuda::StreamHandle last_stream_ = nullptr;
  bool has_run_ = false, is_captured_ = false;
  uint64_t counters_ = 0;  // of the device's generator, that a run takes
};

}  // namespace tapegrad::python
