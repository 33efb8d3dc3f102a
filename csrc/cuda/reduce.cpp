// Dimensions are merged wherever memory allows, so that most calls become a matrix. Then either rows are reduced (the
// innermost reduced dimension is the one with adjacent elements), each by some threads of a warp or by a block, or
// columns (a kept dimension is), by blocks that are as wide as a line of the cache. Where there are too few results to
// fill a device their elements are cut into parts, and a second launch puts those together.
#include "cuda/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/registry.h"
#include "cuda/rows.h"

namespace tapegrad::cuda {

namespace {

constexpr int64_t kEnoughThreads = 4096;
constexpr int64_t kRounds = 4;
constexpr int64_t kLeastCut = 64 * 1024;  // elements below which a second launch does not pay
constexpr int64_t kShortColumn = 32;
constexpr int kColumnThreads = 256, kWarpThreads = 128, kMostRowThreads = 512;
constexpr int kWarp = 32;
// Results beside each other whose parts a block puts together: they fill lines of the cache, and the more threads
// a result has, the fewer states one of them goes through one after the other.
constexpr int kPartLanes = 4;
constexpr int64_t kStateBytes = 32;  // of any rule, at most
constexpr int kMatrix = 1, kFewAxes = 4;

struct Axis {
  int64_t size, stride, out_stride;
};

// As in tapegrad/cuda/kernels/reduce.cuh.
template <int kAxes>
struct ReduceArguments {
  const void* in;
  const void* second;
  const void* levels;
  void* outs[2];
  void* states;
  int64_t results, reduced;
  int64_t parts, part_length;
  Axis line, across;
  double count, correction;
  int lanes, take_root, reduced_axes, kept_axes;
  Axis reduced_by[kAxes], kept[kAxes];
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
    if (rank_ < 2) return;
    std::stable_sort(axes_, axes_ + rank_, [](const Axis& a, const Axis& b) {
      return std::abs(a.stride) < std::abs(b.stride);
    });
  }
  // Takes an axis out; without any there is one element.
  Axis take(int index) {
    if (rank_ == 0) return {1, 1, 1};
    const Axis axis = axes_[index];
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
  bool strides_divide_by(int64_t width) const {
    return std::all_of(axes_, axes_ + rank_,
                       [=](const Axis& axis) { return axis.stride % width == 0; });
  }
  int rank() const { return rank_; }
  void write(Axis* to) const { std::copy_n(axes_, rank_, to); }

 private:
  int rank_ = 0;
  Axis axes_[kMaxRank];
};

enum class Walk : uint8_t { Rows, Columns, Parts };

struct Plan {
  AxisList kept, reduced_by;  // besides line and across
  Axis line, across;
  int64_t results, reduced;
  Walk walk;
  int width = 1;  // elements at a time
  int lanes = 1;
  int threads = kWarpThreads;
  int64_t parts = 1, part_length = 0;

  int axes() const {
    const int most = std::max(kept.rank(), reduced_by.rank());
    return most == 0 ? kMatrix : most <= kFewAxes ? kFewAxes : kMaxRank;
  }
  int64_t blocks() const {
    if (walk == Walk::Rows) return divide_up(results * parts, threads / lanes);
    if (walk == Walk::Parts) return divide_up(results, lanes);
    return divide_up(across.size, int64_t{lanes} * width) * (results / across.size) * parts;
  }
};

int power_above(int64_t n, int most) {
  return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(n, 1, most))));
}

void choose_axes(Plan& plan, const TensorImpl& x, uint64_t dims) {
  int64_t out_stride = 1;
  for (int64_t d = x.dim() - 1; d >= 0; --d) {
    if (dims >> d & 1) {
      plan.reduced_by.add({x.size(d), x.stride(d), 0});
    } else {
      plan.kept.add({x.size(d), x.stride(d), out_stride});
      out_stride *= x.size(d);
    }
  }
  plan.reduced_by.sort_by_stride();
  const int adjacent = plan.kept.find_adjacent();
  const bool by_columns = adjacent >= 0 && plan.reduced_by.find_adjacent() != 0;
  plan.line = plan.reduced_by.take(0);
  plan.across = plan.kept.take(by_columns ? adjacent : 0);
  // Few elements for each result: a thread takes them all, and its neighbours those beside.
  const bool is_short = plan.reduced <= kShortColumn && plan.results >= kEnoughThreads;
  plan.walk = by_columns && !is_short ? Walk::Columns : Walk::Rows;
}

bool is_aligned(const void* data, int width, int64_t item) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(width * item) == 0;
}

// How many elements are read at a time along `axis`: they lie in one piece, which begins at a multiple of
// its size.
int vector_width(const Plan& plan, const Reduction& reduction, const Axis& axis, const Axis& other,
                 int most, bool may_end_early) {
  const auto item = static_cast<int64_t>(itemsize(reduction.x.dtype()));
  const int width = static_cast<int>(std::min<int64_t>(16 / item, most));
  const bool fits =
      axis.stride == 1 && (may_end_early || axis.size % width == 0) &&
      (other.size == 1 || other.stride % width == 0) && plan.kept.strides_divide_by(width) &&
      plan.reduced_by.strides_divide_by(width) && is_aligned(reduction.x.data(), width, item) &&
      is_aligned(reduction.second, width, item);
  return fits ? width : 1;
}

void cut(Plan& plan, int64_t blocks, int64_t least_length) {
  plan.part_length = plan.reduced;
  if (blocks >= kEnoughBlocks / 2 || plan.results * plan.reduced < kLeastCut) return;
  const int64_t parts = std::min(kEnoughBlocks / blocks, plan.reduced / least_length);
  if (parts < 2) return;
  const int64_t length = divide_up(plan.reduced, parts);
  plan.part_length = divide_up(length, plan.width) * plan.width;
  plan.parts = divide_up(plan.reduced, plan.part_length);
}

void plan_rows(Plan& plan, const Reduction& reduction) {
  plan.width =
      vector_width(plan, reduction, plan.line, plan.across, 16, plan.reduced_by.rank() == 0);
  const int pieces = plan.width >= 16  ? 2
                     : plan.width >= 8 ? 4
                     : plan.width > 1  ? 16 / plan.width
                                       : 8;
  // A thread takes what it reads at a time, or some times that where there are results enough.
  const int64_t rounds = plan.results >= kEnoughBlocks ? kRounds : 1;
  const int64_t wanted = divide_up(plan.reduced, rounds * pieces * plan.width);
  const bool is_short = plan.reduced <= kShortColumn && plan.line.stride != 1;
  plan.lanes = is_short ? 1 : power_above(wanted, kMostRowThreads);
  plan.threads = plan.lanes > kWarp ? plan.lanes : kWarpThreads;
  plan.part_length = plan.reduced;
  if (plan.lanes == kMostRowThreads)
    cut(plan, plan.results, int64_t{4} * pieces * plan.width * kMostRowThreads);
}

void plan_columns(Plan& plan, const Reduction& reduction) {
  plan.width = vector_width(plan, reduction, plan.across, plan.line, 4, false);
  plan.lanes = power_above(divide_up(plan.across.size, plan.width), kWarp);
  plan.threads = kColumnThreads;
  cut(plan, plan.blocks(), int64_t{8} * (kColumnThreads / plan.lanes));
}

// ---- launches

FunctionHandle find_kernel(KernelCache& cache, const Reduction& reduction, const Plan& plan) {
  const DType in = reduction.x.dtype();
  const int axes = plan.axes();
  const uint64_t key =
      static_cast<uint64_t>(reduction.number) << 32 | static_cast<uint64_t>(in) << 24 |
      static_cast<uint64_t>(reduction.out_dtype) << 16 | static_cast<uint64_t>(plan.walk) << 12 |
      static_cast<uint64_t>(plan.width) << 7 | static_cast<uint64_t>(axes);
  return cache.find(reduction.x.device().index, key, [&] {
    constexpr const char* kWalks[] = {"reduce_rows<", "reduce_columns<", "reduce_parts<"};
    const std::string width = plan.walk == Walk::Parts ? "" : concat(", ", plan.width);
    return concat("file ", reduction.file, "\nReduceArguments<", axes, ">\n",
                  kWalks[static_cast<int>(plan.walk)], reduction.rule, "<", kernel_type(in), ", ",
                  kernel_type(reduction.out_dtype), ">", width, ">");
  });
}

template <int kAxes>
void launch_plan(FunctionHandle kernel, const Reduction& reduction, const Plan& plan,
                 void* states) {
  ReduceArguments<kAxes> arguments{reduction.x.data(),
                                   reduction.second,
                                   reduction.levels,
                                   {reduction.outs[0], reduction.outs[1]},
                                   states,
                                   plan.results,
                                   plan.reduced,
                                   plan.parts,
                                   plan.part_length,
                                   plan.line,
                                   plan.across,
                                   static_cast<double>(plan.reduced),
                                   reduction.correction,
                                   plan.lanes,
                                   reduction.take_root,
                                   plan.reduced_by.rank(),
                                   plan.kept.rank(),
                                   {},
                                   {}};
  plan.reduced_by.write(arguments.reduced_by);
  plan.kept.write(arguments.kept);
  launch_with(kernel, reduction.x.device().index, plan.blocks(), plan.threads, arguments);
}

void launch_plan(KernelCache& cache, const Reduction& reduction, const Plan& plan, void* states) {
  const FunctionHandle kernel = find_kernel(cache, reduction, plan);
  switch (plan.axes()) {
    case kMatrix:
      return launch_plan<kMatrix>(kernel, reduction, plan, states);
    case kFewAxes:
      return launch_plan<kFewAxes>(kernel, reduction, plan, states);
    default:
      return launch_plan<kMaxRank>(kernel, reduction, plan, states);
  }
}

}  // namespace

void reduce(KernelCache& cache, const Reduction& reduction, int64_t results) {
  Plan plan;
  plan.results = results;
  plan.reduced = reduction.x.numel() / results;
  choose_axes(plan, reduction.x, reduction.dims);
  if (plan.reduced == 0) {  // not to be walked along the other axes, which may have any size
    plan.reduced_by = AxisList();
    plan.line = {0, 1, 0};
    plan.walk = Walk::Rows;
  }
  if (plan.walk == Walk::Rows) plan_rows(plan, reduction);
  else plan_columns(plan, reduction);
  if (plan.parts == 1) return launch_plan(cache, reduction, plan, nullptr);
  const Tensor states = empty("reduce", DimVector{plan.parts * results * kStateBytes}, DType::UInt8,
                              reduction.x.device());
  launch_plan(cache, reduction, plan, states->data());
  plan.walk = Walk::Parts;
  plan.threads = kColumnThreads;
  plan.lanes = power_above(results, kPartLanes);
  launch_plan(cache, reduction, plan, states->data());
}

// ---- the ops

namespace {

enum class Kind {
  Sum,
  Mean,
  Prod,
  Max,
  Min,
  ArgMax,  // values and places
  ArgMin,
  CountNonzero,
  Any,
  All,
  HasZero,
  Moments,  // variance and mean
  AbsSum,
  SquareSum,
  AbsMax,
  AbsMin,
  LogSumExp,
};
constexpr const char* kRules[] = {
    "Sum", "Mean",    "Prod",    "Max",    "Min",       "ArgMax", "ArgMin", "CountNonzero", "Any",
    "All", "HasZero", "Moments", "AbsSum", "SquareSum", "AbsMax", "AbsMin", "LogSumExp"};

bool is_for_floats(Kind kind) { return kind == Kind::Mean || kind >= Kind::Moments; }

// Either output may be absent. Places are counted along one dimension: calls that want them have only one, or a
// contiguous input.
void reduce_dims(const OpCall& call, uint64_t dims, Kind kind, const TensorImpl* out0,
                 const TensorImpl* out1, double correction = 0, bool take_root = false) {
  const TensorImpl& x = call.in(0);
  const int64_t results = (out0 ? out0 : out1)->numel();
  if (results == 0) return;
  if (is_for_floats(kind) && !is_floating(x.dtype()))
    fail_unsupported_dtype(call.op.name, x.dtype());
  static auto& cache = *new KernelCache;
  Reduction reduction{x,
                      dims,
                      "reduce.cu",
                      kRules[static_cast<int>(kind)],
                      static_cast<int>(kind),
                      out0 ? out0->dtype() : x.dtype()};
  reduction.outs[0] = out0 ? out0->data() : nullptr;
  reduction.outs[1] = out1 ? out1->data() : nullptr;
  reduction.correction = correction;
  reduction.take_root = take_root;
  reduce(cache, reduction, results);
}

// Attribute 0 is the mask of reduced dimensions.
template <Kind kKind>
void reduce_to_one(const OpCall& call) {
  reduce_dims(call, static_cast<uint64_t>(call.integer(0)), kKind, &call.out(), nullptr);
}
template <Kind kKind>
void reduce_to_both(const OpCall& call) {
  reduce_dims(call, static_cast<uint64_t>(call.integer(0)), kKind, &call.out(0), &call.out(1));
}
template <Kind kKind>
void reduce_to_place(const OpCall& call) {
  reduce_dims(call, static_cast<uint64_t>(call.integer(0)), kKind, nullptr, &call.out());
}

void var(const OpCall& call) {
  const TensorImpl* mean = call.outputs.size() > 1 ? &call.out(1) : nullptr;
  reduce_dims(call, static_cast<uint64_t>(call.integer(0)), Kind::Moments, &call.out(), mean,
              call.real(1), call.attributes[2].as_bool());
}

void norm(const OpCall& call) {
  const double p = call.real(1);
  Kind kind = Kind::SquareSum;
  if (p == 0) kind = Kind::CountNonzero;
  else if (p == 1) kind = Kind::AbsSum;
  else if (std::isinf(p)) kind = p > 0 ? Kind::AbsMax : Kind::AbsMin;
  reduce_dims(call, static_cast<uint64_t>(call.integer(0)), kind, &call.out(), nullptr);
}

void has_zero(const OpCall& call) {
  reduce_dims(call, ~uint64_t{0}, Kind::HasZero, &call.out(), nullptr);
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"sum", reduce_to_one<Kind::Sum>},
    {"mean", reduce_to_one<Kind::Mean>},
    {"prod", reduce_to_one<Kind::Prod>},
    {"amax", reduce_to_one<Kind::Max>},
    {"amin", reduce_to_one<Kind::Min>},
    {"max", reduce_to_both<Kind::ArgMax>},
    {"min", reduce_to_both<Kind::ArgMin>},
    {"argmax", reduce_to_place<Kind::ArgMax>},
    {"argmin", reduce_to_place<Kind::ArgMin>},
    {"any", reduce_to_one<Kind::Any>},
    {"all", reduce_to_one<Kind::All>},
    {"logsumexp", reduce_to_one<Kind::LogSumExp>},
    {"count_nonzero", reduce_to_one<Kind::CountNonzero>},
    {"var", var},
    {"norm", norm},
    {"has_zero", has_zero},
};

}  // namespace

}  // namespace tapegrad::cuda
