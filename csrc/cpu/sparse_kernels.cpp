// Compiled once per instruction set.
#include "cpu/sparse_kernels.h"

#include <type_traits>

#include "core/half.h"
#include "cpu/math.h"
#include "cpu/register_tile.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

constexpr int kLanes = 16;

// How far ahead rows of the dense matrix, which lie anywhere, are asked for.
constexpr int64_t kAhead = 8;

// kWidth columns of one row. S is what is stored, and T what is computed with.
template <class S, class T, int kWidth>
TAPEGRAD_INLINE void row_block(const int64_t* columns, const S* values, int64_t count,
                               const S* dense, int64_t width, S* y) {
  T sums[kWidth] = {};
  for (int64_t e = 0; e < count; ++e) {
    const T value = static_cast<T>(values[e]);
    const S* x = dense + columns[e] * width;
    for (int k = 0; k < kWidth; ++k)
      sums[k] = static_cast<T>(sums[k] + value * static_cast<T>(x[k]));
  }
  for (int k = 0; k < kWidth; ++k) y[k] = static_cast<S>(sums[k]);
}

// The same for kVectors vectors of floats or doubles, with the sums in registers. The columns of `known` elements,
// those of this row and of the next ones, may be looked at.
template <class T, int kVectors>
TAPEGRAD_INLINE void vector_block(const int64_t* columns, const T* values, int64_t count,
                                  int64_t known, const T* dense, int64_t width, T* y) {
  using Vector = typename Shape<T>::Vector;
  constexpr int kWidth = Shape<T>::kWidth;
  Vector sums[kVectors] = {};
  for (int64_t e = 0; e < count; ++e) {
    const T* ahead = dense + columns[e + kAhead < known ? e + kAhead : e] * width;
    for (int k = 0; k < kVectors * kWidth; k += kLineBytes / static_cast<int>(sizeof(T)))
      __builtin_prefetch(ahead + k);
    const T* x = dense + columns[e] * width;
    const T value = values[e];
    TAPEGRAD_UNROLL
    for (int k = 0; k < kVectors; ++k) sums[k] += value * load(x + k * kWidth);
  }
  TAPEGRAD_UNROLL
  for (int k = 0; k < kVectors; ++k) store(y + k * kWidth, sums[k]);
}

template <class S, class T>
void mm(const CsrRows& rows, const void* values, const void* dense, void* out, int64_t width) {
  auto* v = static_cast<const S*>(values);
  auto* x = static_cast<const S*>(dense);
  [[maybe_unused]] const int64_t last = rows.starts[rows.end];
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const int64_t first = rows.starts[r], count = rows.starts[r + 1] - first;
    const int64_t* columns = rows.columns + first;
    S* y = static_cast<S*>(out) + r * width;
    int64_t k = 0;
    auto blocks = [&]<int kWidth>() {
      for (; k + kWidth <= width; k += kWidth)
        row_block<S, T, kWidth>(columns, v + first, count, x + k, width, y + k);
    };
    if constexpr (std::is_same_v<S, float> || std::is_same_v<S, double>) {
      auto vectors = [&]<int kVectors>() {
        constexpr int kWidth = kVectors * Shape<T>::kWidth;
        for (; k + kWidth <= width; k += kWidth)
          vector_block<T, kVectors>(columns, v + first, count, last - first, x + k, width, y + k);
      };
      vectors.template operator()<8>();
      vectors.template operator()<4>();
      vectors.template operator()<1>();
    } else {
      blocks.template operator()<16>();
      blocks.template operator()<4>();
    }
    blocks.template operator()<1>();
  }
}

template <class S, class T>
void sampled(const CsrRows& rows, const void* left, const void* right, void* out, int64_t width) {
  auto* y = static_cast<S*>(out);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const S* a = static_cast<const S*>(left) + r * width;
    for (int64_t e = rows.starts[r]; e < rows.starts[r + 1]; ++e) {
      const S* b = static_cast<const S*>(right) + rows.columns[e] * width;
      T lanes[kLanes] = {}, sum = 0;
      int64_t k = 0;
      for (; k + kLanes <= width; k += kLanes)
        for (int i = 0; i < kLanes; ++i)
          lanes[i] = static_cast<T>(lanes[i] + static_cast<T>(a[k + i]) * static_cast<T>(b[k + i]));
      for (int i = 0; i < kLanes; ++i) sum = static_cast<T>(sum + lanes[i]);
      for (; k < width; ++k)
        sum = static_cast<T>(sum + static_cast<T>(a[k]) * static_cast<T>(b[k]));
      y[e] = static_cast<S>(sum);
    }
  }
}

template <class S, class T>
constexpr SparseKernels kernels_of() {
  return {mm<S, T>, sampled<S, T>};
}

constexpr SparseTable make_table() {
  SparseTable table{};
  auto put = [&](DType dtype, SparseKernels kernels) {
    table.kernels[static_cast<int>(dtype)] = kernels;
  };
  put(DType::Float32, kernels_of<float, float>());
  put(DType::Float64, kernels_of<double, double>());
  put(DType::Float16, kernels_of<Half, float>());
  put(DType::BFloat16, kernels_of<BFloat16, float>());
  // Integers wrap around, which only unsigned ones may.
  put(DType::UInt8, kernels_of<uint8_t, uint32_t>());
  put(DType::Int8, kernels_of<int8_t, uint32_t>());
  put(DType::Int16, kernels_of<int16_t, uint32_t>());
  put(DType::Int32, kernels_of<int32_t, uint32_t>());
  put(DType::Int64, kernels_of<int64_t, uint64_t>());
  return table;
}

}  // namespace

extern const SparseTable sparse_table;
// Constant-initialised: no code of this file may run before the instruction set is known.
constinit const SparseTable sparse_table = make_table();

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
