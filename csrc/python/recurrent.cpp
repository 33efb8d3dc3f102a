// Recurrent layers in Python. The public functions are in tapegrad/nn/functional/recurrent.py.
#include "ops/recurrent.h"

#include "python/binding.h"

namespace tapegrad::python {

void bind_recurrent(Binder& b) {
  b.function("_recurrent",
             [](const std::string& kind, const Tensor& x, const Tensor& w_ih, const Tensor& w_hh,
                const std::vector<Tensor>& state, const std::optional<Tensor>& bias,
                const std::optional<Tensor>& state_bias, const IntList& counts, bool reverse) {
    return recurrent(kind, x, w_ih, w_hh, state, bias.value_or(Tensor()),
                     state_bias.value_or(Tensor()), counts, reverse);
  },
             "kind"_a, "x"_a, "w_ih"_a, "w_hh"_a, "state"_a, "bias"_a.none(), "state_bias"_a.none(),
             "counts"_a, "reverse"_a,
             "One layer in one direction over packed steps: the outputs and the last states.");
}

}  // namespace tapegrad::python
