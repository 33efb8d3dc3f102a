// Whether ops record, per thread.
#pragma once

#include <utility>

namespace tapegrad {

inline thread_local bool grad_enabled = true;

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
