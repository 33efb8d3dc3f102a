// Attention without the matrix of all scores.
//
// Queries are taken some at a time, and for them keys some at a time: only that block of scores
// exists. A query's weights exp(score - top) are relative to the largest score so far; when a later
// block has a larger one, what was summed up before is scaled down. At the end the result is divided
// by the sum of weights, whose logarithm is kept.
//
// The derivative computes each block of weights again, from the scores and that logarithm. With
// d = grad . result for each query, the gradient of a score is weight * (grad . value - d).
//
// Threads share heads, and in the forward direction also blocks of queries.
#include "cpu/attention.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/conv_kernels.h"
#include "cpu/gemm.h"
#include "cpu/workspace.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kQueries = 64, kKeys = 256;  // of a block
constexpr double kWorkGrain = 64 * 1024;       // multiply-adds that make a second thread pay

template <class T>
const AttentionKernels<T>& kernels() {
  if constexpr (sizeof(T) == 4) return best_attention_table().float32;
  else return best_attention_table().float64;
}

// One head's matrix: rows `stride` apart, elements adjacent.
template <class T>
struct Matrix {
  T* data;
  int64_t stride;
  T* row(int64_t i) const { return data + i * stride; }
};

// Tensors are (batch, heads, length, width).
template <class T>
Matrix<T> head_of(const TensorImpl& x, int64_t batch, int64_t head) {
  return {x.data_as<T>() + batch * x.stride(0) + head * x.stride(1), x.stride(2)};
}

// What a call says, the same for both directions.
template <class T>
struct Attention {
  Attention(const OpCall& call, const TensorImpl& query, const TensorImpl& key,
            const TensorImpl& value, const TensorImpl* mask)
      : batch(query.size(0)),
        heads(query.size(1)),
        shared(std::max<int64_t>(1, heads / std::max<int64_t>(1, key.size(1)))),
        queries(query.size(2)),
        keys(key.size(2)),
        width(query.size(3)),
        value_width(value.size(3)),
        scale(T(call.real(kAttentionScale))),
        causal(call.integer(kAttentionCausal) != 0),
        mask(mask) {
    if (call.attributes.size() > kAttentionDropout)
      dropout = {call.real(kAttentionDropout), static_cast<uint64_t>(call.integer(kAttentionSeed)),
                 static_cast<uint64_t>(call.integer(kAttentionOffset))};
  }

  // Keys that some of the queries [first, last) may see.
  int64_t seen_by(int64_t last) const { return causal ? std::min(keys, last) : keys; }

  // The part [key, key + n) of a query's row.
  ScoreRow<T> row(int64_t b, int64_t h, int64_t query, int64_t key, int64_t n) const {
    ScoreRow<T> row{n, causal ? std::clamp<int64_t>(query + 1 - key, 0, n) : n, nullptr, nullptr};
    if (mask) {
      const int64_t at = b * mask->stride(0) + h * mask->stride(1) + query * mask->stride(2) + key;
      if (mask->dtype() == DType::Bool) row.seen = mask->data_as<bool>() + at;
      else row.added = mask->data_as<T>() + at;
    }
    return row;
  }

  // Of the part of a query's row of weights, or of their gradients.
  void drop(int64_t b, int64_t h, int64_t query, int64_t key, T* row, int64_t n) const {
    if (dropout.drops())
      kernels<T>().drop(dropout, ((b * heads + h) * queries + query) * keys + key, row, n);
  }

  int64_t batch, heads, shared, queries, keys, width, value_width;
  T scale;
  bool causal;
  const TensorImpl* mask;
  AttentionDropout dropout;
};

// Keys, or values, of a head, transposed: products with them run along keys, and every block of
// queries needs them.
template <class T>
void transpose_head(const Matrix<T>& rows, int64_t count, int64_t width, T* transposed) {
  conv_kernels<T>().transpose(rows.data, rows.stride, count, width, transposed, count);
}

// scores = scale * query key^T, of the keys [first, first + n)
template <class T>
void score(const Attention<T>& a, const Matrix<T>& query, int64_t rows, const T* keys,
           int64_t first, int64_t n, T* scores) {
  gemm<T>(false, false, rows, n, a.width, a.scale, query.data, query.stride, keys + first, a.keys,
          T(0), scores, kKeys);
}

template <class T>
void attend(const Attention<T>& a, int64_t b, int64_t h, int64_t first, const TensorImpl& query,
            const T* keys, const TensorImpl& value, const TensorImpl& out,
            const TensorImpl& log_sum, T* scores) {
  const int64_t rows = std::min(kQueries, a.queries - first);
  const Matrix<T> q{head_of<T>(query, b, h).row(first), query.stride(2)};
  const Matrix<T> v = head_of<T>(value, b, h / a.shared);
  const Matrix<T> y{head_of<T>(out, b, h).row(first), out.stride(2)};
  T tops[kQueries], sums[kQueries];
  std::fill_n(tops, rows, -std::numeric_limits<T>::infinity());
  std::fill_n(sums, rows, T(0));
  for (int64_t i = 0; i < rows; ++i) std::fill_n(y.row(i), a.value_width, T(0));
  const int64_t seen = a.seen_by(first + rows);
  for (int64_t j = 0; j < seen; j += kKeys) {
    const int64_t n = std::min(kKeys, seen - j);
    score(a, q, rows, keys, j, n, scores);
    for (int64_t i = 0; i < rows; ++i) {
      const T factor =
          kernels<T>().weigh(a.row(b, h, first + i, j, n), scores + i * kKeys, tops + i, sums + i);
      if (j > 0 && factor != T(1)) kernels<T>().scale(y.row(i), a.value_width, factor);
      a.drop(b, h, first + i, j, scores + i * kKeys, n);
    }
    gemm<T>(false, false, rows, a.value_width, n, T(1), scores, kKeys, v.row(j), v.stride, T(1),
            y.data, y.stride);
  }
  T* logs = log_sum.data_as<T>() + (b * a.heads + h) * a.queries + first;
  for (int64_t i = 0; i < rows; ++i) {
    const bool sees = sums[i] != T(0);
    if (sees) kernels<T>().scale(y.row(i), a.value_width, T(1) / sums[i]);
    else std::fill_n(y.row(i), a.value_width, T(0));
    logs[i] = sees ? tops[i] + std::log(sums[i]) : std::numeric_limits<T>::infinity();
  }
}

// One block of queries against all the keys that it sees.
template <class T>
struct Backward {
  const Attention<T>& a;
  const TensorImpl &grad, &query, &key, &value, &out, &log_sum;
  const TensorImpl &grad_query, &grad_key, &grad_value;

  // `keys` and `values` are those of the head, transposed.
  void run(int64_t b, int64_t h, int64_t first, const T* keys, const T* values, T* scores,
           T* grads) const {
    const int64_t rows = std::min(kQueries, a.queries - first), shared = h / a.shared;
    const Matrix<T> q{head_of<T>(query, b, h).row(first), query.stride(2)};
    const Matrix<T> g{head_of<T>(grad, b, h).row(first), grad.stride(2)};
    const Matrix<T> y{head_of<T>(out, b, h).row(first), out.stride(2)};
    const Matrix<T> k = head_of<T>(key, b, shared);
    const Matrix<T> dq{head_of<T>(grad_query, b, h).row(first), grad_query.stride(2)};
    const Matrix<T> dk = head_of<T>(grad_key, b, shared), dv = head_of<T>(grad_value, b, shared);
    const T* logs = log_sum.data_as<T>() + (b * a.heads + h) * a.queries + first;
    T deltas[kQueries];
    for (int64_t i = 0; i < rows; ++i)
      deltas[i] = kernels<T>().dot(g.row(i), y.row(i), a.value_width);
    const int64_t seen = a.seen_by(first + rows);
    if (seen == 0)
      for (int64_t i = 0; i < rows; ++i) std::fill_n(dq.row(i), a.width, T(0));
    for (int64_t j = 0; j < seen; j += kKeys) {
      const int64_t n = std::min(kKeys, seen - j);
      score(a, q, rows, keys, j, n, scores);
      gemm<T>(false, false, rows, n, a.value_width, T(1), g.data, g.stride, values + j, a.keys,
              T(0), grads, kKeys);
      for (int64_t i = 0; i < rows; ++i) {
        a.drop(b, h, first + i, j, grads + i * kKeys, n);
        kernels<T>().weigh_backward(a.row(b, h, first + i, j, n), scores + i * kKeys,
                                    grads + i * kKeys, logs[i], deltas[i]);
        a.drop(b, h, first + i, j, scores + i * kKeys, n);
      }
      gemm<T>(true, false, n, a.value_width, rows, T(1), scores, kKeys, g.data, g.stride, T(1),
              dv.row(j), dv.stride);
      gemm<T>(true, false, n, a.width, rows, a.scale, grads, kKeys, q.data, q.stride, T(1),
              dk.row(j), dk.stride);
      gemm<T>(false, false, rows, a.width, n, a.scale, grads, kKeys, k.row(j), k.stride,
              j > 0 ? T(1) : T(0), dq.data, dq.stride);
    }
  }
};

template <class T>
void forward(const OpCall& call) {
  const TensorImpl* mask = call.integer(kAttentionMasked) ? &call.in(3) : nullptr;
  const Attention<T> a(call, call.in(0), call.in(1), call.in(2), mask);
  if (a.batch * a.heads * a.queries == 0) return;
  const int64_t blocks = (a.queries + kQueries - 1) / kQueries, units = a.batch * a.heads * blocks;
  const double work =
      double(units) * kQueries * a.keys * (a.width + a.value_width) * (a.causal ? 0.5 : 1.0);
  const int64_t heads = a.batch * a.heads;
  const int64_t workers = work < 2 * kWorkGrain ? 1 : std::min<int64_t>(num_threads(), units);
  // Whole heads, where they divide well; else every worker takes every so many-th block, because
  // causal ones differ in length.
  const bool whole = heads % workers == 0 || heads >= 4 * workers;
  const int64_t scratch = kQueries * kKeys + a.width * a.keys;
  Workspace<T> memory(workers * scratch);
  BlockingSection blocking;
  parallel_for(0, workers, 1, [&](int64_t begin, int64_t end) {
    for (int64_t worker = begin; worker < end; ++worker) {
      T* scores = memory.get() + worker * scratch;
      T* keys = scores + kQueries * kKeys;
      int64_t transposed = -1;
      const auto run = [&](int64_t head, int64_t block) {
        const int64_t b = head / a.heads, h = head % a.heads;
        if (transposed != b * a.heads + h / a.shared)
          transpose_head(head_of<T>(call.in(1), b, h / a.shared), a.keys, a.width, keys);
        transposed = b * a.heads + h / a.shared;
        attend(a, b, h, block * kQueries, call.in(0), keys, call.in(2), call.out(0), call.out(1),
               scores);
      };
      if (whole) {
        for (int64_t head = heads * worker / workers; head < heads * (worker + 1) / workers; ++head)
          for (int64_t block = 0; block < blocks; ++block) run(head, block);
      } else {
        for (int64_t unit = worker; unit < units; unit += workers)
          run(unit / blocks, unit % blocks);
      }
    }
  });
}

template <class T>
void backward(const OpCall& call) {
  const TensorImpl* mask = call.integer(kAttentionMasked) ? &call.in(6) : nullptr;
  const Attention<T> a(call, call.in(1), call.in(2), call.in(3), mask);
  const Backward<T> pass{a,          call.in(0), call.in(1),  call.in(2),  call.in(3),
                         call.in(4), call.in(5), call.out(0), call.out(1), call.out(2)};
  if (a.batch * a.heads * a.queries == 0) {
    for (const TensorImpl* grad : call.outputs)
      std::fill_n(static_cast<char*>(grad->storage().data()), grad->storage().nbytes(), 0);
    return;
  }
  // Heads that share a key go together, because they add to one gradient.
  const int64_t units = a.batch * (a.heads / a.shared);
  const double work =
      double(a.batch * a.heads) * a.queries * a.keys * (3 * a.width + 2 * a.value_width);
  const int64_t workers =
      work < 2 * kWorkGrain ? 1 : std::max<int64_t>(1, std::min<int64_t>(num_threads(), units));
  const int64_t scratch = 2 * kQueries * kKeys + (a.width + a.value_width) * a.keys;
  Workspace<T> memory(workers * scratch);
  BlockingSection blocking;
  parallel_for(0, workers, 1, [&](int64_t begin, int64_t end) {
    for (int64_t worker = begin; worker < end; ++worker) {
      T *scores = memory.get() + worker * scratch, *grads = scores + kQueries * kKeys;
      T *keys = grads + kQueries * kKeys, *values = keys + a.width * a.keys;
      for (int64_t unit = worker; unit < units; unit += workers) {
        const int64_t b = unit / (a.heads / a.shared), shared = unit % (a.heads / a.shared);
        const Matrix<T> dk = head_of<T>(pass.grad_key, b, shared);
        const Matrix<T> dv = head_of<T>(pass.grad_value, b, shared);
        for (int64_t j = 0; j < a.keys; ++j) {
          std::fill_n(dk.row(j), a.width, T(0));
          std::fill_n(dv.row(j), a.value_width, T(0));
        }
        transpose_head(head_of<T>(pass.key, b, shared), a.keys, a.width, keys);
        transpose_head(head_of<T>(pass.value, b, shared), a.keys, a.value_width, values);
        for (int64_t h = shared * a.shared; h < (shared + 1) * a.shared; ++h)
          for (int64_t first = 0; first < a.queries; first += kQueries)
            pass.run(b, h, first, keys, values, scores, grads);
      }
    }
  });
}

void attention(const OpCall& call) {
  with_float_type(call.out().dtype(), [&]<class T>(T) { forward<T>(call); });
}

void attention_backward(const OpCall& call) {
  with_float_type(call.out().dtype(), [&]<class T>(T) { backward<T>(call); });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"attention", attention},
    {"attention_backward", attention_backward},
    {"attention_dropout", attention},
    {"attention_dropout_backward", attention_backward},
};

}  // namespace

}  // namespace tapegrad::cpu
