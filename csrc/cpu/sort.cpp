// Sorting rows: sort, topk, kth value, mode.
//
// Elements become entries (key, position), where the key is an unsigned integer in the wanted order
// (sort_kernels.h). Long rows are sorted by radix, least digit first: stable, linear, and with
// the same result for any number of threads. Short rows are sorted by comparing whole entries, which
// is stable because positions differ. Values are read back through the positions, so that what
// a key does not tell apart (the two zeros, NaNs) comes back unchanged.
#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/allocator.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/sort_kernels.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kShortRow = 96;  // below, comparing beats the radix passes' fixed cost
constexpr int64_t kGrain = 8192;   // elements for which a second thread pays
constexpr int64_t kParallelRow = 65536;
constexpr int64_t kChunk = 512;
constexpr int kBuckets = 256;

// Keys of up to four bytes make entries that compare as one integer.
template <class Key>
struct Entry {
  static constexpr bool kPacked = sizeof(Key) <= 4 && std::endian::native == std::endian::little;
  uint32_t position;
  std::conditional_t<sizeof(Key) <= 4, uint32_t, uint64_t> key;
  friend bool operator<(const Entry& a, const Entry& b) {
    if constexpr (kPacked) return std::bit_cast<uint64_t>(a) < std::bit_cast<uint64_t>(b);
    else return a.key < b.key || (a.key == b.key && a.position < b.position);
  }
};

// Scratch memory from the allocator, which keeps pages; to be made and dropped outside blocking
// sections. Not cleared: every entry is written before it is read.
template <class Key>
class Entries {
 public:
  explicit Entries(int64_t n)
      : nbytes_(static_cast<size_t>(n) * sizeof(Entry<Key>)),
        data_(static_cast<Entry<Key>*>(allocate(nbytes_))) {}
  ~Entries() { deallocate(data_, nbytes_); }
  Entries(const Entries&) = delete;
  Entries& operator=(const Entries&) = delete;
  Entry<Key>* get() const { return data_; }

 private:
  size_t nbytes_;
  Entry<Key>* data_;
};

struct RowKeys {
  MakeKeys make;
  int64_t item;
  bool descending;

  template <class Key>
  Key fill(const char* row, int64_t first, int64_t n, Key* keys) const {
    return static_cast<Key>(make(row + first * item, n, descending, keys));
  }
};

template <class Key>
void fill_entries(const RowKeys& source, const char* row, int64_t begin, int64_t end,
                  Entry<Key>* entries) {
  Key keys[kChunk];
  for (int64_t first = begin; first < end; first += kChunk) {
    int64_t n = std::min(kChunk, end - first);
    source.fill(row, first, n, keys);
    for (int64_t i = 0; i < n; ++i)
      entries[first + i] = {static_cast<uint32_t>(first + i), keys[i]};
  }
}

// One stable pass by an eight-bit digit. Every block counts its digits, the counts in the order
// (digit, block) add up to where each block writes each digit, and the blocks write side by side.
template <class Key>
bool radix_pass(const Entry<Key>* from, Entry<Key>* to, int64_t n, int shift, int64_t blocks) {
  std::vector<int64_t> starts(blocks * kBuckets, 0);
  auto block_range = [&](int64_t b) { return std::pair(b * n / blocks, (b + 1) * n / blocks); };
  parallel_for(0, blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      auto [begin, end] = block_range(b);
      uint32_t counts[kBuckets] = {};
      for (int64_t i = begin; i < end; ++i) ++counts[(from[i].key >> shift) & (kBuckets - 1)];
      std::copy_n(counts, kBuckets, starts.begin() + b * kBuckets);
    }
  });
  int64_t next = 0;
  for (int digit = 0; digit < kBuckets; ++digit) {
    int64_t before = next;
    for (int64_t b = 0; b < blocks; ++b) {
      int64_t count = starts[b * kBuckets + digit];
      starts[b * kBuckets + digit] = next;
      next += count;
    }
    if (next - before == n) return false;  // all have the same digit: nothing to do
  }
  parallel_for(0, blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      auto [begin, end] = block_range(b);
      int64_t* place = starts.data() + b * kBuckets;
      for (int64_t i = begin; i < end; ++i)
        to[place[(from[i].key >> shift) & (kBuckets - 1)]++] = from[i];
    }
  });
  return true;
}

// Sorts entries; `scratch` holds as many. Returns where the result lies.
template <class Key>
const Entry<Key>* sort_entries(Entry<Key>* entries, Entry<Key>* scratch, int64_t n,
                               int64_t blocks) {
  if (n <= kShortRow) {
    std::sort(entries, entries + n);
    return entries;
  }
  for (int shift = 0; shift < static_cast<int>(8 * sizeof(Key)); shift += 8)
    if (radix_pass(entries, scratch, n, shift, blocks)) std::swap(entries, scratch);
  return entries;
}

template <class Key>
void write_entries(const Entry<Key>* entries, int64_t begin, int64_t end, const char* row,
                   Key* values, int64_t* indices) {
  auto* from = reinterpret_cast<const Key*>(row);
  for (int64_t i = begin; i < end; ++i) {
    values[i] = from[entries[i].position];
    indices[i] = entries[i].position;
  }
}

// What the kernels of this file have in common: contiguous input and outputs, rows along the last
// dimension, which in the outputs may be shorter.
struct Rows {
  Rows(const OpCall& call, bool descending) {
    const TensorImpl& x = call.in(0);
    length = x.size(static_cast<size_t>(x.dim()) - 1);
    count = length > 0 ? x.numel() / length : 0;
    TAPEGRAD_CHECK(length <= std::numeric_limits<uint32_t>::max(), call.op.name,
                   ": rows of more than 2^32 elements are not supported");
    data = static_cast<const char*>(x.data());
    keys = {best_sort_table().keys[static_cast<int>(x.dtype())],
            static_cast<int64_t>(itemsize(x.dtype())), descending};
    values = static_cast<char*>(call.out(0).data());
    indices = call.out(1).data_as<int64_t>();
    out_length = count > 0 ? call.out(0).numel() / count : 0;
  }
  const char* row(int64_t r) const { return data + r * length * keys.item; }
  template <class Key>
  Key* values_of(int64_t r) const {
    return reinterpret_cast<Key*>(values) + r * out_length;
  }
  int64_t* indices_of(int64_t r) const { return indices + r * out_length; }

  int64_t count, length, out_length;
  const char* data;
  RowKeys keys;
  char* values;
  int64_t* indices;
};

// One row after the other, each on all cores.
template <class Key>
void sort_long_rows(const Rows& rows) {
  int64_t n = rows.length, blocks = num_threads();
  Entries<Key> entries(n), scratch(n);
  BlockingSection blocking;
  for (int64_t r = 0; r < rows.count; ++r) {
    parallel_for(0, n, kParallelRow / 2, [&](int64_t begin, int64_t end) {
      fill_entries<Key>(rows.keys, rows.row(r), begin, end, entries.get());
    });
    const Entry<Key>* sorted = sort_entries<Key>(entries.get(), scratch.get(), n, blocks);
    parallel_for(0, n, kParallelRow / 2, [&](int64_t begin, int64_t end) {
      write_entries(sorted, begin, end, rows.row(r), rows.values_of<Key>(r), rows.indices_of(r));
    });
  }
}

template <class Key>
void sort_rows_of(const Rows& rows, int64_t first, int64_t last, Entry<Key>* scratch) {
  int64_t n = rows.length;
  for (int64_t r = first; r < last; ++r) {
    fill_entries<Key>(rows.keys, rows.row(r), 0, n, scratch);
    const Entry<Key>* sorted = sort_entries<Key>(scratch, scratch + n, n, 1);
    write_entries(sorted, 0, n, rows.row(r), rows.values_of<Key>(r), rows.indices_of(r));
  }
}

// Keeps the k smallest of a stream of keys. Most of a long stream never gets past the comparison with
// the largest key kept so far.
template <class Key>
class Smallest {
 public:
  // As many entries of scratch as capacity(k).
  Smallest(int64_t k, Entry<Key>* scratch) : k_(k), entries_(scratch) {}
  static int64_t capacity(int64_t k) { return k + std::max<int64_t>(k, 64); }

  void clear() {
    size_ = 0;
    full_ = false;
  }
  // Whether a key could matter.
  bool wants(Key key) const { return !full_ || key < limit_; }
  // Keys of positions first, first + 1, ...
  void add(const Key* keys, int64_t n, int64_t first) {
    int64_t i = 0;
    for (; i < n && !full_; ++i) push(keys[i], first + i);
    // Without a branch on the comparison, which nobody could predict.
    uint32_t candidates[kChunk];
    int64_t count = 0;
    Key limit = limit_;
    for (; i < n; ++i) {
      candidates[count] = static_cast<uint32_t>(i);
      count += keys[i] < limit;
    }
    for (int64_t c = 0; c < count; ++c)
      if (keys[candidates[c]] < limit_) push(keys[candidates[c]], first + candidates[c]);
  }
  // The entries kept, sorted if asked for.
  const Entry<Key>* finish(bool sorted) {
    shrink();
    if (sorted) std::sort(entries_, entries_ + k_);
    return entries_;
  }

 private:
  void push(Key key, int64_t position) {
    entries_[size_++] = {static_cast<uint32_t>(position), key};
    if (size_ == capacity(k_)) shrink();
  }
  void shrink() {
    if (size_ > k_) std::nth_element(entries_, entries_ + k_ - 1, entries_ + size_);
    size_ = k_;
    full_ = true;
    limit_ = static_cast<Key>(entries_[k_ - 1].key);  // the largest kept is the k-th
  }

  int64_t k_, size_ = 0;
  Entry<Key>* entries_;
  Key limit_ = 0;
  bool full_ = false;
};

template <class Key>
void topk_rows(const Rows& rows, bool sorted, int64_t first, int64_t last, Entry<Key>* scratch) {
  int64_t k = rows.out_length;
  Smallest<Key> smallest(k, scratch);
  Key keys[kChunk];
  for (int64_t r = first; r < last; ++r) {
    const char* row = rows.row(r);
    smallest.clear();
    for (int64_t begin = 0; begin < rows.length; begin += kChunk) {
      int64_t n = std::min(kChunk, rows.length - begin);
      if (smallest.wants(rows.keys.fill(row, begin, n, keys))) smallest.add(keys, n, begin);
    }
    write_entries(smallest.finish(sorted), 0, k, row, rows.values_of<Key>(r), rows.indices_of(r));
  }
}

template <class Key>
void kth_of_rows(const Rows& rows, int64_t k, int64_t first, int64_t last, Entry<Key>* scratch) {
  for (int64_t r = first; r < last; ++r) {
    fill_entries<Key>(rows.keys, rows.row(r), 0, rows.length, scratch);
    std::nth_element(scratch, scratch + k - 1, scratch + rows.length);
    write_entries(scratch + k - 1, 0, 1, rows.row(r), rows.values_of<Key>(r), rows.indices_of(r));
  }
}

// The last of the longest run among the sorted entries; of several that long, the first.
template <class Key>
const Entry<Key>* most_frequent(const Entry<Key>* sorted, int64_t n) {
  const Entry<Key>* found = sorted;
  int64_t most = 0, count = 0;
  for (int64_t i = 0; i < n; ++i) {
    ++count;
    if (i + 1 < n && sorted[i + 1].key == sorted[i].key) continue;
    if (count > most) found = sorted + i;
    most = std::max(most, count);
    count = 0;
  }
  return found;
}

template <class Key>
void modes_of_rows(const Rows& rows, int64_t first, int64_t last, Entry<Key>* scratch) {
  const int64_t n = rows.length;
  for (int64_t r = first; r < last; ++r) {
    fill_entries<Key>(rows.keys, rows.row(r), 0, n, scratch);
    const Entry<Key>* sorted = sort_entries<Key>(scratch, scratch + n, n, 1);
    write_entries(most_frequent(sorted, n), 0, 1, rows.row(r), rows.values_of<Key>(r),
                  rows.indices_of(r));
  }
}

// Keys are of one to eight bytes: there is no order of complex numbers.
template <class Body>
void visit_key(DType dtype, Body&& body) {
  visit_itemsize(dtype, [&](auto key) {
    if constexpr (sizeof(key) <= sizeof(uint64_t)) body(key);
    else fail_unsupported_dtype("sort", dtype);
  });
}

// Rows on all cores, as body(Key{}, first, last, scratch); each block has `needed` entries of scratch.
template <class Body>
void for_rows(const OpCall& call, const Rows& rows, int64_t needed, Body&& body) {
  if (rows.count == 0 || rows.out_length == 0) return;
  visit_key(call.in(0).dtype(), [&](auto key) {
    using Key = decltype(key);
    int64_t grain = std::max<int64_t>(1, kGrain / rows.length);
    int64_t blocks = std::clamp<int64_t>(rows.count / grain, 1, num_threads());
    Entries<Key> scratch(blocks * needed);
    if (blocks == 1 && rows.count * rows.length <= kGrain)
      return body(key, int64_t{0}, rows.count, scratch.get());
    BlockingSection blocking;
    parallel_for(0, blocks, 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b)
        body(key, b * rows.count / blocks, (b + 1) * rows.count / blocks,
             scratch.get() + b * needed);
    });
  });
}

// Outputs: values, indices. Attribute: descending. Always stable.
void sort(const OpCall& call) {
  Rows rows(call, call.attributes[0].as_bool());
  if (rows.count > 0 && rows.count < num_threads() && rows.length >= kParallelRow)
    return visit_key(call.in(0).dtype(), [&](auto key) { sort_long_rows<decltype(key)>(rows); });
  for_rows(call, rows, 2 * rows.length, [&](auto key, int64_t first, int64_t last, auto* scratch) {
    sort_rows_of<decltype(key)>(rows, first, last, scratch);
  });
}

// Outputs: values, indices, whose last dimension tells k. Attributes: largest, sorted.
void topk(const OpCall& call) {
  Rows rows(call, call.attributes[0].as_bool());
  bool sorted = call.attributes[1].as_bool();
  int64_t needed = Smallest<uint64_t>::capacity(rows.out_length);
  for_rows(call, rows, needed, [&](auto key, int64_t first, int64_t last, auto* scratch) {
    topk_rows<decltype(key)>(rows, sorted, first, last, scratch);
  });
}

// Outputs: one value and one index per row. Attribute: k, from 1.
void kth_value(const OpCall& call) {
  Rows rows(call, false);
  int64_t k = call.integer(0);
  for_rows(call, rows, rows.length, [&](auto key, int64_t first, int64_t last, auto* scratch) {
    kth_of_rows<decltype(key)>(rows, k, first, last, scratch);
  });
}

// Outputs: one value and one index per row.
void mode(const OpCall& call) {
  Rows rows(call, false);
  for_rows(call, rows, 2 * rows.length, [&](auto key, int64_t first, int64_t last, auto* scratch) {
    modes_of_rows<decltype(key)>(rows, first, last, scratch);
  });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"sort", sort},
    {"topk", topk},
    {"kthvalue", kth_value},
    {"mode", mode},
};

}  // namespace

}  // namespace tapegrad::cpu
