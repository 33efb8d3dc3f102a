#include "ops/optimizer.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "core/layout.h"
#include "graph/forward.h"
#include "graph/grad_mode.h"
#include "graph/write_log.h"
#include "intercept/batch.h"
#include "intercept/capture.h"
#include "ops/copy.h"

namespace tapegrad {

namespace {

OptimizerInfo describe(const char* name, std::vector<const char*> options,
                       std::vector<const char*> states, std::vector<const char*> counts) {
  return {{name, "optimizer_step", {"which", "count", "options*"}, kUnrecorded | kHostNumbers},
          std::move(options),
          std::move(states),
          std::move(counts)};
}

bool matches(const Tensor& x, const Tensor& param) {
  return x.dtype() == param.dtype() && x->device() == param->device() &&
         same_sizes(x.sizes(), param.sizes()) &&
         ((x.is_contiguous() && param.is_contiguous()) || same_sizes(x.strides(), param.strides()));
}

// A number: on the host, or on the parameters' device.
bool is_count(const Tensor& x, Device where, Device of_params) {
  return x.numel() == 1 && (x.dtype() == DType::Float32 || x.dtype() == DType::Float64) &&
         x->device() == where && (where == of_params || x.dim() == 0);
}

// Whether every operand has a storage of its own, which owns its bytes: then nothing is shared. A table of
// storages that were seen; for very many the answer is no.
bool have_own_storages(std::span<const Tensor> operands) {
  constexpr size_t kSlots = 2048;
  if (operands.size() > kSlots / 2) return false;
  const size_t mask = std::bit_ceil(2 * operands.size()) - 1;
  const Storage* seen[kSlots];
  std::fill_n(seen, mask + 1, nullptr);
  for (const Tensor& x : operands) {
    const Storage* storage = &x->storage();
    if (storage->is_borrowed()) return false;
    size_t slot = (reinterpret_cast<uintptr_t>(storage) * 0x9e3779b97f4a7c15u >> 40) & mask;
    for (; seen[slot]; slot = (slot + 1) & mask)
      if (seen[slot] == storage) return false;
    seen[slot] = storage;
  }
  return true;
}

// Whether no memory that is written is also used by another operand. Gradients may share.
bool is_disjoint(std::span<const Tensor> operands, size_t count) {
  struct Range {
    const char *begin, *end;
    bool written;
  };
  std::vector<Range> ranges;
  ranges.reserve(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    const Tensor& x = operands[i];
    auto* begin = static_cast<const char*>(x->address());
    const auto nbytes = x.numel() * static_cast<int64_t>(itemsize(x.dtype()));
    if (nbytes > 0) ranges.push_back({begin, begin + nbytes, i >= count});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const char *written_until = nullptr, *read_until = nullptr;
  for (const Range& range : ranges) {
    if (range.begin < written_until || (range.written && range.begin < read_until)) return false;
    (range.written ? written_until : read_until) =
        std::max(range.written ? written_until : read_until, range.end);
  }
  return true;
}

// In the order of the table in cpu/optimizer_kernels.cpp.
using Keys = std::vector<const char*>;
const Keys step{"step"}, averages{"exp_avg", "exp_avg_sq"};
const Keys sgd{"lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"};
const Keys adam{"lr", "betas", "eps", "weight_decay", "maximize", "decoupled_weight_decay"};
const Keys rmsprop{"lr", "alpha", "eps", "weight_decay", "momentum", "maximize"};
const OptimizerInfo kOptimizers[] = {
    describe("sgd_step", sgd, {}, {}),
    describe("sgd_momentum_step", sgd, {"momentum_buffer"}, {}),
    describe("adam_step", adam, averages, step),
    describe("adam_amsgrad_step", adam, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, step),
    describe("rmsprop_step", rmsprop, {"square_avg"}, step),
    describe("rmsprop_momentum_step", rmsprop, {"square_avg", "momentum_buffer"}, step),
    describe("rmsprop_centered_step", rmsprop, {"square_avg", "grad_avg"}, step),
    describe("rmsprop_centered_momentum_step", rmsprop,
             {"square_avg", "grad_avg", "momentum_buffer"}, step),
    describe("adagrad_step", {"lr", "lr_decay", "eps", "weight_decay", "maximize"}, {"sum"}, step),
    describe("adadelta_step", {"lr", "rho", "eps", "weight_decay", "maximize"},
             {"square_avg", "acc_delta"}, step),
    describe("adamax_step", {"lr", "betas", "eps", "weight_decay", "maximize"},
             {"exp_avg", "exp_inf"}, step),
    describe("nadam_step",
             {"lr", "betas", "eps", "weight_decay", "momentum_decay", "maximize",
              "decoupled_weight_decay"},
             averages, {"step", "mu_product"}),
    describe("radam_step", adam, averages, step),
    describe("asgd_step", {"lr", "lambd", "alpha", "t0", "weight_decay", "maximize"}, {"ax"},
             {"step", "eta", "mu"}),
    describe("rprop_step", {"etas", "step_sizes", "maximize"}, {"prev", "step_size"}, step),
};

// Of all optimizers, with counts on the device; "inputs" are places among the inputs, or -1. One more input is a number
// that is zero unless the step is to be left out.
const Op on_device_op("optimizer_step_on_device", {"which", "count", "options*", "inputs*"},
                      kUnrecorded);

void dispatch_on_host(const Op& op, size_t which, std::span<const Tensor> operands, size_t count,
                      std::span<const double> options, std::span<const OptionTensor> tensors) {
  std::vector<Scalar> attributes{static_cast<int64_t>(which), static_cast<int64_t>(count)};
  attributes.insert(attributes.end(), options.begin(), options.end());
  for (const OptionTensor& each : tensors)
    attributes[2 + each.option] = each.tensor.dtype() == DType::Float64
                                      ? *read_on_host<double>(each.tensor)
                                      : double{*read_on_host<float>(each.tensor)};
  dispatch(op, operands, attributes, operands.subspan(count));
}

void dispatch_on_device(size_t which, std::span<const Tensor> operands, size_t count,
                        std::span<const double> options, std::span<const OptionTensor> tensors,
                        const Tensor& found_inf) {
  std::vector<Scalar> attributes{static_cast<int64_t>(which), static_cast<int64_t>(count)};
  attributes.insert(attributes.end(), options.begin(), options.end());
  attributes.insert(attributes.end(), options.size(), int64_t{-1});
  std::vector<Tensor> inputs(operands.begin(), operands.end());
  for (const OptionTensor& each : tensors) {
    attributes[2 + options.size() + each.option] = static_cast<int64_t>(inputs.size());
    inputs.push_back(each.tensor);
  }
  if (found_inf.defined()) inputs.push_back(found_inf);
  dispatch(on_device_op, inputs, attributes, operands.subspan(count));
}

}  // namespace

std::span<const OptimizerInfo> optimizers() { return kOptimizers; }

bool optimizer_step(size_t which, std::span<const Tensor> operands, size_t count,
                    std::span<const double> options, std::span<const OptionTensor> tensors,
                    const Tensor& found_inf) {
  const OptimizerInfo& optimizer = optimizers()[which];
  if (is_vmap_running() || forward_levels) return false;
  const Device device = operands[count]->device();
  if (device.is_meta()) return false;
  for (const Tensor& x : operands)
    if (x->storage().has(Storage::kBatched | Storage::kVoid)) return false;  // a batch, or sparse
  const size_t alike = (2 + optimizer.states.size()) * count;
  for (size_t i = 0; i < count; ++i) {
    const Tensor& param = operands[count + i];
    if (!is_floating(param.dtype()) || !is_dense(*param.impl()) || param->device() != device)
      return false;
    for (size_t k = i; k < alike; k += count)
      if (!matches(operands[k], param)) return false;
  }
  // Where the counts are decides where the rest is worked out.
  const bool has_counts = alike < operands.size();
  bool on_device =
      has_counts ? !operands[alike]->device().is_cpu() : !tensors.empty() || found_inf.defined();
  for (size_t k = alike; k < operands.size(); ++k)
    if (!is_count(operands[k], on_device ? device : Device{}, device)) return false;
  for (const OptionTensor& each : tensors) on_device &= each.tensor->device() == device;
  if (has_counts && !on_device && !operands[alike]->device().is_cpu()) return false;
  if (found_inf.defined() &&
      !(on_device && is_count(found_inf, device, device) && found_inf.dtype() == DType::Float32))
    return false;
  if (!have_own_storages(operands) && !is_disjoint(operands, count)) return false;

  const GradMode off(false);
  std::span<const Tensor> written = operands.subspan(count);
  for (const Tensor& x : written) check_write(optimizer.op.name, x, false);
  if (on_device) dispatch_on_device(which, operands, count, options, tensors, found_inf);
  else dispatch_on_host(optimizer.op, which, operands, count, options, tensors);
  for (const Tensor& x : written) note_write(optimizer.op.name, x);
  return true;
}

}  // namespace tapegrad
