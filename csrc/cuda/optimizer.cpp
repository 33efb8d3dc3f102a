// The step of an optimizer on CUDA: all parameters that are computed alike in one launch, as far as the arguments
// of a launch can tell them. The formulas are in tapegrad/cuda/kernels/optimizer.cu.
#include "spec/optimizer.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/registry.h"
#include "cuda/capturing.h"
#include "cuda/launch.h"

namespace tapegrad::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kVectorsPerThread = 2;
constexpr int kMaxOperands = 2 + kMaxOptimizerStates;  // gradient, parameter, states

// How many parameters the arguments of a launch have room for. Short ones are launched faster.
constexpr int kRooms[] = {8, 32, 72};

// In the order of the list in ops/optimizer.cpp.
constexpr const char* kNames[kOptimizers] = {
    "Sgd",
    "SgdMomentum",
    "Adam<false>",
    "Adam<true>",
    "RmsProp<false, false>",
    "RmsProp<false, true>",
    "RmsProp<true, false>",
    "RmsProp<true, true>",
    "Adagrad",
    "Adadelta",
    "Adamax",
    "NAdam",
    "RAdam",
    "Asgd",
    "Rprop",
};

using Coefficients = std::array<double, kMaxOptimizerCoefficients>;

// What there is to do for one parameter.
struct Part {
  DType dtype;
  size_t coefficients;  // which of those that were prepared
  int64_t numel;
  void* operands[kMaxOperands] = {};
};

double read_count(const TensorImpl& x) {
  return x.dtype() == DType::Float64 ? *x.data_as<double>() : *x.data_as<float>();
}

void write_count(const TensorImpl& x, double value) {
  if (x.dtype() == DType::Float64) *x.data_as<double>() = value;
  else *x.data_as<float>() = static_cast<float>(value);
}

// The counts of parameters, moved on by a step, and the coefficients that follow from them. Most parameters have
// taken the same number of steps: what follows from that is worked out once.
class Preparation {
 public:
  explicit Preparation(const OpCall& call) : spec_(optimizer_specs[call.integer(0)]), call_(call) {
    for (size_t i = 2; i < call.attributes.size(); ++i) options_[i - 2] = call.real(i);
  }

  // Moves on the counts of parameter i; which of the coefficients are its own.
  size_t prepare(size_t i) {
    double counts[kMaxOptimizerCounts] = {};
    for (int k = 0; k < spec_.counts; ++k) counts[k] = read_count(count(i, k));
    const bool narrow = spec_.counts > 0 && count(i, spec_.counts - 1).dtype() != DType::Float64;
    if (all_.empty() || narrow != narrow_ || !std::equal(counts, std::end(counts), before_)) {
      std::copy(counts, std::end(counts), before_);
      std::copy(counts, std::end(counts), after_);
      narrow_ = narrow;
      spec_.prepare(options_.data(), after_, narrow, all_.emplace_back().data());
    }
    for (int k = 0; k < spec_.counts; ++k) write_count(count(i, k), after_[k]);
    return all_.size() - 1;
  }

  const Coefficients& at(size_t which) const { return all_[which]; }

 private:
  const TensorImpl& count(size_t i, int k) const {
    const auto params = static_cast<size_t>(call_.integer(1));
    return call_.in((2 + static_cast<size_t>(spec_.states + k)) * params + i);
  }

  const OptimizerSpec& spec_;
  const OpCall& call_;
  std::array<double, kMaxOptimizerOptions> options_{};
  double before_[kMaxOptimizerCounts] = {}, after_[kMaxOptimizerCounts] = {};
  bool narrow_ = false;
  std::vector<Coefficients> all_;
};

// The parameters of one launch, in StepArguments' order or, with the rows of their coefficients, in that of
// PreparedArguments.
void put_parts(Arguments& arguments, std::span<const Part> parts, int operands, int room,
               int64_t piece, bool with_rows) {
  const auto each = [&](auto&& value) {
    for (int i = 0; i < room; ++i)
      arguments.put(i < static_cast<int>(parts.size()) ? value(parts[static_cast<size_t>(i)])
                                                       : decltype(value(parts[0])){});
  };
  uint32_t blocks = 0;
  arguments.put(static_cast<int32_t>(parts.size()));
  each([&](const Part& part) {
    const uint32_t first = blocks;
    blocks += static_cast<uint32_t>((part.numel + piece - 1) / piece);
    return first;
  });
  if (with_rows) each([](const Part& part) { return static_cast<int32_t>(part.coefficients); });
  each([](const Part& part) { return part.numel; });
  for (int k = 0; k < operands; ++k) each([k](const Part& part) { return part.operands[k]; });
}

void put_coefficients(Arguments& arguments, const Coefficients& coefficients, DType dtype) {
  for (double coefficient : coefficients) {
    if (dtype == DType::Float64) arguments.put(coefficient);
    else arguments.put(static_cast<float>(coefficient));
  }
}

FunctionHandle find_kernel(int which, DType dtype, int room, bool prepared, int device) {
  static auto& cache = *new KernelCache;
  const uint64_t key = static_cast<uint64_t>(which) << 24 | static_cast<uint64_t>(dtype) << 16 |
                       static_cast<uint64_t>(room) << 8 | prepared;
  return cache.find(device, key, [&] {
    const int operands = 2 + optimizer_specs[which].states;
    const std::string arguments =
        prepared ? concat("PreparedArguments<")
                 : concat("StepArguments<", dtype == DType::Float64 ? "double, " : "float, ");
    return concat("file optimizer.cu\n", arguments, operands, ", ", room, ">\n",
                  prepared ? "prepared_step<" : "optimizer_step<", kNames[which], ", ",
                  kernel_type(dtype), ", ", room, ">");
  });
}

// One launch. The coefficients are among the arguments, which begin with them, or were prepared on the device.
void launch_parts(int which, std::span<const Part> parts, Arguments& arguments, bool prepared,
                  int device) {
  const DType dtype = parts[0].dtype;
  const int room = *std::find_if(std::begin(kRooms), std::end(kRooms) - 1, [&](int each) {
    return static_cast<size_t>(each) >= parts.size();
  });
  const int64_t piece = kThreads * kVectorsPerThread * (16 / static_cast<int64_t>(itemsize(dtype)));
  int64_t blocks = 0;
  for (const Part& part : parts) blocks += (part.numel + piece - 1) / piece;
  put_parts(arguments, parts, 2 + optimizer_specs[which].states, room, piece, prepared);
  launch(find_kernel(which, dtype, room, prepared, device), device, blocks, kThreads, arguments);
}

// What there is to do. `coefficients_of(i)` is called for each parameter, those without elements included.
template <class CoefficientsOf>
std::vector<Part> make_parts(const OpCall& call, CoefficientsOf&& coefficients_of) {
  const OptimizerSpec& spec = optimizer_specs[call.integer(0)];
  const auto count = static_cast<size_t>(call.integer(1));
  std::vector<Part> parts;
  parts.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t coefficients = coefficients_of(i);
    const TensorImpl& param = call.in(count + i);
    if (param.numel() == 0) continue;
    Part& part = parts.emplace_back(Part{param.dtype(), coefficients, param.numel()});
    for (size_t k = 0; k < 2 + static_cast<size_t>(spec.states); ++k)
      part.operands[k] = call.in(k * count + i).data();
  }
  return parts;
}

// Calls launch(parts) for groups that can be launched together: sorted before, and not too many.
template <class Together, class Launch>
void each_launch(std::span<const Part> parts, Together&& together, Launch&& launch) {
  constexpr auto kMost = static_cast<size_t>(kRooms[std::size(kRooms) - 1]);
  for (size_t begin = 0, end; begin < parts.size(); begin = end) {
    for (end = begin + 1; end < parts.size() && end - begin < kMost; ++end)
      if (!together(parts[begin], parts[end])) break;
    launch(parts.subspan(begin, end - begin));
  }
}

// Inputs: all gradients, parameters, the first state of all, ..., the first count of all, ... Counts are on the
// host. Outputs: the same without the gradients. Attributes: which optimizer, how many parameters, options.
void optimizer_step(const OpCall& call) {
  const auto which = static_cast<int>(call.integer(0));
  if (optimizer_specs[which].counts && is_capturing(call.out().device().index)) [[unlikely]]
    fail_in_capture(call.op.name, "steps cannot be counted on the host",
                    "use capturable=True, or fused=True where there is none");
  Preparation preparation(call);
  std::vector<Part> parts = make_parts(call, [&](size_t i) { return preparation.prepare(i); });
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.dtype != b.dtype ? a.dtype < b.dtype : a.coefficients < b.coefficients;
  });
  auto together = [](const Part& a, const Part& b) {
    return a.dtype == b.dtype && a.coefficients == b.coefficients;
  };
  each_launch(parts, together, [&](std::span<const Part> chosen) {
    Arguments arguments;
    put_coefficients(arguments, preparation.at(chosen[0].coefficients), chosen[0].dtype);
    launch_parts(which, chosen, arguments, false, call.out().device().index);
  });
}

// ---- counts and options on the device

// As tapegrad/cuda/kernels/optimizer.cu declares it.
struct PrepareArguments {
  static constexpr int kMost = 128;
  double options[kMaxOptimizerOptions];
  const void* option_tensors[kMaxOptimizerOptions];
  void* counts[kMaxOptimizerCounts][kMost];
  double* coefficients;
  const float* found_inf;
  int32_t tensors;
  uint32_t wide_options;
  uint8_t wide_counts[kMost];
};

FunctionHandle find_preparation(int which, int device) {
  static auto& cache = *new KernelCache;
  return cache.find(device, static_cast<uint64_t>(which), [&] {
    return concat("file optimizer.cu\nPrepareArguments\nprepare_step<", kNames[which], ">");
  });
}

// The number that says whether the step is to be left out: the last input, if there is one more than the others.
const float* found_inf_of(const OpCall& call) {
  const OptimizerSpec& spec = optimizer_specs[call.integer(0)];
  const auto rows = static_cast<size_t>(2 + spec.states + spec.counts);
  size_t others = rows * static_cast<size_t>(call.integer(1));
  for (size_t k = 2 + (call.attributes.size() - 2) / 2; k < call.attributes.size(); ++k)
    others += call.integer(k) >= 0;
  return call.inputs.size() > others ? call.in(others).data_as<float>() : nullptr;
}

// The options: numbers, or tensors behind the operands.
PrepareArguments options_of(const OpCall& call) {
  PrepareArguments arguments{};
  const size_t options = (call.attributes.size() - 2) / 2;
  for (size_t k = 0; k < options; ++k) {
    arguments.options[k] = call.real(2 + k);
    const int64_t source = call.integer(2 + options + k);
    if (source < 0) continue;
    const TensorImpl& tensor = call.in(static_cast<size_t>(source));
    arguments.option_tensors[k] = tensor.data();
    if (tensor.dtype() == DType::Float64) arguments.wide_options |= 1u << k;
  }
  return arguments;
}

// Moves the counts of all parameters on, and works out their coefficients.
Ref<TensorImpl> prepare_on_device(const OpCall& call, int device) {
  const auto which = static_cast<int>(call.integer(0));
  const OptimizerSpec& spec = optimizer_specs[which];
  const auto count = static_cast<size_t>(call.integer(1));
  const int64_t sizes[] = {static_cast<int64_t>(count) * kMaxOptimizerCoefficients};
  Ref<TensorImpl> coefficients =
      TensorImpl::empty(DType::Float64, sizes, sizes[0], call.out().device());
  PrepareArguments arguments = options_of(call);
  arguments.found_inf = found_inf_of(call);
  for (size_t begin = 0; begin < count; begin += PrepareArguments::kMost) {
    const size_t end = std::min(count, begin + PrepareArguments::kMost);
    arguments.tensors = static_cast<int32_t>(end - begin);
    arguments.coefficients =
        coefficients->data_as<double>() + begin * size_t{kMaxOptimizerCoefficients};
    for (size_t i = begin; i < end; ++i) {
      arguments.wide_counts[i - begin] = 0;
      for (int k = 0; k < spec.counts; ++k) {
        const TensorImpl& tensor = call.in((2 + static_cast<size_t>(spec.states + k)) * count + i);
        arguments.counts[k][i - begin] = tensor.data();
        if (tensor.dtype() == DType::Float64) arguments.wide_counts[i - begin] |= 1 << k;
      }
    }
    launch_with(find_preparation(which, device), device, 1, PrepareArguments::kMost, arguments);
  }
  return coefficients;
}

// The same with counts on the device, and without a look at them. Further inputs: options that are tensors, and a
// number that is zero unless the step is to be left out.
// Attributes: which optimizer, how many parameters, options, and for each of them which input it is, or -1.
void optimizer_step_on_device(const OpCall& call) {
  const auto which = static_cast<int>(call.integer(0));
  const int device = call.out().device().index;
  const Ref<TensorImpl> coefficients = prepare_on_device(call, device);
  std::vector<Part> parts = make_parts(call, [](size_t i) { return i; });
  auto before = [](const Part& a, const Part& b) { return a.dtype < b.dtype; };
  std::stable_sort(parts.begin(), parts.end(), before);
  auto together = [](const Part& a, const Part& b) { return a.dtype == b.dtype; };
  each_launch(parts, together, [&](std::span<const Part> chosen) {
    Arguments arguments;
    arguments.put(coefficients->data_as<double>());
    arguments.put(found_inf_of(call));
    launch_parts(which, chosen, arguments, true, device);
  });
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"optimizer_step", optimizer_step},
    {"optimizer_step_on_device", optimizer_step_on_device},
};

}  // namespace

}  // namespace tapegrad::cuda
