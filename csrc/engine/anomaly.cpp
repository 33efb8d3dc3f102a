#include "engine/anomaly.h"

#include "core/error.h"
#include "graph/grad_mode.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"

namespace tapegrad {

void check_gradients(const Node& node, Gradients grad_inputs) {
  GradMode off(false);
  for (size_t i = 0; i < grad_inputs.size(); ++i) {
    const Tensor& grad = grad_inputs[i];
    if (!grad.defined() || grad->storage().is_batched()) continue;
    Tensor found = any(isnan(grad), {}, false);
    if (!*found.data<bool>()) continue;
    Error error(concat("Function '", node.name(), "' returned nan values in its ", i,
                       "th output; the forward op ran at ", node.line()));
    error.names_entry = true;
    throw error;
  }
}

}  // namespace tapegrad
