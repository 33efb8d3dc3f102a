// The loops of Fourier transforms, compiled once per instruction set.
//
// A record is a vector of real parts and a vector of imaginary parts: one element of each of `width` lines, the
// lanes. A transform of records does the same to every lane, with twiddle factors that are plain numbers, so it
// is vectorised whatever its length is. Design note 0033 tells what is made of it.
//
// Only forward transforms are computed: backward ones are those of conjugates, so that loads and stores take the
// sign of the imaginary part.
#pragma once

#include <cstdint>

#include "cpu/isa.h"

namespace tapegrad::cpu {

// One step of a transform of records: butterflies of `radix` records, `before` apart, which are transforms of that
// length already. Twiddle factors: for each place k < before and each j of 1 .. radix - 1 the power j * k.
template <class T>
struct FftPass {
  int64_t radix, before;
  const T* twiddles;
  const T* circle;  // of an odd radix: cosines of its multiples of a part of the circle, then sines
};

// A transform of records: its passes work in place on records that have been put where `place` says.
template <class T>
struct FftChain {
  int64_t length;
  int64_t block,
      block_passes;  // so many records are taken through so many passes while they are in the cache
  int64_t passes;
  const FftPass<T>* pass;
  const int32_t* place;  // of each element
  const int32_t* order;  // the element at each place
};

// Where the lanes of a group of lines are: element j of lane l at base + offsets[l] + j * step, its imaginary part
// `imag` farther. Real lines have no imaginary parts.
template <class T>
struct FftLanes {
  T* base;
  const int64_t* offsets;
  int64_t count, step, imag;
  bool has_imag;
};

// A line of length rows * columns. Its columns are transformed, multiplied with powers of a root of one, transposed,
// and transformed again.
template <class T>
struct FftGrid {
  FftChain<T> down, across;  // of length rows, of length columns
  // Either all factors, records of [group of columns][row]; or those of the first group alone, and for the others
  // powers of the root as products of two: of e % fine_count and of the rest.
  const T* factors;
  bool is_whole;
  int64_t fine_count;
  const double *fine, *coarse;
};

// What the imaginary parts that are read, and both parts of what is written, are multiplied with.
template <class T>
struct FftScale {
  T in_imag, real, imag;
};

template <class T>
struct FftKernels {
  int64_t width;
  void (*run)(const FftChain<T>& chain, T* records);
  // Element j to the record place[j], or to record j.
  void (*load)(const FftLanes<const T>& lanes, int64_t length, const int32_t* place, T sign,
               T* records);
  void (*store)(const T* records, int64_t length, T real, T imag, const FftLanes<T>& lanes);

  // Groups [begin, end) of `width` columns, to records of [group][row]; then of `width` rows.
  void (*columns)(const FftGrid<T>& grid, const T* line, T sign, T* scratch, int64_t begin,
                  int64_t end);
  void (*rows)(const FftGrid<T>& grid, const T* scratch, T* records, const FftScale<T>& scale,
               T* line, int64_t begin, int64_t end);

  // Between the transform of m pairs of real numbers and that of the 2m numbers: m + 1 records, in place. All but the
  // first and the last are multiplied with `inner`. Roots: real parts of those of k <= m / 2, then imaginary ones.
  void (*to_half_records)(T* records, int64_t m, const T* roots, T inner);
  // The way back, from m + 1 records to m others: conjugates, for a forward transform.
  void (*from_half_records)(const T* records, int64_t m, const T* roots, T inner,
                            const int32_t* place, T* to);
  // The same for a line of complex numbers.
  void (*to_half_line)(T* line, int64_t m, const T* roots, T inner, T sign);
  void (*from_half_line)(const T* line, int64_t m, const T* roots, T inner, T sign, T* to);

  // Lines of complex numbers times complex factors, whose real parts stand before the imaginary ones: of the product,
  // parts times `real` and `imag`.
  void (*multiply_line)(const T* from, const T* factors, int64_t n, T sign, T real, T imag, T* to);
  // The same for records, of which number i of the product goes to place[i].
  void (*multiply_records)(const T* from, const T* factors, int64_t n, T sign, T imag,
                           const int32_t* place, T* to);

  // Conjugates of complex numbers that are some numbers apart.
  void (*conjugate)(const T* from, int64_t from_step, int64_t n, T* to, int64_t to_step);
};

struct FftTable {
  FftKernels<float> float32;
  FftKernels<double> float64;
};
TAPEGRAD_ISA_TABLE(FftTable, fft_table)

template <class T>
const FftKernels<T>& fft_kernels() {
  if constexpr (sizeof(T) == 4) return best_fft_table().float32;
  else return best_fft_table().float64;
}

}  // namespace tapegrad::cpu
