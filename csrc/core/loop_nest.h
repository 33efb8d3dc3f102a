// LoopNest: how several tensors are walked together in the memory order of the first.
//
// Dimensions are sorted by the first tensor's strides and merged wherever all tensors allow it, so
// most calls end up with one dimension or two. Elements are numbered in that order; any range of
// numbers can be visited as runs along the innermost dimension.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace tapegrad {

class LoopNest {
 public:
  static constexpr int kMaxTensors = 8;

  // All tensors must be broadcastable to the shape of the first.
  void build(std::span<const TensorImpl* const> tensors);

  int rank() const { return rank_; }
  int64_t size(int d) const { return sizes_[d]; }  // innermost is 0
  int64_t stride(int tensor, int d) const { return strides_[tensor][d]; }

  // Element number i lies at offset i.
  bool is_dense(int tensor) const { return rank_ == 1 && strides_[tensor][0] == 1; }
  // All elements are one.
  bool is_constant(int tensor) const { return rank_ == 1 && strides_[tensor][0] == 0; }

  // Visits elements [begin, begin + count) of a tensor: visit(offset, stride, done, length), where
  // offset and stride are in elements and done counts the elements visited before.
  template <class Visit>
  void for_each_run(int tensor, int64_t begin, int64_t count, Visit&& visit) const {
    int64_t index[kMaxRank];
    int64_t offset = locate(tensor, begin, index);
    const int64_t* strides = strides_[tensor];
    int64_t done = 0;
    while (true) {
      int64_t length = sizes_[0] - index[0];
      if (length > count - done) length = count - done;
      visit(offset, strides[0], done, length);
      done += length;
      if (done == count) return;
      offset -= index[0] * strides[0];
      index[0] = 0;
      int d = 1;
      while (++index[d] == sizes_[d]) {
        offset -= (sizes_[d] - 1) * strides[d];
        index[d++] = 0;
      }
      offset += strides[d];
    }
  }

  // Visits tensors 0 and 1 in step: visit(offset0, stride0, offset1, stride1, length).
  template <class Visit>
  void for_each_run_of_two(int64_t begin, int64_t count, Visit&& visit) const {
    int64_t index[kMaxRank];
    int64_t offset0 = locate(0, begin, index);
    int64_t offset1 = locate(1, begin, index);
    for (int64_t done = 0;;) {
      int64_t length = sizes_[0] - index[0];
      if (length > count - done) length = count - done;
      visit(offset0, strides_[0][0], offset1, strides_[1][0], length);
      done += length;
      if (done == count) return;
      offset0 -= index[0] * strides_[0][0];
      offset1 -= index[0] * strides_[1][0];
      index[0] = 0;
      int d = 1;
      for (; ++index[d] == sizes_[d]; index[d++] = 0) {
        offset0 -= (sizes_[d] - 1) * strides_[0][d];
        offset1 -= (sizes_[d] - 1) * strides_[1][d];
      }
      offset0 += strides_[0][d];
      offset1 += strides_[1][d];
    }
  }

 private:
  int64_t locate(int tensor, int64_t element, int64_t* index) const {
    int64_t offset = 0;
    for (int d = 0; d < rank_; ++d) {
      index[d] = d + 1 < rank_ ? element % sizes_[d] : element;
      element /= sizes_[d];
      offset += index[d] * strides_[tensor][d];
    }
    return offset;
  }

  int rank_;
  int64_t sizes_[kMaxRank];
  int64_t strides_[kMaxTensors][kMaxRank];
};

}  // namespace tapegrad
