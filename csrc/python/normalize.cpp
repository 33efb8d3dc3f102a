// Normalisation in Python. The public functions are in tapegrad/nn/functional/norms.py.
#include "ops/normalize.h"

#include "python/binding.h"

namespace tapegrad::python {

void bind_normalize(Binder& b) {
  using Maybe = std::optional<Tensor>;
  b.function("_layer_norm",
             [](const Tensor& input, int64_t dims, const Maybe& weight, const Maybe& bias,
                double eps, bool centred) {
    return layer_norm(input, dims, weight.value_or(Tensor()), bias.value_or(Tensor()), eps,
                      centred);
  },
             "input"_a, "dims"_a, "weight"_a.none(), "bias"_a.none(), "eps"_a, "centred"_a,
             "The last `dims` dimensions shifted and scaled to mean 0 and variance 1.");
  b.function("_batch_norm",
             [](const Tensor& input, const Maybe& mean, const Maybe& variance, const Maybe& weight,
                const Maybe& bias, double eps) {
    return batch_norm(input, mean.value_or(Tensor()), variance.value_or(Tensor()),
                      weight.value_or(Tensor()), bias.value_or(Tensor()), eps);
  },
             "input"_a, "mean"_a.none(), "variance"_a.none(), "weight"_a.none(), "bias"_a.none(),
             "eps"_a, "Every channel shifted and scaled; also its mean and its biased variance.");
}

}  // namespace tapegrad::python
