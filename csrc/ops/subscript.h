// x[1, ..., ::2, None]: the part of a subscript that is a view, worked out item by item into one
// geometry, so that any number of items makes one view and one entry of the tape.
#pragma once

#include "core/tensor.h"
#include "graph/entry_kind.h"
#include "ops/view_history.h"

namespace tapegrad {

class Subscript {
 public:
  explicit Subscript(const Tensor& x);

  // Each consumes the next dimensions of x and appends those of the result.
  void select(int64_t index);
  void slice(int64_t start, int64_t stop, int64_t step);
  void keep(int64_t count);  // whole dimensions
  void insert();             // a dimension of size one

  // Dimensions of the result so far.
  int64_t dim() const { return static_cast<int64_t>(sizes_.size()); }
  // Dimensions of x not yet consumed.
  int64_t left() const { return x_.dim() - next_; }
  // Whether, the rest kept, it shows all of x as it is.
  bool is_identity() const;

  // Keep what is left first.
  Tensor view() const;   // recorded
  Tensor alias() const;  // for a write nobody records

 private:
  void check_next(const char* what) const;
  void append(int64_t size, int64_t step);

  const Tensor& x_;
  bool contiguous_;
  int64_t next_ = 0;
  DimVector sizes_, strides_;
  int64_t offset_;
  // The same for a contiguous tensor of x's shape; filled only where x is not one itself.
  DimVector place_strides_;
  int64_t place_offset_ = 0;
  const EntryKind* kind_;  // of the last part that was no whole dimension
};

}  // namespace tapegrad
