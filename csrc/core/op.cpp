#include "core/op.h"

#include "core/batch.h"
#include "core/error.h"
#include "core/profile.h"

namespace tapegrad {

void fail_no_kernel(const Op& op, DeviceType device) {
  fail<NotImplementedError>(op.name, ": no kernel for device '", name(device), "'");
}

void Program::append(const OpCall& call) {
  Step step{&call.op, {}, {call.attributes.begin(), call.attributes.end()}, {}};
  for (TensorImpl* input : call.inputs) step.inputs.emplace_back(input);
  for (TensorImpl* output : call.outputs) step.outputs.emplace_back(output);
  steps_.push_back(std::move(step));
}

void Program::replay() const {
  CaptureScope off(nullptr);
  for (const Step& step : steps_) dispatch(*step.op, step.inputs, step.attributes, step.outputs);
}

CaptureScope::CaptureScope(Program* program) : outer_(std::exchange(capturing, program)) {
  watch(kWatchCapture, program != nullptr);
}

CaptureScope::~CaptureScope() {
  capturing = outer_;
  watch(kWatchCapture, outer_ != nullptr);
}

void dispatch_watched(const OpCall& call, Kernel kernel) {
  if (dispatch_watch & kWatchPending) resolve_pending();
  const ProfileScope profiled(call);
  if ((dispatch_watch & kWatchBatch) || batched_storages) return Batches::run(call, kernel);
  kernel(call);
  if (capturing) capturing->append(call);
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
