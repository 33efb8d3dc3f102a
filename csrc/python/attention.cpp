// Attention in Python. The public function is in tapegrad/nn/functional/attention.py.
#include "ops/attention.h"

#include "python/binding.h"

namespace tapegrad::python {

void bind_attention(Binder& b) {
  b.function("_attention",
             [](const Tensor& query, const Tensor& key, const Tensor& value,
                const std::optional<Tensor>& mask, bool causal, double scale) {
    return attention(query, key, value, mask.value_or(Tensor()), causal, scale);
  },
             "query"_a, "key"_a, "value"_a, "mask"_a.none(), "causal"_a, "scale"_a,
             "Scaled dot product attention of (batch, heads, length, width), without the matrix of "
             "all scores.");
}

}  // namespace tapegrad::python
