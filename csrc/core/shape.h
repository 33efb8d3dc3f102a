// Sizes, strides and the arithmetic on them: broadcasting, dimension wrapping, contiguity.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

namespace tapegrad {

using Sizes = std::span<const int64_t>;

inline constexpr int kMaxRank = 64;

// A short vector of dimensions: six inline, more on the heap.
class DimVector {
 public:
  DimVector() = default;
  explicit DimVector(size_t count, int64_t value = 0) {
    resize(count);
    std::fill(begin(), end(), value);
  }
  DimVector(std::initializer_list<int64_t> values) { assign(values.begin(), values.size()); }
  DimVector(Sizes values) { assign(values.data(), values.size()); }
  DimVector(const DimVector& other) { assign(other.data(), other.size()); }
  DimVector(DimVector&& other) noexcept { take(other); }
  DimVector& operator=(const DimVector& other) {
    if (this != &other) assign(other.data(), other.size());
    return *this;
  }
  DimVector& operator=(DimVector&& other) noexcept {
    if (this == &other) return *this;
    if (heap_) delete[] heap_;
    take(other);
    return *this;
  }
  ~DimVector() {
    if (heap_) delete[] heap_;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t* data() { return heap_ ? heap_ : inline_; }
  const int64_t* data() const { return heap_ ? heap_ : inline_; }
  int64_t& operator[](size_t i) { return data()[i]; }
  int64_t operator[](size_t i) const { return data()[i]; }
  int64_t& back() { return data()[size_ - 1]; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + size_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  operator Sizes() const { return {data(), size_}; }

  void resize(size_t count) {
    if (count > capacity_) [[unlikely]]
      grow(count);
    size_ = count;
  }
  void push_back(int64_t value) {
    resize(size_ + 1);
    back() = value;
  }
  void insert(size_t position, int64_t value) {
    push_back(value);
    std::rotate(begin() + position, end() - 1, end());
  }
  void erase(size_t position) {
    std::copy(begin() + position + 1, end(), begin() + position);
    --size_;
  }
  void clear() { size_ = 0; }

  friend bool operator==(const DimVector& a, const DimVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  static constexpr size_t kInline = 6;

  void assign(const int64_t* values, size_t count) {
    resize(count);
    std::copy(values, values + count, data());
  }
  // Takes what the other one has, which is empty then.
  void take(DimVector& other) noexcept {
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, kInline);
    heap_ = std::exchange(other.heap_, nullptr);
    if (!heap_) std::copy_n(other.inline_, size_, inline_);
  }
  void grow(size_t count);

  size_t size_ = 0;
  size_t capacity_ = kInline;
  int64_t* heap_ = nullptr;
  int64_t inline_[kInline];
};

// A loop: std::equal calls memcmp, which takes longer than comparing the few sizes that a tensor has.
inline bool same_sizes(Sizes a, Sizes b) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d)
    if (a[d] != b[d]) return false;
  return true;
}

// "[2, 3]", as PyTorch prints sizes in errors.
std::string to_string(Sizes sizes);

// Product of the sizes. Refuses negative sizes and products beyond int64, naming the op.
int64_t checked_numel(const char* op, Sizes sizes);

// A product of sizes that nobody uses if it is too large: some other size is zero then.
inline int64_t wrapping_product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
DimVector contiguous_strides(Sizes sizes);
bool is_contiguous(Sizes sizes, Sizes strides);

// A dimension given by the user: negative counts from the end. IndexError names the valid range.
// A 0-d tensor accepts 0 and -1.
int64_t wrap_dim(const char* op, int64_t dim, int64_t rank);
// All of them, refusing repeats.
DimVector wrap_dims(const char* op, Sizes dims, int64_t rank);

DimVector broadcast_sizes(const char* op, Sizes a, Sizes b);
bool can_expand(Sizes from, Sizes to);
// Strides that read a tensor of `sizes` as if it had shape `to` (0 where broadcast).
DimVector expand_strides(Sizes sizes, Sizes strides, Sizes to);

// Fills in a -1 of a reshape. RuntimeError when the counts do not fit.
DimVector infer_sizes(const char* op, Sizes requested, int64_t numel);
// Strides that view (sizes, strides) as `to` without copying; false if there are none.
bool view_strides(Sizes sizes, Sizes strides, Sizes to, DimVector& out);

}  // namespace tapegrad
