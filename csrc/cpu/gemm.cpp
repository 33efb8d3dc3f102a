// Matrix products: from any element type, size and batch down to the serial kernels of
// gemm_kernels.cpp, over threads.
//
// Why own kernels and not OpenBLAS's: on a Sapphire Rapids machine, one thread, its products ran at
// 0.5 to 1.0 of MKL's speed from 128 x 128 upwards and at about 0.4 on matrix times vector; the
// register tiles here ran at 0.8 to 1.1 of it. One code path also means one set of threads, no
// library to load before the first product, and the same kernel for integers.
//
// The levels, top to bottom:
//   gemm, batched_gemm, gemv, dot   the interface: conversion of element types, empty cases
//   run_batch                       folds a broadcast b into one tall product; chooses between
//                                   threads over the batch and threads inside each product
//   parallel_product                cuts c into a grid with one cell per thread
//   serial_product                  one thread: a vector kernel or the tile kernel
//
// Element types narrower than the arithmetic (Half, BFloat16, 8- and 16-bit integers) are
// converted as whole matrices into scratch memory, which is proportional to the operands and so
// small beside the work. Integers wrap, and arithmetic modulo 2^32 is also right modulo 2^8 and
// 2^16, so all of them share one unsigned kernel per width.

#include "cpu/gemm.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "core/dtype.h"
#include "core/parallel.h"
#include "cpu/convert.h"
#include "cpu/gemm_kernels.h"

namespace tapegrad::cpu {
namespace {

// Multiply-adds that make a thread worth its hand-over: some 3 us of work against 0.5 us. Estimated
// from the speed of one thread and the pool's dispatch, as are the other grains.
constexpr int64_t kProductGrain = 256 * 1024;
// The same for matrix times vector, which waits for memory.
constexpr int64_t kVectorGrain = 64 * 1024;
constexpr int64_t kConversionGrain = 32 * 1024;
constexpr int64_t kDotChunk = 64 * 1024;
// What reading one more row of a or column of b costs a thread, in elements of c per unit of k.
constexpr int64_t kOperandCost = 4;

// ---- element types and scratch memory -----------------------------------------------------------

// The type of the kernel that computes T.
template <class T>
using Computed = std::conditional_t<
    std::is_same_v<T, double>, double,
    std::conditional_t<std::is_integral_v<T>,
                       std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>, float>>;

// Same size means that the kernel can work on the elements where they lie: int32_t and uint32_t may
// alias.
template <class T>
constexpr bool kInPlace = sizeof(T) == sizeof(Computed<T>);

template <class T>
const GemmKernels<T>& kernels() {
  const GemmTable& table = best_gemm_table();
  if constexpr (std::is_same_v<T, float>) return table.float32;
  else if constexpr (std::is_same_v<T, double>) return table.float64;
  else if constexpr (std::is_same_v<T, uint32_t>) return table.integer32;
  else return table.integer64;
}

constexpr std::align_val_t kAlignment{64};

struct AlignedDelete {
  void operator()(void* memory) const { ::operator delete(memory, kAlignment); }
};

template <class T>
using Scratch = std::unique_ptr<T[], AlignedDelete>;

template <class T>
Scratch<T> make_scratch(int64_t elements) {
  return Scratch<T>(static_cast<T*>(::operator new(elements * sizeof(T), kAlignment)));
}

// Where the kernels of this thread pack operands; kept, since fresh pages cost more than packing.
template <class T>
T* workspace() {
  static thread_local Scratch<std::byte> memory;
  if (!memory) memory = make_scratch<std::byte>(kGemmWorkspaceBytes);
  return reinterpret_cast<T*>(memory.get());
}

// ---- vectors ------------------------------------------------------------------------------------

// A GemvArguments whose vectors may have strides.
template <class T>
struct VectorProduct : GemvArguments<T> {
  bool along_rows;
  int64_t x_stride, y_stride;

  int64_t x_size() const { return along_rows ? this->columns : this->rows; }
  int64_t y_size() const { return along_rows ? this->rows : this->columns; }
};

template <class T>
void serial_contiguous(const VectorProduct<T>& product) {
  if (product.along_rows) {
    kernels<T>().gemv_rows(product);
  } else {
    kernels<T>().gemv_columns(product);
  }
}

// Divides the outputs: rows one by one, columns by whole vectors.
template <class T>
void parallel_contiguous(const VectorProduct<T>& product) {
  const int64_t unit = product.along_rows ? 1 : kernels<T>().width;
  const int64_t size = product.y_size();
  const int64_t units = (size + unit - 1) / unit;
  const int64_t grain = std::max<int64_t>(1, kVectorGrain / (unit * product.x_size()));
  parallel_for(0, units, grain, [&](int64_t begin, int64_t end) {
    VectorProduct<T> part = product;
    const int64_t first = begin * unit, count = std::min(end * unit, size) - first;
    (product.along_rows ? part.rows : part.columns) = count;
    part.a += product.along_rows ? first * part.lda : first;
    part.y += first;
    serial_contiguous(part);
  });
}

template <class T>
void vector_product(VectorProduct<T> product, void (*run)(const VectorProduct<T>&)) {
  Scratch<T> x, y;
  if (product.x_stride != 1) {
    x = make_scratch<T>(product.x_size());
    for (int64_t i = 0; i < product.x_size(); ++i) x[i] = product.x[i * product.x_stride];
    product.x = x.get();
  }
  if (product.y_stride == 1) return run(product);
  T* const target = product.y;
  y = make_scratch<T>(product.y_size());
  if (product.beta != T(0)) {
    for (int64_t i = 0; i < product.y_size(); ++i) y[i] = target[i * product.y_stride];
  }
  product.y = y.get();
  run(product);
  for (int64_t i = 0; i < product.y_size(); ++i) target[i * product.y_stride] = y[i];
}

// c has one row: it is a row of a times the matrix b. Or one column: the matrix a times it.
template <class T>
VectorProduct<T> as_vector_product(const GemmArguments<T>& g) {
  if (g.m == 1) {
    const int64_t rows = g.transpose_b ? g.n : g.k, columns = g.transpose_b ? g.k : g.n;
    return {{rows, columns, g.alpha, g.b, g.ldb, g.a, g.beta, g.c},
            g.transpose_b,
            g.transpose_a ? g.lda : 1,
            1};
  }
  const int64_t rows = g.transpose_a ? g.k : g.m, columns = g.transpose_a ? g.m : g.k;
  return {{rows, columns, g.alpha, g.a, g.lda, g.b, g.beta, g.c},
          !g.transpose_a,
          g.transpose_b ? 1 : g.ldb,
          g.ldc};
}

// ---- one product --------------------------------------------------------------------------------

template <class T>
bool is_vector_product(const GemmArguments<T>& g) {
  return g.m == 1 || g.n == 1;
}

template <class T>
void serial_product(const GemmArguments<T>& g) {
  if (is_vector_product(g)) {
    vector_product(as_vector_product(g), serial_contiguous<T>);
  } else {
    kernels<T>().gemm(g, workspace<T>());
  }
}

// The part of the product that computes c[row_begin:row_end, column_begin:column_end].
template <class T>
GemmArguments<T> part_of(GemmArguments<T> g, int64_t row_begin, int64_t row_end,
                         int64_t column_begin, int64_t column_end) {
  g.a += g.transpose_a ? row_begin : row_begin * g.lda;
  g.b += g.transpose_b ? column_begin * g.ldb : column_begin;
  g.c += row_begin * g.ldc + column_begin;
  if (g.bias) g.bias += column_begin;
  g.m = row_end - row_begin;
  g.n = column_end - column_begin;
  return g;
}

// In floating point, where no size overflows.
double multiply_adds(int64_t m, int64_t n, int64_t k) {
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

// A grid over c. Columns are divided by whole vectors.
struct Grid {
  int64_t row_parts, column_parts;
};

// Every cell reads its rows of a and its columns of b, so the best grid has the smallest cell
// perimeter among those that keep all threads busy.
Grid choose_grid(int64_t m, int64_t n, int64_t width, int64_t threads) {
  const int64_t vectors = (n + width - 1) / width;
  Grid best{1, 1};
  int64_t best_cost = m * vectors * width + m + n;
  for (int64_t row_parts = 1; row_parts <= std::min(threads, m); ++row_parts) {
    const int64_t column_parts = std::min(threads / row_parts, vectors);
    const int64_t rows = (m + row_parts - 1) / row_parts;
    const int64_t columns = (vectors + column_parts - 1) / column_parts * width;
    const int64_t cost = rows * columns + kOperandCost * (rows + columns);
    if (cost < best_cost) {
      best_cost = cost;
      best = {row_parts, column_parts};
    }
  }
  return best;
}

int64_t even_cut(int64_t total, int64_t parts, int64_t index) {
  return total / parts * index + std::min(index, total % parts);
}

template <class T>
void parallel_product(const GemmArguments<T>& g) {
  if (is_vector_product(g)) return vector_product(as_vector_product(g), parallel_contiguous<T>);
  const double useful = multiply_adds(g.m, g.n, g.k) / kProductGrain;
  const int64_t threads = std::min<double>(num_threads(), useful);
  if (threads <= 1 || in_parallel_region()) return serial_product(g);
  const int64_t width = kernels<T>().width, vectors = (g.n + width - 1) / width;
  const Grid grid = choose_grid(g.m, g.n, width, threads);
  parallel_for(0, grid.row_parts * grid.column_parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t cell = begin; cell < end; ++cell) {
      const int64_t row = cell / grid.column_parts, column = cell % grid.column_parts;
      serial_product(
          part_of(g, even_cut(g.m, grid.row_parts, row), even_cut(g.m, grid.row_parts, row + 1),
                  even_cut(vectors, grid.column_parts, column) * width,
                  std::min(g.n, even_cut(vectors, grid.column_parts, column + 1) * width)));
    }
  });
}

// ---- batches ------------------------------------------------------------------------------------

// A b that the whole batch shares, with the rows of a and c following each other from item to item,
// makes the batch one tall product.
template <class T>
bool folds_into_rows(const GemmBatch& batch, const GemmArguments<T>& g) {
  if (g.transpose_a) return false;
  int64_t rows = g.m;
  for (size_t dim = batch.sizes.size(); dim-- > 0;) {
    if (batch.sizes[dim] == 1) continue;
    const bool joined = batch.strides_a[dim] == rows * g.lda && batch.strides_b[dim] == 0 &&
                        batch.strides_c[dim] == rows * g.ldc;
    if (!joined) return false;
    rows *= batch.sizes[dim];
  }
  return true;
}

int64_t batch_count(const GemmBatch& batch) {
  int64_t count = 1;
  for (int64_t size : batch.sizes) count *= size;
  return count;
}

// The product at position `index` of the batch in row-major order. Also for arguments of stored,
// not yet converted types.
template <class Arguments>
Arguments product_at(const GemmBatch& batch, Arguments g, int64_t index) {
  for (size_t dim = batch.sizes.size(); dim-- > 0;) {
    const int64_t position = index % batch.sizes[dim];
    index /= batch.sizes[dim];
    g.a += position * batch.strides_a[dim];
    g.b += position * batch.strides_b[dim];
    g.c += position * batch.strides_c[dim];
  }
  return g;
}

// Threads over the batch keep each product's packing and caches to one core, so that is the choice
// unless products are large and their number divides badly.
bool divides_well(int64_t count, double work) {
  const int64_t threads = num_threads();
  return work < 2 * kProductGrain || count % threads == 0 || count >= 8 * threads;
}

template <class T>
void run_batch(const GemmBatch& batch, GemmArguments<T> g) {
  const int64_t count = batch_count(batch);
  if (folds_into_rows(batch, g)) {
    g.m *= count;
    return parallel_product(g);
  }
  const double work = multiply_adds(g.m, g.n, g.k);
  if (!divides_well(count, work)) {
    for (int64_t i = 0; i < count; ++i) parallel_product(product_at(batch, g, i));
    return;
  }
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(kProductGrain / work));
  parallel_for(0, count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) serial_product(product_at(batch, g, i));
  });
}

// ---- conversion ---------------------------------------------------------------------------------

// The unsigned types of the kernels convert as the signed dtypes of the same width.
template <class T>
constexpr DType kConversionType = dtype_of<T>;
template <>
constexpr DType kConversionType<uint32_t> = DType::Int32;
template <>
constexpr DType kConversionType<uint64_t> = DType::Int64;

// A matrix in another element type: `rows` rows of `columns` elements.
template <class From, class To>
void convert_matrix(const From* from, int64_t from_ld, To* to, int64_t to_ld, int64_t rows,
                    int64_t columns) {
  const Convert convert = converter(kConversionType<From>, kConversionType<To>);
  parallel_for(0, rows, std::max<int64_t>(1, kConversionGrain / std::max<int64_t>(1, columns)),
               [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      convert(from + i * from_ld, 1, to + i * to_ld, 1, columns);
    }
  });
}

// The caller's arguments, before conversion to the type of a kernel.
template <class T>
using StoredArguments = GemmArguments<T, GemmScalar<T>>;

// One product of T through arithmetic of another type.
template <class T>
void converted_product(const StoredArguments<T>& stored) {
  using Wide = Computed<T>;
  const int64_t a_rows = stored.transpose_a ? stored.k : stored.m;
  const int64_t a_columns = stored.transpose_a ? stored.m : stored.k;
  const int64_t b_rows = stored.transpose_b ? stored.n : stored.k;
  const int64_t b_columns = stored.transpose_b ? stored.k : stored.n;
  const auto a = make_scratch<Wide>(a_rows * a_columns);
  const auto b = make_scratch<Wide>(b_rows * b_columns);
  const auto c = make_scratch<Wide>(stored.m * stored.n);
  convert_matrix(stored.a, stored.lda, a.get(), a_columns, a_rows, a_columns);
  convert_matrix(stored.b, stored.ldb, b.get(), b_columns, b_rows, b_columns);
  if (stored.beta != GemmScalar<T>(0)) {
    convert_matrix(stored.c, stored.ldc, c.get(), stored.n, stored.m, stored.n);
  }
  parallel_product<Wide>({stored.transpose_a, stored.transpose_b, stored.m, stored.n, stored.k,
                          static_cast<Wide>(stored.alpha), a.get(), a_columns, b.get(), b_columns,
                          static_cast<Wide>(stored.beta), c.get(), stored.n});
  convert_matrix(c.get(), stored.n, stored.c, stored.ldc, stored.m, stored.n);
}

// The kernel's view of operands that it can use where they lie.
template <class T>
GemmArguments<Computed<T>> in_place(const StoredArguments<T>& stored) {
  using Wide = Computed<T>;
  return {stored.transpose_a,
          stored.transpose_b,
          stored.m,
          stored.n,
          stored.k,
          static_cast<Wide>(stored.alpha),
          reinterpret_cast<const Wide*>(stored.a),
          stored.lda,
          reinterpret_cast<const Wide*>(stored.b),
          stored.ldb,
          static_cast<Wide>(stored.beta),
          reinterpret_cast<Wide*>(stored.c),
          stored.ldc};
}

// The elements as a contiguous run of the kernel's type: themselves, or a copy in `scratch`.
template <class T>
const Computed<T>* contiguous_run(const T* elements, int64_t stride, int64_t count,
                                  Scratch<Computed<T>>& scratch) {
  using Wide = Computed<T>;
  if (kInPlace<T> && stride == 1) return reinterpret_cast<const Wide*>(elements);
  scratch = make_scratch<Wide>(count);
  converter(kConversionType<T>, kConversionType<Wide>)(elements, stride, scratch.get(), 1, count);
  return scratch.get();
}

template <class T>
Computed<T> serial_dot(int64_t n, const T* x, int64_t x_stride, const T* y, int64_t y_stride) {
  using Wide = Computed<T>;
  Scratch<Wide> x_copy, y_copy;
  const Wide* x_run = contiguous_run(x, x_stride, n, x_copy);
  const Wide* y_run = contiguous_run(y, y_stride, n, y_copy);
  Wide result;
  kernels<Wide>().gemv_rows({1, n, Wide(1), x_run, n, y_run, Wide(0), &result});
  return result;
}

// c = beta * c: what is left of a product whose sum is empty.
template <class T>
void scale_output(const StoredArguments<T>& g) {
  using Wide = Computed<T>;
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      T& element = g.c[i * g.ldc + j];
      const Wide scaled = g.beta == GemmScalar<T>(0)
                              ? Wide(0)
                              : static_cast<Wide>(g.beta) * static_cast<Wide>(element);
      element = static_cast<T>(scaled);
    }
  }
}

}  // namespace

// ---- the interface ------------------------------------------------------------------------------

template <class T>
void batched_gemm(const GemmBatch& batch, bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                  int64_t k, GemmScalar<T> alpha, const T* a, int64_t lda, const T* b, int64_t ldb,
                  GemmScalar<T> beta, T* c, int64_t ldc) {
  const StoredArguments<T> stored{transpose_a, transpose_b, m,   n,    k, alpha, a,
                                  lda,         b,           ldb, beta, c, ldc};
  const int64_t count = batch_count(batch);
  if (m == 0 || n == 0 || count == 0) return;
  if (k == 0 || alpha == GemmScalar<T>(0)) {
    for (int64_t i = 0; i < count; ++i) scale_output<T>(product_at(batch, stored, i));
  } else if constexpr (kInPlace<T>) {
    run_batch(batch, in_place(stored));
  } else {
    const double work = multiply_adds(m, n, k);
    const int64_t grain = static_cast<int64_t>(std::max(1.0, kProductGrain / work));
    parallel_for(0, count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) converted_product<T>(product_at(batch, stored, i));
    });
  }
}

template <class T>
void gemm_with_bias(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const T* a,
                    int64_t lda, const T* b, int64_t ldb, const T* bias, T* c, int64_t ldc) {
  GemmArguments<T> g{transpose_a, transpose_b, m, n, k, T(1), a, lda, b, ldb, T(0), c, ldc, bias};
  if (m == 0 || n == 0) return;
  if (k > 0 && !is_vector_product(g)) return parallel_product(g);
  for (int64_t i = 0; i < m; ++i) std::copy_n(bias, n, c + i * ldc);
  gemm<T>(transpose_a, transpose_b, m, n, k, T(1), a, lda, b, ldb, T(1), c, ldc);
}
template void gemm_with_bias(bool, bool, int64_t, int64_t, int64_t, const float*, int64_t,
                             const float*, int64_t, const float*, float*, int64_t);
template void gemm_with_bias(bool, bool, int64_t, int64_t, int64_t, const double*, int64_t,
                             const double*, int64_t, const double*, double*, int64_t);

template <class T>
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, GemmScalar<T> alpha,
          const T* a, int64_t lda, const T* b, int64_t ldb, GemmScalar<T> beta, T* c, int64_t ldc) {
  batched_gemm<T>(GemmBatch{}, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c,
                  ldc);
}

// A matrix product with one column, except that x may run backwards or stand still.
template <class T>
void gemv(bool transpose, int64_t rows, int64_t columns, GemmScalar<T> alpha, const T* a,
          int64_t lda, const T* x, int64_t x_stride, GemmScalar<T> beta, T* y, int64_t y_stride) {
  const int64_t m = transpose ? columns : rows, k = transpose ? rows : columns;
  gemm<T>(transpose, false, m, 1, k, alpha, a, lda, x, x_stride, beta, y, y_stride);
}

// Chunks are fixed in size and added in order, so the result does not depend on the threads.
template <class T>
T dot(int64_t n, const T* x, int64_t x_stride, const T* y, int64_t y_stride) {
  if (n <= kDotChunk) return static_cast<T>(serial_dot(n, x, x_stride, y, y_stride));
  const int64_t chunks = (n + kDotChunk - 1) / kDotChunk;
  std::vector<Computed<T>> partial(chunks);
  parallel_for(0, chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * kDotChunk, count = std::min(kDotChunk, n - first);
      partial[i] =
          serial_dot(count, x + first * x_stride, x_stride, y + first * y_stride, y_stride);
    }
  });
  Computed<T> sum = 0;
  for (Computed<T> part : partial) sum += part;
  return static_cast<T>(sum);
}

#define TAPEGRAD_GEMM_TYPE(T)                                                                    \
  template void gemm<T>(bool, bool, int64_t, int64_t, int64_t, GemmScalar<T>, const T*, int64_t, \
                        const T*, int64_t, GemmScalar<T>, T*, int64_t);                          \
  template void batched_gemm<T>(const GemmBatch&, bool, bool, int64_t, int64_t, int64_t,         \
                                GemmScalar<T>, const T*, int64_t, const T*, int64_t,             \
                                GemmScalar<T>, T*, int64_t);                                     \
  template void gemv<T>(bool, int64_t, int64_t, GemmScalar<T>, const T*, int64_t, const T*,      \
                        int64_t, GemmScalar<T>, T*, int64_t);                                    \
  template T dot<T>(int64_t, const T*, int64_t, const T*, int64_t);

TAPEGRAD_GEMM_TYPE(float)
TAPEGRAD_GEMM_TYPE(double)
TAPEGRAD_GEMM_TYPE(Half)
TAPEGRAD_GEMM_TYPE(BFloat16)
TAPEGRAD_GEMM_TYPE(int8_t)
TAPEGRAD_GEMM_TYPE(int16_t)
TAPEGRAD_GEMM_TYPE(int32_t)
TAPEGRAD_GEMM_TYPE(int64_t)
TAPEGRAD_GEMM_TYPE(uint8_t)
#undef TAPEGRAD_GEMM_TYPE

}  // namespace tapegrad::cpu
