// Reductions on CUDA: which elements become which result, and which kernel of tapegrad/cuda/kernels/reduce.cuh
// walks over them. What becomes of the elements is a rule of the text of a kernel.
#pragma once

#include "core/tensor.h"
#include "cuda/launch.h"

namespace tapegrad::cuda {

struct Reduction {
  const TensorImpl& x;
  uint64_t dims;  // those that are reduced, by bit
  // The rule: a template of a file, over two dtypes. The number tells rules of a cache apart.
  const char* file;
  const char* rule;
  int number;
  DType out_dtype;
  void* outs[2] = {};  // contiguous over the kept dimensions
  const void* second = nullptr;
  const void* levels = nullptr;
  double correction = 0;
  bool take_root = false;
};

// `results` is the number of elements of each output, which is not zero.
void reduce(KernelCache& cache, const Reduction& reduction, int64_t results);

}  // namespace tapegrad::cuda
