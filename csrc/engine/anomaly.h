// Anomaly mode: finding the op that makes values which are not numbers.
#pragma once

#include "graph/node.h"

namespace tapegrad {

struct Anomaly {
  bool enabled = false;
  bool check_nan = true;
};
// One switch for all threads.
inline Anomaly anomaly;
void set_anomaly(bool enabled, bool check_nan);

// Fails, naming the entry and its source line, if one of the gradients it made holds NaN.
void check_gradients(const Node& node, Gradients grad_inputs);

}  // namespace tapegrad
