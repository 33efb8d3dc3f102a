// The inner loops of the scans, compiled once per instruction set.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "cpu/isa.h"

namespace tapegrad::cpu {

enum class ScanKind : uint8_t { Sum, Prod, LogSumExp, Max, Min };
inline constexpr int kScanKinds = 5;

enum class ScanType : uint8_t { Int64, Float16, BFloat16, Float32, Float64 };
inline constexpr int kScanTypes = 5;

// Lines of `length` elements `step` apart; line k begins at k * line_stride. The step is negative
// when the scan runs backwards.
struct ScanStrip {
  int64_t length, step, lines, line_stride;
};

inline constexpr int64_t kMaxScanStateBytes = 16;

struct ScanKernel {
  void (*init)(void* states, int64_t count);
  // Continues from the states. `places` is written by Max and Min only.
  void (*scan)(const void* x, void* y, int64_t* places, const ScanStrip& strip, void* states);
  // states[k + 1] = states[k] combined with all of line k, for k + 1 < lines: where lines that are
  // parts of one begin. Null when parts cannot be combined ahead of time.
  void (*offsets)(const void* x, const ScanStrip& strip, void* states);
  int64_t state_bytes;
};

// y[t] = b[t] + a[t] * y[t - 1] along lines, with y[-1] = 0.
using Recurrence = void (*)(const void* a, const void* b, void* y, const ScanStrip& strip);

struct ScanTable {
  ScanKernel kernels[kScanKinds][kScanTypes];
  Recurrence recurrence[kScanTypes];
};
TAPEGRAD_ISA_TABLE(ScanTable, scan_table)

}  // namespace tapegrad::cpu
