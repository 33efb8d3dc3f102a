// Recurrent layers in Python. The public functions are in tapegrad/nn/functional/recurrent.py.
#include "ops/recurrent.h"

#include "python/binding.h"

namespace tapegrad::python {

void bind_recurrent(Binder& b) {
  b.function("_recurrent",
             [](const std::string& kind, const Tensor& x_gates, const Tensor& w_hh,
                const std::vector<Tensor>& state, const std::optional<Tensor>& bias,
                const IntList& counts, bool reverse) {
    return recurrent(kind, x_gates, w_hh, state, bias.value_or(Tensor()), counts, reverse);
  },
             "kind"_a, "x_gates"_a, "w_hh"_a, "state"_a, "bias"_a.none(), "counts"_a, "reverse"_a,
             "One layer in one direction over packed steps: the outputs and the last states.");
}

}  // namespace tapegrad::python
