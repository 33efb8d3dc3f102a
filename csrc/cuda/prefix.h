// Running sums of int64 numbers: tapegrad/cuda/kernels/prefix.cu.
#pragma once

#include <string>

#include "core/tensor.h"

namespace tapegrad::cuda {

// out[i] is the sum of numbers 0 to i. `numbers` is what the kernels call them: "Repeats" of contiguous int64, or "Changes<float>"
// from row to row of a contiguous matrix.
struct Prefix {
  std::string numbers;
  uint64_t key;  // tells them apart
  int64_t count;
  const void* x;
  int64_t columns = 1;
};
void prefix_sums(const Prefix& prefix, Device device, void* out);

}  // namespace tapegrad::cuda
