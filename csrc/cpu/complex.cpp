// Conversions from and to complex dtypes, and the ops that are complex alone.
#include <cmath>
#include <numbers>

#include "core/loop_nest.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/convert.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 8192;

// ---- conversions: those of the parts, two elements apart

template <class From, DType kTo>
void discard_imaginary(const void* from, int64_t from_stride, void* to, int64_t to_stride,
                       int64_t n) {
  converter(dtype_of<From>, kTo)(from, 2 * from_stride, to, to_stride, n);
}

template <class From>
void is_nonzero(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  auto* source = static_cast<const Complex<From>*>(from);
  auto* target = static_cast<bool*>(to);
  for (int64_t i = 0; i < n; ++i)
    target[i * to_stride] = source[i * from_stride] != Complex<From>(0);
}

template <DType kFrom, class To>
void add_imaginary(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  auto* target = static_cast<To*>(to);
  converter(kFrom, dtype_of<To>)(from, from_stride, target, 2 * to_stride, n);
  for (int64_t i = 0; i < n; ++i) target[2 * i * to_stride + 1] = 0;
}

template <class From, class To>
void convert_parts(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  auto* source = static_cast<const Complex<From>*>(from);
  auto* target = static_cast<Complex<To>*>(to);
  for (int64_t i = 0; i < n; ++i) target[i * to_stride] = Complex<To>(source[i * from_stride]);
}

struct ComplexConversions {
  Convert to_real[2][kConvertible];
  Convert from_real[kConvertible][2];
  Convert between[2][2];
};

template <int kDType>
constexpr void fill(ComplexConversions& table) {
  constexpr auto dtype = static_cast<DType>(kDType);
  if constexpr (dtype == DType::Bool) {
    table.to_real[0][kDType] = is_nonzero<float>;
    table.to_real[1][kDType] = is_nonzero<double>;
  } else {
    table.to_real[0][kDType] = discard_imaginary<float, dtype>;
    table.to_real[1][kDType] = discard_imaginary<double, dtype>;
  }
  table.from_real[kDType][0] = add_imaginary<dtype, float>;
  table.from_real[kDType][1] = add_imaginary<dtype, double>;
  if constexpr (kDType + 1 < kConvertible) fill<kDType + 1>(table);
}

constexpr ComplexConversions make_conversions() {
  ComplexConversions table{};
  fill<0>(table);
  table.between[0][0] = convert_parts<float, float>;
  table.between[0][1] = convert_parts<float, double>;
  table.between[1][0] = convert_parts<double, float>;
  table.between[1][1] = convert_parts<double, double>;
  return table;
}

constinit const ComplexConversions conversions = make_conversions();

// ---- element by element

// Calls body(from, from_stride, to, to_stride, n) for runs of the input and the output.
template <class From, class To, class Body>
void for_each_run(const OpCall& call, Body&& body) {
  const TensorImpl &x = call.in(0), &out = call.out();
  if (out.numel() == 0) return;
  const TensorImpl* tensors[] = {&out, &x};
  LoopNest nest;
  nest.build(tensors);
  auto* from = x.data_as<From>();
  auto* to = out.data_as<To>();
  auto range = [&](int64_t begin, int64_t end) {
    nest.for_each_run_of_two(
        begin, end - begin,
        [&](int64_t to_offset, int64_t to_stride, int64_t from_offset, int64_t from_stride,
            int64_t n) { body(from + from_offset, from_stride, to + to_offset, to_stride, n); });
  };
  if (out.numel() <= kGrain) return range(0, out.numel());
  BlockingSection blocking;
  parallel_for(0, out.numel(), kGrain, range);
}

template <class From, class To, class Function>
void map(const OpCall& call, Function&& function) {
  for_each_run<From, To>(
      call, [&](const From* from, int64_t from_stride, To* to, int64_t to_stride, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i * to_stride] = function(from[i * from_stride]);
  });
}

template <class T>
T magnitude(Complex<T> z) {
  return std::hypot(z.real, z.imag);
}

void conj(const OpCall& call) {
  visit_complex("conj", call.out().dtype(), [&](auto type) {
    using C = decltype(type);
    map<C, C>(call, [](C z) { return conjugate(z); });
  });
}

void complex_abs(const OpCall& call) {
  visit_complex("abs", call.in(0).dtype(), [&](auto type) {
    using C = decltype(type);
    using T = decltype(C::real);
    map<C, T>(call, [](C z) { return magnitude(z); });
  });
}

void complex_angle(const OpCall& call) {
  visit_complex("angle", call.in(0).dtype(), [&](auto type) {
    using C = decltype(type);
    using T = decltype(C::real);
    map<C, T>(call, [](C z) { return std::atan2(z.imag, z.real); });
  });
}

void complex_sgn(const OpCall& call) {
  visit_complex("sgn", call.in(0).dtype(), [&](auto type) {
    using C = decltype(type);
    using T = decltype(C::real);
    map<C, C>(call, [](C z) {
      const T length = magnitude(z);
      return length == 0 ? C(0) : C(z.real / length, z.imag / length);
    });
  });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"conj", conj},
    {"complex_abs", complex_abs},
    {"complex_angle", complex_angle},
    {"complex_sgn", complex_sgn},
};

}  // namespace

Convert complex_converter(DType from, DType to) {
  const int source = from == DType::Complex128, target = to == DType::Complex128;
  if (!is_complex(from)) return conversions.from_real[static_cast<int>(from)][target];
  if (!is_complex(to)) return conversions.to_real[source][static_cast<int>(to)];
  return conversions.between[source][target];
}

}  // namespace tapegrad::cpu
