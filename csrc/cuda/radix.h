// Stable sorting of rows by radix: tapegrad/cuda/kernels/radix.cu.
#pragma once

#include "core/tensor.h"

namespace tapegrad::cuda {

// What keys are: a dtype in its order, NaN last, or places, which are unsigned integers.
struct KeyType {
  const char* text;  // in kernels
  int code;          // tells it from others
  int nbytes;

  static KeyType of(DType dtype);
  static KeyType place(bool wide) {
    return {wide ? "uint64" : "unsigned", wide ? 31 : 30, wide ? 8 : 4};
  }
  int bits() const { return 8 * nbytes; }
};

// Memory of the device until it is dropped, or longer: what is launched before may still use it.
Tensor scratch(int64_t nbytes, Device device);

// `rows` rows of `length` keys each, which take items along.
struct RadixSort {
  KeyType type;
  int64_t rows, length;
  int bits;  // how many of a key, from below, tell keys apart
  bool descending = false;
  const void* keys;
  const void* items = nullptr;  // null: the number of each element in its row
  int item_nbytes = 4;
  bool wide_numbers = false;  // numbers of 4 bytes come out as int64
  void* keys_out;
  void* items_out;
};
// Fails where rows have more elements than 32 bits count.
void radix_sort(const char* op, Device device, const RadixSort& sort);

}  // namespace tapegrad::cuda
