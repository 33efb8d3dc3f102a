#include "cuda/vector_product.h"

#include <algorithm>

#include "core/tensor.h"
#include "cuda/launch.h"

namespace tapegrad::cuda {

namespace {

// As kernels/vector_product.cu has it.
struct VectorArguments {
  int64_t outputs, depth;
  const void *matrix, *vector, *bias;
  void* result;
  int64_t leading;
  int64_t vector_stride, result_stride, bias_stride;
  int64_t matrix_batch, vector_batch, result_batch;
  int64_t batches, blocks, splits;
  void* parts;
  double alpha, beta;
  int64_t integer_alpha, integer_beta;
};

constexpr int kVectorThreads = 256;
constexpr int kColumnLanes = 32, kColumnRows = kVectorThreads / kColumnLanes;
constexpr int64_t kWantedBlocks = 512;
constexpr int64_t kLongRow = 4096;   // elements that are worth a block
constexpr int64_t kShortShare = 16;  // terms for each thread, for which a sum is not divided

// How the matrix is read: an output's terms side by side, or outputs side by side.
struct Reading {
  VectorArguments arguments;
  bool along_depth;
  int width;  // elements at a time
  int group;  // threads for each output, along the depth
};

int64_t divided(int64_t a, int64_t b) { return (a + b - 1) / b; }

VectorArguments arguments_of(const Product& p) {
  const bool row = p.m == 1;  // a row times a matrix; else a matrix times a column
  const Factor &matrix = row ? p.b : p.a, &vector = row ? p.a : p.b;
  VectorArguments a{};
  a.outputs = row ? p.n : p.m;
  a.depth = p.k;
  a.matrix = matrix.data;
  a.vector = vector.data;
  a.bias = p.bias;
  a.result = p.c;
  a.leading = matrix.leading;
  a.vector_stride = vector.transposed == row ? vector.leading : 1;
  a.result_stride = row ? 1 : p.c_leading;
  a.bias_stride = row ? 1 : 0;
  a.matrix_batch = matrix.batch_stride;
  a.vector_batch = vector.batch_stride;
  a.result_batch = p.c_batch_stride;
  a.batches = p.batch;
  a.splits = 1;
  a.alpha = p.alpha.as_double();
  a.beta = p.beta.as_double();
  a.integer_alpha = p.alpha.as_int();
  a.integer_beta = p.beta.as_int();
  return a;
}

// As many elements as 16 bytes hold, if all rows begin at such a place and `side` of them lie side by side.
int width_of(const VectorArguments& a, DType dtype, int64_t side) {
  const auto width = static_cast<int64_t>(16 / itemsize(dtype));
  const bool aligned = reinterpret_cast<uintptr_t>(a.matrix) % 16 == 0 && a.leading % width == 0 &&
                       a.matrix_batch % width == 0 && side % width == 0;
  return static_cast<int>(aligned ? width : 1);
}

// Of two vectors, one whose elements lie side by side is read like a matrix of one row.
bool take_as_row(VectorArguments& a) {
  if (a.leading != 1 && a.vector) {
    std::swap(a.matrix, a.vector);
    std::swap(a.matrix_batch, a.vector_batch);
    std::swap(a.leading, a.vector_stride);
  }
  return a.leading == 1;
}

Reading reading_of(const Product& p) {
  Reading r{arguments_of(p), p.m == 1 ? p.b.transposed : !p.a.transposed, 1, 32};
  VectorArguments& a = r.arguments;
  if (p.m == 1 && p.n == 1 && !r.along_depth && take_as_row(a)) {
    r.along_depth = true;
    a.leading = 0;  // there is no other row
  }
  int64_t threads;  // that share a sum
  if (r.along_depth) {
    r.width = width_of(a, p.dtype, 0);
    const bool few = a.outputs * a.batches < kWantedBlocks;
    r.group = a.depth >= kLongRow || (few && a.depth >= kLongRow / 8) ? kVectorThreads : 32;
    a.blocks = divided(a.outputs, kVectorThreads / r.group);
    threads = int64_t{r.group} * r.width;
  } else {
    r.width = width_of(a, p.dtype, a.outputs);
    a.blocks = divided(a.outputs, kColumnLanes * r.width);
    threads = kColumnRows;
  }
  a.splits = std::clamp<int64_t>(kWantedBlocks / (a.blocks * a.batches), 1,
                                 std::max<int64_t>(1, a.depth / (threads * kShortShare)));
  return r;
}

// What kernels have after their other arguments, of the type that they write.
const char* result_type(const Product& p) { return p.is_wide ? ", float>" : ">"; }

FunctionHandle find_kernel(const Reading& r, const Product& p, int device) {
  static auto& cache = *new KernelCache;
  const uint64_t key = static_cast<uint64_t>(p.dtype) << 17 | uint64_t{p.is_wide} << 16 |
                       static_cast<uint64_t>(r.group) << 6 | static_cast<uint64_t>(r.width) << 1 |
                       static_cast<uint64_t>(r.along_depth);
  return cache.find(device, key, [&] {
    const std::string group = r.along_depth ? concat(", ", r.group) : "";
    return concat("file vector_product.cu\nVectorArguments\n",
                  r.along_depth ? "vector_rows<" : "vector_columns<", kernel_type(p.dtype), group,
                  ", ", r.width, result_type(p));
  });
}

void add_parts(const VectorArguments& a, const Product& p, int device) {
  static auto& cache = *new KernelCache;
  const uint64_t key = static_cast<uint64_t>(p.dtype) << 1 | uint64_t{p.is_wide};
  const FunctionHandle kernel = cache.find(device, key, [&] {
    return concat("file vector_product.cu\nVectorArguments\nvector_parts<", kernel_type(p.dtype),
                  result_type(p));
  });
  launch_with(kernel, device, divided(a.batches * a.outputs, kVectorThreads), kVectorThreads, a);
}

// What sums are held in: as wide as what the dtype is computed in.
DType sum_dtype(DType dtype) {
  if (dtype == DType::Float64 || dtype == DType::Int64) return dtype;
  return is_floating(dtype) ? DType::Float32 : DType::Int32;
}

}  // namespace

void multiply_vector(const Product& p, int device) {
  Reading r = reading_of(p);
  VectorArguments& a = r.arguments;
  Tensor parts;
  if (a.splits > 1) {
    const DimVector sizes{a.splits, a.batches, a.outputs};
    parts = empty("matmul", sizes, sum_dtype(p.dtype),
                  Device{DeviceType::CUDA, static_cast<uint8_t>(device)});
    a.parts = parts->data();
  }
  launch_with(find_kernel(r, p, device), device, a.batches * a.blocks * a.splits, kVectorThreads,
              a);
  if (a.splits > 1) add_parts(a, p, device);
}

void sum_rows(const Product& p, int device) {
  const Factor ones{nullptr, 1}, columns{p.a.data, p.a.leading, !p.a.transposed};
  Product sums{p.dtype, 1, p.m, p.k, ones, columns, p.row_sums, p.m};
  sums.is_wide = p.is_wide;
  multiply_vector(sums, device);
}

}  // namespace tapegrad::cuda
