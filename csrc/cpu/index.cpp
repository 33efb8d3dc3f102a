// Reading and writing blocks at indexed places.
//
// The indexed tensor comes with its dimensions in the order [before, indexed, after], the index
// tensors as contiguous int64 of one common shape. So an index tuple names the start of a block (the
// dimensions after), once for each step of the dimensions before, and the other operand is contiguous
// with shape [before, tuples, after]. All of indexing reduces to walking (before, tuple) pairs and
// moving blocks. Tuples are turned into offsets tile by tile, in a buffer that stays in cache.
#include "spec/index.h"
#include "core/registry.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "cpu/index_kernels.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 16384;  // elements
constexpr int64_t kTile = 1024;    // index tuples

// A walk over some dimensions of a tensor, outermost first.
class Odometer {
 public:
  Odometer(const TensorImpl& x, size_t begin, size_t end) : count_(1) {
    for (size_t d = begin; d < end; ++d) {
      if (x.size(d) == 1) continue;
      count_ *= x.size(d);
      if (!sizes_.empty() && strides_.back() == x.stride(d) * x.size(d)) {
        sizes_.back() *= x.size(d);
        strides_.back() = x.stride(d);
      } else {
        sizes_.push_back(x.size(d));
        strides_.push_back(x.stride(d));
      }
    }
  }
  int64_t count() const { return count_; }
  bool is_dense() const { return sizes_.empty() || (sizes_.size() == 1 && strides_[0] == 1); }
  int64_t offset(int64_t step) const {
    int64_t offset = 0;
    for (size_t d = sizes_.size(); d-- > 0; step /= sizes_[d])
      offset += (d == 0 ? step : step % sizes_[d]) * strides_[d];
    return offset;
  }

 private:
  int64_t count_;
  DimVector sizes_, strides_;
};

struct IndexWalk {
  IndexWalk(const OpCall& call, const TensorImpl& x, size_t first_index, size_t first_dim)
      : x(x),
        item(static_cast<int64_t>(itemsize(x.dtype()))),
        data(static_cast<char*>(x.data())),
        rule(static_cast<IndexRule>(call.integer(1))),
        before(x, 0, static_cast<size_t>(call.integer(0))),
        after(x, static_cast<size_t>(call.integer(0)) + call.inputs.size() - first_index,
              static_cast<size_t>(x.dim())),
        tuples(call.in(first_index).numel()) {
    auto dim = static_cast<size_t>(call.integer(0));
    for (size_t i = first_index; i < call.inputs.size(); ++i, ++dim) {
      columns.push_back({call.in(i).data_as<int64_t>(), x.size(dim), x.stride(dim),
                         rule == IndexRule::Wrap ? x.size(dim) : 0});
      dims.push_back(call.integer(first_dim++));
    }
    if (!after.is_dense())
      for (int64_t i = 0; i < after.count(); ++i) places.push_back(after.offset(i));
    tile = std::clamp<int64_t>(kGrain / std::max<int64_t>(after.count(), 1), 1, kTile);
  }

  bool offsets(int64_t first, int64_t n, int64_t* out) const {
    return best_index_table().offsets(columns.data(), static_cast<int>(columns.size()), first, n,
                                      out);
  }
  bool in_range() const {
    bool good = true;
    for (const IndexColumn& column : columns)
      good &= best_index_table().in_range(column.data, tuples, column.size, column.wrap);
    return good;
  }
  [[noreturn]] void fail_out_of_range(const char* op) const;

  const TensorImpl& x;
  int64_t item;
  char* data;
  IndexRule rule;
  Odometer before, after;
  int64_t tuples;
  int64_t tile;
  std::vector<IndexColumn> columns;
  DimVector dims;               // as the user numbers them, for errors
  std::vector<int64_t> places;  // of a block's elements, where it is not dense
};

void IndexWalk::fail_out_of_range(const char* op) const {
  for (size_t c = 0; c < columns.size(); ++c) {
    const IndexColumn& column = columns[c];
    for (int64_t i = 0; i < tuples; ++i) {
      if (column.data[i] >= -column.wrap && column.data[i] < column.size) continue;
      auto text = concat(op, ": index ", column.data[i], " is out of bounds for dimension ",
                         dims[c], " with size ", column.size);
      if (rule == IndexRule::NoWrapRuntime) throw Error(text);
      throw IndexError(text);
    }
  }
  fail(op, ": index out of range");
}

// Tiles of tuples times steps of the dimensions before: the unit of work of reading.
template <class T>
bool read_units(const IndexWalk& walk, T* to, int64_t begin, int64_t end) {
  const IndexTable& table = best_index_table();
  int64_t steps = walk.before.count(), block = walk.after.count();
  const T* from = reinterpret_cast<const T*>(walk.data);
  int64_t offsets[kTile];
  int64_t first = -1, n = 0;
  for (int64_t unit = begin; unit < end; ++unit) {
    int64_t step = unit % steps, tuple = unit / steps * walk.tile;
    if (tuple != first) {
      first = tuple;
      n = std::min(walk.tile, walk.tuples - first);
      if (!walk.offsets(first, n, offsets)) return false;
    }
    const T* base = from + walk.before.offset(step);
    T* target = to + (step * walk.tuples + first) * block;
    if (block == 1) {
      table.gather[item_slot(sizeof(T))](base, offsets, n, target);
    } else if (walk.places.empty()) {
      for (int64_t i = 0; i < n; ++i)
        std::memcpy(target + i * block, base + offsets[i], block * sizeof(T));
    } else {
      for (int64_t i = 0; i < n; ++i)
        table.gather[item_slot(sizeof(T))](base + offsets[i], walk.places.data(), block,
                                           target + i * block);
    }
  }
  return true;
}

// Moves one block to its place.
template <class T>
struct SetBlock {
  static void one(T& place, T value) { place = value; }
  static void dense(T* place, const T* value, int64_t n) {
    std::memcpy(place, value, n * sizeof(T));
  }
};

template <class T>
struct AddBlock {
  static void one(T& place, T value) {
    if constexpr (std::is_integral_v<T> && sizeof(T) >= sizeof(int)) {
      using Unsigned = std::make_unsigned_t<T>;  // integers wrap around
      place = static_cast<T>(static_cast<Unsigned>(place) + static_cast<Unsigned>(value));
    } else {
      place = static_cast<T>(place + value);
    }
  }
  static void dense(T* place, const T* value, int64_t n) { add_elements(place, value, n); }
};

// Part of the work of writing: steps [step_begin, step_end) of the dimensions before, elements
// [begin, end) of every block. Within a part tuples come in order, so that equal ones accumulate in
// the same order however the work is cut.
struct Part {
  int64_t step_begin, step_end, begin, end;
};

template <class Block, class T>
void write_part(const IndexWalk& walk, const T* values, bool constant, Part part) {
  T* to = reinterpret_cast<T*>(walk.data);
  int64_t block = walk.after.count(), length = part.end - part.begin;
  const int64_t* places = walk.places.empty() ? nullptr : walk.places.data() + part.begin;
  std::unique_ptr<T[]> constant_block;  // copying a block is faster than filling it
  if (constant && !places) {
    constant_block = std::make_unique<T[]>(length);
    std::fill_n(constant_block.get(), length, *values);
  }
  int64_t offsets[kTile];
  for (int64_t first = 0; first < walk.tuples; first += walk.tile) {
    int64_t n = std::min(walk.tile, walk.tuples - first);
    walk.offsets(first, n, offsets);
    for (int64_t step = part.step_begin; step < part.step_end; ++step) {
      T* base = to + walk.before.offset(step);
      const T* value = values + (step * walk.tuples + first) * block + part.begin;
      for (int64_t i = 0; i < n; ++i) {
        T* target = base + offsets[i];
        if (block == 1) {
          Block::one(*target, constant ? *values : value[i]);
        } else if (constant) {
          if (!places) Block::dense(target + part.begin, constant_block.get(), length);
          else
            for (int64_t j = 0; j < length; ++j) target[places[j]] = *values;
        } else if (!places) {
          Block::dense(target + part.begin, value + i * block, length);
        } else {
          for (int64_t j = 0; j < length; ++j) Block::one(target[places[j]], value[i * block + j]);
        }
      }
    }
  }
}

template <class Block, class T>
void write_all(const IndexWalk& walk, const T* values, bool constant) {
  int64_t steps = walk.before.count(), block = walk.after.count();
  int64_t numel = steps * block * walk.tuples;
  if (numel <= kGrain) return write_part<Block>(walk, values, constant, {0, steps, 0, block});
  BlockingSection blocking;
  if (steps >= block)
    parallel_for(0, steps, std::max<int64_t>(1, kGrain / (block * walk.tuples)),
                 [&](int64_t begin, int64_t end) {
      write_part<Block>(walk, values, constant, {begin, end, 0, block});
    });
  else
    parallel_for(0, block, std::max<int64_t>(32, kGrain / (steps * walk.tuples)),
                 [&](int64_t begin, int64_t end) {
      write_part<Block>(walk, values, constant, {0, steps, begin, end});
    });
}

// Inputs: the indexed tensor, the index tensors. Attributes: how many dimensions come before, the
// IndexRule, then the user's number of each indexed dimension.
void index(const OpCall& call) {
  const TensorImpl& out = call.out();
  IndexWalk walk(call, call.in(0), 1, 2);
  if (out.numel() == 0) {
    if (!walk.in_range()) walk.fail_out_of_range(call.op.name);
    return;
  }
  int64_t units = (walk.tuples + walk.tile - 1) / walk.tile * walk.before.count();
  std::atomic<bool> good = true;
  visit_itemsize(out.dtype(), [&](auto type) {
    using T = decltype(type);
    auto range = [&](int64_t begin, int64_t end) {
      if (!read_units<T>(walk, out.data_as<T>(), begin, end)) good = false;
    };
    if (out.numel() <= kGrain) return range(0, units);
    BlockingSection blocking;
    int64_t unit_numel = std::min(walk.tile, walk.tuples) * walk.after.count();
    parallel_for(0, units, std::max<int64_t>(1, kGrain / unit_numel), range);
  });
  if (!good) walk.fail_out_of_range(call.op.name);
}

// Inputs: the indexed tensor, which is also the output, the values (one element stands for all),
// the index tensors. Attributes: dimensions before, IndexRule, whether to accumulate, the dimensions.
void index_put(const OpCall& call) {
  const TensorImpl& values = call.in(1);
  IndexWalk walk(call, call.out(), 2, 3);
  bool accumulate = call.attributes[2].as_bool();
  if (!walk.in_range()) walk.fail_out_of_range(call.op.name);
  int64_t numel = walk.before.count() * walk.tuples * walk.after.count();
  if (numel == 0) return;
  bool constant = values.numel() == 1 && numel > 1 && !accumulate;
  if (accumulate) {
    visit_any_dtype(call.op.name, values.dtype(), [&](auto type) {
      using T = decltype(type);
      write_all<AddBlock<T>>(walk, values.data_as<T>(), constant);
    });
  } else {
    visit_itemsize(values.dtype(), [&](auto type) {
      using T = decltype(type);
      write_all<SetBlock<T>>(walk, values.data_as<T>(), constant);
    });
  }
}

const KernelList<DeviceType::CPU> kKernels = {
    {"index", index},          {"index_select", index},    {"index_put_", index_put},
    {"index_add_", index_put}, {"index_copy_", index_put}, {"index_fill_", index_put},
};

}  // namespace

}  // namespace tapegrad::cpu
