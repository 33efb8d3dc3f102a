// Results of chosen ops, kept while a function runs and used when it runs again: selective
// checkpointing (tapegrad/utils/checkpoint.py). A call is chosen by its op; when the function runs
// again, the i-th chosen call takes what the i-th one computed the first time.
//
// Only calls that make their outputs are kept: an output that shows part of some memory, or memory
// that the call also reads, is computed again.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/op.h"

namespace tapegrad {

class CallCache {
 public:
  // Whether the results of an op are to be kept; asked once for each op.
  using Wants = bool (*)(void* state, const char* op);
  CallCache(Wants wants, void* state, bool allow_mutation)
      : wants_(wants), state_(state), allow_mutation_(allow_mutation) {}
  CallCache(const CallCache&) = delete;
  CallCache& operator=(const CallCache&) = delete;

  enum class Mode : uint8_t { Off, Record, Replay };
  struct State {
    Mode mode = Mode::Off;
    size_t next = 0;
  };
  // Begins to keep results, or to use those kept, from the first on; returns what went on before.
  State start(Mode mode);
  // Goes on with that.
  void resume(State state) { state_of_run_ = state; }

  void keep(const OpCall& call);
  // Puts kept results in place of a call's outputs; false if the call must run.
  bool take(const OpCall& call);
  size_t size() const { return kept_.size(); }
  void clear() { kept_.clear(); }

 private:
  struct Kept {
    const Op* op;
    std::vector<Tensor> outputs;
    std::vector<uint32_t> versions;
  };
  bool is_chosen(const OpCall& call);

  Wants wants_;
  void* state_;
  bool allow_mutation_;
  State state_of_run_;
  std::unordered_map<const Op*, bool> chosen_;
  std::vector<Kept> kept_;
};

// The cache that listens on this thread, or null.
inline thread_local CallCache* reusing = nullptr;

}  // namespace tapegrad
