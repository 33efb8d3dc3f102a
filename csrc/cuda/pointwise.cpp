// Pointwise ops on CUDA: one launch each, of a kernel made from the op's line of the table. Copies and fills are
// lines of their own.
//
// A kernel is made for the dtypes of its operands and for how each is reached:
//   dense     element i of the output belongs to element i of the operand, 16 bytes at a time where possible
//   value     a number of the host, among the arguments
//   single    one element on the device
//   strided   anything else: element i is found by dividing i by the sizes
//   repeated  the same, where vectors of elements are found: all of a vector are one element of the operand
// What a description says is read by tapegrad/cuda/pointwise_source.py, which writes the text.
#include "spec/pointwise.h"

#include "core/loop_nest.h"
#include "core/registry.h"
#include "cuda/copy.h"
#include "cuda/elements.h"
#include "cuda/launch.h"
#include "cuda/move.h"
#include "cuda/pointwise.h"
#include "cuda/rows.h"
#include "cuda/transpose.h"

namespace tapegrad::cuda {

namespace {

constexpr int kMostOperands = kGradOperands + 1;
constexpr int64_t kManyElements = 8 * 1024;  // from which on vectors pay for a kernel of their own

enum class Access : uint8_t { Dense, Value, Single, Strided, Repeated };

struct Operand {
  const TensorImpl* tensor;
  Access access;
  DType through;  // the dtype it is rounded to on its way
};

// Which expression a kernel computes.
struct Line {
  int id;  // a PointwiseId, or
  int derivative = -1;
};
constexpr Line kCopy{-1}, kFill{-2};

struct Plan {
  Plan(Line line, DType dtype, std::span<const Scalar> params, int inputs)
      : line(line), dtype(dtype), params(params), inputs(inputs) {}

  Line line;
  DType dtype;
  std::span<const Scalar> params;
  int inputs;
  Operand operands[kMostOperands];  // the output first
  LoopNest nest;                    // large, and not filled where all operands are contiguous
  int width = 1;                    // elements at a time; 0 where one block takes them all
  bool is_wide = false;             // there are more elements than 32 bits count

  bool is_strided() const {
    for (int k = 0; k <= inputs; ++k)
      if (operands[k].access >= Access::Strided) return true;
    return false;
  }
  int rank() const { return is_strided() ? nest.rank() : 0; }
};

bool is_host_number(const TensorImpl& x) { return x.device().is_cpu(); }

bool all_contiguous(const OpCall& call) {
  const TensorImpl& out = call.out();
  if (!out.is_contiguous()) return false;
  for (const TensorImpl* input : call.inputs)
    if (input->numel() != 1 &&
        (!input->is_contiguous() || input->numel() != out.numel() || input->dim() != out.dim()))
      return false;
  return true;
}

Access access_of(const TensorImpl& x, const LoopNest& nest, int number) {
  if (number > 0 && is_host_number(x)) return Access::Value;
  if (number > 0 && x.numel() == 1) return Access::Single;
  if (lies_in_order(nest, number)) return Access::Dense;
  if (number > 0 && nest.is_constant(number)) return Access::Single;
  return Access::Strided;
}

// How many elements are taken at a time: as many as fit into 16 bytes of the widest operand, if all of
// them begin at such a place.
int vector_width(const Plan& plan) {
  size_t widest = 1;
  for (int k = 0; k <= plan.inputs; ++k)
    if (plan.operands[k].access == Access::Dense)
      widest = std::max(widest, itemsize(plan.operands[k].tensor->dtype()));
  const int width = static_cast<int>(std::min<size_t>(16 / widest, 8));
  for (int k = 0; k <= plan.inputs; ++k) {
    const TensorImpl& x = *plan.operands[k].tensor;
    if (plan.operands[k].access == Access::Dense &&
        reinterpret_cast<uintptr_t>(x.data()) % (static_cast<size_t>(width) * itemsize(x.dtype())))
      return 1;
  }
  return width;
}

// Whether `width` elements along the innermost dimension lie side by side from a multiple of their size on.
bool takes_vectors(const Plan& plan, int number, int width) {
  const TensorImpl& x = *plan.operands[number].tensor;
  for (int d = 1; d < plan.nest.rank(); ++d)
    if (plan.nest.stride(number, d) % width) return false;
  return plan.nest.stride(number, 0) == 1 &&
         reinterpret_cast<uintptr_t>(x.data()) %
                 (static_cast<size_t>(width) * itemsize(x.dtype())) ==
             0;
}

// Strided operands in vectors along the innermost dimension, where all of them allow it: a bias beside a matrix.
void widen(Plan& plan) {
  size_t widest = 1;
  for (int k = 0; k <= plan.inputs; ++k)
    if (plan.operands[k].access == Access::Dense || plan.operands[k].access == Access::Strided)
      widest = std::max(widest, itemsize(plan.operands[k].tensor->dtype()));
  const int width = static_cast<int>(std::min<size_t>(16 / widest, 8));
  if (width == 1 || plan.nest.size(0) % width) return;
  Access access[kMostOperands];
  for (int k = 0; k <= plan.inputs; ++k) {
    access[k] = plan.operands[k].access;
    if (access[k] == Access::Value || access[k] == Access::Single) continue;
    if (access[k] == Access::Strided && k > 0 && plan.nest.stride(k, 0) == 0)
      access[k] = Access::Repeated;
    else if (!takes_vectors(plan, k, width)) return;
  }
  for (int k = 0; k <= plan.inputs; ++k) plan.operands[k].access = access[k];
  plan.width = width;
}

Access access_where_contiguous(const TensorImpl& x, int number, int64_t count) {
  if (number > 0 && is_host_number(x)) return Access::Value;
  return x.numel() == count ? Access::Dense : Access::Single;
}

// How each operand is reached; through which dtype is for the caller to say.
Plan make_plan(const OpCall& call, Line line, DType dtype, std::span<const Scalar> params) {
  Plan plan(line, dtype, params, static_cast<int>(call.inputs.size()));
  const TensorImpl* tensors[kMostOperands] = {&call.out()};
  for (int k = 0; k < plan.inputs; ++k) tensors[k + 1] = call.inputs[k];
  const bool contiguous = all_contiguous(call);
  const int64_t count = call.out().numel();
  if (!contiguous) plan.nest.build({tensors, size_t(plan.inputs) + 1});
  for (int k = 0; k <= plan.inputs; ++k) {
    const TensorImpl& x = *tensors[k];
    plan.operands[k] = {
        &x, contiguous ? access_where_contiguous(x, k, count) : access_of(x, plan.nest, k), dtype};
  }
  if (plan.is_strided()) {
    plan.is_wide = count > kMostNarrowCount;
    if (count >= kManyElements) widen(plan);
  } else plan.width = count <= kFewElements ? 0 : vector_width(plan);
  return plan;
}

// What tells one kernel of a line from another.
uint64_t key_of(const Plan& plan) {
  static_assert(static_cast<int>(DType::Float64) < 16 && kMostOperands <= 6, "the key has 64 bits");
  uint64_t key = static_cast<uint64_t>(plan.dtype);
  key = key << 4 | static_cast<uint64_t>(plan.width);
  key = key << 8 | static_cast<uint64_t>(plan.rank() << 1 | plan.is_wide);
  for (int k = 0; k <= plan.inputs; ++k) {
    const Operand& operand = plan.operands[k];
    const bool keeps = operand.through != plan.dtype;
    key = key << 8 | static_cast<uint64_t>(operand.tensor->dtype()) << 4 |
          static_cast<uint64_t>(operand.access) << 1 | keeps;
  }
  return key;
}

// "pointwise mul -1 float32 WIDTH RANK WIDE", then a line "slot dtype access through" for the output, -1, and
// for each operand
std::string describe(const Plan& plan, const uint8_t* slots) {
  constexpr const char* kAccess[] = {"dense", "value", "single", "strided", "repeated"};
  std::string text =
      concat("pointwise ", plan.line.id, " ", plan.line.derivative, " ", name(plan.dtype), " ",
             plan.width, " ", plan.rank(), " ", int(plan.is_wide));
  for (int k = 0; k <= plan.inputs; ++k) {
    const Operand& operand = plan.operands[k];
    const int slot = k ? slots[k - 1] : -1;
    text += concat("\n", slot, " ", name(operand.tensor->dtype()), " ",
                   kAccess[static_cast<int>(operand.access)], " ", name(operand.through));
  }
  return text;
}

void put_operand(Arguments& arguments, const Plan& plan, int number) {
  const Operand& operand = plan.operands[number];
  if (operand.access == Access::Value)
    put_number(arguments, *operand.tensor, operand.through,
               dtype_of_compute(compute_type(plan.dtype)));
  else arguments.put(operand.tensor->data());
}

// What fills a tensor is converted to its dtype: a half is True as a bool.
void put_params(Arguments& arguments, const Plan& plan) {
  const DType compute = dtype_of_compute(compute_type(plan.dtype));
  const DType through = plan.line.id == kFill.id ? plan.dtype : compute;
  for (const Scalar& param : plan.params) put_number(arguments, param, through, compute);
}

void run(const Plan& plan, KernelCache& cache, const uint8_t* slots) {
  const TensorImpl& out = *plan.operands[0].tensor;
  const int device = out.device().index;
  const int64_t count = out.numel();
  const FunctionHandle kernel =
      cache.find(device, key_of(plan), [&] { return describe(plan, slots); });
  Arguments arguments;
  if (plan.is_strided()) {
    arguments.put(count / plan.width);
    put_geometry(arguments, plan.nest, plan.inputs + 1, count, plan.width);
  } else {
    arguments.put(count);
  }
  for (int k = 0; k <= plan.inputs; ++k) put_operand(arguments, plan, k);
  put_params(arguments, plan);
  if (plan.width == 0) return launch(kernel, device, 1, few_threads(count), arguments);
  launch(kernel, device, element_blocks(count, plan.width), kElementThreads, arguments);
}

// The parameters of a line are as many as the longest has: those beyond its own are not the kernel's.
std::span<const Scalar> own_params(const OpCall& call) {
  const std::vector<const char*>& names = call.op.attributes;
  size_t end = 1;
  while (end < names.size() && std::string_view(names[end]) != "unused") ++end;
  return call.attributes.subspan(1, end - 1);
}

void pointwise(const OpCall& call) {
  if (call.out().numel() == 0) return;
  auto& op = static_cast<const PointwiseOp&>(call.op);
  static auto* caches = new KernelCache[kPointwiseCount][kMaxArity + 1];
  const int id = static_cast<int>(op.id);
  Plan plan = make_plan(call, {id, op.derivative}, call.attributes[0].as_dtype(), own_params(call));
  if (op.is_test) plan.operands[0].through = DType::Bool;
  for (int k = 0; k < plan.inputs; ++k)
    plan.operands[k + 1].through = rounding_dtype(op, size_t(k), call.in(size_t(k)), plan.dtype);
  run(plan, caches[id][op.derivative + 1], op.slots);
}

constexpr uint8_t kOnlySlot[] = {0};

constexpr int kColumnThreads = 128;
constexpr int64_t kLeastGroup = 16;  // rows

}  // namespace

void add_up_parts(const Tensor& parts, const TensorImpl& sums) {
  static const Op& sum = *find_op("sum");
  TensorImpl* const from[] = {parts.impl()};
  TensorImpl* const to[] = {const_cast<TensorImpl*>(&sums)};
  const Scalar first_dim[] = {int64_t{1}};
  sum.kernels[static_cast<int>(DeviceType::CUDA)]({sum, from, first_dim, to});
}

Tensor run_with_column_parts(const OpCall& call, int64_t columns) {
  auto& op = static_cast<const PointwiseOp&>(call.op);
  const TensorImpl& out = call.out();
  Plan plan = make_plan(call, {static_cast<int>(op.id), op.derivative},
                        call.attributes[0].as_dtype(), own_params(call));
  if (plan.is_strided() || plan.width <= 1 || columns % plan.width) return {};
  for (int k = 0; k <= plan.inputs; ++k) {
    if (plan.operands[k].access != Access::Dense) return {};
    if (k > 0)
      plan.operands[k].through =
          rounding_dtype(op, size_t(k) - 1, call.in(size_t(k) - 1), plan.dtype);
  }
  static auto& cache = *new KernelCache;
  const int device = out.device().index;
  const uint64_t key = key_of(plan) ^ static_cast<uint64_t>(op.id) << 52 ^
                       static_cast<uint64_t>(op.derivative + 1) << 62;
  const FunctionHandle kernel = cache.find(device, key, [&] {
    constexpr std::string_view kFamily = "pointwise";
    return concat("columns", describe(plan, op.slots).substr(kFamily.size()));
  });
  const int64_t rows = out.numel() / columns, vectors = columns / plan.width;
  const int64_t strips = divide_up(vectors, kColumnThreads);
  const int64_t groups =
      std::clamp<int64_t>(2 * kEnoughBlocks / strips, 1, divide_up(rows, kLeastGroup));
  Tensor parts = empty(call.op.name, DimVector{groups, columns}, DType::Float32, out.device());
  Arguments arguments;
  for (const int64_t number : {rows, vectors, strips, groups}) arguments.put(number);
  for (int k = 0; k <= plan.inputs; ++k) put_operand(arguments, plan, k);
  put_params(arguments, plan);
  arguments.put(parts->data());
  launch(kernel, device, strips * groups, kColumnThreads, arguments);
  return parts;
}

void copy(const OpCall& call) {
  const TensorImpl &from = call.in(0), &to = call.out();
  if (to.numel() == 0) return;
  const bool same_bytes = from.dtype() == to.dtype() && from.is_contiguous() &&
                          to.is_contiguous() && from.numel() == to.numel();
  if (same_bytes && !is_host_number(from)) {
    const int device = to.device().index;
    return copy_bytes(to.data(), from.data(), size_t(to.numel()) * itemsize(to.dtype()), device);
  }
  static auto& cache = *new KernelCache;
  const Plan plan = make_plan(call, kCopy, to.dtype(), {});
  if (plan.is_strided() && from.dtype() == to.dtype() && copy_transposed(to, from, plan.nest))
    return;
  run(plan, cache, kOnlySlot);
}

namespace {

void fill(const OpCall& call) {
  if (call.out().numel() == 0) return;
  static auto& cache = *new KernelCache;
  run(make_plan(call, kFill, call.out().dtype(), call.attributes), cache, kOnlySlot);
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"pointwise", pointwise}, {"copy", copy}, {"flip", copy},  // the input has negative strides
    {"from_bfloat16", copy},  {"fill", fill},
};

}  // namespace

}  // namespace tapegrad::cuda
