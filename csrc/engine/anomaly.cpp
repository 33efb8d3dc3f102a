#include "engine/anomaly.h"

#include "core/error.h"
#include "core/sparse.h"
#include "engine/events.h"
#include "graph/record.h"
#include "intercept/batch.h"
#include "intercept/capture.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"

namespace tapegrad {

namespace {

using Check = void (*)(const Tensor& output, const Node& node);

bool has_nan(const Tensor& x) {
  if (!x.defined() || is_batched(x) || is_sparse(*x.impl()) || !is_floating(x.dtype()))
    return false;
  GradMode off(false);
  Check check = std::exchange(check_forward, nullptr);
  Tensor found = any(isnan(x), {}, false);
  check_forward = check;
  return *read_on_host<bool>(found);
}

// The forward side: the op whose result is the first to hold NaN is the one to look at.
void check_output(const Tensor& output, const Node& node) {
  if (!has_nan(output)) return;
  Error error(concat("Function '", node.name(), "' made nan values in its forward, at ",
                     node.line(), "; this is an error because anomaly detection is on"));
  error.names_entry = true;
  throw error;
}

}  // namespace

void set_anomaly(bool enabled, bool check_nan) {
  anomaly = {enabled, check_nan};
  watch_sweeps(kWatchAnomaly, enabled);
  check_forward = enabled && check_nan ? check_output : nullptr;
}

void check_gradients(const Node& node, Gradients grad_inputs) {
  for (size_t i = 0; i < grad_inputs.size(); ++i) {
    if (!has_nan(grad_inputs[i])) continue;
    Error error(concat("Function '", node.name(), "' returned nan values in its ", i,
                       "th output; the forward op ran at ", node.line()));
    error.names_entry = true;
    throw error;
  }
}

}  // namespace tapegrad
