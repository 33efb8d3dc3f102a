// The matrix-product kernel: from strided tensors to calls of gemm.
#include <algorithm>
#include <climits>
#include <type_traits>

#include "core/error.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/blas.h"
#include "cpu/gemm.h"

namespace tapegrad::cpu {

namespace {

// How gemm reads the last two dimensions of a tensor.
struct Matrix {
  bool transposed;
  int64_t leading;
};

Matrix matrix_of(const TensorImpl& x) {
  int64_t d = x.dim();
  int64_t rows = x.size(d - 2), columns = x.size(d - 1);
  bool by_rows = (x.stride(d - 1) == 1 || columns == 1) &&
                 (x.stride(d - 2) >= std::max<int64_t>(columns, 1) || rows == 1);
  if (by_rows) return {false, std::max({x.stride(d - 2), columns, int64_t{1}})};
  return {true, std::max({x.stride(d - 1), rows, int64_t{1}})};
}

// Strides of the batch dimensions, zero where the operand is broadcast.
DimVector batch_strides(const TensorImpl& x) {
  DimVector strides;
  for (int64_t d = 0; d + 2 < x.dim(); ++d) strides.push_back(x.size(d) == 1 ? 0 : x.stride(d));
  return strides;
}

struct Product {
  Matrix a, b;
  int64_t m, n, k;
  DimVector sizes, strides_a, strides_b, strides_c;
  GemmBatch batch() const { return {sizes, strides_a, strides_b, strides_c}; }
};

Product describe(const OpCall& call) {
  const TensorImpl &a = call.in(0), &b = call.in(1), &c = call.out();
  int64_t d = c.dim();
  Product p{
      matrix_of(a), matrix_of(b), c.size(d - 2), c.size(d - 1), a.size(d - 1), {}, {}, {}, {}};
  if (d == 2) return p;
  for (int64_t i = 0; i + 2 < d; ++i) p.sizes.push_back(c.size(i));
  p.strides_a = batch_strides(a);
  p.strides_b = batch_strides(b);
  p.strides_c = batch_strides(c);
  return p;
}

template <class T>
void run(const OpCall& call, const Product& p) {
  auto *a = call.in(0).data_as<T>(), *b = call.in(1).data_as<T>();
  auto alpha = call.attributes[0].as<GemmScalar<T>>();
  auto beta = call.attributes[1].as<GemmScalar<T>>();
  T* c = call.out().data_as<T>();
  if constexpr (std::is_floating_point_v<T>) {
    if (call.inputs.size() > 2)
      return gemm_with_bias<T>(p.a.transposed, p.b.transposed, p.m, p.n, p.k, a, p.a.leading, b,
                               p.b.leading, call.in(2).data_as<T>(), c, std::max<int64_t>(p.n, 1));
    if (p.sizes.empty() && p.m == 1 && p.n == 1) {  // row times column
      T product = alpha * dot<T>(p.k, a, p.a.transposed ? p.a.leading : 1, b,
                                 p.b.transposed ? 1 : p.b.leading);
      *c = beta == 0 ? product : product + beta * *c;
      return;
    }
  }
  if (p.sizes.empty())
    gemm<T>(p.a.transposed, p.b.transposed, p.m, p.n, p.k, alpha, a, p.a.leading, b, p.b.leading,
            beta, c, std::max<int64_t>(p.n, 1));
  else
    batched_gemm<T>(p.batch(), p.a.transposed, p.b.transposed, p.m, p.n, p.k, alpha, a, p.a.leading,
                    b, p.b.leading, beta, c, std::max<int64_t>(p.n, 1));
}

// BLAS's product of complex matrices, which are by columns there: c^T = b^T a^T. It computes on this thread.
template <class T>
using Routine = void(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                     const int* k, const Complex<T>* alpha, const Complex<T>* a,
                     const int* leading_a, const Complex<T>* b, const int* leading_b,
                     const Complex<T>* beta, Complex<T>* c, const int* leading_c);

int blas_size(int64_t size) {
  TAPEGRAD_CHECK(size <= INT_MAX, "matmul: a matrix of complex numbers has a size of ", size,
                 ", and BLAS takes at most ", INT_MAX);
  return static_cast<int>(size);
}

// Where the matrices of batch element i begin.
int64_t batch_offset(const DimVector& sizes, const DimVector& strides, int64_t i) {
  int64_t offset = 0;
  for (size_t d = sizes.size(); d-- > 0; i /= sizes[d]) offset += i % sizes[d] * strides[d];
  return offset;
}

template <class T>
void run_complex(const OpCall& call, const Product& p) {
  using C = Complex<T>;
  static auto* const gemm = lapack_function<Routine<T>>(sizeof(T) == 4 ? "cgemm" : "zgemm");
  const C alpha = call.attributes[0].as<C>(), beta = call.attributes[1].as<C>();
  const C *a = call.in(0).data_as<C>(), *b = call.in(1).data_as<C>();
  C* c = call.out().data_as<C>();
  const int n = blas_size(p.n), k = blas_size(p.k), leading_a = blas_size(p.a.leading),
            leading_b = blas_size(p.b.leading), leading_c = std::max(n, 1);
  blas_size(p.m);
  int64_t batches = 1;
  for (int64_t size : p.sizes) batches *= size;
  const char *by_a = p.a.transposed ? "T" : "N", *by_b = p.b.transposed ? "T" : "N";
  // Strips of rows of all batches, for the threads.
  const int64_t work = std::max<int64_t>(p.n * std::max<int64_t>(p.k, 1), 1);
  const int64_t strip = std::clamp<int64_t>((int64_t{1} << 20) / work, 1, p.m);
  const int64_t strips = (p.m + strip - 1) / strip;
  parallel_for(0, batches * strips, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t batch = i / strips, row = i % strips * strip;
      const int rows = static_cast<int>(std::min(strip, p.m - row));
      const C* first =
          a + batch_offset(p.sizes, p.strides_a, batch) + row * (p.a.transposed ? 1 : p.a.leading);
      gemm(by_b, by_a, &n, &rows, &k, &alpha, b + batch_offset(p.sizes, p.strides_b, batch),
           &leading_b, first, &leading_a, &beta,
           c + batch_offset(p.sizes, p.strides_c, batch) + row * p.n, &leading_c);
    }
  });
}

void run_any(const OpCall& call, const Product& p) {
  switch (call.out().dtype()) {
    case DType::Float32:
      return run<float>(call, p);
    case DType::Float64:
      return run<double>(call, p);
    case DType::Float16:
      return run<Half>(call, p);
    case DType::BFloat16:
      return run<BFloat16>(call, p);
    case DType::Int8:
      return run<int8_t>(call, p);
    case DType::Int16:
      return run<int16_t>(call, p);
    case DType::Int32:
      return run<int32_t>(call, p);
    case DType::Int64:
      return run<int64_t>(call, p);
    case DType::UInt8:
      return run<uint8_t>(call, p);
    case DType::Complex64:
      return run_complex<float>(call, p);
    case DType::Complex128:
      return run_complex<double>(call, p);
    default:
      fail_unsupported_dtype("matmul", call.out().dtype());
  }
}

// Output (..., m, n) is contiguous. Attributes: alpha, beta. A third input, of one product of float32
// or float64, is a contiguous row to be added; alpha is 1 and beta 0 then.
void matmul(const OpCall& call) {
  if (call.out().numel() == 0) return;
  Product p = describe(call);
  constexpr int64_t kLong = 1 << 18;  // multiplications worth dropping the lock for
  if (call.out().numel() * p.k < kLong) return run_any(call, p);
  BlockingSection blocking;
  run_any(call, p);
}

const KernelList<DeviceType::CPU> kKernels = {
    {"matmul", matmul},
};

}  // namespace

}  // namespace tapegrad::cpu
