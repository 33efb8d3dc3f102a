// Results of chosen calls, kept while a function runs and used when it runs again: selective
// checkpointing (tapegrad/utils/checkpoint.py).
//
// Calls are counted for each op: when the function runs again, the i-th call of an op gets what the
// i-th one got, its result or none. So whoever chooses is asked the first time only, may decide by
// whatever it likes, and what it says of one op cannot shift another's results.
//
// Only results that a call makes are kept: an output that shows part of some memory, or memory that
// the call also reads or that another tensor shows, is computed again. So is a result that a later
// call of the same function of the library writes to, which no version tells (a product that adds to
// a copy).
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "core/call.h"

namespace tapegrad {

// Set by the graph layer: results that are kept count as the tape's memory (Note [What the tape is
// charged]), and a budget may evict them.
struct KeepHooks {
  void (*begin)(TensorImpl& result) = nullptr;
  void (*end)(TensorImpl& result) noexcept = nullptr;
};
inline KeepHooks keep_hooks;

class CallCache {
 public:
  // Who chooses. `wants` is asked once for each op; `decides`, where there is one, at each call of a
  // wanted op that could be kept, after it ran.
  struct Chooser {
    bool (*wants)(void* state, const char* op);
    bool (*decides)(void* state, const OpCall& call);
    void* state;
  };
  CallCache(Chooser chooser, bool allow_mutation)
      : chooser_(chooser), allow_mutation_(allow_mutation) {}
  CallCache(const CallCache&) = delete;
  CallCache& operator=(const CallCache&) = delete;

  enum class Mode : uint8_t { Off, Record, Replay };
  struct Run {
    Mode mode = Mode::Off;
    std::unordered_map<const Op*, size_t> begun;  // how many calls of each op have come again
  };
  // Begins to keep results, or to use those kept, from the first on; returns what went on before.
  Run start(Mode mode);
  // Goes on with that.
  void resume(Run run) { run_ = std::move(run); }

  // Before a call runs: puts kept results in place of its outputs; false if it must run.
  bool begin(const OpCall& call);
  // After it ran.
  void end(const OpCall& call);
  size_t size() const { return kept_; }
  void clear();

 private:
  // A result that is kept.
  class Output {
   public:
    explicit Output(Ref<TensorImpl> tensor) : tensor_(std::move(tensor)) {
      keep_hooks.begin(*tensor_);
    }
    ~Output() {
      if (tensor_) keep_hooks.end(*tensor_);
    }
    Output(Output&&) noexcept = default;
    Output& operator=(Output&& other) noexcept {
      std::swap(tensor_, other.tensor_);
      return *this;
    }
    const TensorImpl* operator->() const { return tensor_.get(); }

   private:
    Ref<TensorImpl> tensor_;
  };
  struct Result {
    Call call;                    // if it is kept
    std::vector<Output> outputs;  // none if the call is to run again
    std::vector<uint32_t> versions;
    uint64_t drawn = 0;           // random numbers that were drawn for the decision,
    uint64_t drawn_beside = 0;    // and from the generator of the call's device
    bool is_overwritten = false;  // by a later call of the first run
  };
  struct Calls {
    bool are_wanted = false;
    size_t kept = 0;
    std::vector<Result> results;  // of all calls, in order
  };
  Calls& calls_of(const Op& op);
  bool decide(const OpCall& call, Result& result);
  void note_writes(const OpCall& call);
  bool take(const OpCall& call, size_t number, const Result& result);

  Chooser chooser_;
  bool allow_mutation_;
  Run run_;
  std::unordered_map<const Op*, Calls> calls_;
  std::unordered_map<const Storage*, std::pair<const Op*, size_t>> makers_;  // of kept results
  size_t kept_ = 0;
};

// The cache that listens on this thread, or null.
inline thread_local CallCache* reusing = nullptr;
// Makes none listen for a while.
class NoReuse {
 public:
  NoReuse() : outer_(std::exchange(reusing, nullptr)) { intercept_here(Interceptor::Reuse, false); }
  ~NoReuse() {
    reusing = outer_;
    intercept_here(Interceptor::Reuse, outer_ != nullptr);
  }
  NoReuse(const NoReuse&) = delete;
  NoReuse& operator=(const NoReuse&) = delete;

 private:
  CallCache* outer_;
};

}  // namespace tapegrad
