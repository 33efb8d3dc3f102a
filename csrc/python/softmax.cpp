// softmax in Python, and the loss that is made of it; its public function is in tapegrad/nn/functional/losses.py.
#include "ops/softmax.h"

#include "graph/autocast.h"
#include "ops/cross_entropy.h"
#include "python/binding.h"

namespace tapegrad::python {

void bind_softmax(Binder& b) {
  using Out = std::optional<Tensor>;
  auto dtype = "dtype"_a.none() = nb::none();
  auto out = "out"_a.none() = nb::none();
  b.both("softmax",
         [](const Tensor& x, int64_t dim, std::optional<DType> dtype, const Out& out) {
    const WithoutAutocast lifted(out.has_value());
    return into_out("softmax", softmax(x, dim, dtype), out);
  }, "dim"_a, dtype, nb::kw_only(), out,
         R"(Exponentials, scaled so that they add up to one along a dimension.

Args:
    dim: the dimension.
    dtype: what elements are converted to first.

Example:
    >>> torch.softmax(torch.tensor([0., 0.]), dim=0)
    tensor([0.5000, 0.5000])
)");
  b.both("log_softmax",
         [](const Tensor& x, int64_t dim, std::optional<DType> dtype, const Out& out) {
    const WithoutAutocast lifted(out.has_value());
    return into_out("log_softmax", log_softmax(x, dim, dtype), out);
  }, "dim"_a, dtype, nb::kw_only(), out,
         R"(The logarithm of softmax, computed without leaving the logarithms.

Args:
    dim: the dimension.
    dtype: what elements are converted to first.

Example:
    >>> torch.log_softmax(torch.tensor([0., 0.]), dim=0)
    tensor([-0.6931, -0.6931])
)");
  b.function(
      "_cross_entropy",
      [](const Tensor& input, const Tensor& target, const Out& weight, int reduction,
         int64_t ignore_index, double label_smoothing) {
    return cross_entropy(input, target, weight.value_or(Tensor()),
                         static_cast<LossReduction>(reduction), ignore_index, label_smoothing);
  },
      "input"_a, "target"_a, "weight"_a.none(), "reduction"_a, "ignore_index"_a,
      "label_smoothing"_a,
      "The negative log softmax of the true classes; `reduction` is 0 for none, 1 for the mean, 2 "
      "for the sum.");
}

}  // namespace tapegrad::python
