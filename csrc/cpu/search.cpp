// Binary search in sorted rows, and counting.
#include <algorithm>
#include <limits>

#include "core/parallel.h"
#include "core/registry.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 4096;

// The first place whose element is not below `value` (or above it, if `right`). Comparisons are
// negated so that NaN, which compares with nothing, ends up behind everything.
template <class T>
int64_t place_of(const T* sequence, const int64_t* order, int64_t length, T value, bool right) {
  int64_t begin = 0, end = length;
  while (begin < end) {
    int64_t middle = begin + (end - begin) / 2;
    T element = sequence[order ? order[middle] : middle];
    bool below = right ? !(element > value) : !(element >= value);
    if (below) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

// Inputs: sorted rows (a vector serves all values), values, and perhaps the order that sorts the rows;
// all contiguous. Attribute: right. Output: int64 or int32.
void searchsorted(const OpCall& call) {
  const TensorImpl& sequence = call.in(0);
  const TensorImpl& values = call.in(1);
  const TensorImpl& out = call.out();
  bool right = call.attributes[0].as_bool();
  int64_t length = sequence.size(static_cast<size_t>(sequence.dim()) - 1);
  bool one_row = sequence.dim() == 1;
  int64_t per_row = one_row ? values.numel() : values.size(static_cast<size_t>(values.dim()) - 1);
  const int64_t* order = call.inputs.size() > 2 ? call.in(2).data_as<int64_t>() : nullptr;
  visit_dtype("searchsorted", sequence.dtype(), [&](auto type) {
    using T = decltype(type);
    auto range = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t first = one_row ? 0 : i / per_row * length;
        int64_t place = place_of(sequence.data_as<T>() + first, order ? order + first : nullptr,
                                 length, values.data_as<T>()[i], right);
        if (out.dtype() == DType::Int64) out.data_as<int64_t>()[i] = place;
        else out.data_as<int32_t>()[i] = static_cast<int32_t>(place);
      }
    };
    if (out.numel() <= kGrain) return range(0, out.numel());
    BlockingSection blocking;
    parallel_for(0, out.numel(), kGrain, range);
  });
}

// The smallest and the largest of contiguous int64 numbers.
void bounds(const OpCall& call) {
  auto* x = call.in(0).data_as<int64_t>();
  int64_t low = std::numeric_limits<int64_t>::max(), high = std::numeric_limits<int64_t>::min();
  for (int64_t i = 0; i < call.in(0).numel(); ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  call.out().data_as<int64_t>()[0] = low;
  call.out().data_as<int64_t>()[1] = high;
}

// Inputs: contiguous int64 numbers inside the output, and perhaps their weights of its dtype. The
// output comes filled with zeros.
void bincount(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  auto* places = x.data_as<int64_t>();
  int64_t n = x.numel();
  if (call.inputs.size() == 1) {
    auto* counts = call.out().data_as<int64_t>();
    for (int64_t i = 0; i < n; ++i) ++counts[places[i]];
    return;
  }
  visit_dtype("bincount", call.out().dtype(), [&](auto type) {
    using T = decltype(type);
    T* sums = call.out().data_as<T>();
    const T* weights = call.in(1).data_as<T>();
    for (int64_t i = 0; i < n; ++i) sums[places[i]] = T(sums[places[i]] + weights[i]);
  });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"searchsorted", searchsorted},
    {"bounds", bounds},
    {"bincount", bincount},
};

}  // namespace

}  // namespace tapegrad::cpu
