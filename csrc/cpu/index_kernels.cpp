// Compiled once per instruction set.
#include "cpu/index_kernels.h"

#include <algorithm>

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

bool offsets(const IndexColumn* columns, int count, int64_t first, int64_t n, int64_t* out) {
  uint64_t outside = 0;
  for (int c = 0; c < count; ++c) {
    const int64_t* index = columns[c].data + first;
    int64_t size = columns[c].size, stride = columns[c].stride, wrap = columns[c].wrap;
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = index[i] + (index[i] < 0 ? wrap : 0);
      outside |= at < 0 || at >= size;
      // Unsigned: the place of an index out of range is never used, but must not overflow.
      out[i] = (c == 0 ? 0 : out[i]) +
               static_cast<int64_t>(static_cast<uint64_t>(at) * static_cast<uint64_t>(stride));
    }
  }
  return outside == 0;
}

bool in_range(const int64_t* index, int64_t n, int64_t size, int64_t wrap) {
  uint64_t outside = 0;
  for (int64_t i = 0; i < n; ++i) outside |= index[i] < -wrap || index[i] >= size;
  return outside == 0;
}

template <class T>
void gather(const void* from, const int64_t* offsets, int64_t n, void* to) {
  auto* source = static_cast<const T*>(from);
  auto* target = static_cast<T*>(to);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) target[i] = source[offsets[i]];
}

template <class T>
void gather_run(const void* from, const int64_t* index, int64_t n, int64_t stride, int64_t step,
                void* to) {
  auto* source = static_cast<const T*>(from);
  auto* target = static_cast<T*>(to);
  if (step == 0 && stride == 1) return gather<T>(from, index, n, to);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) target[i] = source[index[i] * stride + i * step];
}

template <class T>
void reverse(const void* from, int64_t n, void* to) {
  auto* source = static_cast<const T*>(from);
  auto* target = static_cast<T*>(to);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) target[i] = source[-i];
}

template <class T>
void add(void* to, const void* from, int64_t n) {
  auto* target = static_cast<T*>(to);
  auto* source = static_cast<const T*>(from);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) target[i] = static_cast<T>(target[i] + source[i]);
}

template <class T>
void masked_fill(void* to, const void* from, const bool* mask, int64_t n, const void* value) {
  auto* target = static_cast<T*>(to);
  auto* source = static_cast<const T*>(from);
  auto* flags = reinterpret_cast<const uint8_t*>(mask);
  T filler = *static_cast<const T*>(value);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    T select = static_cast<T>(-static_cast<T>(flags[i]));  // all bits, or none
    target[i] = static_cast<T>((filler & select) | (source[i] & static_cast<T>(~select)));
  }
}

void masked_fill_wide(void* to, const void* from, const bool* mask, int64_t n, const void* value) {
  auto* target = static_cast<Bytes16*>(to);
  auto* source = static_cast<const Bytes16*>(from);
  const Bytes16 filler = *static_cast<const Bytes16*>(value);
  for (int64_t i = 0; i < n; ++i) target[i] = mask[i] ? filler : source[i];
}

int64_t count_set(const bool* mask, int64_t n) {
  // In short runs, so that 32 bits suffice for the inner sums.
  auto* flags = reinterpret_cast<const uint8_t*>(mask);
  int64_t total = 0;
  while (n > 0) {
    int64_t run = std::min<int64_t>(n, 4096);
    uint32_t sum = 0;
    for (int64_t i = 0; i < run; ++i) sum += flags[i];
    total += sum;
    flags += run;
    n -= run;
  }
  return total;
}

}  // namespace

extern const IndexTable index_table;
// Constant-initialised: no code of this file may run before the instruction set is known.
constinit const IndexTable index_table = {
    offsets,
    in_range,
    {gather<uint8_t>, gather<uint16_t>, gather<uint32_t>, gather<uint64_t>, gather<Bytes16>},
    {gather_run<uint8_t>, gather_run<uint16_t>, gather_run<uint32_t>, gather_run<uint64_t>,
     gather_run<Bytes16>},
    {reverse<uint8_t>, reverse<uint16_t>, reverse<uint32_t>, reverse<uint64_t>, reverse<Bytes16>},
    // Integers wrap around, hence the unsigned types.
    {add<bool>, add<uint8_t>, add<uint8_t>, add<uint16_t>, add<uint32_t>, add<uint64_t>, add<Half>,
     add<BFloat16>, add<float>, add<double>},
    {masked_fill<uint8_t>, masked_fill<uint16_t>, masked_fill<uint32_t>, masked_fill<uint64_t>,
     masked_fill_wide},
    count_set,
};

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
