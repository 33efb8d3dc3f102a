// The steps of optimizers: one call updates all parameters of a group. What is unusual (odd layouts,
// shared memory, mixed dtypes) is left to the composed functions in tapegrad/optim.
#pragma once

#include <span>
#include <vector>

#include "core/op.h"

namespace tapegrad {

// An optimizer, as tapegrad/optim lays out its options and its state.
struct OptimizerInfo {
  Op op;
  std::vector<const char*> options;  // keys of the group; a pair stands for its two numbers
  std::vector<const char*> states;   // keys of tensors like the parameter
  std::vector<const char*> counts;   // keys of 0-d tensors
};

std::span<const OptimizerInfo> optimizers();

// An option that is a tensor of one number on a device.
struct OptionTensor {
  size_t option;
  Tensor tensor;
};

// Takes a step. `operands` are the gradients of all parameters, then the parameters, then the first
// state of each, and so on, then the first count of each, and so on. `tensors` stand for some of the
// options; they are read on the device if the counts are there, too. Returns false, with nothing changed,
// where the tensors are not what the kernels take. Where `found_inf`, a number on the device, is not zero, the device
// leaves the step out, counts included.
bool optimizer_step(size_t which, std::span<const Tensor> operands, size_t count,
                    std::span<const double> options, std::span<const OptionTensor> tensors = {},
                    const Tensor& found_inf = {});

}  // namespace tapegrad
