#include "core/shape.h"

#include "core/error.h"

namespace tapegrad {

void DimVector::grow(size_t count) {
  size_t capacity = std::max(count, capacity_ * 2);
  int64_t* heap = new int64_t[capacity];
  std::copy(begin(), end(), heap);
  if (heap_) delete[] heap_;
  heap_ = heap;
  capacity_ = capacity;
}

std::string to_string(Sizes sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i) text += ", ";
    text += std::to_string(sizes[i]);
  }
  return text + "]";
}

int64_t checked_numel(const char* op, Sizes sizes) {
  TAPEGRAD_CHECK(sizes.size() <= kMaxRank, op, ": at most ", kMaxRank,
                 " dimensions are supported, got ", sizes.size());
  int64_t numel = 1;
  bool empty = false;
  bool overflow = false;
  for (int64_t size : sizes) {
    TAPEGRAD_CHECK(size >= 0, op, ": Trying to create tensor with negative dimension ", size, ": ",
                   to_string(sizes));
    if (size == 0) empty = true;
    else overflow |= __builtin_mul_overflow(numel, size, &numel);
  }
  TAPEGRAD_CHECK(!overflow && numel <= (int64_t{1} << 58), op, ": a tensor of sizes ",
                 to_string(sizes), " has more elements than can be addressed");
  return empty ? 0 : numel;
}

DimVector contiguous_strides(Sizes sizes) {
  DimVector strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride = wrapping_product(stride, std::max<int64_t>(sizes[i], 1));
  }
  return strides;
}

bool is_contiguous(Sizes sizes, Sizes strides) {
  int64_t expected = 1;
  bool contiguous = true;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    contiguous &= strides[i] == expected;
    expected = wrapping_product(expected, sizes[i]);
  }
  return contiguous;
}

int64_t wrap_dim(const char* op, int64_t dim, int64_t rank) {
  int64_t limit = std::max<int64_t>(rank, 1);
  TAPEGRAD_CHECK_AS(IndexError, dim >= -limit && dim < limit, op,
                    ": Dimension out of range (expected to be in range of [", -limit, ", ",
                    limit - 1, "], but got ", dim, ")");
  return dim < 0 ? dim + limit : dim;
}

DimVector wrap_dims(const char* op, Sizes dims, int64_t rank) {
  DimVector wrapped;
  uint64_t seen = 0;
  for (int64_t dim : dims) {
    int64_t d = wrap_dim(op, dim, rank);
    TAPEGRAD_CHECK(!(seen >> d & 1), op, ": dim ", d,
                   " appears multiple times in the list of dims");
    seen |= uint64_t{1} << d;
    wrapped.push_back(d);
  }
  return wrapped;
}

DimVector broadcast_sizes(const char* op, Sizes a, Sizes b) {
  if (a.size() < b.size()) std::swap(a, b);
  DimVector out(a);
  size_t lead = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t& size = out[lead + i];
    if (size == b[i] || b[i] == 1) continue;
    TAPEGRAD_CHECK(size == 1, op, ": The size of tensor a (", a[lead + i],
                   ") must match the size of tensor b (", b[i], ") at non-singleton dimension ",
                   lead + i, "; the shapes are ", to_string(a), " and ", to_string(b));
    size = b[i];
  }
  return out;
}

bool can_expand(Sizes from, Sizes to) {
  if (from.size() > to.size()) return false;
  size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != to[lead + i] && from[i] != 1) return false;
  return true;
}

DimVector expand_strides(Sizes sizes, Sizes strides, Sizes to) {
  DimVector out(to.size(), 0);
  size_t lead = to.size() - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i)
    out[lead + i] = sizes[i] == 1 && to[lead + i] != 1 ? 0 : strides[i];
  return out;
}

DimVector infer_sizes(const char* op, Sizes requested, int64_t numel) {
  DimVector sizes(requested);
  int64_t known = 1;
  int inferred = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      TAPEGRAD_CHECK(inferred < 0, op, ": only one dimension can be inferred, got ",
                     to_string(requested));
      inferred = static_cast<int>(i);
      continue;
    }
    TAPEGRAD_CHECK(sizes[i] >= 0, op, ": invalid shape dimension ", sizes[i], " in ",
                   to_string(requested));
    TAPEGRAD_CHECK(!__builtin_mul_overflow(known, sizes[i], &known), op, ": shape ",
                   to_string(requested), " is invalid for input of size ", numel);
  }
  if (inferred >= 0) {
    TAPEGRAD_CHECK(known != 0, op, ": cannot reshape tensor of ", numel, " elements into shape ",
                   to_string(requested),
                   " because the unspecified dimension size -1 can be any value and is ambiguous");
    TAPEGRAD_CHECK(numel % known == 0, op, ": shape '", to_string(requested),
                   "' is invalid for input of size ", numel);
    sizes[inferred] = numel / known;
    return sizes;
  }
  TAPEGRAD_CHECK(known == numel, op, ": shape '", to_string(requested),
                 "' is invalid for input of size ", numel);
  return sizes;
}

// Those of a fresh tensor, also where a size is one and nobody steps along it; or no elements at all.
static bool has_usual_strides(Sizes sizes, Sizes strides) {
  int64_t expected = 1;
  bool usual = true, empty = false;
  for (size_t i = sizes.size(); i-- > 0;) {
    usual &= strides[i] == expected;
    empty |= sizes[i] == 0;
    expected = wrapping_product(expected, std::max<int64_t>(sizes[i], 1));
  }
  return usual || empty;
}

bool view_strides(Sizes sizes, Sizes strides, Sizes to, DimVector& out) {
  out = contiguous_strides(to);
  if (has_usual_strides(sizes, strides)) return true;
  // Walk both shapes from the back. A maximal run of source dimensions that is contiguous in
  // itself can be cut up freely; a target dimension must not straddle two runs.
  int64_t target = static_cast<int64_t>(to.size()) - 1;
  int64_t run_numel = 1;
  int64_t run_stride = strides.empty() ? 1 : strides.back();
  int64_t view_numel = 1;
  for (int64_t dim = static_cast<int64_t>(sizes.size()) - 1; dim >= 0; --dim) {
    run_numel *= sizes[dim];
    bool run_ends = dim == 0 || (sizes[dim - 1] != 1 && strides[dim - 1] != run_numel * run_stride);
    if (!run_ends) continue;
    while (target >= 0 && (view_numel < run_numel || to[target] == 1)) {
      out[target] = view_numel * run_stride;
      view_numel *= to[target];
      --target;
    }
    if (view_numel != run_numel) return false;
    if (dim > 0) {
      run_stride = strides[dim - 1];
      run_numel = 1;
      view_numel = 1;
    }
  }
  return target < 0;
}

}  // namespace tapegrad
