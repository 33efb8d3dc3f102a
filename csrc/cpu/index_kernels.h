// The inner loops of indexing, compiled once per instruction set.
#pragma once

#include <cstdint>

#include "cpu/convert.h"
#include "cpu/isa.h"

namespace tapegrad::cpu {

inline constexpr int kItemSizes = 5;  // 1, 2, 4, 8 and 16 bytes

constexpr int item_slot(size_t itemsize) {
  return itemsize == 1 ? 0 : itemsize == 2 ? 1 : itemsize == 4 ? 2 : itemsize == 8 ? 3 : 4;
}

// The indices of one dimension: contiguous, with the dimension's extent in the indexed tensor.
struct IndexColumn {
  const int64_t* data;
  int64_t size;
  int64_t stride;  // in elements
  int64_t wrap;    // added to a negative index: the size, or 0 where those are illegal
};

struct IndexTable {
  // Where index tuples [first, first + n) point to, in elements; false when one is out of range.
  bool (*offsets)(const IndexColumn* columns, int count, int64_t first, int64_t n, int64_t* out);
  // Whether n indices lie in [-wrap, size).
  bool (*in_range)(const int64_t* index, int64_t n, int64_t size, int64_t wrap);
  // to[i] = from[offsets[i]]
  void (*gather[kItemSizes])(const void* from, const int64_t* offsets, int64_t n, void* to);
  // to[i] = from[index[i] * stride + i * step]
  void (*gather_run[kItemSizes])(const void* from, const int64_t* index, int64_t n, int64_t stride,
                                 int64_t step, void* to);
  // to[i] = from[-i]
  void (*reverse[kItemSizes])(const void* from, int64_t n, void* to);
  // to[i] += from[i]
  void (*add[kConvertible])(void* to, const void* from, int64_t n);
  // to[i] = mask[i] ? *value : from[i]
  void (*masked_fill[kItemSizes])(void* to, const void* from, const bool* mask, int64_t n,
                                  const void* value);
  // How many of n bytes, each 0 or 1, are set.
  int64_t (*count_set)(const bool* mask, int64_t n);
};
TAPEGRAD_ISA_TABLE(IndexTable, index_table)

// to[i] += from[i]; complex numbers part by part.
template <class T>
void add_elements(T* to, const T* from, int64_t n) {
  if constexpr (is_complex_type<T>)
    best_index_table().add[static_cast<int>(dtype_of<decltype(T::real)>)](to, from, 2 * n);
  else best_index_table().add[static_cast<int>(dtype_of<T>)](to, from, n);
}

}  // namespace tapegrad::cpu
