// The CPU kernels of the structured ops, one line each, grouped by file. A kernel reads a call
// (core/op.h, Note [What a call means]); its attributes are told beside its definition.
#pragma once

#include "core/op.h"

namespace tapegrad::cpu {

// create.cpp
void fill(const OpCall& call);      // value
void arange(const OpCall& call);    // start, step
void linspace(const OpCall& call);  // start, end, base (0: linear)
void eye(const OpCall& call);

// nextafter.cpp
void nextafter_half(const OpCall& call);  // of 16-bit floats; all contiguous

// copy.cpp
void copy(const OpCall& call);
void has_zero(const OpCall& call);
void embed(const OpCall& call);  // adds the input to the output, whose places may overlap

// join.cpp
void cat(const OpCall& call);  // the joined dimension
void flip(const OpCall& call);
void triangle(const OpCall& call);  // diagonal, whether the upper one
void repeat_indices(const OpCall& call);
void total_repeats(const OpCall& call);

// index.cpp
void index(const OpCall& call);      // dimensions before, IndexRule, indexed dimensions
void index_put(const OpCall& call);  // dimensions before, IndexRule, accumulate, dimensions

// scatter.cpp
void gather(const OpCall& call);   // dimension
void scatter(const OpCall& call);  // dimension, ScatterMode

// mask.cpp
void count_mask(const OpCall& call);  // the true elements of each block of the mask
void nonzero(const OpCall& call);
void masked_select(const OpCall& call);
void masked_fill(const OpCall& call);
void masked_scatter(const OpCall& call);

// sort.cpp
void sort(const OpCall& call);       // descending
void topk(const OpCall& call);       // largest, sorted
void kth_value(const OpCall& call);  // k, from 1

// unique.cpp
void sort_rows(const OpCall& call);
void run_numbers(const OpCall& call);
void run_starts(const OpCall& call);

// search.cpp
void searchsorted(const OpCall& call);  // right
void bounds(const OpCall& call);
void bincount(const OpCall& call);

// reduce.cpp: attribute 0 is the mask of the reduced dimensions
void sum(const OpCall& call);
void mean(const OpCall& call);
void prod(const OpCall& call);
void amax(const OpCall& call);
void amin(const OpCall& call);
void max_dim(const OpCall& call);  // values and indices; one dimension, or a contiguous input
void min_dim(const OpCall& call);
void argmax(const OpCall& call);
void argmin(const OpCall& call);
void any(const OpCall& call);
void all(const OpCall& call);
void count_nonzero(const OpCall& call);
void var(const OpCall& call);   // correction, whether to take the root; second output: the mean
void norm(const OpCall& call);  // p: 0, 1, 2, inf or -inf
void logsumexp(const OpCall& call);

// median.cpp: the dimension
void median(const OpCall& call);  // values and indices

// scan.cpp: the dimension, whether to run backwards; contiguous operands
void cumsum(const OpCall& call);
void cumprod(const OpCall& call);
void logcumsumexp(const OpCall& call);
void cummax(const OpCall& call);  // values and indices
void cummin(const OpCall& call);
void recurrence(const OpCall& call);  // of factors a and terms b: y[t] = b[t] + a[t] * y[t - 1]

// softmax.cpp: the dimension; contiguous operands
void softmax(const OpCall& call);
void log_softmax(const OpCall& call);
void softmax_backward(const OpCall& call);  // of grad and y
void log_softmax_backward(const OpCall& call);

// pooling.cpp: attributes describe the windows, see ops/pooling.cpp; contiguous operands
void max_pool(const OpCall& call);           // values, and if asked for where they were found
void avg_pool(const OpCall& call);           // count_include_pad, divisor (0: none)
void avg_pool_backward(const OpCall& call);  // of grad
void plane_gather(const OpCall& call);       // elements of each plane, by index
void plane_scatter(const OpCall& call);      // the opposite; whether to add

// optimizer.cpp
void optimizer_step(const OpCall& call);

// matmul.cpp
void matmul(const OpCall& call);  // alpha, beta: out = alpha * a @ b + beta * out

// conv.cpp: stride, padding, dilation of each spatial dimension, groups; contiguous operands
void conv(const OpCall& call);              // of x, w, maybe bias
void conv_grad_input(const OpCall& call);   // of grad, w, maybe bias
void conv_grad_weight(const OpCall& call);  // of x, grad

// normalize.cpp: attributes beside the definitions; contiguous operands
void layer_norm(const OpCall& call);
void layer_norm_backward(const OpCall& call);
void batch_norm(const OpCall& call);
void batch_norm_backward(const OpCall& call);

// random.cpp: attributes begin with seed and offset
void random_uniform(const OpCall& call);      // from, to
void random_normal(const OpCall& call);       // mean, std
void random_log_normal(const OpCall& call);   // mean, std
void random_exponential(const OpCall& call);  // rate
void random_cauchy(const OpCall& call);       // median, sigma
void random_geometric(const OpCall& call);    // probability
void random_integers(const OpCall& call);     // first, count (0: 2^64)
void random_bernoulli(const OpCall& call);    // probability
void random_bernoulli_each(const OpCall& call);
void random_permutation(const OpCall& call);
void random_multinomial(const OpCall& call);  // replacement; second output: scratch
void random_poisson(const OpCall& call);

}  // namespace tapegrad::cpu
