// Scaled dot product attention, fused: no matrix of all scores is made.
#pragma once

#include "core/tensor.h"
#include "spec/attention.h"

namespace tapegrad {

// query (batch, heads, L, E), key (batch, heads / n, S, E), value (batch, heads / n, S, V), all of one floating dtype;
// float16 and bfloat16 are computed in float32. mask may be undefined; else it expands to (batch, heads, L, S) and is
// bool (true: may be seen) or of the query's dtype (added), without a gradient of its own. A query
// that sees no key gives zeros. Dropout is the probability with which a weight is dropped; with AttentionKernel::Dnn it needs
// cuDNN for both directions (cuda/dnn_attention.h), and not under vmap.
Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                 bool causal, double scale, AttentionKernel kernel = AttentionKernel::Own,
                 double dropout = 0);

}  // namespace tapegrad
