// Events of a sweep, for listeners: a sweep begins and ends, an entry runs.
//
// Listeners are notified of the sweeps of all threads, in the order in which they were added. Whether there
// are any is one test of one word on the path of a sweep.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "graph/node.h"

namespace tapegrad {

struct SweepStart {
  std::span<const Tensor> roots;
  bool retain_graph;
  bool nested;       // a hook started it, inside another sweep of this thread
  bool transposing;  // it computes a tangent (graph/forward.h), and is no user's backward
};

class SweepListener {
 public:
  using Finish = std::function<void()>;

  SweepListener() = default;
  virtual ~SweepListener() = default;
  SweepListener(const SweepListener&) = delete;
  SweepListener& operator=(const SweepListener&) = delete;

  // A sweep is about to begin. What is returned is called when it is over, whether or not it failed.
  virtual Finish sweep_begins(const SweepStart&) { return {}; }
  // An entry is about to run, with the gradients of its outputs complete. What is returned is called
  // after it, and must not throw.
  virtual Finish entry_runs(Node&) { return {}; }
};

void add_listener(std::shared_ptr<SweepListener> listener);
void remove_listener(const SweepListener* listener);

// The rare things that make an entry take the slow path, by bit.
enum SweepWatch : uint32_t { kWatchAnomaly = 1, kWatchListeners = 2 };
inline uint32_t sweep_watch = 0;
inline void watch_sweeps(SweepWatch which, bool on) {
  sweep_watch = on ? sweep_watch | which : sweep_watch & ~which;
}

// The listeners that were notified of one event, until it is over.
class Notification {
 public:
  Notification() = default;
  // Calls that are left were skipped because one before them threw: that exception is on its way.
  ~Notification() {
    try {
      finish();
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
  }
  Notification(const Notification&) = delete;
  Notification& operator=(const Notification&) = delete;

  void sweep_begins(const SweepStart& start);
  void entry_runs(Node& node);
  // Calls what the listeners returned, in reverse order.
  void finish() {
    while (!finish_.empty()) finish_next();
  }

 private:
  void finish_next();
  std::vector<SweepListener::Finish> finish_;
};

// Calls that wait until no sweep runs on this thread any more: one of them may see what all, nested or not, have
// left in leaves. They are dropped if the outermost sweep fails.
void call_after_sweeps(std::function<void()> call);
// For the outermost sweep, when it is over.
bool calls_wait_for_sweeps();
void run_calls_after_sweeps();
void drop_calls_after_sweeps();

}  // namespace tapegrad
