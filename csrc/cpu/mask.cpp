// Masks: counting, compressing, expanding. All masks are contiguous bools.
//
// The loops that compress write every element and advance by the mask's 0 or 1, which costs the same
// for any pattern; the known number of results ends them before they could write behind the last.
#include "spec/mask.h"
#include "core/registry.h"

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "cpu/index_kernels.h"

namespace tapegrad::cpu {

namespace {

// Elements [begin, end) of the mask, whose true elements are numbers [first, last) of all.
struct MaskBlock {
  int64_t begin, end;
  int64_t first, last;
};

template <class Body>
void for_each_block(const TensorImpl& mask, const TensorImpl& counts, Body&& body) {
  int64_t blocks = counts.numel(), numel = mask.numel();
  if (numel == 0) return;
  auto* count = counts.data_as<int64_t>();
  std::vector<int64_t> starts(blocks + 1, 0);
  for (int64_t b = 0; b < blocks; ++b) starts[b + 1] = starts[b] + count[b];
  auto range = [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      MaskBlock block{b * kMaskBlock, std::min(numel, (b + 1) * kMaskBlock), starts[b],
                      starts[b + 1]};
      if (block.first < block.last) body(block);
    }
  };
  if (blocks == 1) return range(0, 1);
  BlockingSection blocking;
  parallel_for(0, blocks, 1, range);
}

// Writes the numbers of the true elements among mask[0, n) and returns how many there are.
int64_t compress(const uint8_t* mask, int64_t n, int64_t* out, int64_t limit) {
  int64_t k = 0;
  for (int64_t i = 0; i < n && k < limit; ++i) {
    out[k] = i;
    k += mask[i];
  }
  return k;
}

// Output: for each block of the mask the number of its true elements.
void count_mask(const OpCall& call) {
  const TensorImpl& mask = call.in(0);
  auto* counts = call.out().data_as<int64_t>();
  int64_t blocks = call.out().numel(), numel = mask.numel();
  auto range = [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      counts[b] = best_index_table().count_set(mask.data_as<bool>() + b * kMaskBlock,
                                               std::min(kMaskBlock, numel - b * kMaskBlock));
  };
  if (blocks <= 1) return range(0, blocks);
  BlockingSection blocking;
  parallel_for(0, blocks, 16, range);
}

// Inputs: the mask, its counts. Output: one row of indices for each dimension.
void nonzero(const OpCall& call) {
  const TensorImpl& mask = call.in(0);
  const TensorImpl& out = call.out();
  auto rank = static_cast<size_t>(mask.dim());
  if (rank == 0) return;
  auto* flags = mask.data_as<uint8_t>();
  int64_t total = out.size(1), columns = mask.size(rank - 1);
  for_each_block(mask, call.in(1), [&](MaskBlock block) {
    int64_t next = block.first;
    // Row by row: the indices of the outer dimensions are the same along a row.
    for (int64_t at = block.begin; at < block.end && next < block.last;) {
      int64_t row = at / columns, column = at % columns;
      int64_t length = std::min(columns - column, block.end - at);
      int64_t* innermost = out.data_as<int64_t>() + (rank - 1) * total + next;
      int64_t found = compress(flags + at, length, innermost, block.last - next);
      if (column > 0)
        for (int64_t i = 0; i < found; ++i) innermost[i] += column;
      for (size_t d = rank - 1; d-- > 0; row /= mask.size(d))
        std::fill_n(out.data_as<int64_t>() + d * total + next, found, row % mask.size(d));
      next += found;
      at += length;
    }
  });
}

// Inputs: the contiguous tensor, the mask, its counts.
void masked_select(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  const TensorImpl& mask = call.in(1);
  auto* flags = mask.data_as<uint8_t>();
  visit_itemsize(x.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* from = x.data_as<T>();
    T* to = call.out().data_as<T>();
    for_each_block(mask, call.in(2), [&](MaskBlock block) {
      int64_t next = block.first;
      for (int64_t i = block.begin; next < block.last; ++i) {
        to[next] = from[i];
        next += flags[i];
      }
    });
  });
}

// Inputs: a contiguous tensor, the mask, a value of one element. The output may be the input.
void masked_fill(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  const TensorImpl& out = call.out();
  auto item = static_cast<int64_t>(itemsize(out.dtype()));
  auto kernel = best_index_table().masked_fill[item_slot(itemsize(out.dtype()))];
  auto range = [&](int64_t begin, int64_t end) {
    kernel(out.data_as<char>() + begin * item, x.data_as<char>() + begin * item,
           call.in(1).data_as<bool>() + begin, end - begin, call.in(2).data());
  };
  constexpr int64_t kGrain = 32768;
  if (out.numel() <= kGrain) return range(0, out.numel());
  BlockingSection blocking;
  parallel_for(0, out.numel(), kGrain, range);
}

// Inputs: a contiguous tensor, which is also the output, the mask, its counts, the source.
void masked_scatter(const OpCall& call) {
  const TensorImpl& out = call.out();
  const TensorImpl& mask = call.in(1);
  auto* flags = mask.data_as<uint8_t>();
  visit_itemsize(out.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* from = call.in(3).data_as<T>();
    T* to = out.data_as<T>();
    for_each_block(mask, call.in(2), [&](MaskBlock block) {
      int64_t next = block.first;
      for (int64_t i = block.begin; next < block.last; ++i) {
        if (flags[i]) to[i] = from[next++];
      }
    });
  });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"count_mask", count_mask},         {"nonzero", nonzero},
    {"masked_select", masked_select},   {"masked_fill", masked_fill},
    {"masked_scatter", masked_scatter},
};

}  // namespace

}  // namespace tapegrad::cpu
