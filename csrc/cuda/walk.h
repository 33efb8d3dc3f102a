// Tensors that a kernel of tapegrad/cuda/kernels walks together, element by element.
#pragma once

#include <initializer_list>
#include <string>

#include "cuda/elements.h"

namespace tapegrad::cuda {

class Walk {
 public:
  // In the memory order of the first, to whose shape all of them can be broadcast.
  explicit Walk(std::initializer_list<const TensorImpl*> tensors)
      : count_((*tensors.begin())->numel()), tensors_(static_cast<int>(tensors.size())) {
    nest_.build({tensors.begin(), tensors.size()});
  }

  int64_t count() const { return count_; }
  bool is_wide() const { return count_ > kMostNarrowCount; }
  // What kernels call its geometry, which follows the count among their arguments.
  std::string type() const {
    return concat(is_wide() ? "WideGeometry<" : "NarrowGeometry<", nest_.rank(), ", ", tensors_,
                  ">");
  }
  // Eight bits that tell the types apart.
  uint64_t key() const { return static_cast<uint64_t>(nest_.rank() << 1 | is_wide()); }
  void put(Arguments& arguments) const {
    arguments.put(count_);
    put_geometry(arguments, nest_, tensors_, count_);
  }
  int64_t blocks() const { return element_blocks(count_, 1); }

 private:
  int64_t count_;
  int tensors_;
  LoopNest nest_;
};

// Some dimensions of one tensor, walked in their order: the last is the innermost.
class Dims {
 public:
  Dims(const TensorImpl& x, size_t begin, size_t end) {
    for (size_t d = end; d-- > begin;) {
      if (x.size(d) == 1) continue;
      count_ *= x.size(d);
      if (!sizes_.empty() && x.stride(d) == strides_.back() * sizes_.back()) {
        sizes_.back() *= x.size(d);
      } else {
        sizes_.push_back(x.size(d));
        strides_.push_back(x.stride(d));
      }
    }
    if (!sizes_.empty()) return;
    sizes_.push_back(1);
    strides_.push_back(0);
  }

  int64_t count() const { return count_; }
  bool is_dense() const { return sizes_.size() == 1 && strides_[0] == 1; }
  // Whether neighbouring elements can be taken together, `times` of them.
  bool divides(int64_t times) const {
    for (int64_t stride : strides_)
      if (stride % times) return false;
    return true;
  }
  // The offset of the last element.
  int64_t extent() const {
    int64_t extent = 0;
    for (size_t d = 0; d < sizes_.size(); ++d) extent += (sizes_[d] - 1) * strides_[d];
    return extent;
  }
  void divide_strides(int64_t times) {
    for (int64_t& stride : strides_) stride /= times;
  }
  void divide_innermost(int64_t times) {
    sizes_[0] /= times;
    count_ /= times;
  }

  bool is_wide() const { return count_ > kMostNarrowCount; }
  std::string type() const {
    return concat(is_wide() ? "WideGeometry<" : "NarrowGeometry<", sizes_.size(), ", 1>");
  }
  uint64_t key() const { return sizes_.size() << 1 | is_wide(); }
  void put(Arguments& arguments) const {
    for (int64_t size : sizes_) {
      if (is_wide()) arguments.put(size);
      else arguments.put(Divisor(size));
    }
    for (int64_t stride : strides_) arguments.put(stride);
  }

 private:
  int64_t count_ = 1;
  DimVector sizes_, strides_;  // innermost first
};

// The unsigned type of an element's size, for kernels that only move bytes.
inline const char* item_type(DType dtype) {
  switch (itemsize(dtype)) {
    case 1:
      return "unsigned char";
    case 2:
      return "unsigned short";
    case 4:
      return "unsigned";
    default:
      return "uint64";
  }
}

}  // namespace tapegrad::cuda
