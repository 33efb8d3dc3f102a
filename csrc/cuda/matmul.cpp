// Matrix products: those with a vector by vector_product.h, others by cuBLASLt where it has them, else by
// kernels/matmul.cu.
#include <algorithm>

#include "core/registry.h"
#include "cuda/blas.h"
#include "cuda/launch.h"
#include "cuda/product.h"
#include "cuda/vector_product.h"

namespace tapegrad::cuda {

namespace {

// ---- kernels of our own

// As kernels/matmul.cu has it.
struct ProductArguments {
  int64_t m, n, k;
  int64_t tile_columns, tiles;
  const void *a, *b, *bias;
  void* c;
  int64_t a_row, a_column, b_row, b_column, c_row;
  int64_t a_batch, b_batch, c_batch;
  double alpha, beta;
  int64_t integer_alpha, integer_beta;
};

constexpr int kTileSide = 16, kTileThreads = kTileSide * kTileSide;
constexpr int kManyPerThread = 4;
constexpr int64_t kManyTiles = 64;  // that are worth having large

int64_t tiles_in(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }

// In each direction of a tile: few where tiles are few.
int per_thread(const Product& p) {
  const int64_t tile = kTileSide * kManyPerThread;
  return tiles_in(p.m, tile) * tiles_in(p.n, tile) * p.batch >= kManyTiles ? kManyPerThread : 1;
}

void multiply_with_kernel(const Product& p, int device) {
  const int per = per_thread(p);
  static auto& cache = *new KernelCache;
  const uint64_t key =
      static_cast<uint64_t>(p.dtype) << 5 | uint64_t{p.is_wide} << 4 | static_cast<uint64_t>(per);
  const FunctionHandle kernel = cache.find(device, key, [&] {
    return concat("file matmul.cu\nProductArguments\nproduct<", kernel_type(p.dtype), ", ", per,
                  p.is_wide ? ", float>" : ">");
  });
  const int64_t tile = int64_t{kTileSide} * per;
  const int64_t tile_columns = tiles_in(p.n, tile), tiles = tiles_in(p.m, tile) * tile_columns;
  const auto row = [](const Factor& factor) { return factor.transposed ? 1 : factor.leading; };
  const auto column = [](const Factor& factor) { return factor.transposed ? factor.leading : 1; };
  launch_with(kernel, device, tiles * p.batch, kTileThreads,
              ProductArguments{p.m,
                               p.n,
                               p.k,
                               tile_columns,
                               tiles,
                               p.a.data,
                               p.b.data,
                               p.bias,
                               p.c,
                               row(p.a),
                               column(p.a),
                               row(p.b),
                               column(p.b),
                               p.c_leading,
                               p.a.batch_stride,
                               p.b.batch_stride,
                               p.c_batch_stride,
                               p.alpha.as_double(),
                               p.beta.as_double(),
                               p.alpha.as_int(),
                               p.beta.as_int()});
}

// ---- the op

// The last two dimensions of a tensor, one of which lies side by side.
Factor factor_of(const TensorImpl& x) {
  const auto d = static_cast<size_t>(x.dim());
  const int64_t rows = x.size(d - 2), columns = x.size(d - 1);
  const bool by_rows = (x.stride(d - 1) == 1 || columns == 1) &&
                       (x.stride(d - 2) >= std::max<int64_t>(columns, 1) || rows == 1);
  if (by_rows) return {x.data(), std::max({x.stride(d - 2), columns, int64_t{1}})};
  return {x.data(), std::max({x.stride(d - 1), rows, int64_t{1}}), true};
}

// A dimension of a batch, with the strides of a, b and c. Those of size one are left out, and neighbours that
// are walked through like one dimension are one.
struct BatchDim {
  int64_t size, strides[3];
};

class Batch {
 public:
  explicit Batch(const OpCall& call) {
    const TensorImpl* tensors[] = {&call.in(0), &call.in(1), &call.out()};
    for (size_t d = 0; d + 2 < static_cast<size_t>(call.out().dim()); ++d) {
      BatchDim dim{call.out().size(d), {}};
      for (int t = 0; t < 3; ++t)
        dim.strides[t] = tensors[t]->size(d) == 1 ? 0 : tensors[t]->stride(d);
      if (dim.size > 1) append(dim);
    }
    // The longest last: it goes to one launch, the others take one for each.
    if (count_ > 1) std::iter_swap(std::max_element(dims_, dims_ + count_, is_shorter), &last());
  }

  bool is_one() const { return count_ == 0; }
  BatchDim& last() { return dims_[count_ - 1]; }
  int64_t outer_count() const {
    int64_t count = 1;
    for (int d = 0; d + 1 < count_; ++d) count *= dims_[d].size;
    return count;
  }
  // Where the i-th of all but the last dimension begins in a tensor.
  int64_t outer_offset(int64_t i, int tensor) const {
    int64_t offset = 0;
    for (int d = count_ - 2; d >= 0; --d) {
      offset += i % dims_[d].size * dims_[d].strides[tensor];
      i /= dims_[d].size;
    }
    return offset;
  }

 private:
  static bool is_shorter(const BatchDim& a, const BatchDim& b) { return a.size < b.size; }

  void append(const BatchDim& dim) {
    const auto continues = [&](int t) { return last().strides[t] == dim.size * dim.strides[t]; };
    if (count_ > 0 && continues(0) && continues(1) && continues(2)) {
      const int64_t size = last().size * dim.size;
      last() = dim;
      last().size = size;
    } else dims_[count_++] = dim;
  }

  BatchDim dims_[kMaxRank];
  int count_ = 0;
};

void multiply_batch(Product p, Batch& batch, int device) {
  const auto item = static_cast<int64_t>(itemsize(p.dtype));
  const BatchDim& inner = batch.last();
  p.batch = inner.size;
  p.a.batch_stride = inner.strides[0];
  p.b.batch_stride = inner.strides[1];
  p.c_batch_stride = inner.strides[2];
  const auto *a = static_cast<const char*>(p.a.data), *b = static_cast<const char*>(p.b.data);
  auto* c = static_cast<char*>(p.c);
  for (int64_t i = 0; i < batch.outer_count(); ++i) {
    p.a.data = a + batch.outer_offset(i, 0) * item;
    p.b.data = b + batch.outer_offset(i, 1) * item;
    p.c = c + batch.outer_offset(i, 2) * item;
    multiply(p, device);
  }
}

// Launches that take less time than to lay operands out anew.
constexpr int64_t kFewLaunches = 4;

// Whether all products have factors of their own.
bool has_own_factors(const OpCall& call) {
  const TensorImpl& out = call.out();
  for (const TensorImpl* x : {&call.in(0), &call.in(1)})
    for (size_t d = 0; d + 2 < static_cast<size_t>(out.dim()); ++d)
      if (out.size(d) > 1 && (x->size(d) == 1 || x->stride(d) == 0)) return false;
  return true;
}

// A copy whose batch lies like one dimension; its matrices are by rows or by columns, as they were.
Tensor copy_of_factor(const TensorImpl& x) {
  const auto d = static_cast<size_t>(x.dim());
  DimVector sizes(x.sizes());
  const bool transposed = factor_of(x).transposed;
  if (transposed) std::swap(sizes[d - 2], sizes[d - 1]);
  Tensor copy = empty("matmul", sizes, x.dtype(), x.device());
  if (transposed) {
    DimVector strides(copy.strides());
    std::swap(strides[d - 2], strides[d - 1]);
    copy = alias(copy, x.sizes(), strides, 0);
  }
  static const Op& op = *find_op("copy");
  TensorImpl* const from[] = {const_cast<TensorImpl*>(&x)};
  TensorImpl* const to[] = {copy.impl()};
  op.kernels[static_cast<int>(DeviceType::CUDA)]({op, from, {}, to});
  return copy;
}

// All but the batch, if the call is of one.
Product product_of(const OpCall& call) {
  const TensorImpl &a = call.in(0), &out = call.out();
  const auto d = static_cast<size_t>(out.dim());
  const int64_t n = out.size(d - 1);
  Product p{a.dtype(),          out.size(d - 2),       n,          a.size(d - 1),
            factor_of(a),       factor_of(call.in(1)), out.data(), n,
            call.attributes[0], call.attributes[1]};
  p.is_wide = out.dtype() != a.dtype();
  if (call.inputs.size() > 2) p.bias = call.in(2).data();
  if (call.outputs.size() > 1) p.row_sums = call.out(1).data();
  return p;
}

// Output (..., m, n) is contiguous. Attributes: alpha, beta. A third input, of one product, is a contiguous row
// to be added. A second output, of one product, takes the sums of the first input's rows. Outputs of float32 may
// be of inputs of a half type, if there is no row to be added and they are no batch.
void matmul(const OpCall& call) {
  const TensorImpl &a = call.in(0), &out = call.out();
  if (out.numel() == 0) return;
  const Product p = product_of(call);
  const int device = out.device().index;
  if (out.dim() == 2) return multiply(p, device);
  Batch batch(call);
  if (batch.is_one()) return multiply(p, device);
  if (batch.outer_count() <= kFewLaunches || !has_own_factors(call))
    return multiply_batch(p, batch, device);
  const Tensor left = copy_of_factor(a), right = copy_of_factor(call.in(1));
  TensorImpl* const copies[] = {left.impl(), right.impl()};
  matmul({call.op, copies, call.attributes, call.outputs});
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"matmul", matmul},
};

}  // namespace

bool multiply_with_gelu(const OpCall& call, Epilogue epilogue, const TensorImpl& result,
                        const TensorImpl& aside) {
  Product p = product_of(call);
  p.epilogue = epilogue;
  p.c = result.data();
  p.aside = aside.data();
  return multiply_with_blas(p, result.device().index);
}

void multiply(const Product& product, int device) {
  const bool has_vector = (product.m == 1 || product.n == 1) && product.k > 0;
  if (product.row_sums) {
    if (!has_vector && multiply_with_blas(product, device)) return;
    sum_rows(product, device);
  }
  if (has_vector) return multiply_vector(product, device);
  Product plain = product;
  plain.row_sums = nullptr;
  if (!multiply_with_blas(plain, device)) multiply_with_kernel(plain, device);
}

}  // namespace tapegrad::cuda
