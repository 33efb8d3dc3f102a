// Medians along one dimension, by selection on a copy of each line.
#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "core/registry.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 4096;

// A line of values and the place of its lower median; the first NaN where there is one.
template <class T>
int64_t median_place(const T* x, int64_t stride, int64_t n, std::vector<int64_t>& places) {
  places.resize(n);
  for (int64_t i = 0; i < n; ++i) {
    places[i] = i;
    if constexpr (!std::is_integral_v<T>)
      if (x[i * stride] != x[i * stride]) return i;
  }
  auto before = [&](int64_t a, int64_t b) {
    const T p = x[a * stride], q = x[b * stride];
    return p < q || (p == q && a < b);
  };
  auto middle = places.begin() + (n - 1) / 2;
  std::nth_element(places.begin(), middle, places.end(), before);
  return *middle;
}

// Attribute: the dimension. Outputs: values and indices, contiguous over the other dimensions.
void median(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  const int64_t results = call.out(0).numel();
  if (results == 0) return;
  const int64_t dim = call.integer(0);
  const int64_t n = x.dim() == 0 ? 1 : x.size(dim), stride = x.dim() == 0 ? 1 : x.stride(dim);
  BlockingSection blocking;
  visit_dtype("median", x.dtype(), [&](auto type) {
    using T = decltype(type);
    T* values = call.out(0).data_as<T>();
    auto* indices = call.out(1).data_as<int64_t>();
    parallel_for(0, results, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
      std::vector<int64_t> places;
      for (int64_t i = begin; i < end; ++i) {
        const T* line = x.data_as<T>();
        for (int64_t d = x.dim() - 1, rest = i; d >= 0; --d) {
          if (d == dim) continue;
          line += rest % x.size(d) * x.stride(d);
          rest /= x.size(d);
        }
        indices[i] = median_place(line, stride, n, places);
        values[i] = line[indices[i] * stride];
      }
    });
  });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"median", median},
};

}  // namespace

}  // namespace tapegrad::cpu
