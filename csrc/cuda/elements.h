// What kernels that visit each element of a tensor share: how many threads, where elements lie, numbers of the
// host among the arguments.
#pragma once

#include <bit>

#include "core/loop_nest.h"
#include "core/scalar.h"
#include "cuda/launch.h"

namespace tapegrad::cuda {

inline constexpr int kElementThreads = 256;
inline constexpr int kVectorsPerThread = 4;

// Blocks of threads that take kVectorsPerThread times `width` elements each.
inline int64_t element_blocks(int64_t count, int width) {
  const int64_t per_block = int64_t{kElementThreads} * kVectorsPerThread * width;
  return (count + per_block - 1) / per_block;
}

// Up to so many elements one block takes, with a thread for each: its kernel is shorter, and starts sooner.
inline constexpr int64_t kFewElements = 1024;
inline int few_threads(int64_t count) { return static_cast<int>((count + 31) / 32 * 32); }

// Numbers of elements up to this are divided by multiplying.
inline constexpr int64_t kMostNarrowCount = (int64_t{1} << 31) - 1;

// n / size for n below 2^31 is (high word of n * factor, plus n) >> shift: Divisor in prelude.cuh.
struct Divisor {
  uint32_t size, factor, shift;

  explicit Divisor(int64_t of)
      : size(static_cast<uint32_t>(of)),
        shift(size > 1 ? 32 - static_cast<uint32_t>(std::countl_zero(size - 1)) : 0) {
    const uint64_t power = uint64_t{1} << shift;
    factor = static_cast<uint32_t>(((power - size) << 32) / size + 1);
  }
};

// Whether element i of the nest lies at offset i.
bool lies_in_order(const LoopNest& nest, int tensor);

// What geometries in prelude.cuh read: the sizes, then for each tensor its strides. Of vectors of `width` elements, where
// that divides the innermost size; their offsets count elements.
void put_geometry(Arguments& arguments, const LoopNest& nest, int tensors, int64_t count,
                  int width = 1);

// A number in the type that a kernel computes in, rounded to a dtype on its way.
void put_number(Arguments& arguments, const Scalar& number, DType through, DType compute);
// The element of a 0-d tensor on the host.
void put_number(Arguments& arguments, const TensorImpl& number, DType through, DType compute);

}  // namespace tapegrad::cuda
