// The driver of all pointwise kernels.
//
// A kernel is a loop over contiguous operands of one compute type and knows nothing else. The driver
// turns any mix of dtypes, strides and broadcasting into such calls. It walks the output in
// memory order, a tile at a time, and classifies each operand once for the whole call:
//   dense     the tile is a slice of the operand's memory: used in place
//   constant  one value for all: a tile is filled with it once
//   strided   everything else, and every foreign dtype: the tile is gathered, and converted on the
//             way, into a buffer in the first-level cache
// The output is written in place when it is dense, else through a buffer and scattered.
#include "cpu/pointwise.h"

#include <algorithm>
#include <cstring>

#include "core/loop_nest.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/complex_pointwise.h"
#include "cpu/convert.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kTileBytes = 4096;
constexpr int64_t kGrain = 16384;  // elements below which a second thread does not pay
constexpr int kMaxOperands = kGradOperands + 1;

enum class Access : uint8_t { Dense, Constant, Strided };

// One step, or two: through the op's dtype. The buffer between takes a tile.
struct Conversion {
  Convert first;
  Convert second;

  Conversion() = default;
  Conversion(DType from, DType through, DType to) {
    bool direct = from == through || through == to;
    first = converter(from, direct ? to : through);
    second = direct ? nullptr : converter(through, to);
  }
  void run(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n,
           char* between) const {
    if (!second) return first(from, from_stride, to, to_stride, n);
    first(from, from_stride, between, 1, n);
    second(between, 1, to, to_stride, n);
  }
};

// How operand i gets to the compute type: Note [Numbers are rounded first].
Conversion operand_conversion(const PointwiseOp& op, size_t i, const TensorImpl& input, DType dtype,
                              DType compute) {
  return Conversion(input.dtype(), rounding_dtype(op, i, input, dtype), compute);
}

struct Operand {
  Access access;
  DType dtype;
  const char* data;
  Conversion convert;  // to the compute type; for the output, from it
};

struct Plan {
  TileKernel kernel;
  const Scalar* params;
  int inputs;
  const uint8_t* slots;
  Operand operands[kMaxOperands];  // the output first
  LoopNest nest;
  DType dtype;  // the op's own
  DType compute;
  DType produced;  // what the kernel writes
  int64_t tile;
};

TileKernel find_kernel(const PointwiseOp& op, ComputeType type) {
  auto find = [&](const auto& kernels, int column) {
    return op.derivative < 0 ? kernels.value[column] : kernels.grad[op.derivative][column];
  };
  TileKernel kernel;
  if (!is_complex(type)) [[likely]]
    kernel = find(best_pointwise_table().kernels[static_cast<int>(op.id)], static_cast<int>(type));
  else kernel = find(complex_kernels(op.id), type == ComputeType::Complex128);
  if (!kernel) fail_unsupported_dtype(op.name, dtype_of_compute(type));
  return kernel;
}

// All operands dense and of the compute type: one call does it, with no tile in between.
bool is_plain(const OpCall& call, DType compute, DType produced) {
  const TensorImpl& out = call.out();
  if (!out.is_contiguous() || out.dtype() != produced) return false;
  for (const TensorImpl* input : call.inputs)
    if (input->dtype() != compute || !input->is_contiguous() || input->numel() != out.numel() ||
        input->dim() != out.dim())
      return false;
  return true;
}

void run_plain(const OpCall& call, const PointwiseOp& op, TileKernel kernel, const Scalar* params,
               size_t input_size, size_t output_size) {
  const void* operands[kGradOperands] = {};
  for (size_t i = 0; i < call.inputs.size(); ++i) operands[op.slots[i]] = call.in(i).data();
  auto* out = static_cast<char*>(call.out().data());
  int64_t numel = call.out().numel();
  if (numel <= kGrain) return kernel(out, operands, numel, params);
  BlockingSection blocking;
  parallel_for(0, numel, kGrain, [&](int64_t begin, int64_t end) {
    const void* shifted[kGradOperands] = {};
    for (int i = 0; i < kGradOperands; ++i)
      if (operands[i]) shifted[i] = static_cast<const char*>(operands[i]) + begin * input_size;
    kernel(out + begin * output_size, shifted, end - begin, params);
  });
}

constexpr int64_t kSmall = 64;

template <class T>
void copy_from(const void* from, const int64_t* offsets, void* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<T*>(to)[i] = static_cast<const T*>(from)[offsets[i]];
}

// Puts the elements of a small operand that is broadcast or not dense one after another, in the order of
// the result.
void spread(const TensorImpl& input, Sizes sizes, void* to) {
  int64_t offsets[kSmall] = {0};
  int64_t n = 1;
  const int64_t missing = static_cast<int64_t>(sizes.size()) - input.dim();
  for (int64_t dim = static_cast<int64_t>(sizes.size()) - 1; dim >= 0; --dim) {
    const int64_t own = dim - missing;
    const int64_t stride = own < 0 || input.sizes()[own] == 1 ? 0 : input.strides()[own];
    const int64_t end = n * sizes[dim];
    for (int64_t i = n; i < end; ++i) offsets[i] = offsets[i - n] + stride;
    n = end;
  }
  switch (itemsize(input.dtype())) {
    case 1:
      return copy_from<uint8_t>(input.data(), offsets, to, n);
    case 2:
      return copy_from<uint16_t>(input.data(), offsets, to, n);
    case 4:
      return copy_from<uint32_t>(input.data(), offsets, to, n);
    default:
      return copy_from<uint64_t>(input.data(), offsets, to, n);
  }
}

// Small operands, some of them single values (x * 2) or broadcast (m + row): one call too, with the values
// spread out in a buffer first. This is the hot path of scalar code, so it plans nothing.
bool run_small(const OpCall& call, const PointwiseOp& op, TileKernel kernel, const Scalar* params,
               DType dtype, DType compute, DType produced) {
  const TensorImpl& out = call.out();
  int64_t numel = out.numel();
  if (numel > kSmall || !out.is_contiguous() || out.dtype() != produced) return false;
  if (dtype != compute && !op.is_test) return false;  // the result is rounded on its way
  if (compute == DType::Complex128 && numel > kSmall / 2) return false;
  alignas(64) char values[kGradOperands][kSmall * 8];
  alignas(64) char rows[kSmall * 8];
  alignas(64) char between[kSmall * 8];
  const void* operands[kGradOperands] = {};
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const TensorImpl& input = call.in(i);
    const void* from = input.data();
    const void*& operand = operands[op.slots[i]];
    const bool ready = input.dtype() == compute;
    int64_t stride = 1;
    if (input.numel() == numel && input.is_contiguous()) {
      operand = from;
    } else if (input.numel() == 1) {
      stride = 0;
    } else {
      if (itemsize(input.dtype()) > 8) return false;
      from = operand = ready ? values[i] : rows;
      spread(input, out.sizes(), ready ? values[i] : rows);
    }
    if (ready && stride == 1) continue;
    operand_conversion(op, i, input, dtype, compute)
        .run(from, stride, values[i], 1, numel, between);
    operand = values[i];
  }
  kernel(out.data(), operands, numel, params);
  return true;
}

// The buffers of one thread.
struct Tiles {
  alignas(64) char bytes[kMaxOperands][kTileBytes];
  alignas(64) char between[kTileBytes];
};

void gather(const Plan& plan, int index, int64_t begin, int64_t count, Tiles& tiles) {
  char* tile = tiles.bytes[index];
  const Operand& operand = plan.operands[index];
  auto step = static_cast<int64_t>(itemsize(plan.compute));
  plan.nest.for_each_run(index, begin, count,
                         [&](int64_t offset, int64_t stride, int64_t done, int64_t length) {
    operand.convert.run(operand.data + offset * itemsize(operand.dtype), stride, tile + done * step,
                        1, length, tiles.between);
  });
}

void scatter(const Plan& plan, int64_t begin, int64_t count, Tiles& tiles) {
  const char* tile = tiles.bytes[0];
  const Operand& operand = plan.operands[0];
  auto step = static_cast<int64_t>(itemsize(plan.produced));
  plan.nest.for_each_run(0, begin, count,
                         [&](int64_t offset, int64_t stride, int64_t done, int64_t length) {
    auto* to = const_cast<char*>(operand.data);
    operand.convert.run(tile + done * step, 1, to + offset * itemsize(operand.dtype), stride,
                        length, tiles.between);
  });
}

void run_range(const Plan& plan, int64_t begin, int64_t end) {
  Tiles tiles;
  const void* operands[kGradOperands] = {};
  for (int i = 0; i < plan.inputs; ++i) {
    const Operand& operand = plan.operands[i + 1];
    if (operand.access != Access::Constant) continue;
    operand.convert.run(operand.data, 0, tiles.bytes[i + 1], 1, std::min(plan.tile, end - begin),
                        tiles.between);
    operands[plan.slots[i]] = tiles.bytes[i + 1];
  }
  const Operand& out = plan.operands[0];
  for (int64_t at = begin; at < end; at += plan.tile) {
    int64_t count = std::min(plan.tile, end - at);
    for (int i = 0; i < plan.inputs; ++i) {
      const Operand& operand = plan.operands[i + 1];
      if (operand.access == Access::Dense) {
        operands[plan.slots[i]] = operand.data + at * itemsize(operand.dtype);
      } else if (operand.access == Access::Strided) {
        gather(plan, i + 1, at, count, tiles);
        operands[plan.slots[i]] = tiles.bytes[i + 1];
      }
    }
    bool direct = out.access == Access::Dense;
    void* target = direct ? const_cast<char*>(out.data) + at * itemsize(out.dtype)
                          : static_cast<void*>(tiles.bytes[0]);
    plan.kernel(target, operands, count, plan.params);
    if (!direct) scatter(plan, at, count, tiles);
  }
}

void classify(Plan& plan, const OpCall& call) {
  auto& op = static_cast<const PointwiseOp&>(call.op);
  const TensorImpl& out = call.out();
  DType rounded = op.is_test ? DType::Bool : plan.dtype;
  bool direct = plan.nest.is_dense(0) && out.dtype() == plan.produced && rounded == plan.produced;
  plan.operands[0] = {direct ? Access::Dense : Access::Strided, out.dtype(),
                      static_cast<const char*>(out.data()),
                      Conversion(plan.produced, rounded, out.dtype())};
  for (int i = 0; i < plan.inputs; ++i) {
    const TensorImpl& input = call.in(i);
    Access access = Access::Strided;
    if (input.numel() == 1 || plan.nest.is_constant(i + 1)) access = Access::Constant;
    else if (plan.nest.is_dense(i + 1) && input.dtype() == plan.compute) access = Access::Dense;
    plan.operands[i + 1] = {access, input.dtype(), static_cast<const char*>(input.data()),
                            operand_conversion(op, i, input, plan.dtype, plan.compute)};
  }
}

void pointwise(const OpCall& call) {
  auto& op = static_cast<const PointwiseOp&>(call.op);
  if (call.out().numel() == 0) return;
  DType dtype = call.attributes[0].as_dtype();
  ComputeType type = compute_type(dtype);
  DType compute = dtype_of_compute(type);
  DType produced = op.is_test ? DType::Bool : compute;
  TileKernel kernel = find_kernel(op, type);
  const Scalar* params = call.attributes.size() > 1 ? call.attributes.data() + 1 : nullptr;
  if (is_plain(call, compute, produced))
    return run_plain(call, op, kernel, params, itemsize(compute), itemsize(produced));
  if (run_small(call, op, kernel, params, dtype, compute, produced)) return;

  Plan plan;
  plan.kernel = kernel;
  plan.params = params;
  plan.inputs = static_cast<int>(call.inputs.size());
  plan.slots = op.slots;
  plan.dtype = dtype;
  plan.compute = compute;
  plan.produced = produced;
  plan.tile = kTileBytes / static_cast<int64_t>(itemsize(compute));
  const TensorImpl* tensors[kMaxOperands] = {&call.out()};
  for (int i = 0; i < plan.inputs; ++i) tensors[i + 1] = call.inputs[i];
  plan.nest.build({tensors, size_t(plan.inputs) + 1});
  classify(plan, call);
  int64_t numel = call.out().numel();
  if (numel <= kGrain) return run_range(plan, 0, numel);
  BlockingSection blocking;
  parallel_for(0, numel, kGrain, [&](int64_t begin, int64_t end) { run_range(plan, begin, end); });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"pointwise", pointwise},
};

}  // namespace

}  // namespace tapegrad::cpu
