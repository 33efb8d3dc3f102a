// The matrix-product kernel: from strided tensors to calls of gemm.
#include <algorithm>
#include <type_traits>

#include "core/parallel.h"
#include "core/registry.h"
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
