// uses: multiply_add.cuh
// uses: philox.cuh
//
// Attention without the matrix of all scores; csrc/cpu/attention.cpp tells the method.
//
// A warp has some rows: queries, and in the derivative of keys and values, keys. A block of 32 of the others, its
// columns, is taken at a time, one by each lane. Lanes then change their part: each adds up some elements of the
// rows' results. Blocks are told apart by batch, head, rows, and by which slice of the results' elements they
// add up, because a thread can hold so many only.
//
// S is what the elements are stored as, and T what is computed in.

struct AttentionOperand {
  void* data;
  int64 strides[3];  // batch, head, row; elements of a row lie side by side
};

struct AttentionArguments {
  AttentionOperand query, key, value, out, grad, grad_query, grad_key, grad_value, mask;
  void* log_sums;  // (batch, heads, queries) of T, like the next
  void* deltas;
  int64 batch, heads, key_heads, shared, queries, keys, width, value_width;
  int64 row_blocks, slices;
  double scale;
  RandomSource source;  // of dropout, where the threshold is not zero
  uint64 threshold;
  double kept_scale;
  int causal, mask_kind;
};

enum MaskKind { kNoMask, kSeenMask, kAddedMask, kWideMask };  // the last in T, whatever S is

constexpr int kWarps = 4;
constexpr int kRowsPerWarp = 4;
constexpr int kBlockRows = kWarps * kRowsPerWarp;
constexpr int kBlockColumns = 32;
constexpr int kChunk = 32;  // elements of rows that are multiplied at a time
constexpr unsigned kWholeWarp = 0xffffffffu;

__device__ inline float weight_of(float exponent) { return expf(exponent); }
__device__ inline double weight_of(double exponent) { return exp(exponent); }
__device__ inline float logarithm(float x) { return logf(x); }
__device__ inline double logarithm(double x) { return log(x); }
template <class T>
__device__ T infinity() {
  return T(1) / T(0);
}

template <class T>
__device__ T sum_of_warp(T value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  return value;
}
// NaN loses.
template <class T>
__device__ T largest_of_warp(T value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(kWholeWarp, value, distance);
    if (other > value || value != value) value = other;
  }
  return value;
}

// The rows of one head.
template <class S>
struct Rows {
  using T = typename Storage<S>::Compute;

  S* data;
  int64 stride;

  __device__ Rows(const AttentionOperand& x, int64 batch, int64 head)
      : data(static_cast<S*>(x.data) + batch * x.strides[0] + head * x.strides[1]),
        stride(x.strides[2]) {}
  __device__ T load(int64 row, int64 element) const {
    return Storage<S>::load(data[row * stride + element]);
  }
  __device__ void store(int64 row, int64 element, T value) const {
    data[row * stride + element] = Storage<S>::store(value);
  }
};

// What a block has to do.
struct Part {
  int64 batch, head, first_row, slice;
  int warp, lane;

  __device__ Part(const AttentionArguments& a, int64 heads) {
    int64 number = blockIdx.x;
    slice = number % a.slices;
    number /= a.slices;
    first_row = number % a.row_blocks * kBlockRows;
    number /= a.row_blocks;
    head = number % heads;
    batch = number / heads;
    warp = threadIdx.x / 32;
    lane = threadIdx.x % 32;
  }
  __device__ int64 row(int k) const { return first_row + warp * kRowsPerWarp + k; }
};

// products[k] = row k of the warp . the lane's column, over `width` elements. The whole block takes part.
template <class S, class T>
__device__ void multiply_rows(const Part& part, const Rows<S>& rows, int64 row_count,
                              const Rows<S>& columns, int64 first_column, int64 column_count,
                              int64 width, T (&products)[kRowsPerWarp]) {
  __shared__ T row_chunk[kBlockRows][kChunk];
  __shared__ T column_chunk[kBlockColumns][kChunk + 1];
  for (T& product : products) product = 0;
  for (int64 start = 0; start < width; start += kChunk) {
    const int64 element = start + part.lane;
    const bool inside = element < width;
    for (int i = part.warp; i < kBlockRows; i += kWarps) {
      const int64 row = part.first_row + i;
      row_chunk[i][part.lane] = inside && row < row_count ? rows.load(row, element) : T(0);
    }
    for (int i = part.warp; i < kBlockColumns; i += kWarps) {
      const int64 column = first_column + i;
      column_chunk[i][part.lane] =
          inside && column < column_count ? columns.load(column, element) : T(0);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const T own = column_chunk[part.lane][i];
#pragma unroll
      for (int k = 0; k < kRowsPerWarp; ++k)
        products[k] = multiply_add(row_chunk[part.warp * kRowsPerWarp + k][i], own, products[k]);
    }
    __syncthreads();
  }
}

// Whether there are such a query and such a key, and the key is not ahead.
__device__ inline bool is_visible(const AttentionArguments& a, int64 query, int64 key) {
  return query < a.queries && key < a.keys && !(a.causal && key > query);
}

// The score of a query and a key after scaling and masking; minus infinity where the key is not seen.
template <class S, class T>
__device__ T masked_score(const AttentionArguments& a, int64 batch, int64 head, int64 query,
                          int64 key, T product) {
  if (!is_visible(a, query, key)) return -infinity<T>();
  const T score = T(a.scale) * product;
  if (a.mask_kind == kNoMask) return score;
  const int64 at = batch * a.mask.strides[0] + head * a.mask.strides[1] +
                   query * a.mask.strides[2] + key;
  if (a.mask_kind == kAddedMask) return score + Storage<S>::load(static_cast<const S*>(a.mask.data)[at]);
  if (a.mask_kind == kWideMask) return score + static_cast<const T*>(a.mask.data)[at];
  return static_cast<const bool*>(a.mask.data)[at] ? score : -infinity<T>();
}

// What dropout multiplies a weight with: Note [Dropped weights] in csrc/spec/attention.h.
template <class T>
__device__ T kept(const AttentionArguments& a, int64 batch, int64 head, int64 query, int64 key) {
  if (a.threshold == 0 || query >= a.queries || key >= a.keys) return T(1);
  const uint64 number = ((batch * a.heads + head) * a.queries + query) * a.keys + key;
  const PhiloxBlock block = philox(a.source.seed(), a.source.offset() + number / 64 * 16 + number % 16);
  return block.words[number % 64 / 16] < a.threshold ? T(0) : T(a.kept_scale);
}

// Keys that some of the block's queries may see.
__device__ inline int64 seen_keys(const AttentionArguments& a, int64 first_query) {
  const int64 last = first_query + kBlockRows;
  return a.causal && last < a.keys ? last : a.keys;
}

// sums[k][i] += weights of the rows * element `lane + 32 i` of the slice of each column.
template <class S, class T, int kParts>
__device__ void add_weighted(const Part& part, const T (&weights)[kRowsPerWarp],
                             const Rows<S>& columns, int64 first_column, int64 column_count,
                             int64 width, T (&sums)[kRowsPerWarp][kParts]) {
  const int64 first = part.slice * kParts * 32 + part.lane;
  const int64 rest = column_count - first_column;
  const int count = rest < kBlockColumns ? int(rest) : kBlockColumns;
  for (int j = 0; j < count; ++j) {
    T elements[kParts];
#pragma unroll
    for (int i = 0; i < kParts; ++i)
      elements[i] = first + 32 * i < width ? columns.load(first_column + j, first + 32 * i) : T(0);
#pragma unroll
    for (int k = 0; k < kRowsPerWarp; ++k) {
      const T weight = __shfl_sync(kWholeWarp, weights[k], j);
#pragma unroll
      for (int i = 0; i < kParts; ++i) sums[k][i] = multiply_add(weight, elements[i], sums[k][i]);
    }
  }
}

template <class S, class T, int kParts>
__device__ void store_rows(const Part& part, const Rows<S>& rows, int64 row_count, int64 width,
                           const T (&sums)[kRowsPerWarp][kParts], T factor) {
  const int64 first = part.slice * kParts * 32 + part.lane;
  for (int k = 0; k < kRowsPerWarp; ++k) {
    if (part.row(k) >= row_count) continue;
    for (int i = 0; i < kParts; ++i)
      if (first + 32 * i < width) rows.store(part.row(k), first + 32 * i, factor * sums[k][i]);
  }
}

template <class S, int kParts>
__device__ void attention(const AttentionArguments& a) {
  using T = typename Storage<S>::Compute;
  const Part part(a, a.heads);
  const int64 shared = part.head / a.shared;
  const Rows<S> query(a.query, part.batch, part.head), key(a.key, part.batch, shared);
  const Rows<S> value(a.value, part.batch, shared), out(a.out, part.batch, part.head);
  T tops[kRowsPerWarp], totals[kRowsPerWarp], sums[kRowsPerWarp][kParts] = {};
  for (int k = 0; k < kRowsPerWarp; ++k) {
    tops[k] = -infinity<T>();
    totals[k] = 0;
  }
  const int64 seen = seen_keys(a, part.first_row);
  for (int64 first = 0; first < seen; first += kBlockColumns) {
    T weights[kRowsPerWarp];
    multiply_rows(part, query, a.queries, key, first, a.keys, a.width, weights);
    for (int k = 0; k < kRowsPerWarp; ++k) {
      const T score = masked_score<S>(a, part.batch, part.head, part.row(k), first + part.lane,
                                   weights[k]);
      const T own = largest_of_warp(score), top = own > tops[k] ? own : tops[k];
      // As long as nothing is seen, weights must not shift by an infinity.
      const T shift = top == -infinity<T>() ? T(0) : top;
      const T factor = tops[k] == -infinity<T>() ? T(0) : weight_of(tops[k] - shift);
      weights[k] = weight_of(score - shift);
      totals[k] = totals[k] * factor + sum_of_warp(weights[k]);
      tops[k] = top;
      for (T& sum : sums[k]) sum *= factor;
      weights[k] *= kept<T>(a, part.batch, part.head, part.row(k), first + part.lane);
    }
    add_weighted(part, weights, value, first, a.keys, a.value_width, sums);
  }
  T* logs = static_cast<T*>(a.log_sums) + (part.batch * a.heads + part.head) * a.queries;
  for (int k = 0; k < kRowsPerWarp; ++k) {
    const bool sees = totals[k] != 0;
    for (T& sum : sums[k]) sum = sees ? sum * (T(1) / totals[k]) : T(0);
    if (part.slice == 0 && part.lane == 0 && part.row(k) < a.queries)
      logs[part.row(k)] = sees ? tops[k] + logarithm(totals[k]) : infinity<T>();
  }
  store_rows(part, out, a.queries, a.value_width, sums, T(1));
}

// Also writes the deltas, grad . result of each query, which the derivative of keys and values reads.
template <class S, int kParts>
__device__ void attention_backward_query(const AttentionArguments& a) {
  using T = typename Storage<S>::Compute;
  const Part part(a, a.heads);
  const int64 shared = part.head / a.shared;
  const Rows<S> query(a.query, part.batch, part.head), key(a.key, part.batch, shared);
  const Rows<S> value(a.value, part.batch, shared), grad(a.grad, part.batch, part.head);
  const Rows<S> out(a.out, part.batch, part.head), to(a.grad_query, part.batch, part.head);
  const int64 head = (part.batch * a.heads + part.head) * a.queries;
  T logs[kRowsPerWarp], deltas[kRowsPerWarp], sums[kRowsPerWarp][kParts] = {};
  for (int k = 0; k < kRowsPerWarp; ++k) {
    const int64 row = part.row(k);
    T delta = 0;
    if (row < a.queries)
      for (int64 i = part.lane; i < a.value_width; i += 32)
        delta = multiply_add(grad.load(row, i), out.load(row, i), delta);
    deltas[k] = sum_of_warp(delta);
    logs[k] = row < a.queries ? static_cast<const T*>(a.log_sums)[head + row] : infinity<T>();
    if (part.slice == 0 && part.lane == 0 && row < a.queries)
      static_cast<T*>(a.deltas)[head + row] = deltas[k];
  }
  const int64 seen = seen_keys(a, part.first_row);
  for (int64 first = 0; first < seen; first += kBlockColumns) {
    T scores[kRowsPerWarp], grads[kRowsPerWarp];
    multiply_rows(part, query, a.queries, key, first, a.keys, a.width, scores);
    multiply_rows(part, grad, a.queries, value, first, a.keys, a.value_width, grads);
    for (int k = 0; k < kRowsPerWarp; ++k) {
      const T score = masked_score<S>(a, part.batch, part.head, part.row(k), first + part.lane,
                                   scores[k]);
      const bool visible = is_visible(a, part.row(k), first + part.lane);
      grads[k] *= kept<T>(a, part.batch, part.head, part.row(k), first + part.lane);
      grads[k] = visible ? weight_of(score - logs[k]) * (grads[k] - deltas[k]) : T(0);
    }
    add_weighted(part, grads, key, first, a.keys, a.width, sums);
  }
  store_rows(part, to, a.queries, a.width, sums, T(a.scale));
}

// Heads that share a key are taken one after another, because they add to one gradient.
template <class S, int kParts>
__device__ void attention_backward_key(const AttentionArguments& a) {
  using T = typename Storage<S>::Compute;
  const Part part(a, a.key_heads);
  const Rows<S> key(a.key, part.batch, part.head), value(a.value, part.batch, part.head);
  T key_sums[kRowsPerWarp][kParts] = {}, value_sums[kRowsPerWarp][kParts] = {};
  for (int64 h = part.head * a.shared; h < (part.head + 1) * a.shared; ++h) {
    const Rows<S> query(a.query, part.batch, h), grad(a.grad, part.batch, h);
    const int64 head = (part.batch * a.heads + h) * a.queries;
    const int64 start = a.causal ? part.first_row / kBlockColumns * kBlockColumns : 0;
    for (int64 first = start; first < a.queries; first += kBlockColumns) {
      const int64 own = first + part.lane;
      T weights[kRowsPerWarp], grads[kRowsPerWarp];
      multiply_rows(part, key, a.keys, query, first, a.queries, a.width, weights);
      multiply_rows(part, value, a.keys, grad, first, a.queries, a.value_width, grads);
      const bool inside = own < a.queries;
      const T log = inside ? static_cast<const T*>(a.log_sums)[head + own] : infinity<T>();
      const T delta = inside ? static_cast<const T*>(a.deltas)[head + own] : T(0);
      for (int k = 0; k < kRowsPerWarp; ++k) {
        const T score = masked_score<S>(a, part.batch, h, own, part.row(k), weights[k]);
        const bool visible = is_visible(a, own, part.row(k));
        const T factor = kept<T>(a, part.batch, h, own, part.row(k));
        weights[k] = visible ? weight_of(score - log) : T(0);
        grads[k] = visible ? weights[k] * (grads[k] * factor - delta) : T(0);
        weights[k] *= factor;
      }
      add_weighted(part, weights, grad, first, a.queries, a.value_width, value_sums);
      add_weighted(part, grads, query, first, a.queries, a.width, key_sums);
    }
  }
  store_rows(part, Rows<S>(a.grad_key, part.batch, part.head), a.keys, a.width, key_sums,
             T(a.scale));
  store_rows(part, Rows<S>(a.grad_value, part.batch, part.head), a.keys, a.value_width, value_sums,
             T(1));
}

// ---- around cuDNN: see Note [Attention as cuDNN knows it] in csrc/cuda/dnn_attention.cpp

struct SeedArguments {
  void* place;
  RandomSource source;
};

__device__ inline void attention_seed(const SeedArguments& a) {
  if (threadIdx.x != 0) return;
  static_cast<uint64*>(a.place)[0] = a.source.seed();
  static_cast<uint64*>(a.place)[2] = a.source.offset();
}

struct BiasArguments {
  const void* mask;
  void* bias;
  int64 strides[3];  // of the mask; elements of a row lie side by side
  int64 sizes[4];
  int64 row;  // elements from one row of the bias to the next
};

// What a mask of M adds to a score.
template <class M>
__device__ float added_by(M element) {
  return Storage<M>::load(element);
}
template <>
__device__ inline float added_by(bool seen) {
  return seen ? 0.0f : -infinity<float>();
}

template <class S, class M>
__device__ void attention_bias(const BiasArguments& a) {
  const int64 number = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64 key = number % a.row, rows = number / a.row;
  const int64 query = rows % a.sizes[2], heads = rows / a.sizes[2];
  const int64 head = heads % a.sizes[1], batch = heads / a.sizes[1];
  if (batch >= a.sizes[0]) return;
  float added = 0;
  if (key < a.sizes[3])
    added = added_by(static_cast<const M*>(a.mask)[batch * a.strides[0] + head * a.strides[1] +
                                                   query * a.strides[2] + key]);
  static_cast<S*>(a.bias)[number] = Storage<S>::store(added);
}

struct UnseenArguments {
  const void* mask;
  void* out;
  void* log_sums;
  int64 mask_strides[3], out_strides[3];
  int64 mask_sizes[3];  // one where the mask is the same for all
  int64 sizes[3];
  int64 keys, width, rows;
};

// A warp has a row of the mask, which several queries may share.
template <class S, class M>
__device__ void attention_unseen(const UnseenArguments& a) {
  const int64 row = int64(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= a.rows) return;
  const int64 own[3] = {row / a.mask_sizes[2] / a.mask_sizes[1],
                        row / a.mask_sizes[2] % a.mask_sizes[1], row % a.mask_sizes[2]};
  const M* mask = static_cast<const M*>(a.mask) + own[0] * a.mask_strides[0] +
                  own[1] * a.mask_strides[1] + own[2] * a.mask_strides[2];
  for (int64 first = 0; first < a.keys; first += 32) {
    const bool sees =
        first + lane < a.keys && added_by(mask[first + lane]) != -infinity<float>();
    if (__any_sync(kWholeWarp, sees)) return;
  }
  int64 from[3], to[3];
  for (int d = 0; d < 3; ++d) {
    const bool is_shared = a.mask_sizes[d] == 1;
    from[d] = is_shared ? 0 : own[d];
    to[d] = is_shared ? a.sizes[d] : own[d] + 1;
  }
  for (int64 batch = from[0]; batch < to[0]; ++batch)
    for (int64 head = from[1]; head < to[1]; ++head)
      for (int64 query = from[2]; query < to[2]; ++query) {
        S* out = static_cast<S*>(a.out) + batch * a.out_strides[0] + head * a.out_strides[1] +
                 query * a.out_strides[2];
        for (int64 i = lane; i < a.width; i += 32) out[i] = Storage<S>::store(0.0f);
        if (lane == 0)
          static_cast<float*>(a.log_sums)[(batch * a.sizes[1] + head) * a.sizes[2] + query] =
              infinity<float>();
      }
}
