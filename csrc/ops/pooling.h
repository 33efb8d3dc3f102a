// Pooling: maxima and averages over windows of the last one, two or three dimensions.
#pragma once

#include <optional>
#include <utility>

#include "core/layout.h"
#include "core/tensor.h"

namespace tapegrad {

// The windows as the user gives them: one number for all dimensions, or one for each.
struct PoolWindows {
  Sizes kernel, stride, padding, dilation;  // an empty stride means the kernel's size
  bool ceil_mode = false;
};

// Values and, where `indices` asks for them, their places in the plane they were taken from.
std::pair<Tensor, Tensor> max_pool(const char* op, const Tensor& x, int64_t rank,
                                   const PoolWindows& windows, bool indices);
Tensor avg_pool(const char* op, const Tensor& x, int64_t rank, const PoolWindows& windows,
                bool count_include_pad, std::optional<int64_t> divisor_override);

// Windows that cut the input into so many parts; -1 keeps a size.
std::pair<Tensor, Tensor> adaptive_max_pool(const char* op, const Tensor& x, int64_t rank,
                                            Sizes output_size, bool indices);
Tensor adaptive_avg_pool(const char* op, const Tensor& x, int64_t rank, Sizes output_size);

// Planes of zeros of the given sizes, with values put to the places that `indices` name.
Tensor max_unpool(const char* op, const Tensor& x, const Tensor& indices, Sizes output_size);

// The elements of each plane (the last `rank` dimensions) that `indices` name, in a format.
Tensor plane_gather(const Tensor& x, const Tensor& indices, int64_t rank,
                    MemoryFormat format = MemoryFormat::Contiguous);

}  // namespace tapegrad
