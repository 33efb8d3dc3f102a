// Lanes: which queues of the devices the work of a thread goes to.
//
// Note [Lanes]
// A device may have several queues of work (CUDA calls them streams), and a thread has a current one for each
// device. A lane is such a choice, under a number; all threads begin in lane 0. An entry knows the lane that
// it was recorded in, and a sweep runs it there. Within a lane work is in order; what passes from one lane to
// another is ordered, and the memory it lies in is kept from being used again too early, by
// the back end (LaneCalls). As long as no thread leaves lane 0, nobody asks it.
#pragma once

#include <cstdint>

namespace tapegrad {

class Storage;

using Lane = uint16_t;

inline thread_local Lane current_lane = 0;
// Whether some thread has ever left lane 0.
inline bool lanes_in_use = false;

// Whether the back end records what is put into lanes, to run it later, in place of running it. A leaf's entry may
// have been made before that, in a lane that is not recorded: gradients are then added up in the caller's.
inline bool lanes_are_captured = false;

// Set by the back end that has queues.
struct LaneCalls {
  // Makes a lane the thread's own.
  void (*enter)(Lane lane) = nullptr;
  // What is put into `later` from now on waits for what is in `earlier`.
  void (*order)(Lane earlier, Lane later) = nullptr;
  // The work that a lane has now uses this memory, which may be that of another lane.
  void (*note_use)(const Storage& storage, Lane lane) = nullptr;
  // Whether the program has said so of memory: work that nobody else knows of may use it.
  bool (*is_shared)(const Storage& storage) = nullptr;
  // Whether what is put into a lane is recorded.
  bool (*is_captured)(Lane lane) = nullptr;
};
inline LaneCalls lane_calls;

// The thread is in a lane while it lives.
class LaneScope {
 public:
  explicit LaneScope(Lane lane) : outer_(current_lane) {
    if (lane != outer_) [[unlikely]]
      lane_calls.enter(lane);
  }
  ~LaneScope() {
    if (current_lane != outer_) [[unlikely]]
      lane_calls.enter(outer_);
  }
  LaneScope(const LaneScope&) = delete;
  LaneScope& operator=(const LaneScope&) = delete;

 private:
  const Lane outer_;
};

}  // namespace tapegrad
