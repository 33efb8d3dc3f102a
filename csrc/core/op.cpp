#include "core/op.h"

#include <algorithm>

#include "core/batch.h"
#include "core/call_cache.h"
#include "core/error.h"
#include "core/profile.h"

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

}  // namespace

Kernel kernel_for(const OpCall& call) {
  const Device device = call.out().device();
  for (const TensorImpl* output : call.outputs)
    if (output->device() != device) fail_devices(call);
  for (const TensorImpl* input : call.inputs)
    if (input->device() != device && !is_number(*input)) fail_devices(call);
  if (device.is_meta()) return compute_nothing;
  Kernel kernel = call.op.kernels[static_cast<int>(device.type)];
  if (!kernel)
    fail<NotImplementedError>(call.op.name, ": no kernel for device '", to_string(device), "'");
  return kernel;
}

namespace {

// A batch that lives somewhere does not concern a call that it takes no part in.
bool has_batch(const OpCall& call) {
  auto is_batch = [](const TensorImpl* x) { return x->storage().is_batched(); };
  return std::any_of(call.inputs.begin(), call.inputs.end(), is_batch) ||
         std::any_of(call.outputs.begin(), call.outputs.end(), is_batch);
}

void run(const OpCall& call, Kernel kernel) {
  const ProfileScope profiled(call);
  if ((dispatch_watch & kWatchBatch) || (batched_storages && has_batch(call)))
    return Batches::run(call, kernel);
  if (!(dispatch_watch & kWatchReuse)) {
    kernel(call);
  } else if (!reusing->begin(call)) {
    kernel(call);
    reusing->end(call);
  }
  if (captures) capture_call(call);
}

void run_in_budget(const OpCall& call, Kernel kernel) {
  budget_hooks.before(call);
  try {
    run(call, kernel);
    budget_hooks.after(call);
  } catch (...) {
    budget_hooks.abandon(call);
    throw;
  }
}

}  // namespace

void dispatch_watched(const OpCall& call, Kernel kernel) {
  if (kernel == compute_nothing) {
    if (captures) capture_call(call);
    return;
  }
  if (dispatch_watch & kWatchPending) resolve_pending();
  if ((dispatch_watch & kWatchBudget) || evicted_storages) run_in_budget(call, kernel);
  else run(call, kernel);
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
