// What the kernels of linear algebra share: the matrices of a batch, and the loop over them.
//
// An operand has leading dimensions, which are the batch and alike in all operands (one of size one is repeated),
// and one, two or no dimensions of its own: a matrix, a vector, a number. Inputs lie in any way. Matrices that are
// written have contiguous columns, as LAPACK wants them (csrc/ops/linalg.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/op.h"
#include "core/parallel.h"
#include "cpu/lapack.h"
#include "cpu/linalg_scalar.h"
#include "spec/linalg.h"

namespace tapegrad::cpu::linalg {

using lapack::Int;

// The leading dimensions of a call, as its first output has them.
struct Lead {
  Lead(const OpCall& call, int64_t own_dims) {
    const Sizes all = call.out(0).sizes();
    for (int64_t size : all.first(all.size() - static_cast<size_t>(own_dims))) {
      sizes.push_back(size);
      count *= size;
    }
  }
  DimVector sizes;
  int64_t count = 1;
};

// The items of an operand, one for each place in the batch.
template <class T>
class Items {
 public:
  Items(const TensorImpl& x, const Lead& lead) : data_(x.data_as<T>()), sizes_(lead.sizes) {
    const size_t rank = lead.sizes.size();
    for (size_t d = 0; d < rank; ++d) strides_.push_back(x.size(d) == 1 ? 0 : x.stride(d));
    for (size_t d = 0; d + 1 < rank; ++d)
      is_even_ = is_even_ && strides_[d] == strides_[d + 1] * sizes_[d + 1];
    step_ = rank > 0 ? strides_[rank - 1] : 0;
    const size_t all = x.sizes().size();
    columns = all > rank ? x.size(all - 1) : 1;
    rows = all > rank + 1 ? x.size(all - 2) : columns;
    column_stride = all > rank ? x.stride(all - 1) : 1;
    row_stride = all > rank + 1 ? x.stride(all - 2) : column_stride;
  }
  T* operator[](int64_t i) const {
    if (is_even_) return data_ + i * step_;
    T* item = data_;
    for (size_t d = sizes_.size(); d-- > 0; i /= sizes_[d]) item += i % sizes_[d] * strides_[d];
    return item;
  }
  // Copies a matrix to contiguous columns `ld` apart.
  void copy(int64_t i, std::remove_const_t<T>* to, int64_t ld) const {
    const T* from = (*this)[i];
    for (int64_t c = 0; c < columns; ++c, from += column_stride, to += ld)
      if (row_stride == 1) std::copy_n(from, rows, to);
      else
        for (int64_t r = 0; r < rows; ++r) to[r] = from[r * row_stride];
  }
  // Of a matrix that is written: how far its columns are apart.
  int64_t ld() const { return std::max<int64_t>({column_stride, rows, 1}); }

  int64_t rows, columns, row_stride, column_stride;  // of a vector, both are its length and step

 private:
  T* data_;
  DimVector sizes_, strides_;
  int64_t step_ = 0;
  bool is_even_ = true;
};

// Runs body(first, last) on blocks of the batch, on several threads if that pays. `cost` is what one item takes, in
// multiplications.
template <class Body>
void for_items(int64_t count, double cost, Body&& body) {
  constexpr double kWorthThread = 30000, kWorthRelease = 60000;
  const auto grain = static_cast<int64_t>(std::max(1.0, kWorthThread / (cost + 10)));
  if (static_cast<double>(count) * cost < kWorthRelease) return parallel_for(0, count, grain, body);
  BlockingSection blocking;
  parallel_for(0, count, grain, body);
}

template <class Run>
void with_type(const OpCall& call, Run&& run) {
  switch (call.in(0).dtype()) {
    case DType::Float32:
      return run(float());
    case DType::Float64:
      return run(double());
    case DType::Complex64:
      return run(Complex<float>());
    case DType::Complex128:
      return run(Complex<double>());
    default:
      fail_unsupported_dtype(call.op.name, call.in(0).dtype());
  }
}

template <class T>
bool all_finite(const T* a, int64_t rows, int64_t columns, int64_t ld) {
  if constexpr (is_complex_type<T>) {
    const auto* parts = reinterpret_cast<const Real<T>*>(a);
    return all_finite(parts, 2 * rows, columns, 2 * ld);
  }
  Real<T> sum = 0;  // not a number once one element is not finite
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r) sum += real_part(a[c * ld + r]) * 0;
  return sum == 0;
}

template <class T>
void clear_above(T* a, int64_t rows, int64_t columns, int64_t ld) {
  for (int64_t c = 1; c < columns; ++c) std::fill_n(a + c * ld, std::min(c, rows), T(0));
}
template <class T>
void clear_below(T* a, int64_t rows, int64_t columns, int64_t ld) {
  for (int64_t c = 0; c + 1 < rows && c < columns; ++c)
    std::fill_n(a + c * ld + c + 1, rows - c - 1, T(0));
}
template <class T>
void set_identity(T* a, int64_t rows, int64_t columns, int64_t ld) {
  if (rows == 0) return;  // of however many columns
  for (int64_t c = 0; c < columns; ++c) {
    std::fill_n(a + c * ld, rows, T(0));
    if (c < rows) a[c * ld + c] = 1;
  }
}

// Raises LinAlgError for the first item whose outcome is not 0, if the call asks for that in its last attribute.
void check_outcomes(const OpCall& call, const std::vector<Int>& infos);

}  // namespace tapegrad::cpu::linalg
