#include "core/op.h"

#include <algorithm>

#include "core/batch.h"
#include "core/call_cache.h"
#include "core/error.h"
#include "core/profile.h"

namespace tapegrad {

void fail_no_kernel(const Op& op, DeviceType device) {
  fail<NotImplementedError>(op.name, ": no kernel for device '", name(device), "'");
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
