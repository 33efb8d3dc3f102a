#include "ops/sparse.h"

#include "core/error.h"
#include "core/op.h"
#include "ops/copy.h"

namespace tapegrad {

namespace {

const Op csr_mm_op("csr_mm", {}, kUnrecorded);
const Op csr_sampled_mm_op("csr_sampled_mm", {}, kUnrecorded);
const Op counting_order_op("counting_order", {}, kNoDerivative);

void check_pattern(const char* op, const Tensor& starts, const Tensor& columns) {
  TAPEGRAD_CHECK(starts.dim() == 1 && starts.numel() >= 1 && columns.dim() == 1, op,
                 ": expected starts and columns as vectors, got shapes ", to_string(starts.sizes()),
                 " and ", to_string(columns.sizes()));
  TAPEGRAD_CHECK(starts.dtype() == DType::Int64 && columns.dtype() == DType::Int64, op,
                 ": expected starts and columns of int64, got ", name(starts.dtype()), " and ",
                 name(columns.dtype()));
}

void check_matrix(const char* op, const Tensor& x) {
  TAPEGRAD_CHECK(x.dim() == 2, op, ": expected a matrix, got shape ", to_string(x.sizes()));
}

}  // namespace

Tensor csr_mm(const Tensor& starts, const Tensor& columns, const Tensor& values,
              const Tensor& dense) {
  const char* op = csr_mm_op.name;
  check_pattern(op, starts, columns);
  check_matrix(op, dense);
  TAPEGRAD_CHECK(same_sizes(values.sizes(), columns.sizes()), op, ": expected ", columns.numel(),
                 " values, got shape ", to_string(values.sizes()));
  TAPEGRAD_CHECK(values.dtype() == dense.dtype(), op, ": expected operands of one dtype, got ",
                 name(values.dtype()), " and ", name(dense.dtype()));
  Tensor y = empty_like(dense, DimVector{starts.numel() - 1, dense.size(1)}, dense.dtype());
  dispatch(csr_mm_op,
           {contiguous(starts), contiguous(columns), contiguous(values), contiguous(dense)}, {},
           {y});
  return y;
}

Tensor csr_sampled_mm(const Tensor& starts, const Tensor& columns, const Tensor& a,
                      const Tensor& b) {
  const char* op = csr_sampled_mm_op.name;
  check_pattern(op, starts, columns);
  check_matrix(op, a);
  check_matrix(op, b);
  TAPEGRAD_CHECK(a.size(1) == b.size(1) && a.size(0) == starts.numel() - 1, op,
                 ": got matrices of shapes ", to_string(a.sizes()), " and ", to_string(b.sizes()),
                 " for ", starts.numel() - 1, " rows");
  TAPEGRAD_CHECK(a.dtype() == b.dtype(), op, ": expected operands of one dtype, got ",
                 name(a.dtype()), " and ", name(b.dtype()));
  Tensor y = empty_like(a, columns.sizes(), a.dtype());
  dispatch(csr_sampled_mm_op,
           {contiguous(starts), contiguous(columns), contiguous(a), contiguous(b)}, {}, {y});
  return y;
}

std::pair<Tensor, Tensor> counting_order(const Tensor& numbers, int64_t count) {
  const char* op = counting_order_op.name;
  TAPEGRAD_CHECK(numbers.dim() == 1 && numbers.dtype() == DType::Int64, op,
                 ": expected a vector of int64, got shape ", to_string(numbers.sizes()), " of ",
                 name(numbers.dtype()));
  TAPEGRAD_CHECK(count >= 0, op, ": expected a count that is not negative, got ", count);
  Tensor starts = empty_like(numbers, DimVector{count + 1}, DType::Int64);
  Tensor order = empty_like(numbers, numbers.sizes(), DType::Int64);
  dispatch(counting_order_op, {contiguous(numbers)}, {}, {starts, order});
  return {starts, order};
}

}  // namespace tapegrad
