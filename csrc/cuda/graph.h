// CUDA graphs: work that is captured once and run many times, by one call of the driver.
//
// A capture begins on the current stream and writes down what is put into it (Note [Captured work]), with the addresses
// and numbers that kernels are launched with: a replay reads and writes the same memory. What that takes:
// - memory of its own: Note [Memory of captured work];
// - random numbers that are new each time: Note [Random numbers of captured work]. The states of the generators are put
//   into memory of the device before each replay;
// - errors of its kernels, with the lines of the program that were captured: Note [Errors of kernels];
// - page-locked memory that it copies from and to is kept while it lives.
// Memory of tensors that were made before the capture is for the program to keep.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "core/random.h"
#include "core/tensor.h"
#include "cuda/allocator.h"
#include "cuda/capturing.h"
#include "cuda/driver.h"

namespace tapegrad::cuda {

// A number for a pool that nobody has.
PoolId new_pool_id();
// The number of the capture that is going on.
uint64_t current_capture();

class Graph {
 public:
  // With keep_graph what was captured can be looked at, and instantiate() makes it ready.
  explicit Graph(bool keep_graph = false) : keep_graph_(keep_graph) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Captures what is put into the current stream of the current device. Zeros for a pool of its own.
  void begin_capture(PoolId pool, CaptureMode mode);
  void end_capture();
  // Ends a capture of which nothing is wanted; does nothing where there is none.
  void abort_capture() noexcept;
  void instantiate();
  // Puts the work into the current stream.
  void replay();
  // Forgets it, and gives its memory back.
  void reset() noexcept;

  // Draws from a generator of the program's own are new in each replay as well. It must live as long as this.
  void register_generator(Generator& generator);

  PoolId pool() const;
  bool is_capturing() const { return is_capturing_; }
  size_t node_count() const { return node_count_; }
  void enable_debug_mode() { keep_for_debug_ = true; }
  void debug_dump(const std::string& path);
  GraphHandle handle() const;
  GraphExecHandle exec() const;

 private:
  friend struct Sources;
  // The state of a generator, for kernels to read: seed, offset, and offset aside.
  struct Source {
    Generator* generator;
    uint64_t seed = 0;  // when the capture began
    Generator::Used used;
    Ref<TensorImpl> state;  // on the device
    bool is_read = false;   // by some kernel

    const uint64_t* word(int place) const {
      return static_cast<const uint64_t*>(state->storage().data()) + place;
    }
  };

  void begin_sources();
  void mark_generators() noexcept;
  void end_sources();
  void write_sources(StreamHandle stream);
  void leave_capture() noexcept;
  void destroy_graph() noexcept;
  [[noreturn]] void fail_capture(Result result);

  const bool keep_graph_;
  bool keep_for_debug_ = false;
  bool is_capturing_ = false, has_graph_ = false;
  int device_ = -1;
  uint64_t number_ = 0;  // of the capture; zero before it
  size_t node_count_ = 0;
  StreamHandle stream_ = nullptr;       // that was captured
  StreamHandle last_stream_ = nullptr;  // that it ran on; at first that of the states' memory
  std::thread::id thread_;
  PoolId pool_;
  GraphHandle graph_ = nullptr;
  GraphExecHandle exec_ = nullptr;
  std::vector<Generator*> registered_;
  std::vector<Source> sources_;
  std::vector<uint32_t> calls_;  // that report errors
};

}  // namespace tapegrad::cuda
