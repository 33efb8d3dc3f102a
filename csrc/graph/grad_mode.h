// Whether ops record, per thread.
#pragma once

#include <cstdint>
#include <utility>

namespace tapegrad {

inline thread_local bool grad_enabled = true;
// How many transforms run inside inference mode on this thread. Each needs a tape of its own, so the mode
// is off inside, and what was made in it may be saved.
inline thread_local uint32_t transforms_in_inference = 0;

class GradMode {
 public:
  explicit GradMode(bool enabled) : previous_(std::exchange(grad_enabled, enabled)) {}
  ~GradMode() { grad_enabled = previous_; }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

}  // namespace tapegrad
