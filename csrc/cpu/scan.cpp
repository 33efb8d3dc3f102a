// The driver of the scans. Input and outputs are contiguous and of one shape: a scan along
// one dimension is a set of lines in a block [outer, length, inner].
#include <algorithm>
#include <memory>

#include "core/error.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/scan_kernels.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 16384;
constexpr int64_t kLinesPerBlock = 256;
constexpr int64_t kPartsPerThread = 4;  // of one long line, scanned interleaved

struct Geometry {
  int64_t outer = 1, length = 1, inner = 1;
  Geometry(const TensorImpl& x, int64_t dim) {
    for (int64_t d = 0; d < x.dim(); ++d)
      (d < dim ? outer : d == dim ? length : inner) *= x.size(d);
  }
};

ScanType scan_type(const OpCall& call, DType dtype) {
  switch (dtype) {
    case DType::Int64:
      return ScanType::Int64;
    case DType::Float16:
      return ScanType::Float16;
    case DType::BFloat16:
      return ScanType::BFloat16;
    case DType::Float32:
      return ScanType::Float32;
    case DType::Float64:
      return ScanType::Float64;
    default:
      fail_unsupported_dtype(call.op.name, dtype);
  }
}

struct ScanPlan {
  const ScanKernel& kernel;
  Geometry geometry;
  int64_t itemsize;
  const char* x;
  char* y;
  int64_t* places;
  bool reverse;

  // `lines` neighbouring lines, the first of which begins at element `begin`.
  void run(int64_t begin, const ScanStrip& strip, void* states) const {
    kernel.scan(x + begin * itemsize, y + begin * itemsize, places ? places + begin : nullptr,
                strip, states);
  }
  ScanStrip strip(int64_t lines) const {
    const int64_t step = reverse ? -geometry.inner : geometry.inner;
    return {geometry.length, step, lines, geometry.inner == 1 ? geometry.length : 1};
  }
  // Where a line begins, from the end when the scan runs backwards.
  int64_t start() const { return reverse ? (geometry.length - 1) * geometry.inner : 0; }
};

struct StateBlock {
  alignas(64) char bytes[kLinesPerBlock * kMaxScanStateBytes];
};

// Lines [begin, end), numbered through all blocks.
void scan_lines(const ScanPlan& plan, int64_t begin, int64_t end) {
  const Geometry& g = plan.geometry;
  StateBlock states;
  while (begin < end) {
    int64_t lines = std::min(kLinesPerBlock, end - begin);
    int64_t at;
    if (g.inner == 1) {
      at = begin * g.length;
    } else {
      const int64_t column = begin % g.inner;
      lines = std::min(lines, g.inner - column);
      at = begin / g.inner * g.length * g.inner + column;
    }
    plan.kernel.init(states.bytes, lines);
    plan.run(at + plan.start(), plan.strip(lines), states.bytes);
    begin += lines;
  }
}

// One long line: cut into parts, whose starting states come from a first pass of plain totals.
void scan_parts(const ScanPlan& plan, int64_t line, int64_t threads) {
  const int64_t parts = threads * kPartsPerThread;
  const int64_t length = plan.geometry.length / parts, rest = plan.geometry.length - length * parts;
  const int64_t direction = plan.reverse ? -1 : 1;
  const int64_t origin = line * plan.geometry.length + plan.start();
  auto states = std::make_unique<StateBlock>();
  const int64_t bytes = plan.kernel.state_bytes;
  plan.kernel.init(states->bytes, parts);
  ScanStrip strip{length, direction, parts, direction * length};
  plan.kernel.offsets(plan.x + origin * plan.itemsize, strip, states->bytes);
  parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t * kPartsPerThread;
      ScanStrip own{length, direction, kPartsPerThread, direction * length};
      plan.run(origin + direction * first * length, own, states->bytes + first * bytes);
    }
  });
  ScanStrip tail{rest, direction, 1, direction};
  plan.run(origin + direction * parts * length, tail, states->bytes + (parts - 1) * bytes);
}

// Attributes: dimension, whether to run backwards.
void scan(const OpCall& call, ScanKind kind) {
  const TensorImpl& x = call.in(0);
  if (x.numel() == 0) return;
  const ScanType type = scan_type(call, x.dtype());
  ScanPlan plan{best_scan_table().kernels[static_cast<int>(kind)][static_cast<int>(type)],
                Geometry(x, call.integer(0)),
                static_cast<int64_t>(itemsize(x.dtype())),
                static_cast<const char*>(x.data()),
                static_cast<char*>(call.out().data()),
                call.outputs.size() > 1 ? call.out(1).data_as<int64_t>() : nullptr,
                call.attributes[1].as_bool()};
  if (!plan.kernel.scan) fail_unsupported_dtype(call.op.name, x.dtype());
  const int64_t lines = plan.geometry.outer * plan.geometry.inner;
  if (x.numel() <= kGrain) return scan_lines(plan, 0, lines);
  BlockingSection blocking;
  const bool long_lines = plan.geometry.inner == 1 && plan.geometry.length >= kGrain;
  if (long_lines && plan.kernel.offsets && lines < kPartsPerThread * num_threads()) {
    for (int64_t line = 0; line < lines; ++line) scan_parts(plan, line, num_threads());
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kGrain / plan.geometry.length);
  parallel_for(0, lines, grain, [&](int64_t begin, int64_t end) { scan_lines(plan, begin, end); });
}

void cumsum(const OpCall& call) { scan(call, ScanKind::Sum); }
void cumprod(const OpCall& call) { scan(call, ScanKind::Prod); }
void logcumsumexp(const OpCall& call) { scan(call, ScanKind::LogSumExp); }
void cummax(const OpCall& call) { scan(call, ScanKind::Max); }
void cummin(const OpCall& call) { scan(call, ScanKind::Min); }

// Inputs: the factors and the terms. Attributes as above.
void recurrence(const OpCall& call) {
  const TensorImpl& a = call.in(0);
  if (a.numel() == 0) return;
  const ScanType type = scan_type(call, a.dtype());
  Recurrence run = best_scan_table().recurrence[static_cast<int>(type)];
  if (!run) fail_unsupported_dtype(call.op.name, a.dtype());
  const Geometry g(a, call.integer(0));
  const bool reverse = call.attributes[1].as_bool();
  const int64_t item = static_cast<int64_t>(itemsize(a.dtype()));
  const int64_t start = reverse ? (g.length - 1) * g.inner : 0;
  const ScanStrip strip{g.length, reverse ? -g.inner : g.inner, g.inner, 1};
  BlockingSection blocking;
  parallel_for(0, g.outer, std::max<int64_t>(1, kGrain / (g.length * g.inner)),
               [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t at = (block * g.length * g.inner + start) * item;
      run(static_cast<const char*>(a.data()) + at, static_cast<const char*>(call.in(1).data()) + at,
          static_cast<char*>(call.out().data()) + at, strip);
    }
  });
}

// Operands are contiguous.
const KernelList<DeviceType::CPU> kKernels = {
    {"cumsum", cumsum}, {"cumprod", cumprod}, {"logcumsumexp", logcumsumexp},
    {"cummax", cummax}, {"cummin", cummin},   {"recurrence", recurrence},
};

}  // namespace

}  // namespace tapegrad::cpu
