// Products of sparse matrices by rows. Rows are cut among threads by how many elements they have.
#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/sparse_kernels.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = int64_t{1} << 15;  // products

const SparseKernels& kernels_for(const OpCall& call) {
  const DType dtype = call.out().dtype();
  const SparseKernels& kernels = best_sparse_table().kernels[static_cast<int>(dtype)];
  if (!kernels.mm) fail_unsupported_dtype(call.op.name, dtype);
  return kernels;
}

// The pattern comes from the program, which may write to it: nothing outside of memory may be read.
void check_pattern(const OpCall& call, int64_t columns) {
  const TensorImpl &starts = call.in(0), &places = call.in(1);
  auto* first = starts.data_as<int64_t>();
  const int64_t rows = starts.numel() - 1;
  TAPEGRAD_CHECK(
      first[0] == 0 && first[rows] == places.numel() && std::is_sorted(first, first + rows + 1),
      call.op.name, ": expected starts of rows that rise from 0 to ", places.numel());
  auto* place = places.data_as<int64_t>();
  uint64_t highest = 0;  // a negative number is the highest of all
  for (int64_t e = 0; e < places.numel(); ++e)
    highest = std::max(highest, static_cast<uint64_t>(place[e]));
  const bool valid = places.numel() == 0 || highest < static_cast<uint64_t>(columns);
  TAPEGRAD_CHECK_AS(IndexError, valid, call.op.name, ": a column is out of range for ", columns,
                    " columns");
}

// Calls body(rows) for pieces of the matrix: row r belongs to the piece that holds number starts[r] + r.
template <class Body>
void for_rows(const OpCall& call, int64_t width, Body&& body) {
  auto* starts = call.in(0).data_as<int64_t>();
  auto* columns = call.in(1).data_as<int64_t>();
  const int64_t count = call.in(0).numel() - 1;
  auto row_at = [&](int64_t number) {
    int64_t low = 0, high = count;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (starts[middle] + middle < number) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  BlockingSection blocking;
  parallel_for(0, starts[count] + count, std::max<int64_t>(1, kGrain / (width + 1)),
               [&](int64_t begin, int64_t end) {
    body(CsrRows{starts, columns, row_at(begin), row_at(end)});
  });
}

void csr_mm(const OpCall& call) {
  const SparseKernels& kernels = kernels_for(call);
  const TensorImpl& dense = call.in(3);
  check_pattern(call, dense.size(0));
  void *values = call.in(2).data(), *x = dense.data(), *y = call.out().data();
  const int64_t width = dense.size(1);
  for_rows(call, width, [&](const CsrRows& rows) { kernels.mm(rows, values, x, y, width); });
}

void csr_sampled_mm(const OpCall& call) {
  const SparseKernels& kernels = kernels_for(call);
  check_pattern(call, call.in(3).size(0));
  void *a = call.in(2).data(), *b = call.in(3).data(), *y = call.out().data();
  const int64_t width = call.in(2).size(1);
  for_rows(call, width, [&](const CsrRows& rows) { kernels.sampled(rows, a, b, y, width); });
}

// Inputs: numbers. Outputs: where each begins among the sorted ones, and the order that sorts them.
void counting_order(const OpCall& call) {
  const TensorImpl& numbers = call.in(0);
  auto* number = numbers.data_as<int64_t>();
  auto* starts = call.out(0).data_as<int64_t>();
  auto* order = call.out(1).data_as<int64_t>();
  const int64_t count = call.out(0).numel() - 1, n = numbers.numel();
  for (int64_t i = 0; i < n; ++i)
    TAPEGRAD_CHECK_AS(IndexError, static_cast<uint64_t>(number[i]) < static_cast<uint64_t>(count),
                      call.op.name, ": index ", number[i], " is out of range for size ", count);
  BlockingSection blocking;
  std::fill_n(starts, count + 1, 0);
  // Each start is first where its run begins and, once the run is full, where the next one does.
  for (int64_t i = 0; i < n; ++i)
    if (number[i] + 2 <= count) ++starts[number[i] + 2];
  for (int64_t k = 2; k <= count; ++k) starts[k] += starts[k - 1];
  for (int64_t i = 0; i < n; ++i) order[starts[number[i] + 1]++] = i;
}

const KernelList<DeviceType::CPU> kernels{
    {"csr_mm", csr_mm},
    {"csr_sampled_mm", csr_sampled_mm},
    {"counting_order", counting_order},
};

}  // namespace

}  // namespace tapegrad::cpu
