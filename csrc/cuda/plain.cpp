#include "cuda/plain.h"

#include "core/tensor.h"
#include "cuda/copy.h"

namespace tapegrad::cuda {

namespace {

DType plain_dtype(DType dtype) { return is_reduced_float(dtype) ? DType::Float32 : dtype; }

bool is_plain(const TensorImpl& x) {
  return x.is_contiguous() && x.dtype() == plain_dtype(x.dtype());
}

Tensor empty_plain(const OpCall& call, const TensorImpl& x) {
  return empty(call.op.name, x.sizes(), plain_dtype(x.dtype()), x.device());
}

}  // namespace

void run_plain(Kernel kernel, const OpCall& call) {
  constexpr size_t kMostInputs = 3;
  Tensor copies[kMostInputs];
  TensorImpl* inputs[kMostInputs];
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    inputs[i] = call.inputs[i];
    if (is_plain(*inputs[i])) continue;
    copies[i] = empty_plain(call, *inputs[i]);
    TensorImpl* const copy_of[] = {copies[i].impl()};
    copy({call.op, call.inputs.subspan(i, 1), {}, copy_of});
    inputs[i] = copies[i].impl();
  }
  const std::span<TensorImpl* const> operands(inputs, call.inputs.size());
  if (is_plain(call.out())) return kernel({call.op, operands, call.attributes, call.outputs});
  const Tensor result = empty_plain(call, call.out());
  TensorImpl* const results[] = {result.impl()};
  kernel({call.op, operands, call.attributes, results});
  copy({call.op, results, {}, call.outputs});
}

}  // namespace tapegrad::cuda
