#include "core/op.h"

#include <bit>

#include "core/error.h"
#include "core/sparse.h"

namespace tapegrad {

namespace {

bool is_number(const TensorImpl& x) { return x.dim() == 0 && x.device().is_cpu(); }

[[noreturn]] void fail_devices(const OpCall& call) {
  std::string text =
      concat(call.op.name, ": Expected all tensors to be on the same device, but found");
  auto tell = [&](const char* what, std::span<TensorImpl* const> operands) {
    for (const TensorImpl* x : operands)
      text += concat(" ", what, " of shape ", to_string(x->sizes()), " on ", to_string(x->device()),
                     ",");
  };
  tell("input", call.inputs);
  tell("output", call.outputs);
  text.back() = ';';
  fail(text, " move them with .to(device)");
}

// On the meta device there is nothing to compute.
void compute_nothing(const OpCall&) {}

// Operands must agree; only 0-d tensors on the CPU may meet those of another device.
void check_devices(const OpCall& call) {
  const Device device = call.out().device();
  for (const TensorImpl* output : call.outputs)
    if (output->device() != device && !(is_number(*output) && (call.op.traits & kHostNumbers)))
      fail_devices(call);
  for (const TensorImpl* input : call.inputs)
    if (input->device() != device && !is_number(*input)) fail_devices(call);
}

// What does not know complex numbers, or a bare dtype, must not take them for others.
void check_limited(const OpCall& call) {
  auto check = [&](const TensorImpl& x) {
    if (!is_limited(x.dtype())) return;
    const uint16_t wanted = is_complex(x.dtype()) ? kComplex : kBare;
    if (!(call.op.traits & wanted)) fail_unsupported_dtype(call.op.name, x.dtype());
    check_device_dtype(call.op.name, x.dtype(), x.device());
  };
  for (const TensorImpl* input : call.inputs) check(*input);
  for (const TensorImpl* output : call.outputs) check(*output);
}

void check_sparse(const OpCall& call) {
  auto check = [&](const TensorImpl& x) {
    if (is_sparse(x))
      fail<NotImplementedError>(call.op.name,
                                ": sparse tensors are not supported; call .to_dense() first");
  };
  for (const TensorImpl* input : call.inputs) check(*input);
  for (const TensorImpl* output : call.outputs) check(*output);
}

// The kernel of the device that the operands are on.
Kernel kernel_for(const OpCall& call) {
  Device device = call.out().device();
  if (limited_tensors_exist()) check_limited(call);
  if (sparse_tensors) check_sparse(call);
  if (call.op.traits & kMoves) device = kernel_device(call.op, call.in(0).device(), device);
  else {
    check_devices(call);
    last_op = &call.op;
  }
  if (device.is_meta()) return compute_nothing;
  Kernel kernel = call.op.kernels[static_cast<int>(device.type)];
  if (!kernel)
    fail<NotImplementedError>(call.op.name, ": no kernel for device '", to_string(device), "'");
  return kernel;
}

constexpr int kInterceptors = static_cast<int>(Interceptor::Merge) + 1;
constexpr uint32_t kAllInterceptors = (uint32_t{1} << kInterceptors) - 1;
Intercept interceptors[kInterceptors] = {};

}  // namespace

bool install(Interceptor which, Intercept intercept) {
  interceptors[static_cast<int>(which)] = intercept;
  return true;
}

void Next::operator()(const OpCall& call) const {
  const uint32_t waiting =
      (intercepted_here | intercepted_everywhere) & kAllInterceptors & ~passed_;
  if (!waiting) return run_kernel(kernel_, call);
  const int place = std::countr_zero(waiting);
  interceptors[place](call, {kernel_, passed_ | ((uint32_t{2} << place) - 1)});
}

void dispatch_intercepted(const OpCall& call) {
  const Kernel kernel = kernel_for(call);
  // Where there are no bytes, nothing is to be brought back or batched.
  const bool has_bytes = kernel != compute_nothing;
  const uint32_t passed = (bit(Interceptor::Capture) - 1) & ~bit(Interceptor::Profile);
  Next(kernel, has_bytes ? 0 : passed)(call);
}

void run_without_interceptors(const OpCall& call) {
  const Kernel kernel = kernel_for(call);
  // Calls of the program that were put off come before it.
  Next(kernel, ~bit(Interceptor::Merge))(call);
}

void dispatch(const Op& op, std::span<const Tensor> inputs, std::span<const Scalar> attributes,
              std::span<const Tensor> outputs) {
  constexpr size_t kInline = 8;
  TensorImpl* inline_operands[kInline];
  std::vector<TensorImpl*> heap;
  TensorImpl** operands = inline_operands;
  if (inputs.size() + outputs.size() > kInline) {
    heap.resize(inputs.size() + outputs.size());
    operands = heap.data();
  }
  size_t count = 0;
  for (const Tensor& input : inputs) operands[count++] = input.impl();
  for (const Tensor& output : outputs) operands[count++] = output.impl();
  dispatch(op, std::span<TensorImpl* const>(operands, inputs.size()), attributes,
           std::span<TensorImpl* const>(operands + inputs.size(), outputs.size()));
}

void dispatch(const Op& op, std::initializer_list<Tensor> inputs,
              std::initializer_list<Scalar> attributes, std::initializer_list<Tensor> outputs) {
  dispatch(op, std::span<const Tensor>(inputs.begin(), inputs.size()),
           std::span<const Scalar>(attributes.begin(), attributes.size()),
           std::span<const Tensor>(outputs.begin(), outputs.size()));
}

}  // namespace tapegrad
