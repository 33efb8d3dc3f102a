// Equal neighbours: what unique is made of once its input is sorted.
#include <algorithm>
#include <numeric>

#include "core/parallel.h"
#include "core/registry.h"

namespace tapegrad::cpu {

namespace {

// A contiguous matrix, or a vector as a matrix of one column.
struct Matrix {
  explicit Matrix(const TensorImpl& x)
      : rows(x.size(0)), columns(rows > 0 ? x.numel() / rows : 0) {}
  int64_t rows, columns;
};

// The order of the rows of a matrix, compared element by element from the left. Output: row numbers.
void sort_rows(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  Matrix matrix(x);
  auto* order = call.out().data_as<int64_t>();
  std::iota(order, order + matrix.rows, 0);
  visit_dtype("unique", x.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* data = x.data_as<T>();
    int64_t n = matrix.columns;
    BlockingSection blocking;
    std::stable_sort(order, order + matrix.rows, [&](int64_t a, int64_t b) {
      return std::lexicographical_compare(data + a * n, data + (a + 1) * n, data + b * n,
                                          data + (b + 1) * n);
    });
  });
}

// Output: for each row the number of rows up to it that differ from the one before.
void run_numbers(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  Matrix matrix(x);
  auto* numbers = call.out().data_as<int64_t>();
  visit_dtype("unique", x.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* data = x.data_as<T>();
    int64_t number = 0, n = matrix.columns;
    for (int64_t r = 0; r < matrix.rows; ++r) {
      const T* row = data + r * n;
      if (r > 0 && !std::equal(row, row + n, row - n)) ++number;
      numbers[r] = number;
    }
  });
}

// Input: run numbers. Output: where each run begins, and at last where the last one ends.
void run_starts(const OpCall& call) {
  auto* numbers = call.in(0).data_as<int64_t>();
  auto* starts = call.out().data_as<int64_t>();
  int64_t n = call.in(0).numel();
  for (int64_t i = n; i-- > 0;) starts[numbers[i]] = i;
  starts[call.out().numel() - 1] = n;
}

const KernelList<DeviceType::CPU> kKernels = {
    {"sort_rows", sort_rows},
    {"run_numbers", run_numbers},
    {"run_starts", run_starts},
};

}  // namespace

}  // namespace tapegrad::cpu
