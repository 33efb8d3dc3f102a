// All ops that there are, and the kernels that back ends have for them.
//
// Note [Ops and kernels find each other by name]
// An op is a global of the file in csrc/ops that defines it; a kernel is a function of a back end, which
// knows nothing of csrc/ops. Each file lists what it has while the library is loaded, in no fixed
// order, and link_kernels() puts the two together. So a back end brings its kernels with it: no
// file says that a device has none, and an op of which the name is misspelt is an error at once.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "core/op.h"

namespace tapegrad {

struct NamedKernel {
  const char* op;
  Kernel kernel;
};
void list_kernels(DeviceType device, std::initializer_list<NamedKernel> kernels);

// The kernels of one file of a back end, by the names of their ops.
template <DeviceType kDevice>
struct KernelList {
  KernelList(std::initializer_list<NamedKernel> kernels) { list_kernels(kDevice, kernels); }
};

// Gives every op its kernels. Called once, when everything is listed.
void link_kernels();

// In the order of their names.
const std::vector<const Op*>& all_ops();
// Null where there is none.
const Op* find_op(std::string_view name);

}  // namespace tapegrad
