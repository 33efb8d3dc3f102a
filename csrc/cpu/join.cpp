// Kernels that lay elements out anew: cat, triangles, repeated indices.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/loop_nest.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/copy.h"
#include "cpu/index_kernels.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 32768;    // elements
constexpr int64_t kShortPiece = 64;  // bytes: below, a call of memcpy costs more than the copying
constexpr int64_t kBlockBytes = 16384;

// What one input contributes to every row of the output. Lengths are in bytes.
struct Piece {
  const char* data;
  int64_t length;
  int64_t begin;  // in the output's row
};

// A row is what lies under one step of the dimensions before the joined one.
struct Rows {
  explicit Rows(size_t most) : heap(most > kInline ? most : 0) {}
  void add(Piece piece) {
    data()[pieces.size()] = piece;
    pieces = {data(), pieces.size() + 1};
  }
  Piece* data() { return heap.empty() ? few : heap.data(); }

  static constexpr size_t kInline = 8;
  Piece few[kInline];
  std::vector<Piece> heap;  // of more
  std::span<const Piece> pieces;
  char* out = nullptr;
  int64_t count = 1;
  int64_t length = 0;
};

void fill_rows(const OpCall& call, Rows& rows) {
  const TensorImpl& out = call.out();
  auto dim = static_cast<size_t>(call.integer(0));
  rows.out = static_cast<char*>(out.data());
  for (size_t d = 0; d < dim; ++d) rows.count *= out.size(d);
  auto item = static_cast<int64_t>(itemsize(out.dtype()));
  for (const TensorImpl* input : call.inputs) {
    if (input->numel() == 0) continue;
    // Dividing takes as long as copying a few elements.
    int64_t length = (rows.count == 1 ? input->numel() : input->numel() / rows.count) * item;
    rows.add({static_cast<const char*>(input->data()), length, rows.length});
    rows.length += length;
  }
}

// One row that is not worth more than a loop.
void copy_row(const Rows& rows) {
  for (const Piece& piece : rows.pieces)
    std::memcpy(rows.out + piece.begin, piece.data, static_cast<size_t>(piece.length));
}

// Output bytes [begin, end): the pieces in order, the first and the last perhaps in part.
void copy_pieces(const Rows& rows, int64_t begin, int64_t end) {
  int64_t row = begin / rows.length, position = begin % rows.length;
  size_t next = 0;
  while (position >= rows.pieces[next].begin + rows.pieces[next].length) ++next;
  while (begin < end) {
    const Piece& piece = rows.pieces[next];
    int64_t skip = position - piece.begin;
    int64_t length = std::min(piece.length - skip, end - begin);
    std::memcpy(rows.out + begin, piece.data + row * piece.length + skip, length);
    begin += length;
    position += length;
    if (++next == rows.pieces.size()) {
      next = position = 0;
      ++row;
    }
  }
}

// The same for short pieces: blocks of rows small enough for the cache, one piece after the other.
template <class T>
void interleave(const Rows& rows, int64_t first, int64_t last) {
  constexpr int64_t kItem = sizeof(T);
  int64_t stride = rows.length / kItem;
  int64_t block = std::max<int64_t>(1, kBlockBytes / rows.length);
  for (int64_t begin = first; begin < last; begin += block) {
    int64_t end = std::min(last, begin + block);
    for (const Piece& piece : rows.pieces) {
      int64_t length = piece.length / kItem;
      T* out = reinterpret_cast<T*>(rows.out) + piece.begin / kItem;
      auto* in = reinterpret_cast<const T*>(piece.data);
      if (length == 1) {
        for (int64_t r = begin; r < end; ++r) out[r * stride] = in[r];
      } else {
        for (int64_t r = begin; r < end; ++r)
          for (int64_t i = 0; i < length; ++i) out[r * stride + i] = in[r * length + i];
      }
    }
  }
}

// Two inputs, one element of each in turn: a loop that compilers turn into vector shuffles.
template <class T>
void interleave_two(const Rows& rows, int64_t first, int64_t last) {
  T* out = reinterpret_cast<T*>(rows.out);
  auto* a = reinterpret_cast<const T*>(rows.pieces[0].data);
  auto* b = reinterpret_cast<const T*>(rows.pieces[1].data);
#pragma GCC ivdep
  for (int64_t r = first; r < last; ++r) {
    out[2 * r] = a[r];
    out[2 * r + 1] = b[r];
  }
}

// Attribute: the joined dimension. All operands are contiguous and of one dtype.
void cat(const OpCall& call) {
  const TensorImpl& out = call.out();
  if (out.numel() == 0) return;
  Rows rows(call.inputs.size());
  fill_rows(call, rows);
  auto item = static_cast<int64_t>(itemsize(out.dtype()));
  int64_t bytes = rows.count * rows.length;
  if (rows.count == 1 && bytes <= kBlockBytes) return copy_row(rows);
  bool is_short = rows.length / static_cast<int64_t>(rows.pieces.size()) <= kShortPiece;
  if (bytes <= kBlockBytes && !(is_short && rows.count > 16)) return copy_pieces(rows, 0, bytes);
  BlockingSection blocking;
  if (!is_short)
    return parallel_for(0, bytes, kGrain * item,
                        [&](int64_t begin, int64_t end) { copy_pieces(rows, begin, end); });
  bool two = rows.pieces.size() == 2 && rows.pieces[0].length == item && rows.length == 2 * item;
  int64_t grain = std::max<int64_t>(1, kGrain * item / rows.length);
  visit_itemsize(out.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_for(0, rows.count, grain, [&](int64_t first, int64_t last) {
      if (two) interleave_two<T>(rows, first, last);
      else interleave<T>(rows, first, last);
    });
  });
}

// The input is the source with negative strides along the flipped dimensions.
void flip(const OpCall& call) {
  const TensorImpl& out = call.out();
  const TensorImpl* tensors[] = {&out, &call.in(0)};
  if (out.numel() == 0) return;
  LoopNest nest;
  nest.build(tensors);
  if (nest.stride(0, 0) != 1 || nest.stride(1, 0) != -1) return copy(call);
  auto item = static_cast<int64_t>(itemsize(out.dtype()));
  auto reverse = best_index_table().reverse[item_slot(itemsize(out.dtype()))];
  auto range = [&](int64_t begin, int64_t end) {
    nest.for_each_run_of_two(begin, end - begin,
                             [&](int64_t to, int64_t, int64_t from, int64_t, int64_t length) {
      reverse(call.in(0).data_as<char>() + from * item, length, out.data_as<char>() + to * item);
    });
  };
  if (out.numel() <= kGrain) return range(0, out.numel());
  BlockingSection blocking;
  parallel_for(0, out.numel(), kGrain, range);
}

// Attributes: the diagonal; whether the upper triangle is kept. The rest becomes zero. The output may
// be the input itself.
void triangle(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  const TensorImpl& out = call.out();
  if (out.numel() == 0) return;
  int64_t diagonal = call.integer(0);
  bool upper = call.attributes[1].as_bool();
  size_t rank = static_cast<size_t>(out.dim());
  int64_t rows = out.size(rank - 2), columns = out.size(rank - 1);
  diagonal = std::clamp(diagonal, -rows - 1, columns + 1);
  int64_t x_step = x.stride(rank - 1), out_step = out.stride(rank - 1);
  auto one_row = [&]<class T>(const T* from, T* to, int64_t row) {
    int64_t cut = std::clamp<int64_t>(row + diagonal + (upper ? 0 : 1), 0, columns);
    int64_t kept_begin = upper ? cut : 0, kept_end = upper ? columns : cut;
    if (from != to)
      for (int64_t c = kept_begin; c < kept_end; ++c) to[c * out_step] = from[c * x_step];
    int64_t zero_begin = upper ? 0 : cut, zero_end = upper ? cut : columns;
    for (int64_t c = zero_begin; c < zero_end; ++c) to[c * out_step] = T(0);
  };
  auto range = [&](int64_t begin, int64_t end) {
    visit_itemsize(out.dtype(), [&](auto type) {
      using T = decltype(type);
      for (int64_t r = begin; r < end; ++r) {
        int64_t rest = r, from = 0, to = 0;
        for (size_t d = rank - 1; d-- > 0; rest /= out.size(d)) {
          int64_t at = rest % out.size(d);
          from += at * x.stride(d);
          to += at * out.stride(d);
        }
        one_row(x.data_as<T>() + from, out.data_as<T>() + to, r % rows);
      }
    });
  };
  int64_t total = out.numel() / columns;
  if (out.numel() <= kGrain) return range(0, total);
  BlockingSection blocking;
  parallel_for(0, total, std::max<int64_t>(1, kGrain / columns), range);
}

// Index i as often as the contiguous int64 input says at i.
void repeat_indices(const OpCall& call) {
  auto* repeats = call.in(0).data_as<int64_t>();
  auto* out = call.out().data_as<int64_t>();
  int64_t count = call.in(0).numel();
  for (int64_t i = 0; i < count; ++i) out = std::fill_n(out, repeats[i], i);
}

// How many indices that makes, or -1 if one of the counts is negative.
void total_repeats(const OpCall& call) {
  auto* repeats = call.in(0).data_as<int64_t>();
  int64_t count = call.in(0).numel(), total = 0;
  bool negative = false;
  for (int64_t i = 0; i < count; ++i) {
    negative |= repeats[i] < 0;
    // More than can be counted is more than can be allocated: the largest count says so.
    if (__builtin_add_overflow(total, repeats[i], &total)) total = INT64_MAX;
  }
  *call.out().data_as<int64_t>() = negative ? -1 : total;
}

const KernelList<DeviceType::CPU> kKernels = {
    {"cat", cat},
    {"flip", flip},
    {"triangle", triangle},
    {"repeat_interleave", repeat_indices},
    {"total_repeats", total_repeats},
};

}  // namespace

}  // namespace tapegrad::cpu
