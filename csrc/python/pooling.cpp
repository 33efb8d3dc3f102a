// Pooling in Python: what tapegrad/nn/functional/pooling.py calls.
#include "ops/pooling.h"

#include "ops/copy.h"
#include "python/binding.h"

namespace tapegrad::python {

namespace {

using Pooled = std::pair<Tensor, Tensor>;

PyObject* values_or_both(Pooled pooled, bool indices) {
  if (!indices) return wrap(std::move(pooled.first));
  return nb::make_tuple(nb::steal(wrap(std::move(pooled.first))),
                        nb::steal(wrap(std::move(pooled.second))))
      .release()
      .ptr();
}

// A stride of None, or (), is the kernel's size.
PoolWindows windows(const IntList& kernel, const std::optional<IntList>& stride,
                    const IntList& padding, const IntList& dilation, bool ceil_mode) {
  return {kernel, stride ? Sizes(*stride) : Sizes(), padding, dilation, ceil_mode};
}

// The functions of one rank; errors name them as nn.functional does.
struct Names {
  const char *max, *avg, *adaptive_max, *adaptive_avg, *unpool;
};
constexpr Names kNames[] = {
    {"max_pool1d", "avg_pool1d", "adaptive_max_pool1d", "adaptive_avg_pool1d", "max_unpool1d"},
    {"max_pool2d", "avg_pool2d", "adaptive_max_pool2d", "adaptive_avg_pool2d", "max_unpool2d"},
    {"max_pool3d", "avg_pool3d", "adaptive_max_pool3d", "adaptive_avg_pool3d", "max_unpool3d"}};

template <int64_t kRank>
void bind_rank(Binder& b) {
  static constexpr Names names = kNames[kRank - 1];
  b.function(names.max,
             [](const Tensor& x, const IntList& kernel, const std::optional<IntList>& stride,
                const IntList& padding, const IntList& dilation, bool ceil_mode, bool indices) {
    return nb::steal(
        values_or_both(max_pool(names.max, x, kRank,
                                windows(kernel, stride, padding, dilation, ceil_mode), indices),
                       indices));
  },
             "input"_a, "kernel_size"_a, "stride"_a.none(), "padding"_a, "dilation"_a,
             "ceil_mode"_a, "return_indices"_a, "Maxima over windows of the last dimensions.");
  b.function(names.avg,
             [](const Tensor& x, const IntList& kernel, const std::optional<IntList>& stride,
                const IntList& padding, bool ceil_mode, bool count_include_pad,
                std::optional<int64_t> divisor_override) {
    const IntList dilation{{1}};
    return avg_pool(names.avg, x, kRank, windows(kernel, stride, padding, dilation, ceil_mode),
                    count_include_pad, divisor_override);
  },
             "input"_a, "kernel_size"_a, "stride"_a.none(), "padding"_a, "ceil_mode"_a,
             "count_include_pad"_a, "divisor_override"_a.none(),
             "Averages over windows of the last dimensions.");
  b.function(names.adaptive_max,
             [](const Tensor& x, const IntList& output_size, bool indices) {
    return nb::steal(values_or_both(
        adaptive_max_pool(names.adaptive_max, x, kRank, output_size, indices), indices));
  }, "input"_a, "output_size"_a, "return_indices"_a,
             "Maxima of parts of the last dimensions; a size of -1 keeps that of the input.");
  b.function(names.adaptive_avg,
             [](const Tensor& x, const IntList& output_size) {
    return adaptive_avg_pool(names.adaptive_avg, x, kRank, output_size);
  }, "input"_a, "output_size"_a,
             "Averages of parts of the last dimensions; a size of -1 keeps that of the input.");
  b.function(names.unpool, [](const Tensor& x, const Tensor& indices, const IntList& output_size) {
    return max_unpool(names.unpool, x, indices, output_size);
  }, "input"_a, "indices"_a, "output_size"_a, "Values put to the places that indices name.");
}

}  // namespace

void bind_pooling(Binder& b) {
  nb::module_ pooling =
      b.module().def_submodule("_pooling", "Pooling, as tapegrad.nn.functional calls it.");
  Binder inner(pooling, b.tensor_type());
  bind_rank<1>(inner);
  bind_rank<2>(inner);
  bind_rank<3>(inner);
  inner.function("plane_gather",
                 [](const Tensor& x, const Tensor& indices, int64_t rank) {
    return plane_gather(x, contiguous(indices), rank);
  }, "input"_a, "indices"_a, "rank"_a,
                 "The elements of each plane, the last dimensions, that indices name.");
}

}  // namespace tapegrad::python
