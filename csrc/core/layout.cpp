#include "core/layout.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace tapegrad {

namespace {

// Dimensions from the one whose neighbours lie closest to the one whose lie farthest apart.
using Order = std::span<int>;

constexpr int kPlanes[] = {1, 3, 2, 0};
constexpr int kVolumes[] = {1, 4, 3, 2, 0};

std::span<const int> channels_last_order(MemoryFormat format) {
  if (format == MemoryFormat::ChannelsLast) return kPlanes;
  return kVolumes;
}

DimVector dense_strides(Sizes sizes, std::span<const int> order) {
  DimVector strides(sizes.size());
  int64_t next = 1;
  for (int d : order) {
    strides[d] = next;
    next = wrapping_product(next, std::max<int64_t>(sizes[d], 1));
  }
  return strides;
}

// How far neighbours along d of the broadcast shape lie apart; 0 where the operand is repeated.
int64_t broadcast_stride(const TensorImpl& x, Sizes sizes, int d) {
  int64_t own = d - (static_cast<int64_t>(sizes.size()) - x.dim());
  if (own < 0 || (x.size(own) == 1 && sizes[d] != 1)) return 0;
  return x.stride(own);
}

// Whether `inner` must change places with `outer`, which lies behind it in the order so far: 1 yes,
// -1 no, 0 if this operand does not say.
int compare_strides(int64_t inner, int64_t outer, int64_t inner_size, int64_t outer_size) {
  if (inner == 0 || outer == 0) return 0;
  if (inner != outer) return inner < outer ? -1 : 1;
  return inner_size > outer_size ? 1 : 0;
}

// Sorts by insertion: comparisons may be undecided, which leaves two dimensions as they are and looks
// further. From the usual order, so that what nobody decides stays usual.
template <class Compare>
void sort_dimensions(Order order, Compare&& compare) {
  std::iota(order.rbegin(), order.rend(), 0);
  for (size_t i = 1; i < order.size(); ++i) {
    size_t at = i;
    for (size_t j = i; j-- > 0;) {
      int verdict = compare(order[j], order[at]);
      if (verdict < 0) break;
      if (verdict == 0) continue;
      std::swap(order[j], order[at]);
      at = j;
    }
  }
}

bool looks_channels_last(const TensorImpl& x, std::span<const int> order) {
  if (x.stride(1) == 0) return false;
  int64_t least = 0;
  for (int d : order) {
    if (x.size(d) == 0 || x.stride(d) < least) return false;
    // Nothing but the batch has a size: either format would do, and the usual one is meant.
    if (d == 0 && least == x.stride(1)) return false;
    least = x.stride(d) * std::max<int64_t>(x.size(d), 1);
  }
  return true;
}

}  // namespace

Placement placement_of(const TensorImpl& x) {
  return {x.dtype(), x.device(), x.offset(), x.sizes(), x.strides()};
}

ByteRange ByteRange::with(ByteRange other) const {
  if (is_empty()) return other;
  if (other.is_empty()) return *this;
  return {std::min(begin, other.begin), std::max(end, other.end)};
}

bool find_byte_range(const Placement& placement, ByteRange& range) {
  int64_t low = placement.offset, high = placement.offset;
  for (size_t d = 0; d < placement.sizes.size(); ++d) {
    range = {};
    if (placement.sizes[d] == 0) return true;
    int64_t reach;
    if (__builtin_mul_overflow(placement.sizes[d] - 1, placement.strides[d], &reach)) return false;
    int64_t& bound = reach < 0 ? low : high;
    if (__builtin_add_overflow(bound, reach, &bound)) return false;
  }
  const auto item = static_cast<int64_t>(itemsize(placement.dtype));
  return !__builtin_mul_overflow(low, item, &range.begin) &&
         !__builtin_add_overflow(high, 1, &high) && !__builtin_mul_overflow(high, item, &range.end);
}

bool lies_within(const Placement& placement, size_t nbytes) {
  ByteRange range;
  return find_byte_range(placement, range) && range.begin >= 0 &&
         static_cast<size_t>(range.end) <= nbytes;
}

ByteRange byte_range(const Placement& placement) {
  ByteRange range;
  TAPEGRAD_CHECK(find_byte_range(placement, range),
                 "internal error: a tensor lies beyond what can be addressed");
  return range;
}

bool shows_same(const Tensor& a, const Tensor& b) {
  return a->storage_ref() == b->storage_ref() && same_geometry(a, b);
}

bool is_dense(const TensorImpl& x) {
  if (x.is_contiguous()) return true;
  int order[kMaxRank];
  int rank = 0;
  for (int d = 0; d < x.dim(); ++d)
    if (x.size(d) > 1) order[rank++] = d;
  std::sort(order, order + rank, [&](int a, int b) { return x.stride(a) < x.stride(b); });
  int64_t expected = 1;
  for (int k = 0; k < rank; ++k) {
    if (x.stride(order[k]) != expected) return false;
    expected *= x.size(order[k]);
  }
  return true;
}

bool is_contiguous(const TensorImpl& x, MemoryFormat format) {
  if (format == MemoryFormat::Contiguous) return x.is_contiguous();
  std::span<const int> order = channels_last_order(format);
  if (x.dim() != static_cast<int64_t>(order.size())) return false;
  int64_t expected = 1;
  for (int d : order) {
    if (x.size(d) == 1) continue;
    if (x.stride(d) != expected) return false;
    expected = wrapping_product(expected, x.size(d));
  }
  return true;
}

MemoryFormat suggested_format(const TensorImpl& x) {
  for (MemoryFormat format : {MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d}) {
    std::span<const int> order = channels_last_order(format);
    if (x.dim() == static_cast<int64_t>(order.size()) && looks_channels_last(x, order))
      return format;
  }
  return MemoryFormat::Contiguous;
}

DimVector format_strides(const char* op, Sizes sizes, MemoryFormat format) {
  if (format == MemoryFormat::Contiguous) return contiguous_strides(sizes);
  std::span<const int> order = channels_last_order(format);
  TAPEGRAD_CHECK(sizes.size() == order.size(), op, ": required rank ", order.size(),
                 " tensor to use ",
                 format == MemoryFormat::ChannelsLast ? "channels_last" : "channels_last_3d",
                 " format, got sizes ", to_string(sizes));
  DimVector strides(sizes.size());
  int64_t next = 1;
  for (int d : order) {  // unlike elsewhere, PyTorch lets a size of zero count
    strides[d] = next;
    next = wrapping_product(next, sizes[d]);
  }
  return strides;
}

DimVector strides_like(const TensorImpl& x) {
  if (is_dense(x)) return DimVector(x.strides());
  int order[kMaxRank];
  Order dims(order, x.dim());
  sort_dimensions(dims, [&](int inner, int outer) {
    return compare_strides(x.stride(inner), x.stride(outer), x.size(inner), x.size(outer));
  });
  return dense_strides(x.sizes(), dims);
}

DimVector elementwise_strides(Sizes sizes, std::span<const Tensor* const> operands) {
  const TensorImpl& first = *operands[0]->impl();
  bool same_shapes = true, channels_last = true, same_strides = true;
  for (const Tensor* operand : operands) {
    same_shapes = same_shapes && same_sizes(operand->sizes(), sizes);
    channels_last = channels_last && is_contiguous(*operand->impl(), MemoryFormat::ChannelsLast);
    same_strides = same_strides && same_sizes(operand->strides(), first.strides());
  }
  if (same_shapes && channels_last) return dense_strides(sizes, kPlanes);
  if (same_shapes && same_strides && is_dense(first)) return DimVector(first.strides());
  int order[kMaxRank];
  Order dims(order, sizes.size());
  sort_dimensions(dims, [&](int inner, int outer) {
    for (const Tensor* operand : operands) {
      if (operand->dim() == 0) continue;
      const TensorImpl& x = *operand->impl();
      int verdict = compare_strides(broadcast_stride(x, sizes, inner),
                                    broadcast_stride(x, sizes, outer), sizes[inner], sizes[outer]);
      if (verdict != 0) return verdict;
    }
    return 0;
  });
  return dense_strides(sizes, dims);
}

}  // namespace tapegrad
