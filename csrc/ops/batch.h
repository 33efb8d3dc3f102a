// Entering and leaving a vmap, as recorded ops. See intercept/batch.h.
#pragma once

#include "graph/node.h"
#include "intercept/batch.h"

namespace tapegrad {

// x with its dimension `dim` turned into the batch of `vmap`.
Tensor hide_batch(const Tensor& x, int64_t dim, uint32_t vmap);
// The batch of `vmap`, of that size, as dimension `dim` again.
Tensor reveal_batch(const Tensor& x, int64_t dim, uint32_t vmap, int64_t size);
// Sums a gradient over the batches of finished vmaps that its receiver's output does not differ over. (In
// one that is running, each element of the batch has a sweep, and gradients, of its own.)
Tensor sum_finished_batches(Tensor x, const Node& receiver);

}  // namespace tapegrad
