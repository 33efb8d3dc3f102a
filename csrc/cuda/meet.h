// Values that meet in places of a tensor: tapegrad/cuda/kernels/meet.cuh.
#pragma once

#include "core/tensor.h"
#include "cuda/radix.h"
#include "spec/index.h"

namespace tapegrad::cuda {

// Up to so many values one block does in one launch.
inline constexpr int64_t kFewValues = 1024;
inline constexpr int kFewThreads = 256;

struct Meeting {
  const char* op;
  const TensorImpl& out;
  DType dtype;  // in which values are combined: one of the same size where they are only moved
  ScatterMode mode;
  int64_t count;
  uint64_t limit;                // more than any place
  bool has_wide_places = false;  // of 64 bits, although they may fit into 32

  // `extent` is the greatest place.
  Meeting(const char* op, const TensorImpl& out, ScatterMode mode, int64_t count, int64_t extent);
  bool is_few() const { return count <= kFewValues; }
  // Whether every value may go to its place by itself, by an atomic operation or a plain store. See Note [Any order].
  bool may_come_in_any_order() const;
  KeyType places() const { return KeyType::place(has_wide_places || limit > UINT32_MAX); }
  // "kAdd" in kernels.
  const char* mode_text() const;
  // Five bits that tell the instances apart.
  uint64_t key() const;
};

// Places and values in the order in which they come, with memory for both.
struct Placed {
  explicit Placed(const Meeting& meeting);
  Tensor places, values;
};
// Sorts them, and combines what is equal. Neither the places nor the values are kept.
void meet(const Meeting& meeting, Placed placed);

// Adds the values of a vector to places of another, in their order: what scatter does.
void add_to_places(const char* op, const TensorImpl& out, const TensorImpl& places,
                   const TensorImpl& values);

// A dtype of the same size, for values that are only moved.
DType moved_dtype(DType dtype);

}  // namespace tapegrad::cuda
