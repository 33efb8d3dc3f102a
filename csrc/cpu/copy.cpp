// Copying between any two layouts and dtypes.
//
// The walk follows the target's memory order. When source and target disagree about which dimension
// is innermost (a transposed copy), the walk goes in square blocks, so that each cache line of either
// side is used whole.
#include "cpu/copy.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/loop_nest.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/conv_kernels.h"
#include "cpu/convert.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 32768;
constexpr int64_t kBlock = 32;

struct CopyPlan {
  LoopNest nest;
  char* to;
  const char* from;
  int64_t to_size, from_size;  // bytes per element
  bool same_dtype;
  Convert convert;
};

void copy_run(const CopyPlan& plan, int64_t to, int64_t to_stride, int64_t from,
              int64_t from_stride, int64_t length) {
  char* target = plan.to + to * plan.to_size;
  const char* source = plan.from + from * plan.from_size;
  if (plan.same_dtype && to_stride == 1 && from_stride == 1)
    std::memcpy(target, source, length * plan.to_size);
  else plan.convert(source, from_stride, target, to_stride, length);
}

// The source's fastest dimension is dimension 1 of the nest: copy planes of dimensions 0 and 1 in
// square blocks. A plane is one step of the outer dimensions.
template <class T>
void copy_block(T* to, int64_t to_stride1, const T* from, int64_t from_stride0, int64_t rows,
                int64_t columns) {
  // Vectors are moved as they are, whatever the elements stand for.
  if constexpr (sizeof(T) == sizeof(float) || sizeof(T) == sizeof(double)) {
    using Element = std::conditional_t<sizeof(T) == sizeof(float), float, double>;
    return conv_kernels<Element>().transpose(reinterpret_cast<const Element*>(from), from_stride0,
                                             columns, rows, reinterpret_cast<Element*>(to),
                                             to_stride1);
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[r * to_stride1 + c] = from[c * from_stride0 + r];
}

bool is_transposed(const CopyPlan& plan) {
  return plan.same_dtype && plan.nest.rank() >= 2 && plan.nest.stride(0, 0) == 1 &&
         plan.nest.stride(1, 1) == 1 && plan.nest.size(0) >= 8 && plan.nest.size(1) >= 8;
}

template <class T>
void copy_transposed(const CopyPlan& plan) {
  const LoopNest& nest = plan.nest;
  int64_t columns = nest.size(0), rows = nest.size(1), planes = 1;
  for (int d = 2; d < nest.rank(); ++d) planes *= nest.size(d);
  int64_t strips = (rows + kBlock - 1) / kBlock;
  int64_t grain = std::max<int64_t>(1, kGrain / (kBlock * columns));
  parallel_for(0, planes * strips, grain, [&](int64_t begin, int64_t end) {
    for (int64_t strip = begin; strip < end; ++strip) {
      int64_t plane = strip / strips, row = strip % strips * kBlock;
      int64_t to = row * nest.stride(0, 1), from = row;
      for (int d = 2; d < nest.rank(); ++d) {
        to += plane % nest.size(d) * nest.stride(0, d);
        from += plane % nest.size(d) * nest.stride(1, d);
        plane /= nest.size(d);
      }
      for (int64_t column = 0; column < columns; column += kBlock)
        copy_block(reinterpret_cast<T*>(plan.to) + to + column, nest.stride(0, 1),
                   reinterpret_cast<const T*>(plan.from) + from + column * nest.stride(1, 0),
                   nest.stride(1, 0), std::min(kBlock, rows - row),
                   std::min(kBlock, columns - column));
    }
  });
}

void copy_range(const CopyPlan& plan, int64_t begin, int64_t end) {
  // Both tensors are walked in step: the nest has the same sizes for both.
  plan.nest.for_each_run_of_two(
      begin, end - begin,
      [&](int64_t to, int64_t to_stride, int64_t from, int64_t from_stride, int64_t length) {
    copy_run(plan, to, to_stride, from, from_stride, length);
  });
}

}  // namespace

void copy(const OpCall& call) {
  const TensorImpl& to = call.out();
  const TensorImpl& from = call.in(0);
  int64_t numel = to.numel();
  if (numel == 0) return;
  CopyPlan plan;
  const TensorImpl* tensors[] = {&to, &from};
  plan.nest.build(tensors);
  plan.to = static_cast<char*>(to.data());
  plan.from = static_cast<const char*>(from.data());
  plan.to_size = static_cast<int64_t>(itemsize(to.dtype()));
  plan.from_size = static_cast<int64_t>(itemsize(from.dtype()));
  plan.same_dtype = to.dtype() == from.dtype();
  plan.convert = converter(from.dtype(), to.dtype());
  if (numel <= 512) return copy_range(plan, 0, numel);
  BlockingSection blocking;
  if (is_transposed(plan))
    return visit_itemsize(to.dtype(), [&](auto type) { copy_transposed<decltype(type)>(plan); });
  parallel_for(0, numel, kGrain, [&](int64_t begin, int64_t end) { copy_range(plan, begin, end); });
}

namespace {

// Output: one bool, whether any element of the integer input is zero.
void has_zero(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  bool found = false;
  if (x.numel() > 0) {
    const TensorImpl* tensors[] = {&x};
    LoopNest nest;
    nest.build(tensors);
    visit_dtype("has_zero", x.dtype(), [&](auto type) {
      using T = decltype(type);
      const T* data = x.data_as<T>();
      nest.for_each_run(0, 0, x.numel(),
                        [&](int64_t offset, int64_t stride, int64_t, int64_t length) {
        for (int64_t i = 0; i < length; ++i) found |= data[offset + i * stride] == T(0);
      });
    });
  }
  *call.out().data_as<bool>() = found;
}

// The output's places may overlap, so one thread adds in order.
void embed(const OpCall& call) {
  const TensorImpl& to = call.out();
  const TensorImpl& from = call.in(0);
  if (to.numel() == 0) return;
  const TensorImpl* tensors[] = {&to, &from};
  LoopNest nest;
  nest.build(tensors);
  visit_any_dtype("embed", to.dtype(), [&](auto type) {
    using T = decltype(type);
    T* target = to.data_as<T>();
    const T* source = from.data_as<T>();
    nest.for_each_run_of_two(
        0, to.numel(),
        [&](int64_t offset0, int64_t stride0, int64_t offset1, int64_t stride1, int64_t length) {
      for (int64_t i = 0; i < length; ++i) {
        T& place = target[offset0 + i * stride0];
        place = T(place + source[offset1 + i * stride1]);
      }
    });
  });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"from_bfloat16", copy},
    {"copy", copy},
    {"has_zero", has_zero},
    {"embed", embed},
};

}  // namespace

}  // namespace tapegrad::cpu
