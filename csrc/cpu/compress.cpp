// The drivers of codings: read the call, cut the work into blocks.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/compress_kernels.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 32768;  // elements

// Calls body(begin, end) for parts of `count` units of `cost` elements each.
template <class Body>
void for_parts(int64_t count, int64_t cost, Body&& body) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(cost, 1));
  if (count <= grain) return body(int64_t{0}, count);
  BlockingSection blocking;
  parallel_for(0, count, grain, body);
}

char* bytes_of(const TensorImpl& x) { return static_cast<char*>(x.data()); }

// ---- quantised blocks

const QuantizeKernels& quantize_kernels(const OpCall& call, DType dtype, int64_t bits) {
  if (!is_floating(dtype)) fail_unsupported_dtype(call.op.name, dtype);
  const int type = static_cast<int>(dtype) - static_cast<int>(DType::Float16);
  return best_compress_table().quantize[type][bits == 4];
}

int64_t block_count(int64_t numel, int64_t block) { return (numel + block - 1) / block; }

bool is_nan(const TensorImpl& scales, int64_t i) {
  if (scales.dtype() == DType::Float64) {
    const double scale = scales.data_as<double>()[i];
    return scale != scale;
  }
  const float scale = scales.data_as<float>()[i];
  return scale != scale;
}

// Copies between the values and the blocks that were kept as they are, one after the other.
template <bool kStore>
void copy_unscaled(const TensorImpl& values, const TensorImpl& scales, const TensorImpl& kept,
                   int64_t block) {
  const auto item = static_cast<int64_t>(itemsize(values.dtype()));
  int64_t next = 0;
  for (int64_t b = 0; b < scales.numel(); ++b) {
    if (!is_nan(scales, b)) continue;
    const int64_t n = std::min(block, values.numel() - b * block);
    char* inside = bytes_of(values) + b * block * item;
    char* beside = bytes_of(kept) + next++ * block * item;
    if constexpr (kStore) std::memcpy(beside, inside, static_cast<size_t>(n * item));
    else std::memcpy(inside, beside, static_cast<size_t>(n * item));
  }
}

// ---- bits

const BitKernels& bit_kernels(DType dtype) {
  return best_compress_table().bits[std::countr_zero(itemsize(dtype))];
}

uint64_t pattern_at(const TensorImpl& x, int64_t i) {
  uint64_t pattern = 0;
  const size_t item = itemsize(x.dtype());
  std::memcpy(&pattern, bytes_of(x) + i * static_cast<int64_t>(item), item);
  return pattern;
}

// ---- integers

const NarrowKernels& narrow_kernels(const OpCall& call, DType dtype) {
  const int type = dtype == DType::Int16   ? 0
                   : dtype == DType::Int32 ? 1
                   : dtype == DType::Int64 ? 2
                                           : -1;
  if (type < 0) fail_unsupported_dtype(call.op.name, dtype);
  return best_compress_table().narrow[type];
}

void quantize(const OpCall& call) {
  const TensorImpl &x = call.in(0), &codes = call.out(0), &scales = call.out(1);
  const QuantizeKernels& kernels = quantize_kernels(call, x.dtype(), call.integer(0));
  const QuantizedSpan span{x.data(),
                           x.numel(),
                           call.integer(1),
                           codes.data_as<uint8_t>(),
                           scales.data(),
                           static_cast<uint64_t>(call.integer(2)),
                           static_cast<uint64_t>(call.integer(3))};
  std::atomic<int64_t> unscaled = 0;
  int64_t* result = call.out(2).data_as<int64_t>();
  for_parts(block_count(span.count, span.block), span.block,
            [&](int64_t begin, int64_t end) { unscaled += kernels.encode(span, begin, end); });
  *result = unscaled;
}

void unscaled_blocks(const OpCall& call) {
  copy_unscaled<true>(call.in(0), call.in(1), call.out(), call.integer(0));
}

void dequantize(const OpCall& call) {
  const TensorImpl &codes = call.in(0), &scales = call.in(1), &x = call.out();
  const QuantizeKernels& kernels = quantize_kernels(call, x.dtype(), call.integer(0));
  const QuantizedSpan span{
      x.data(), x.numel(), call.integer(1), codes.data_as<uint8_t>(), scales.data(), 0, 0};
  for_parts(block_count(span.count, span.block), span.block,
            [&](int64_t begin, int64_t end) { kernels.decode(span, begin, end); });
  if (call.inputs.size() > 2) copy_unscaled<false>(x, scales, call.in(2), span.block);
}

void two_values(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  auto* result = call.out().data_as<int64_t>();
  result[0] = result[1] = -1;
  if (x.numel() == 0) return;
  const BitKernels& kernels = bit_kernels(x.dtype());
  const auto item = static_cast<int64_t>(itemsize(x.dtype()));
  const uint64_t first = pattern_at(x, 0);
  const int64_t second = kernels.run(x.data(), x.numel(), first, first);
  if (second == x.numel()) return;
  result[0] = second;
  const int64_t left = x.numel() - second;
  const int64_t both = kernels.run(bytes_of(x) + second * item, left, first, pattern_at(x, second));
  if (both != left) result[1] = second + both;
}

void pack_bits(const OpCall& call) {
  const TensorImpl &x = call.in(0), &bits = call.out();
  const BitKernels& kernels = bit_kernels(x.dtype());
  const auto one = static_cast<uint64_t>(call.integer(0));
  const auto item = static_cast<int64_t>(itemsize(x.dtype()));
  char* from = bytes_of(x);
  auto* to = bits.data_as<uint8_t>();
  for_parts(bits.numel(), 8, [&](int64_t begin, int64_t end) {
    kernels.pack(from + 8 * begin * item, std::min(8 * end, x.numel()) - 8 * begin, one,
                 to + begin);
  });
}

void unpack_bits(const OpCall& call) {
  const TensorImpl &bits = call.in(0), &x = call.out();
  const BitKernels& kernels = bit_kernels(x.dtype());
  const auto zero = static_cast<uint64_t>(call.integer(0));
  const auto one = static_cast<uint64_t>(call.integer(1));
  const auto item = static_cast<int64_t>(itemsize(x.dtype()));
  auto* from = bits.data_as<uint8_t>();
  char* to = bytes_of(x);
  for_parts(bits.numel(), 8, [&](int64_t begin, int64_t end) {
    kernels.unpack(from + begin, std::min(8 * end, x.numel()) - 8 * begin, zero, one,
                   to + 8 * begin * item);
  });
}

void integer_range(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  auto* result = call.out().data_as<int64_t>();
  result[0] = result[1] = 0;
  if (x.numel() > 0)
    narrow_kernels(call, x.dtype()).range(x.data(), x.numel(), &result[0], &result[1]);
}

void narrow_integers(const OpCall& call) {
  const TensorImpl &x = call.in(0), &codes = call.out();
  const int64_t low = call.integer(0), bytes = call.integer(1);
  const auto item = static_cast<int64_t>(itemsize(x.dtype()));
  auto* narrow = narrow_kernels(call, x.dtype()).narrow[std::countr_zero(uint64_t(bytes))];
  char *from = bytes_of(x), *to = bytes_of(codes);
  for_parts(x.numel(), 1, [&](int64_t begin, int64_t end) {
    narrow(from + begin * item, end - begin, low, to + begin * bytes);
  });
}

void widen_integers(const OpCall& call) {
  const TensorImpl &codes = call.in(0), &x = call.out();
  const int64_t low = call.integer(0), bytes = call.integer(1);
  const auto item = static_cast<int64_t>(itemsize(x.dtype()));
  auto* widen = narrow_kernels(call, x.dtype()).widen[std::countr_zero(uint64_t(bytes))];
  char *from = bytes_of(codes), *to = bytes_of(x);
  for_parts(x.numel(), 1, [&](int64_t begin, int64_t end) {
    widen(from + begin * bytes, end - begin, low, to + begin * item);
  });
}

void round_to_bfloat16(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  if (x.dtype() != DType::Float32 && x.dtype() != DType::Float64)
    fail_unsupported_dtype(call.op.name, x.dtype());
  auto* round = best_compress_table().round[x.dtype() == DType::Float64];
  const auto item = static_cast<int64_t>(itemsize(x.dtype()));
  char* from = bytes_of(x);
  auto* to = static_cast<uint16_t*>(call.out().data());
  int64_t* result = call.out(1).data_as<int64_t>();
  std::atomic<int64_t> beyond = 0;
  for_parts(x.numel(), 1, [&](int64_t begin, int64_t end) {
    beyond += round(from + begin * item, end - begin, to + begin);
  });
  *result = beyond;
}

// ---- places of maxima

// A place is a number within a plane of the input. It is the place where the window begins, which the
// position of the window tells, plus what the place in the window adds.
class PlaceWindows {
 public:
  explicit PlaceWindows(const OpCall& call) {
    for (size_t d = 0; d < 3; ++d) {
      in_[d] = call.integer(d);
      out_[d] = call.integer(3 + d);
    }
    const bool adaptive = call.integer(18) != 0;
    int64_t step = 1;
    for (size_t k = 3; k-- > 0; step *= in_[k]) {
      int64_t width = call.integer(6 + k), dilation = call.integer(15 + k);
      std::vector<int64_t>& starts = starts_[k];
      for (int64_t o = 0; o < out_[k]; ++o) {
        const int64_t begin =
            adaptive ? o * in_[k] / out_[k] : o * call.integer(9 + k) - call.integer(12 + k);
        if (adaptive) {
          const int64_t end = ((o + 1) * in_[k] + out_[k] - 1) / out_[k];
          width = std::max(o == 0 ? 0 : width, end - begin);
          dilation = 1;
        }
        starts.push_back(begin * step);
      }
      extend(width, dilation * step);
    }
  }

  int64_t positions() const { return out_[0] * out_[1] * out_[2]; }
  int64_t places() const { return static_cast<int64_t>(added_.size()); }

  // Calls visit(position, place where its window begins).
  template <class Visit>
  void each(Visit&& visit) const {
    int64_t at = 0;
    for (int64_t a : starts_[0])
      for (int64_t b : starts_[1])
        for (int64_t c : starts_[2]) visit(at++, a + b + c);
  }

  int64_t added(uint8_t code) const { return added_[code]; }
  // The code of what is added, or -1. Places that add the same are the same.
  std::vector<int16_t> codes() const {
    std::vector<int16_t> table(static_cast<size_t>(added_.back()) + 1, -1);
    for (size_t code = added_.size(); code-- > 0;)
      table[static_cast<size_t>(added_[code])] = static_cast<int16_t>(code);
    return table;
  }

 private:
  void extend(int64_t width, int64_t step) {
    std::vector<int64_t> all;
    for (int64_t k = 0; k < width; ++k)
      for (int64_t inner : added_) all.push_back(k * step + inner);
    added_ = std::move(all);
  }

  int64_t in_[3], out_[3];
  std::vector<int64_t> starts_[3];
  std::vector<int64_t> added_{0};
};

template <class Index>
int64_t pack_planes(const PlaceWindows& windows, const std::vector<int16_t>& table,
                    const Index* places, uint8_t* codes, int64_t planes) {
  int64_t outside = 0;
  const int64_t n = windows.positions();
  for (int64_t p = 0; p < planes; ++p)
    windows.each([&](int64_t i, int64_t start) {
      const int64_t added = static_cast<int64_t>(places[p * n + i]) - start;
      const bool inside = added >= 0 && added < static_cast<int64_t>(table.size());
      const int code = inside ? table[static_cast<size_t>(added)] : -1;
      outside += code < 0;
      codes[p * n + i] = static_cast<uint8_t>(code < 0 ? 0 : code);
    });
  return outside;
}

template <class Index>
void unpack_planes(const PlaceWindows& windows, const uint8_t* codes, Index* places,
                   int64_t planes) {
  const int64_t n = windows.positions();
  for (int64_t p = 0; p < planes; ++p)
    windows.each([&](int64_t i, int64_t start) {
      places[p * n + i] = static_cast<Index>(start + windows.added(codes[p * n + i]));
    });
}

void pack_places(const OpCall& call) {
  const TensorImpl &places = call.in(0), &codes = call.out();
  const PlaceWindows windows(call);
  TAPEGRAD_CHECK(windows.places() <= 256, "pack_places: a window has ", windows.places(),
                 " places, more than 256");
  const int64_t n = windows.positions(), planes = n == 0 ? 0 : places.numel() / n;
  const std::vector<int16_t> table = windows.codes();
  auto* to = codes.data_as<uint8_t>();
  const bool wide = places.dtype() == DType::Int64;
  char* from = bytes_of(places);
  int64_t* result = call.out(1).data_as<int64_t>();
  std::atomic<int64_t> outside = 0;
  for_parts(planes, n, [&](int64_t begin, int64_t end) {
    outside += wide ? pack_planes(windows, table, reinterpret_cast<int64_t*>(from) + begin * n,
                                  to + begin * n, end - begin)
                    : pack_planes(windows, table, reinterpret_cast<int32_t*>(from) + begin * n,
                                  to + begin * n, end - begin);
  });
  *result = outside;
}

void unpack_places(const OpCall& call) {
  const TensorImpl &codes = call.in(0), &places = call.out();
  const PlaceWindows windows(call);
  const int64_t n = windows.positions(), planes = n == 0 ? 0 : places.numel() / n;
  auto* from = codes.data_as<uint8_t>();
  const bool wide = places.dtype() == DType::Int64;
  char* to = bytes_of(places);
  for_parts(planes, n, [&](int64_t begin, int64_t end) {
    if (wide)
      unpack_planes(windows, from + begin * n, reinterpret_cast<int64_t*>(to) + begin * n,
                    end - begin);
    else
      unpack_planes(windows, from + begin * n, reinterpret_cast<int32_t*>(to) + begin * n,
                    end - begin);
  });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"quantize", quantize},
    {"unscaled_blocks", unscaled_blocks},
    {"dequantize", dequantize},
    {"two_values", two_values},
    {"pack_bits", pack_bits},
    {"unpack_bits", unpack_bits},
    {"integer_range", integer_range},
    {"narrow_integers", narrow_integers},
    {"widen_integers", widen_integers},
    {"round_to_bfloat16", round_to_bfloat16},
    {"pack_places", pack_places},
    {"unpack_places", unpack_places},
};

}  // namespace

}  // namespace tapegrad::cpu
