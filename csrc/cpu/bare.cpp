// Conversions from and to bare dtypes: see Note [Bare dtypes] in core/dtype.h.
//
// They go through a dtype that the tables of convert.h know, a tile at a time, so that there is one loop for each
// bare dtype and not one for each pair: decode() takes a bare dtype to the middle one, encode() the other way.
#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "cpu/convert.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kTile = 256;
constexpr int kAllDTypes = kDTypeCount;

// What does not fit becomes what PyTorch's vector instructions make of it.
template <class To, class From>
To unsigned_of(From value) {
  using Signed = std::make_signed_t<To>;
  constexpr From kHalf = sizeof(To) == 8 ? From(0x1p63) : From(0x1p31);
  const bool upper = value >= kHalf;
  const From rest = upper ? value - kHalf : value;
  const bool fits = rest >= -kHalf && rest < kHalf;
  const Signed whole = fits ? static_cast<Signed>(rest) : std::numeric_limits<Signed>::min();
  return static_cast<To>(whole) ^ (upper ? To{1} << (sizeof(To) * 8 - 1) : To{0});
}

template <class Bare, class Middle>
void decode(const void* from, int64_t stride, void* to, int64_t n) {
  auto* source = static_cast<const Bare*>(from);
  auto* target = static_cast<Middle*>(to);
  for (int64_t i = 0; i < n; ++i) target[i] = static_cast<Middle>(source[i * stride]);
}

template <class Middle, class Bare>
Bare encode_one(Middle value) {
  if constexpr (std::is_floating_point_v<Middle> && std::is_integral_v<Bare>) {
    if constexpr (sizeof(Bare) >= 4) return unsigned_of<Bare>(value);
    // 16 bits are the lower half of 32.
    const bool fits = value >= Middle(-0x1p31) && value < Middle(0x1p31);
    return static_cast<Bare>(fits ? static_cast<int32_t>(value) : 0);
  } else return static_cast<Bare>(value);
}

template <class Middle, class Bare>
void encode(const void* from, void* to, int64_t stride, int64_t n) {
  auto* source = static_cast<const Middle*>(from);
  auto* target = static_cast<Bare*>(to);
  for (int64_t i = 0; i < n; ++i) target[i * stride] = encode_one<Middle, Bare>(source[i]);
}

// Calls body(Bare{}, Middle{}) with the types of the two dtypes; 8-bit floats only go through float.
template <class Body>
void visit_pair(DType bare, DType middle, Body&& body) {
  visit_bare("copy", bare, [&](auto type) {
    if constexpr (std::is_integral_v<decltype(type)>) {
      if (middle == DType::Int64) return body(type, int64_t{});
      if (middle == DType::Float64) return body(type, double{});
    }
    body(type, float{});
  });
}

// Holds all that both have, or the rounding that PyTorch does in between.
DType middle_of(DType from, DType to) {
  if (is_float8(from) || is_float8(to)) return DType::Float32;
  const DType other = is_bare(from) ? to : from;
  if (is_integral(other)) return DType::Int64;
  return other == DType::Float64 ? DType::Float64 : DType::Float32;
}

void copy_items(DType dtype, const void* from, int64_t from_stride, void* to, int64_t to_stride,
                int64_t n) {
  visit_itemsize(dtype, [&](auto type) {
    using T = decltype(type);
    auto* source = static_cast<const T*>(from);
    auto* target = static_cast<T*>(to);
    for (int64_t i = 0; i < n; ++i) target[i * to_stride] = source[i * from_stride];
  });
}

void convert_bare(DType from, DType to, const void* source, int64_t from_stride, void* target,
                  int64_t to_stride, int64_t n) {
  if (from == to) return copy_items(from, source, from_stride, target, to_stride, n);
  if (is_complex(from))
    return converter(real_dtype(from), to)(source, 2 * from_stride, target, to_stride, n);
  if (is_complex(to)) {
    const auto part = static_cast<int64_t>(itemsize(real_dtype(to)));
    converter(from, real_dtype(to))(source, from_stride, target, 2 * to_stride, n);
    const int zero = 0;
    for (int64_t i = 0; i < n; ++i)
      converter(DType::Int32, real_dtype(to))(
          &zero, 0, static_cast<char*>(target) + (2 * i * to_stride + 1) * part, 1, 1);
    return;
  }
  const DType middle = middle_of(from, to);
  alignas(64) char tile[kTile * 8];
  auto* at = static_cast<const char*>(source);
  auto* out = static_cast<char*>(target);
  for (int64_t done = 0; done < n; done += kTile) {
    const int64_t count = std::min(kTile, n - done);
    if (is_bare(from)) {
      visit_pair(from, middle, [&](auto bare, auto type) {
        decode<decltype(bare), decltype(type)>(at, from_stride, tile, count);
      });
    } else converter(from, middle)(at, from_stride, tile, 1, count);
    if (is_bare(to)) {
      visit_pair(to, middle, [&](auto bare, auto type) {
        encode<decltype(type), decltype(bare)>(tile, out, to_stride, count);
      });
    } else converter(middle, to)(tile, 1, out, to_stride, count);
    at += count * from_stride * static_cast<int64_t>(itemsize(from));
    out += count * to_stride * static_cast<int64_t>(itemsize(to));
  }
}

// ---- a Convert for each pair

template <int kPair>
void convert_pair(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  convert_bare(static_cast<DType>(kPair / kAllDTypes), static_cast<DType>(kPair % kAllDTypes), from,
               from_stride, to, to_stride, n);
}

template <int kPair>
constexpr Convert entry() {
  constexpr auto from = static_cast<DType>(kPair / kAllDTypes);
  constexpr auto to = static_cast<DType>(kPair % kAllDTypes);
  if constexpr (is_bare(from) || is_bare(to)) return convert_pair<kPair>;
  else return nullptr;
}

template <int... kPairs>
constexpr auto make_table(std::integer_sequence<int, kPairs...>) {
  return std::array<Convert, sizeof...(kPairs)>{entry<kPairs>()...};
}
constinit const auto conversions =
    make_table(std::make_integer_sequence<int, kAllDTypes * kAllDTypes>{});

}  // namespace

Convert bare_converter(DType from, DType to) {
  return conversions[static_cast<size_t>(from) * kAllDTypes + static_cast<size_t>(to)];
}

}  // namespace tapegrad::cpu
