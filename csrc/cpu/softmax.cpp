// The driver of softmax and log_softmax over a contiguous block [outer, length, inner].
//
// Memory is passed twice, whatever the length. The first pass takes a part that fits the cache
// (a chunk of a line, or a tile of rows when columns are normalised), finds its own maximum, and
// leaves its exponentials in the output; maxima and sums of the parts are merged as they come.
// The second pass multiplies each part by exp(own maximum - maximum) / sum. log_softmax does not
// store the exponentials and subtracts in the second pass. A single part is finished in cache.
#include <algorithm>
#include <memory>

#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/softmax_kernels.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 4096;  // an exponential is dearer than an addition

struct Block {
  const SoftmaxKernels& kernels;
  int64_t outer = 1, length = 1, inner = 1;
  int64_t itemsize;

  // Attribute: the dimension.
  Block(const OpCall& call, bool log) : kernels(find(call, log)) {
    const TensorImpl& x = call.in(0);
    const int64_t dim = call.integer(0);
    for (int64_t d = 0; d < x.dim(); ++d)
      (d < dim ? outer : d == dim ? length : inner) *= x.size(d);
    itemsize = static_cast<int64_t>(tapegrad::itemsize(x.dtype()));
  }

 private:
  static const SoftmaxKernels& find(const OpCall& call, bool log) {
    const DType dtype = call.in(0).dtype();
    if (dtype != DType::Float32 && dtype != DType::Float64)
      fail_unsupported_dtype(call.op.name, dtype);
    return best_softmax_table().kernels[log][dtype == DType::Float64];
  }
};

constexpr SoftmaxState kEmpty{-__builtin_huge_val(), 0};

void softmax_lines(const Block& block, const char* x, char* y, int64_t begin, int64_t end) {
  const int64_t n = block.length, step = kSoftmaxChunk * block.itemsize;
  x += begin * n * block.itemsize;
  y += begin * n * block.itemsize;
  if (n <= kShortLine && end - begin >= 8) return block.kernels.short_lines(x, y, end - begin, n);
  const int64_t chunks = (n + kSoftmaxChunk - 1) / kSoftmaxChunk;
  double inline_top;
  auto tops = chunks > 1 ? std::make_unique<double[]>(chunks) : nullptr;
  double* top = tops ? tops.get() : &inline_top;
  for (int64_t line = begin; line < end; ++line) {
    SoftmaxState state = kEmpty;
    for (int64_t k = 0; k < chunks; ++k)
      block.kernels.open_line(x + k * step, y + k * step,
                              std::min(kSoftmaxChunk, n - k * kSoftmaxChunk), top + k, &state);
    for (int64_t k = 0; k < chunks; ++k)
      block.kernels.close_line(x + k * step, y + k * step,
                               std::min(kSoftmaxChunk, n - k * kSoftmaxChunk), top + k, state);
    x += n * block.itemsize;
    y += n * block.itemsize;
  }
}

// Few long lines: threads share the chunks of each. States are merged in order.
void softmax_long_lines(const Block& block, const char* x, char* y) {
  const int64_t n = block.length, step = kSoftmaxChunk * block.itemsize;
  const int64_t chunks = (n + kSoftmaxChunk - 1) / kSoftmaxChunk;
  const int64_t parts = std::min<int64_t>(num_threads(), chunks);
  auto tops = std::make_unique<double[]>(chunks);
  auto states = std::make_unique<SoftmaxState[]>(parts);
  auto for_each_chunk = [&](auto&& body) {
    parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part)
        for (int64_t k = chunks * part / parts; k < chunks * (part + 1) / parts; ++k)
          body(part, k, std::min(kSoftmaxChunk, n - k * kSoftmaxChunk));
    });
  };
  for (int64_t line = 0; line < block.outer; ++line) {
    std::fill_n(states.get(), parts, kEmpty);
    for_each_chunk([&](int64_t part, int64_t k, int64_t count) {
      block.kernels.open_line(x + k * step, y + k * step, count, &tops[k], &states[part]);
    });
    SoftmaxState whole = kEmpty;
    for (int64_t part = 0; part < parts; ++part) block.kernels.merge(&whole, states[part]);
    for_each_chunk([&](int64_t, int64_t k, int64_t count) {
      block.kernels.close_line(x + k * step, y + k * step, count, &tops[k], whole);
    });
    x += n * block.itemsize;
    y += n * block.itemsize;
  }
}

// Columns in strips, numbered through all blocks.
struct Strips {
  int64_t width, per_block, total;
  Strips(const Block& block, int64_t threads) {
    const int64_t share = (block.inner + threads - 1) / threads;
    width = std::clamp<int64_t>((share + 15) / 16 * 16, 16, kSoftmaxColumns);
    per_block = (block.inner + width - 1) / width;
    total = per_block * block.outer;
  }
  template <class Body>
  void run(const Block& block, int64_t begin, int64_t end, Body&& body) const {
    for (int64_t strip = begin; strip < end; ++strip) {
      const int64_t column = strip % per_block * width;
      const int64_t at = strip / per_block * block.length * block.inner + column;
      body(at * block.itemsize, std::min(width, block.inner - column));
    }
  }
};

void softmax_strip(const Block& block, const char* x, char* y, int64_t columns) {
  const int64_t rows = std::max<int64_t>(1, kSoftmaxTile / columns);
  const int64_t tiles = (block.length + rows - 1) / rows;
  const int64_t step = rows * block.inner * block.itemsize, line = columns * block.itemsize;
  // Row k: the tops after tile k. The last row is complete.
  auto history = std::make_unique<char[]>(tiles * line);
  alignas(64) char tops[kSoftmaxColumns * 8], sums[kSoftmaxColumns * 8] = {};
  block.kernels.fill_lowest(tops, columns);
  auto tile = [&](int64_t k) {
    return SoftmaxTile{std::min(rows, block.length - k * rows), columns, block.inner, k == 0,
                       k + 1 == tiles};
  };
  for (int64_t k = 0; k < tiles; ++k) {
    block.kernels.open_tile(x + k * step, y + k * step, tile(k), tops, sums);
    std::copy_n(tops, line, history.get() + k * line);
  }
  for (int64_t k = 0; k < tiles; ++k)
    block.kernels.close_tile(x + k * step, y + k * step, tile(k), history.get() + k * line, tops,
                             sums);
}

void forward(const OpCall& call, bool log) {
  const Block block(call, log);
  const int64_t numel = call.out().numel();
  if (numel == 0) return;
  auto* x = static_cast<const char*>(call.in(0).data());
  auto* y = static_cast<char*>(call.out().data());
  if (block.inner == 1) {
    if (numel <= kGrain) return softmax_lines(block, x, y, 0, block.outer);
    BlockingSection blocking;
    if (block.outer < num_threads() && block.length > 2 * kSoftmaxChunk)
      return softmax_long_lines(block, x, y);
    parallel_for(0, block.outer, std::max<int64_t>(1, kGrain / block.length),
                 [&](int64_t begin, int64_t end) { softmax_lines(block, x, y, begin, end); });
    return;
  }
  const Strips strips(block, numel <= kGrain ? 1 : num_threads());
  auto work = [&](int64_t begin, int64_t end) {
    strips.run(block, begin, end,
               [&](int64_t at, int64_t columns) { softmax_strip(block, x + at, y + at, columns); });
  };
  if (numel <= kGrain) return work(0, strips.total);
  BlockingSection blocking;
  parallel_for(0, strips.total, 1, work);
}

void backward(const OpCall& call, bool log) {
  const Block block(call, log);
  const int64_t numel = call.out().numel();
  if (numel == 0) return;
  auto* grad = static_cast<const char*>(call.in(0).data());
  auto* y = static_cast<const char*>(call.in(1).data());
  auto* out = static_cast<char*>(call.out().data());
  const int64_t line = block.length * block.itemsize;
  auto lines = [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k)
      block.kernels.line_backward(grad + k * line, y + k * line, out + k * line, block.length);
  };
  const Strips strips(block, numel <= kGrain ? 1 : num_threads());
  auto columns = [&](int64_t begin, int64_t end) {
    strips.run(block, begin, end, [&](int64_t at, int64_t count) {
      block.kernels.columns_backward(grad + at, y + at, out + at,
                                     {block.length, count, block.inner, true, true});
    });
  };
  const bool by_lines = block.inner == 1;
  if (numel <= kGrain) return by_lines ? lines(0, block.outer) : columns(0, strips.total);
  BlockingSection blocking;
  if (by_lines) parallel_for(0, block.outer, std::max<int64_t>(1, kGrain / block.length), lines);
  else parallel_for(0, strips.total, 1, columns);
}

void softmax(const OpCall& call) { forward(call, false); }
void log_softmax(const OpCall& call) { forward(call, true); }
void softmax_backward(const OpCall& call) { backward(call, false); }
void log_softmax_backward(const OpCall& call) { backward(call, true); }

// Operands are contiguous.
const KernelList<DeviceType::CPU> kKernels = {
    {"softmax", softmax},
    {"log_softmax", log_softmax},
    {"softmax_backward", softmax_backward},
    {"log_softmax_backward", log_softmax_backward},
};

}  // namespace

}  // namespace tapegrad::cpu
