// What the ops of linear algebra share: checks, results, batches.
#include "core/error.h"
#include "ops/complex.h"
#include "ops/create.h"
#include "ops/linalg.h"
#include "ops/scatter.h"
#include "ops/view.h"

namespace tapegrad {

void check_linalg_dtype(const char* name, const Tensor& a) {
  if (is_complex(a.dtype()) || (is_floating(a.dtype()) && !is_reduced_float(a.dtype()))) return;
  if (is_reduced_float(a.dtype()))
    fail<NotImplementedError>(name, ": not implemented for '", tapegrad::name(a.dtype()),
                              "'; expected float32 or float64, call .float() first");
  fail(name, ": Expected a floating point or complex tensor as input. Got ",
       tapegrad::name(a.dtype()), "; call .float() first");
}

void check_matrices(const char* name, const Tensor& a, const char* argument) {
  TAPEGRAD_CHECK(a.dim() >= 2, name, ": The input tensor ", argument,
                 " must have at least 2 dimensions.");
  check_linalg_dtype(name, a);
}

void check_square(const char* name, const Tensor& a) {
  check_matrices(name, a);
  const int64_t rows = a.size(a.dim() - 2), columns = a.size(a.dim() - 1);
  TAPEGRAD_CHECK(rows == columns, name, ": A must be batches of square matrices, but they are ",
                 rows, " by ", columns, " matrices");
}

Sizes batch_of(const Tensor& x, int64_t own) {
  return x.sizes().first(static_cast<size_t>(x.dim() - own));
}

Tensor empty_columns(const char* name, const Tensor& like, Sizes batch, int64_t rows,
                     int64_t columns, std::optional<DType> dtype) {
  DimVector sizes(batch);
  sizes.push_back(columns);
  sizes.push_back(rows);
  Tensor stored = empty(name, sizes, dtype.value_or(like.dtype()), like->device());
  DimVector strides(stored.strides());
  const size_t rank = sizes.size();
  std::swap(sizes[rank - 1], sizes[rank - 2]);
  std::swap(strides[rank - 1], strides[rank - 2]);
  return alias(stored, sizes, strides, 0);
}

Tensor empty_batch(const char* name, const Tensor& like, Sizes batch, std::optional<int64_t> length,
                   DType dtype) {
  DimVector sizes(batch);
  if (length) sizes.push_back(*length);
  return empty(name, sizes, dtype, like->device());
}

Tensor expand_batch(const Tensor& x, Sizes batch, int64_t own) {
  if (same_sizes(batch_of(x, own), batch)) return x;
  DimVector sizes(batch);
  for (int64_t size : x.sizes().last(static_cast<size_t>(own))) sizes.push_back(size);
  return expand(x, sizes);
}

Tensor adjoint(const Tensor& x) { return conj(matrix_transpose(x)); }

Tensor take_rows(const Tensor& x, const Tensor& order) {
  DimVector sizes(x.sizes());
  return gather(x, x.dim() - 2, expand(unsqueeze(order, -1), sizes));
}

int64_t check_attribute(const char* name, bool check) { return check ? linalg_caller(name) : 0; }

}  // namespace tapegrad
