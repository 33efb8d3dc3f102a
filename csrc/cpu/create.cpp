// Kernels that make values from attributes alone.
#include <cmath>
#include <cstring>

#include "core/loop_nest.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/convert.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 32768;

// Calls body(offset, stride, first, length) for all runs of the tensor, on all cores.
template <class Body>
void for_each_run(const TensorImpl& out, Body&& body) {
  if (out.numel() == 0) return;
  const TensorImpl* tensors[] = {&out};
  LoopNest nest;
  nest.build(tensors);
  auto range = [&](int64_t begin, int64_t end) {
    nest.for_each_run(0, begin, end - begin,
                      [&](int64_t offset, int64_t stride, int64_t done, int64_t length) {
      body(offset, stride, begin + done, length);
    });
  };
  if (out.numel() <= kGrain) return range(0, out.numel());
  BlockingSection blocking;
  parallel_for(0, out.numel(), kGrain, range);
}

template <class T>
void fill_with(const TensorImpl& out, T value) {
  T* data = out.data_as<T>();
  constexpr char kZeros[sizeof(T)] = {};
  bool zero = std::memcmp(&value, kZeros, sizeof(T)) == 0;
  for_each_run(out, [&](int64_t offset, int64_t stride, int64_t, int64_t length) {
    T* run = data + offset;
    if (stride == 1 && zero) std::memset(static_cast<void*>(run), 0, length * sizeof(T));
    else if (stride == 1) std::fill_n(run, length, value);
    else
      for (int64_t i = 0; i < length; ++i) run[i * stride] = value;
  });
}

// The bytes of the number, in every item of that size.
void fill_bare(const TensorImpl& out, Scalar number) {
  uint64_t bytes = 0;
  visit_bare("fill", out.dtype(), [&](auto type) {
    const auto value = number.as<decltype(type)>();
    std::memcpy(&bytes, &value, sizeof value);
  });
  visit_itemsize(out.dtype(),
                 [&](auto type) { fill_with(out, static_cast<decltype(type)>(bytes)); });
}

void fill(const OpCall& call) {
  const TensorImpl& out = call.out();
  if (is_bare(out.dtype())) return fill_bare(out, call.attributes[0]);
  visit_any_dtype("fill", out.dtype(),
                  [&](auto type) { fill_with(out, call.attributes[0].as<decltype(type)>()); });
}

// Fresh and contiguous outputs only, so element i lies at i.
void arange(const OpCall& call) {
  const TensorImpl& out = call.out();
  Scalar start = call.attributes[0], step = call.attributes[1];
  bool integers = is_integral(out.dtype());
  visit_dtype("arange", out.dtype(), [&](auto type) {
    using T = decltype(type);
    T* data = out.data_as<T>();
    for (int64_t i = 0; i < out.numel(); ++i) {
      if (integers) data[i] = Scalar(start.as_int() + i * step.as_int()).as<T>();
      else data[i] = Scalar(start.as_double() + static_cast<double>(i) * step.as_double()).as<T>();
    }
  });
}

void linspace(const OpCall& call) {
  const TensorImpl& out = call.out();
  double start = call.real(0), end = call.real(1), base = call.real(2);
  int64_t count = out.numel();
  double step = count > 1 ? (end - start) / static_cast<double>(count - 1) : 0;
  visit_dtype("linspace", out.dtype(), [&](auto type) {
    using T = decltype(type);
    T* data = out.data_as<T>();
    for (int64_t i = 0; i < count; ++i) {
      // From both ends, so that the last element is exact and the whole is symmetric.
      double value = i < count / 2 || count == 1 ? start + step * static_cast<double>(i)
                                                 : end - step * static_cast<double>(count - 1 - i);
      data[i] = Scalar(base == 0 ? value : std::pow(base, value)).as<T>();
    }
  });
}

void eye(const OpCall& call) {
  const TensorImpl& out = call.out();
  visit_any_dtype("eye", out.dtype(), [&](auto type) {
    using T = decltype(type);
    T* data = out.data_as<T>();
    std::fill_n(data, out.numel(), T(0));
    int64_t count = std::min(out.size(0), out.size(1));
    for (int64_t i = 0; i < count; ++i) data[i * (out.size(1) + 1)] = T(1);
  });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"fill", fill},
    {"arange", arange},
    {"linspace", linspace},
    {"eye", eye},
};

}  // namespace

}  // namespace tapegrad::cpu
