// Attention on cuDNN, in float16 and bfloat16. See Note [Attention as cuDNN knows it].
#pragma once

#include <string>

#include "core/random.h"
#include "core/tensor.h"

namespace tapegrad::cuda {

// What a call of attention says. Tensors are (batch, heads, length, width); the mask is bool or of the
// query's dtype, and expanded to the scores.
struct DnnAttention {
  const TensorImpl &query, &key, &value;
  const TensorImpl* mask = nullptr;
  double scale = 1;
  bool causal = false;
  double dropout = 0;  // the probability with which a weight is dropped
  RandomStream stream{};
};

// Where the results lie that ops/attention.cpp allocates: (batch, length, heads, width) in memory.
DimVector heads_strides(Sizes sizes);

// Whether the library takes a query, key, value or gradient as it lies in memory.
bool lies_for_dnn(const TensorImpl& x);

// Why the library does not compute it; empty where it does, with the derivative if that is asked for.
std::string dnn_attention_refusal(const DnnAttention& call, bool with_derivative);

// How many calls the library has computed: of the op, and of its derivative.
inline int64_t dnn_attention_runs = 0, dnn_attention_backward_runs = 0;

// False where the library does not compute it: nothing is done then.
bool run_dnn_attention(const DnnAttention& call, const TensorImpl& out, const TensorImpl& log_sums);
bool run_dnn_attention_backward(const DnnAttention& call, const TensorImpl& grad,
                                const TensorImpl& out, const TensorImpl& log_sums,
                                const TensorImpl& grad_query, const TensorImpl& grad_key,
                                const TensorImpl& grad_value);

}  // namespace tapegrad::cuda
