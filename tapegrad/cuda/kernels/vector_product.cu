// uses: multiply_add.cuh
//
// A matrix times a vector: what is read of the matrix decides, and it is read once, side by side.

struct VectorArguments {
  int64 outputs, depth;
  const void *matrix, *vector, *bias;  // no vector stands for ones
  void* result;
  int64 leading;  // of the matrix: from one output to the next, or in vector_columns from one term to the next
  int64 vector_stride, result_stride, bias_stride;
  int64 matrix_batch, vector_batch, result_batch;
  int64 batches;
  int64 blocks;  // that share the outputs of one product
  int64 splits;  // blocks that share one sum; if there are several, `parts` takes what each has
  void* parts;
  double alpha, beta;
  int64 integer_alpha, integer_beta;
};

template <class S>
using SumOf = typename Storage<S>::Unsigned;  // sums of integers wrap

template <class S>
__device__ SumOf<S> load_element(const void* data, int64 at) {
  return SumOf<S>(Storage<S>::load(static_cast<const S*>(data)[at]));
}

template <class S>
__device__ SumOf<S> vector_element(const VectorArguments& a, int64 batch, int64 i) {
  if (!a.vector) return SumOf<S>(1);
  return load_element<S>(a.vector, batch * a.vector_batch + i * a.vector_stride);
}

// S is the type of what is read, C that of the result.
template <class S, class C>
__device__ void finish_element(const VectorArguments& a, int64 batch, int64 output, SumOf<S> sum) {
  using T = SumOf<S>;
  constexpr bool kFloating = Storage<S>::kFloating;
  const T alpha = kFloating ? T(a.alpha) : T(a.integer_alpha);
  const T beta = kFloating ? T(a.beta) : T(a.integer_beta);
  const int64 at = batch * a.result_batch + output * a.result_stride;
  T value = alpha * sum;
  if (beta != T(0)) value = multiply_add(beta, load_element<C>(a.result, at), value);
  if (a.bias) value += load_element<S>(a.bias, output * a.bias_stride);
  static_cast<C*>(a.result)[at] = Storage<C>::store(typename Storage<C>::Compute(value));
}

// What a block has of the sum: begin <= i < end.
struct Share {
  int64 batch, block, split, begin, end;

  __device__ explicit Share(const VectorArguments& a) {
    int64 number = blockIdx.x;
    split = number % a.splits;
    number /= a.splits;
    block = number % a.blocks;
    batch = number / a.blocks;
    // Whole vectors, so that loads stay aligned.
    const int64 each = ((a.depth + a.splits - 1) / a.splits + 15) / 16 * 16;
    begin = split * each;
    end = begin + each < a.depth ? begin + each : a.depth;
  }
};

template <class S, class C>
__device__ void give_sum(const VectorArguments& a, const Share& share, int64 output, SumOf<S> sum) {
  if (a.splits == 1) return finish_element<S, C>(a, share.batch, output, sum);
  const int64 at = (share.split * a.batches + share.batch) * a.outputs;
  static_cast<SumOf<S>*>(a.parts)[at + output] = sum;
}

constexpr int kVectorThreads = 256;

// Rows of the matrix lie along the depth: a group of kGroup threads, a warp or the block, has one of them. Elements are
// taken kWidth at a time.
template <class S, int kGroup, int kWidth, class C = S>
__device__ void vector_rows(const VectorArguments& a) {
  using T = SumOf<S>;
  const Share share(a);
  const int lane = threadIdx.x % kGroup;
  const int64 output = share.block * (kVectorThreads / kGroup) + threadIdx.x / kGroup;
  T sums[kWidth] = {};
  if (output < a.outputs) {
    const S* row = static_cast<const S*>(a.matrix) + share.batch * a.matrix_batch + output * a.leading;
    int64 i = share.begin + lane * kWidth;
#pragma unroll 4
    for (; i + kWidth <= share.end; i += kGroup * kWidth) {
      const auto loaded = *reinterpret_cast<const Vector<S, kWidth>*>(row + i);
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        sums[k] = multiply_add(T(Storage<S>::load(loaded.elements[k])),
                               vector_element<S>(a, share.batch, i + k), sums[k]);
    }
    for (int k = 0; k < kWidth; ++k)
      if (i + k < share.end)
        sums[k] = multiply_add(T(Storage<S>::load(row[i + k])),
                               vector_element<S>(a, share.batch, i + k), sums[k]);
  }
  for (int half = kWidth / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) sums[k] += sums[k + half];
  T sum = sums[0];
  for (int distance = 16; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if constexpr (kGroup > 32) {
    __shared__ T of_warps[kGroup / 32];
    if (lane % 32 == 0) of_warps[lane / 32] = sum;
    __syncthreads();
    sum = T(0);
    for (int k = 0; k < kGroup / 32; ++k) sum += of_warps[k];
  }
  if (lane == 0 && output < a.outputs) give_sum<S, C>(a, share, output, sum);
}

constexpr int kColumnLanes = 32, kColumnRows = kVectorThreads / kColumnLanes;

// Outputs lie side by side: a lane has kWidth of them, and the rows of threads share the depth.
template <class S, int kWidth, class C = S>
__device__ void vector_columns(const VectorArguments& a) {
  using T = SumOf<S>;
  __shared__ T parts[kColumnRows][kColumnLanes * kWidth + 1];
  const Share share(a);
  const int lane = threadIdx.x % kColumnLanes, row = threadIdx.x / kColumnLanes;
  const int64 first = (share.block * kColumnLanes + lane) * kWidth;
  T sums[kWidth] = {};
  if (first < a.outputs) {
    const S* column = static_cast<const S*>(a.matrix) + share.batch * a.matrix_batch + first;
#pragma unroll 4
    for (int64 i = share.begin + row; i < share.end; i += kColumnRows) {
      const auto loaded = *reinterpret_cast<const Vector<S, kWidth>*>(column + i * a.leading);
      const T factor = vector_element<S>(a, share.batch, i);
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        sums[k] = multiply_add(factor, T(Storage<S>::load(loaded.elements[k])), sums[k]);
    }
  }
  for (int k = 0; k < kWidth; ++k) parts[row][lane * kWidth + k] = sums[k];
  __syncthreads();
  for (int place = threadIdx.x; place < kColumnLanes * kWidth; place += kVectorThreads) {
    const int64 output = share.block * kColumnLanes * kWidth + place;
    T sum = T(0);
    for (int k = 0; k < kColumnRows; ++k) sum += parts[k][place];
    if (output < a.outputs) give_sum<S, C>(a, share, output, sum);
  }
}

// The parts of split sums, added up in their order.
template <class S, class C = S>
__device__ void vector_parts(const VectorArguments& a) {
  using T = SumOf<S>;
  const int64 element = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (element >= a.batches * a.outputs) return;
  T sum = T(0);
  for (int64 split = 0; split < a.splits; ++split)
    sum += static_cast<const T*>(a.parts)[split * a.batches * a.outputs + element];
  finish_element<S, C>(a, element / a.outputs, element % a.outputs, sum);
}
