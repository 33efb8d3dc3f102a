// The inner loops of convolution, compiled once per instruction set. The method is told in
// conv_planes.cpp.
#pragma once

#include <cstdint>

#include "cpu/isa.h"

namespace tapegrad::cpu {

// c[i][j] = sum over p of a[i * a_stride + a_offsets[p]] * b[place(j) + offsets[p]], for i < rows and
// the columns j of `vectors` whole vectors; added to c if asked. A vector lies in `pieces` (1, 2 or 4)
// parts: piece k of vector v begins at place places[v] + k * piece_stride.
template <class T>
struct PlaneProduct {
  int64_t rows, depth, vectors;
  const T* a;
  int64_t a_stride;
  const int64_t* a_offsets;
  const T* b;
  const int64_t* offsets;
  const int64_t* places;
  int64_t pieces, piece_stride;
  T* c;
  int64_t c_stride;
  bool accumulate;
};

// c[i][j] += sum over the places q of x[offsets[i] + q] * g[q'][j], where the places are `lines` lines
// of `length` places, `step` apart, line_stride between lines, and q' numbers them through. `vectors` of
// c's columns, any number.
template <class T>
struct TapProduct {
  int64_t rows, vectors;
  const T* x;
  const int64_t* offsets;
  int64_t lines, length, line_stride, step;
  const T* g;
  int64_t g_stride;  // between rows of g
  T* c;
  int64_t c_stride;
};

// c[targets[i] + j] = bias[j] + sum over the runs r and k < lengths[r] of a[origins[i] + offsets[r] + k]
// * b[k'][j] for i < rows, j < columns, where k' numbers the elements of all runs through. Rows of b are
// whole vectors, b_stride apart; columns fill at most ConvKernels::vectors of them. Added to c if asked.
template <class T>
struct RowProduct {
  int64_t rows, columns;
  const T* a;
  const int64_t* origins;
  int64_t runs;
  const int64_t *offsets, *lengths;
  const T* b;
  int64_t b_stride;
  const T* bias;  // or null
  T* c;
  const int64_t* targets;
  bool accumulate;
};

// out[i * out_step + j] = bias[j] + sum over taps of weights[rows[t] + j] * x[i * x_step + offsets[t] + j] for
// i < places, j < channels.
template <class T>
struct DepthwisePlaces {
  int64_t places, channels, taps;
  const T* x;
  int64_t x_step;
  const int64_t* offsets;
  const T* weights;
  const int64_t* rows;
  const T* bias;  // or null
  T* out;
  int64_t out_step;
};

// sums[rows[t] + j] += sum over i < places of g[i * channels + j] * x[i * x_step + offsets[t] + j].
template <class T>
struct DepthwiseSums {
  int64_t places, channels, taps;
  const T* x;
  int64_t x_step;
  const int64_t* offsets;
  const T* g;
  T* sums;
  const int64_t* rows;
};

// out[j] = bias + sum over taps of weights[t] * plane[offsets[t] + j] for j < columns, row by row. May
// read a vector beyond the last column.
template <class T>
struct DepthwiseRows {
  int64_t rows, columns, taps;
  const T* weights;
  const T* plane;
  int64_t plane_stride;
  const int64_t* offsets;
  T bias;
  T* out;
  int64_t out_stride;
};

// A run of a panel's columns that belong to one row of the output.
struct ConvRun {
  int64_t column, length, target;
};

template <class T>
struct ConvKernels {
  void (*plane_product)(const PlaneProduct<T>& product);
  // Copies what a product would read of b into rows of whole vectors, out_stride apart.
  void (*gather_panel)(const PlaneProduct<T>& product, T* out, int64_t out_stride);
  void (*tap_product)(const TapProduct<T>& product);
  void (*row_product)(const RowProduct<T>& product);
  void (*depthwise_places)(const DepthwisePlaces<T>& places);
  void (*depthwise_sums)(const DepthwiseSums<T>& sums);
  // Row i of c, run by run, to out + i * out_stride; `step` is between elements of a run. Adds
  // bias[i] unless bias is null.
  void (*store_runs)(const T* c, int64_t c_stride, int64_t rows, const ConvRun* runs, int64_t count,
                     const T* bias, T* out, int64_t out_stride, int64_t step);
  // out[j * out_stride + i] = in[i * in_stride + j] for i < rows, j < columns.
  void (*transpose)(const T* in, int64_t in_stride, int64_t rows, int64_t columns, T* out,
                    int64_t out_stride);
  // Rows of a plane, one after the other: to[u] = from[first + u * step] for u < length, zero where
  // that is not within the `size` elements of the source's row.
  void (*pack_rows)(const T* from, int64_t from_stride, int64_t rows, int64_t size, int64_t step,
                    int64_t first, int64_t length, T* to);
  void (*depthwise_rows)(const DepthwiseRows<T>& rows);
  // sums[t] += sum over the places of a TapProduct of g[q'] * plane[offsets[t] + q].
  void (*depthwise_dots)(int64_t taps, const T* plane, const int64_t* offsets, const T* g,
                         int64_t lines, int64_t length, int64_t line_stride, T* sums);
  int64_t width;    // lanes of a vector
  int64_t vectors;  // of the widest panel
};

struct ConvTable {
  ConvKernels<float> float32;
  ConvKernels<double> float64;
};
TAPEGRAD_ISA_TABLE(ConvTable, conv_table)

template <class T>
const ConvKernels<T>& conv_kernels() {
  if constexpr (sizeof(T) == 4) return best_conv_table().float32;
  else return best_conv_table().float64;
}

}  // namespace tapegrad::cpu
