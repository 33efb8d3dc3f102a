// The driver of all reductions: geometry, threads and conversions around the kernels of
// reduce_kernels.cpp.
//
// A call names the reduced dimensions as a bit mask; its outputs are contiguous over the kept ones.
// Dimensions are first merged wherever memory allows, so that most calls become a matrix. Then
// either rows are reduced (the innermost reduced dimension is the one with adjacent elements) or
// columns (a kept dimension is), whole rows of memory being read in both cases.
//
// Threads take different results when there are enough of them. Otherwise the longest reduced
// dimension is cut into one part per thread, and the parts' states are merged in order: the
// result depends on the number of threads only, never on timing.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/reduce_kernels.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 16384;  // elements below which a second thread does not pay
constexpr int64_t kStateBlock = 256;
constexpr int64_t kNarrow = 128;  // columns below which rows are taken several at a time

struct Axis {
  int64_t size, stride, out_stride;
};

// Axes from the innermost, merged where memory allows.
class AxisList {
 public:
  // Must be called from the last dimension to the first.
  void add(Axis axis) {
    if (axis.size == 1) return;
    if (rank_ > 0) {
      Axis& inner = axes_[rank_ - 1];
      if (axis.stride == inner.stride * inner.size &&
          axis.out_stride == inner.out_stride * inner.size) {
        inner.size *= axis.size;
        return;
      }
    }
    axes_[rank_++] = axis;
  }
  void sort_by_stride() {
    std::stable_sort(axes_, axes_ + rank_, [](const Axis& a, const Axis& b) {
      return std::abs(a.stride) < std::abs(b.stride);
    });
  }
  bool empty() const { return rank_ == 0; }
  // Takes an axis out; without any there is one element.
  Axis take(int index) {
    if (empty()) return {1, 1, 1};
    Axis axis = axes_[index];
    std::copy(axes_ + index + 1, axes_ + rank_, axes_ + index);
    --rank_;
    return axis;
  }
  // The axis whose elements are adjacent, or -1.
  int find_adjacent() const {
    for (int i = 0; i < rank_; ++i)
      if (axes_[i].stride == 1) return i;
    return -1;
  }
  int64_t count() const {
    int64_t product = 1;
    for (int i = 0; i < rank_; ++i) product *= axes_[i].size;
    return product;
  }
  // Calls visit(offset, out_offset) for every combination.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (int64_t i = 0, total = count(); i < total; ++i) {
      auto [offset, out_offset] = locate(i);
      visit(offset, out_offset);
    }
  }
  std::pair<int64_t, int64_t> locate(int64_t number) const {
    int64_t offset = 0, out_offset = 0;
    for (int i = 0; i < rank_; ++i) {
      const int64_t index = number % axes_[i].size;
      number /= axes_[i].size;
      offset += index * axes_[i].stride;
      out_offset += index * axes_[i].out_stride;
    }
    return {offset, out_offset};
  }

 private:
  int rank_ = 0;
  Axis axes_[kMaxRank];
};

// One reduction: `line` is what a kernel call reduces, `across` the kept axis it runs over at the
// same time; the others are walked from outside.
struct Plan {
  const ReduceKernel* kernel;
  ReduceParams params;
  ReduceSource source;
  char* outs[2];
  int64_t out_bytes[2];
  Convert store[2];  // null: the kernel writes the output itself
  Axis line, across;
  AxisList outer_kept, outer_reduced;
  bool by_columns;

  int64_t results() const { return across.size * outer_kept.count(); }
  int64_t reduced() const { return line.size * outer_reduced.count(); }
};

// The part of the line that a call reduces.
struct LineRange {
  int64_t begin, end;
};

class States {
 public:
  States(const ReduceKernel& kernel, int64_t count) : kernel_(kernel) {
    const int64_t bytes = count * kernel.state_bytes;
    if (bytes > static_cast<int64_t>(sizeof inline_)) heap_.reset(new char[bytes]);
    kernel.init(data(), count);
  }
  char* data() { return heap_ ? heap_.get() : inline_; }
  char* at(int64_t index) { return data() + index * kernel_.state_bytes; }

 private:
  const ReduceKernel& kernel_;
  std::unique_ptr<char[]> heap_;
  alignas(64) char inline_[kStateBlock * kMaxStateBytes];
};

// ---- folding a block of results

void fold_rows(const Plan& plan, const ReduceSource& source, LineRange range, int64_t count,
               char* states) {
  const Axis& line = plan.line;
  plan.outer_reduced.for_each([&](int64_t offset, int64_t) {
    RowStrip strip{line.stride, plan.across.stride, count, range.end - range.begin, range.begin};
    plan.kernel->rows(source.at(offset + range.begin * line.stride), strip, states);
  });
}

// How many rows of a narrow dense matrix are taken as one, so that vectors are filled.
int64_t fold_factor(const Plan& plan) {
  const int64_t columns = plan.across.size;
  if (columns >= kNarrow || plan.line.stride != columns) return 1;
  return std::clamp<int64_t>(plan.line.size, 1, 2 * kNarrow / columns);
}

void fold_columns(const Plan& plan, const ReduceSource& source, LineRange range, int64_t count,
                  int64_t factor, char* states) {
  const Axis& line = plan.line;
  plan.outer_reduced.for_each([&](int64_t offset, int64_t) {
    ReduceSource top = source.at(offset + range.begin * line.stride);
    const int64_t rows = range.end - range.begin;
    const int64_t wide = rows / factor, rest = rows % factor, first = range.begin / factor;
    if (wide > 0) {
      ColumnStrip strip{line.stride * factor, wide, count * factor, first};
      plan.kernel->columns(top, strip, states);
    }
    if (rest > 0) {
      ColumnStrip strip{line.stride, 1, count * rest, first + wide};
      plan.kernel->columns(top.at(wide * factor * line.stride), strip, states);
    }
  });
}

void store(const Plan& plan, const char* states, int64_t count, int64_t out_offset) {
  const int64_t stride = plan.across.out_stride;
  void* targets[2] = {};
  alignas(64) char buffers[2][kMaxColumns * 8];
  bool direct = true;
  for (int i = 0; i < 2; ++i) {
    if (!plan.outs[i]) continue;
    targets[i] = plan.store[i] ? buffers[i] : plan.outs[i] + out_offset * plan.out_bytes[i];
    direct = direct && !plan.store[i];
  }
  if (direct) {
    plan.kernel->finish(states, count, plan.params, targets[0], targets[1], stride);
    return;
  }
  // One output needs a conversion: both go through buffers.
  for (int i = 0; i < 2; ++i)
    if (plan.outs[i]) targets[i] = buffers[i];
  plan.kernel->finish(states, count, plan.params, targets[0], targets[1], 1);
  for (int i = 0; i < 2; ++i) {
    if (!plan.outs[i]) continue;
    DType produced = plan.kernel->produces[i];
    Convert convert = plan.store[i] ? plan.store[i] : converter(produced, produced);
    convert(buffers[i], 1, plan.outs[i] + out_offset * plan.out_bytes[i], stride, count);
  }
}

// Folds `count` neighbouring results, beginning with number `begin` of the strip at `kept`.
struct Block {
  int64_t offset, out_offset, count;
};

void fold_block(const Plan& plan, const Block& block, LineRange range, char* states,
                int64_t factor) {
  ReduceSource source = plan.source.at(block.offset);
  if (plan.by_columns) fold_columns(plan, source, range, block.count, factor, states);
  else fold_rows(plan, source, range, block.count, states);
}

// ---- threads

// Results in blocks that never cross from one strip to the next.
struct Blocks {
  int64_t width, per_strip, total;
  Blocks(const Plan& plan, int64_t width)
      : width(width),
        per_strip((plan.across.size + width - 1) / width),
        total(per_strip * plan.outer_kept.count()) {}
  Block at(const Plan& plan, int64_t number) const {
    auto [offset, out_offset] = plan.outer_kept.locate(number / per_strip);
    const int64_t begin = number % per_strip * width;
    return {offset + begin * plan.across.stride, out_offset + begin * plan.across.out_stride,
            std::min(width, plan.across.size - begin)};
  }
};

void reduce_blocks(const Plan& plan, const Blocks& blocks, int64_t begin, int64_t end,
                   int64_t factor) {
  States states(*plan.kernel, std::min(blocks.width, plan.across.size) * factor);
  for (int64_t i = begin; i < end; ++i) {
    Block block = blocks.at(plan, i);
    plan.kernel->init(states.data(), block.count * factor);
    fold_block(plan, block, {0, plan.line.size}, states.data(), factor);
    if (factor > 1) plan.kernel->fold(states.data(), block.count, factor);
    store(plan, states.data(), block.count, block.out_offset);
  }
}

// Few results, each of many elements: every thread folds a part of the line of every result.
void reduce_parts(const Plan& plan, const Blocks& blocks, int64_t parts, int64_t factor) {
  // With a gap between the states of two parts: threads that write to one cache line wait for each other.
  constexpr int64_t kGap = 128;
  const int64_t slots = blocks.width * factor + kGap / plan.kernel->state_bytes + 1;
  States states(*plan.kernel, parts * slots);
  // Parts begin at multiples of the factor, so that wide rows have whole numbers.
  const int64_t units = plan.line.size / factor;
  auto boundary = [&](int64_t part) {
    return part == parts ? plan.line.size : units * part / parts * factor;
  };
  for (int64_t i = 0; i < blocks.total; ++i) {
    Block block = blocks.at(plan, i);
    plan.kernel->init(states.data(), parts * slots);
    parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part)
        fold_block(plan, block, {boundary(part), boundary(part + 1)}, states.at(part * slots),
                   factor);
    });
    for (int64_t part = 1; part < parts; ++part)
      plan.kernel->merge(states.data(), states.at(part * slots), block.count * factor);
    if (factor > 1) plan.kernel->fold(states.data(), block.count, factor);
    store(plan, states.data(), block.count, block.out_offset);
  }
}

int64_t block_width(const Plan& plan, int64_t threads) {
  if (!plan.by_columns) return std::min(kStateBlock, plan.across.size);
  // At least one block per thread, of columns enough to read memory in long runs.
  const int64_t share = (plan.across.size + threads - 1) / threads;
  return std::clamp<int64_t>((share + 63) / 64 * 64, 64, kMaxColumns);
}

void run(const Plan& plan) {
  const int64_t numel = plan.results() * plan.reduced();
  const int64_t factor = plan.by_columns ? fold_factor(plan) : 1;
  if (numel <= kGrain) {
    const Blocks blocks(plan, block_width(plan, 1));
    return reduce_blocks(plan, blocks, 0, blocks.total, factor);
  }
  BlockingSection blocking;
  const int64_t threads = std::min<int64_t>(num_threads(), numel / kGrain + 1);
  // Enough results for every thread: at least four rows each, or a block of columns.
  const bool enough = plan.by_columns
                          ? plan.across.size * plan.outer_kept.count() >= 64 * threads * 4
                          : plan.results() >= 4 * threads;
  const int64_t parts = std::min(threads, plan.line.size / factor);
  if (threads == 1 || enough || parts < 2) {
    int64_t width = block_width(plan, threads);
    if (!plan.by_columns) width = std::clamp<int64_t>(plan.results() / (4 * threads), 1, width);
    if (factor > 1) width = plan.across.size;  // rows taken as one must be whole
    const Blocks blocks(plan, width);
    parallel_for(0, blocks.total, 1, [&](int64_t begin, int64_t end) {
      reduce_blocks(plan, blocks, begin, end, factor);
    });
  } else {
    reduce_parts(plan, Blocks(plan, block_width(plan, 1)), parts, factor);
  }
}

// ---- setting up

// A strip of columns has at most kMaxColumns, folded ones included.
static_assert(2 * kNarrow <= kMaxColumns);

void choose_axes(Plan& plan, const TensorImpl& x, uint64_t mask) {
  AxisList &kept = plan.outer_kept, &reduced = plan.outer_reduced;
  int64_t out_stride = 1;
  bool nothing = false;
  for (int64_t d = x.dim() - 1; d >= 0; --d) {
    if (mask >> d & 1) {
      reduced.add({x.size(d), x.stride(d), 0});
      nothing |= x.size(d) == 0;
    } else {
      kept.add({x.size(d), x.stride(d), out_stride});
      out_stride *= x.size(d);
    }
  }
  if (nothing) {  // not to be walked along the other axes, which may have any size
    reduced = AxisList();
    reduced.add({0, 1, 0});
  }
  reduced.sort_by_stride();
  const int adjacent = kept.find_adjacent();
  plan.by_columns = adjacent >= 0 && reduced.find_adjacent() != 0;
  plan.line = reduced.take(0);
  plan.across = kept.take(plan.by_columns ? adjacent : 0);
}

const ReduceKernel& find_kernel(const OpCall& call, ReduceKind kind, DType dtype) {
  const ReduceKernel& kernel =
      best_reduce_table().kernels[static_cast<int>(kind)][static_cast<int>(reduce_type(dtype))];
  if (!kernel.rows) fail_unsupported_dtype(call.op.name, dtype);
  return kernel;
}

// Everything of a contiguous tensor into one number, with nothing to convert.
bool reduce_whole(const Plan& plan, const TensorImpl& x) {
  const int64_t numel = x.numel();
  if (plan.params.count != numel || numel > kGrain || !x.is_contiguous() || plan.source.load ||
      plan.store[0] || plan.store[1])
    return false;
  alignas(64) char state[kMaxStateBytes];
  plan.kernel->init(state, 1);
  plan.kernel->rows(plan.source, {1, numel, 1, numel, 0}, state);
  plan.kernel->finish(state, 1, plan.params, plan.outs[0], plan.outs[1], 1);
  return true;
}

// Attribute 0 is the mask of reduced dimensions. Either output may be absent. Places are counted
// along one dimension: calls that want them have only one, or a contiguous input.
void reduce(const OpCall& call, ReduceKind kind, const TensorImpl* out0, const TensorImpl* out1,
            double correction = 0, bool take_root = false) {
  const TensorImpl& x = call.in(0);
  const TensorImpl* outs[2] = {out0, out1};
  const int64_t results = (out0 ? out0 : out1)->numel();
  if (results == 0) return;
  Plan plan;
  plan.kernel = &find_kernel(call, kind, x.dtype());
  plan.params = {x.numel() / results, correction, take_root};
  DType compute = dtype_of(reduce_type(x.dtype()));
  plan.source = {static_cast<const char*>(x.data()), static_cast<int64_t>(itemsize(x.dtype())),
                 x.dtype() == compute ? nullptr : converter(x.dtype(), compute)};
  for (int i = 0; i < 2; ++i) {
    plan.outs[i] = outs[i] ? static_cast<char*>(outs[i]->data()) : nullptr;
    plan.out_bytes[i] = outs[i] ? static_cast<int64_t>(itemsize(outs[i]->dtype())) : 0;
    DType produced = plan.kernel->produces[i];
    bool converts = outs[i] && outs[i]->dtype() != produced;
    plan.store[i] = converts ? converter(produced, outs[i]->dtype()) : nullptr;
  }
  if (results == 1 && reduce_whole(plan, x)) return;

  choose_axes(plan, x, static_cast<uint64_t>(call.integer(0)));
  run(plan);
}

void sum(const OpCall& call) { reduce(call, ReduceKind::Sum, &call.out(), nullptr); }
void mean(const OpCall& call) { reduce(call, ReduceKind::Mean, &call.out(), nullptr); }
void prod(const OpCall& call) { reduce(call, ReduceKind::Prod, &call.out(), nullptr); }
void amax(const OpCall& call) { reduce(call, ReduceKind::Max, &call.out(), nullptr); }
void amin(const OpCall& call) { reduce(call, ReduceKind::Min, &call.out(), nullptr); }
void max_dim(const OpCall& call) { reduce(call, ReduceKind::ArgMax, &call.out(0), &call.out(1)); }
void min_dim(const OpCall& call) { reduce(call, ReduceKind::ArgMin, &call.out(0), &call.out(1)); }
void argmax(const OpCall& call) { reduce(call, ReduceKind::ArgMax, nullptr, &call.out()); }
void argmin(const OpCall& call) { reduce(call, ReduceKind::ArgMin, nullptr, &call.out()); }
void any(const OpCall& call) { reduce(call, ReduceKind::Any, &call.out(), nullptr); }
void all(const OpCall& call) { reduce(call, ReduceKind::All, &call.out(), nullptr); }
void logsumexp(const OpCall& call) { reduce(call, ReduceKind::LogSumExp, &call.out(), nullptr); }
void count_nonzero(const OpCall& call) {
  reduce(call, ReduceKind::CountNonzero, &call.out(), nullptr);
}

void var(const OpCall& call) {
  const TensorImpl* mean = call.outputs.size() > 1 ? &call.out(1) : nullptr;
  reduce(call, ReduceKind::Moments, &call.out(), mean, call.real(1), call.attributes[2].as_bool());
}

void norm(const OpCall& call) {
  const double p = call.real(1);
  ReduceKind kind = ReduceKind::SquareSum;
  if (p == 0) kind = ReduceKind::CountNonzero;
  else if (p == 1) kind = ReduceKind::AbsSum;
  else if (std::isinf(p)) kind = p > 0 ? ReduceKind::AbsMax : ReduceKind::AbsMin;
  reduce(call, kind, &call.out(), nullptr);
}

const KernelList<DeviceType::CPU> kKernels = {
    {"sum", sum},
    {"mean", mean},
    {"prod", prod},
    {"amax", amax},
    {"amin", amin},
    {"max", max_dim},
    {"min", min_dim},
    {"argmax", argmax},
    {"argmin", argmin},
    {"any", any},
    {"all", all},
    {"logsumexp", logsumexp},
    {"count_nonzero", count_nonzero},
    {"var", var},
    {"norm", norm},
};

}  // namespace

}  // namespace tapegrad::cpu
