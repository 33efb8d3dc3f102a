// Gather and scatter: every element of the index tensor names a place in a line along one dimension.
//
// Three tensors are walked in step over the index's shape: the lined one (its stride along `dim` is
// left to the index), the index, and the other (what is gathered into, or scattered from). The
// innermost loop runs along the last dimension with more than one element, so that
//   lined[base + index[i] * stride + i * step]
// covers every case: gathering along rows (step 0), along columns (step 1), one element per row.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/index_kernels.h"
#include "spec/index.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 16384;
constexpr int64_t kTile = 1024;
constexpr int64_t kNearBytes = int64_t{16} << 10;  // a line that stays in the first-level cache

// Limits one dimension of the walk: how the work is cut for the threads.
struct Cut {
  size_t dim;
  int64_t begin, end;
};

class LineWalk {
 public:
  LineWalk(const TensorImpl& lined, const TensorImpl& index, const TensorImpl& other, size_t dim)
      : size(lined.size(dim)), stride(lined.stride(dim)), dim_(dim) {
    for (size_t d = 0; d < static_cast<size_t>(index.dim()); ++d) {
      if (index.size(d) == 1) continue;
      if (d == dim) line_ = rank_;
      sizes_.push_back(index.size(d));
      lined_.push_back(d == dim ? 0 : lined.stride(d));
      index_.push_back(index.stride(d));
      other_.push_back(other.stride(d));
      ++rank_;
    }
    if (rank_ > 0) return;
    rank_ = 1;  // a single element
    for (DimVector* vector : {&sizes_, &lined_, &index_, &other_}) vector->push_back(1);
    line_ = 0;
    lined_[0] = 0;
  }

  int64_t numel() const {
    int64_t numel = 1;
    for (int64_t n : sizes_) numel *= n;
    return numel;
  }
  Cut whole() const { return {0, 0, sizes_[0]}; }
  // The longest dimension; without `with_line` not the one along which places may coincide.
  // Nothing to cut along: size 0.
  Cut longest(bool with_line) const {
    Cut best{0, 0, 0};
    for (size_t d = 0; d < rank_; ++d)
      if ((with_line || d != line_) && sizes_[d] > best.end) best = {d, 0, sizes_[d]};
    return best;
  }

  // visit(lined offset, index offset, other offset, length): one innermost run.
  template <class Visit>
  void for_each_run(Cut cut, Visit&& visit) const {
    DimVector begin(rank_, 0), end(sizes_);
    begin[cut.dim] = cut.begin;
    end[cut.dim] = cut.end;
    DimVector at(begin);
    size_t last = rank_ - 1;
    while (true) {
      int64_t lined = 0, index = 0, other = 0;
      for (size_t d = 0; d < rank_; ++d) {
        lined += at[d] * lined_[d];
        index += at[d] * index_[d];
        other += at[d] * other_[d];
      }
      visit(lined, index, other, end[last] - begin[last]);
      size_t d = last;
      while (d-- > 0) {
        if (++at[d] < end[d]) break;
        at[d] = begin[d];
      }
      if (d == static_cast<size_t>(-1)) return;
    }
  }

  int64_t step() const { return lined_[rank_ - 1]; }
  int64_t index_step() const { return index_[rank_ - 1]; }
  int64_t other_step() const { return other_[rank_ - 1]; }

  int64_t size;    // of the line
  int64_t stride;  // between neighbours in it

  [[noreturn]] void fail_out_of_range(const char* op, const int64_t* index) const {
    int64_t culprit = 0;
    for_each_run(whole(), [&](int64_t, int64_t first, int64_t, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        int64_t value = index[first + i * index_step()];
        if (value < 0 || value >= size) culprit = value;
      }
    });
    fail(op, ": index ", culprit, " is out of bounds for dimension ", dim_, " with size ", size);
  }

 private:
  size_t dim_;
  size_t rank_ = 0;
  size_t line_ = static_cast<size_t>(-1);
  DimVector sizes_, lined_, index_, other_;
};

// Calls visit(indices, first, n) for pieces of a run, as contiguous indices.
template <class Visit>
void for_each_tile(const int64_t* index, int64_t step, int64_t length, Visit&& visit) {
  if (step == 1) return visit(index, 0, length);
  int64_t tile[kTile];
  for (int64_t first = 0; first < length; first += kTile) {
    int64_t n = std::min(kTile, length - first);
    for (int64_t i = 0; i < n; ++i) tile[i] = index[(first + i) * step];
    visit(tile, first, n);
  }
}

template <class T>
bool gather_cut(const LineWalk& walk, const T* from, const int64_t* index, T* to, Cut cut) {
  const IndexTable& table = best_index_table();
  bool good = true;
  auto run = [&](int64_t lined, int64_t first_index, int64_t other, int64_t length) {
    const T* base = from + lined;
    const int64_t* indices = index + first_index;
    if (walk.index_step() == 0 && walk.step() == 1) {
      // An index expanded along the run: whole slices are meant.
      if (!(good &= *indices >= 0 && *indices < walk.size)) return;
      return static_cast<void>(
          std::memcpy(to + other, base + *indices * walk.stride, length * sizeof(T)));
    }
    for_each_tile(indices, walk.index_step(), length,
                  [&](const int64_t* tile, int64_t first, int64_t n) {
      for (int64_t i = 0; i < n; i += kTile) {  // check and read while the indices are in cache
        int64_t count = std::min(kTile, n - i);
        if (!(good &= table.in_range(tile + i, count, walk.size, 0))) return;
        table.gather_run[item_slot(sizeof(T))](base + (first + i) * walk.step(), tile + i, count,
                                               walk.stride, walk.step(), to + other + first + i);
      }
    });
  };
  walk.for_each_run(cut, run);
  return good;
}

bool all_in_range(const LineWalk& walk, const int64_t* index, Cut cut) {
  bool good = true;
  walk.for_each_run(cut, [&](int64_t, int64_t first, int64_t, int64_t length) {
    if (walk.index_step() == 0) length = 1;
    for_each_tile(index + first, walk.index_step(), length,
                  [&](const int64_t* tile, int64_t, int64_t n) {
      good &= best_index_table().in_range(tile, n, walk.size, 0);
    });
  });
  return good;
}

template <ScatterMode kMode, class T>
[[gnu::always_inline]] inline void meet(T& place, T value) {
  if constexpr (kMode == ScatterMode::Set) place = value;
  else if constexpr (kMode == ScatterMode::Maximum)
    place = value > place || value != value ? value : place;
  else if constexpr (kMode == ScatterMode::Minimum)
    place = value < place || value != value ? value : place;
  else if constexpr (std::is_integral_v<T> && sizeof(T) >= sizeof(int)) {
    using Unsigned = std::make_unsigned_t<T>;  // integers wrap around
    auto a = static_cast<Unsigned>(place), b = static_cast<Unsigned>(value);
    place = static_cast<T>(kMode == ScatterMode::Add ? a + b : a * b);
  } else place = static_cast<T>(kMode == ScatterMode::Add ? place + value : place * value);
}

// Places are random, so what a later turn of the loop needs is fetched ahead, unless it is near.
template <ScatterMode kMode, class T>
[[gnu::always_inline]] inline void scatter_dense_run(T* base, const int64_t* index, const T* source,
                                                     int64_t n, int64_t stride, int64_t step,
                                                     bool near) {
  constexpr int64_t kAhead = 16;
  int64_t i = 0;
  for (; !near && i + kAhead < n; ++i) {
    __builtin_prefetch(base + index[i + kAhead] * stride + (i + kAhead) * step, 1);
    meet<kMode>(base[index[i] * stride + i * step], source[i]);
  }
  for (; i < n; ++i) meet<kMode>(base[index[i] * stride + i * step], source[i]);
}

template <ScatterMode kMode, class T>
void scatter_cut(const LineWalk& walk, T* to, const int64_t* index, const T* from, Cut cut) {
  int64_t index_step = walk.index_step(), step = walk.step(), other_step = walk.other_step();
  walk.for_each_run(cut, [&](int64_t lined, int64_t first, int64_t other, int64_t length) {
    T* base = to + lined;
    const int64_t* indices = index + first;
    const T* source = from + other;
    if (kMode == ScatterMode::Add && index_step == 0 && step == 1 && other_step == 1)
      return add_elements(base + *indices * walk.stride, source, length);
    if (index_step == 1 && other_step == 1) {
      if (step == 0 && walk.stride == 1) {
        bool near = walk.size * int64_t{sizeof(T)} <= kNearBytes;
        return scatter_dense_run<kMode>(base, indices, source, length, 1, 0, near);
      }
      return scatter_dense_run<kMode>(base, indices, source, length, walk.stride, step, false);
    }
    for (int64_t i = 0; i < length; ++i)
      meet<kMode>(base[indices[i * index_step] * walk.stride + i * step], source[i * other_step]);
  });
}

// Cuts the work along the longest dimension that allows it.
template <class Body>
void in_cuts(const LineWalk& walk, bool with_line, Body&& body) {
  int64_t numel = walk.numel();
  Cut cut = walk.longest(with_line);
  if (numel <= kGrain) return body(walk.whole());
  BlockingSection blocking;
  if (cut.end == 0) return body(walk.whole());
  int64_t grain = std::max<int64_t>(1, kGrain / (numel / cut.end));
  parallel_for(0, cut.end, grain,
               [&](int64_t begin, int64_t end) { body(Cut{cut.dim, begin, end}); });
}

template <class T, class Body>
void visit_mode(ScatterMode mode, Body&& body) {
  switch (mode) {
    case ScatterMode::Set:
      return body.template operator()<ScatterMode::Set>();
    case ScatterMode::Add:
      return body.template operator()<ScatterMode::Add>();
    case ScatterMode::Multiply:
      return body.template operator()<ScatterMode::Multiply>();
    default:
      break;
  }
  if constexpr (is_complex_type<T>) fail_unsupported_dtype("scatter_reduce", dtype_of<T>);
  else if (mode == ScatterMode::Maximum) return body.template operator()<ScatterMode::Maximum>();
  else return body.template operator()<ScatterMode::Minimum>();
}

// Inputs: the tensor, the int64 index. Attribute: the dimension. No operand is 0-d.
void gather(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  const TensorImpl& index = call.in(1);
  const TensorImpl& out = call.out();
  if (out.numel() == 0) return;
  LineWalk walk(x, index, out, static_cast<size_t>(call.integer(0)));
  std::atomic<bool> good = true;
  visit_itemsize(out.dtype(), [&](auto type) {
    using T = decltype(type);
    in_cuts(walk, true, [&](Cut cut) {
      if (!gather_cut<T>(walk, x.data_as<T>(), index.data_as<int64_t>(), out.data_as<T>(), cut))
        good = false;
    });
  });
  if (!good) walk.fail_out_of_range(call.op.name, index.data_as<int64_t>());
}

// Inputs: the tensor, which is also the output, the int64 index, the source in the index's shape.
// Attributes: the dimension, the ScatterMode. Equal places meet in the order of the index.
void scatter(const OpCall& call) {
  const TensorImpl& out = call.out();
  const TensorImpl& index = call.in(1);
  const TensorImpl& source = call.in(2);
  if (index.numel() == 0) return;
  LineWalk walk(out, index, source, static_cast<size_t>(call.integer(0)));
  auto* places = index.data_as<int64_t>();
  std::atomic<bool> good = true;
  in_cuts(walk, true, [&](Cut cut) {
    if (!all_in_range(walk, places, cut)) good = false;
  });
  if (!good) walk.fail_out_of_range(call.op.name, places);
  auto mode = static_cast<ScatterMode>(call.integer(1));
  visit_any_dtype(call.op.name, out.dtype(), [&](auto type) {
    using T = decltype(type);
    visit_mode<T>(mode, [&]<ScatterMode kMode>() {
      in_cuts(walk, false, [&](Cut cut) {
        scatter_cut<kMode>(walk, out.data_as<T>(), places, source.data_as<T>(), cut);
      });
    });
  });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"gather", gather},
    {"scatter", scatter},
};

}  // namespace

}  // namespace tapegrad::cpu
