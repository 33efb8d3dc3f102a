// Convolution in Python. The functions by rank are in tapegrad/nn/functional/convolutions.py.
#include "ops/conv.h"

#include "python/binding.h"

namespace tapegrad::python {

void bind_conv(Binder& b) {
  b.function(
      "_convolution",
      [](const std::string& op, const Tensor& input, const Tensor& weight,
         const std::optional<Tensor>& bias, const IntList& stride, const IntList& padding,
         const IntList& dilation, bool transposed, const IntList& output_padding, int64_t groups) {
    return convolution(op.c_str(), input, weight, bias.value_or(Tensor()),
                       {stride.values, padding.values, dilation.values, transposed,
                        output_padding.values, groups});
  },
      "op"_a, "input"_a, "weight"_a, "bias"_a.none(), "stride"_a, "padding"_a, "dilation"_a,
      "transposed"_a, "output_padding"_a, "groups"_a,
      "A convolution of one, two or three spatial dimensions, named in errors by `op`.");
}

}  // namespace tapegrad::python
