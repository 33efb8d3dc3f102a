// The step of an optimizer: all elements of all parameters in one parallel loop. The formulas are in
// optimizer_kernels.cpp.
#include <algorithm>
#include <array>
#include <vector>

#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/convert.h"
#include "cpu/optimizer_kernels.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 16384;  // measured with Adam: below, waking a thread takes longer
constexpr int kMaxOperands = 2 + kMaxOptimizerStates;  // gradient, parameter, states

// What there is to do for one parameter.
struct Part {
  int64_t start;  // the number of its first element among those of all parameters
  int64_t numel;
  DType dtype;
  void* operands[kMaxOperands] = {};
  double coefficients[kMaxOptimizerCoefficients] = {};
};

double read_count(const TensorImpl& x) {
  return x.dtype() == DType::Float64 ? *x.data_as<double>() : *x.data_as<float>();
}

void write_count(const TensorImpl& x, double value) {
  if (x.dtype() == DType::Float64) *x.data_as<double>() = value;
  else *x.data_as<float>() = static_cast<float>(value);
}

// 16-bit floats are computed in float32, a piece at a time.
void update_reduced(int which, const Part& part, int64_t begin, int64_t end) {
  constexpr int64_t kPiece = 512;
  alignas(64) float buffers[kMaxOperands][kPiece];
  void* operands[kMaxOperands];
  for (int k = 0; k < kMaxOperands; ++k) operands[k] = buffers[k];
  const Convert widen = converter(part.dtype, DType::Float32);
  const Convert narrow = converter(DType::Float32, part.dtype);
  const int count = 2 + optimizer_specs[which].states;
  for (int64_t i = begin; i < end; i += kPiece) {
    const int64_t n = std::min(kPiece, end - i);
    auto at = [&](int k) { return static_cast<uint16_t*>(part.operands[k]) + i; };
    for (int k = 0; k < count; ++k) widen(at(k), 1, buffers[k], 1, n);
    best_optimizer_table().of[which].update[0](part.coefficients, operands, n);
    for (int k = 1; k < count; ++k) narrow(buffers[k], 1, at(k), 1, n);
  }
}

// Elements begin to end of one parameter.
void update_part(int which, const Part& part, int64_t begin, int64_t end) {
  if (is_reduced_float(part.dtype)) return update_reduced(which, part, begin, end);
  void* operands[kMaxOperands] = {};
  const auto offset = begin * static_cast<int64_t>(itemsize(part.dtype));
  for (int k = 0; k < 2 + optimizer_specs[which].states; ++k)
    operands[k] = static_cast<char*>(part.operands[k]) + offset;
  auto* update = best_optimizer_table().of[which].update[part.dtype == DType::Float64];
  update(part.coefficients, operands, end - begin);
}

// Inputs: all gradients, parameters, the first state of all, ..., the first count of all, ...
// Outputs: the same without the gradients. Attributes: which optimizer, how many parameters, options.
void optimizer_step(const OpCall& call) {
  const auto which = static_cast<int>(call.integer(0));
  const OptimizerSpec& spec = optimizer_specs[which];
  const auto count = static_cast<size_t>(call.integer(1));
  std::array<double, kMaxOptimizerOptions> options{};
  for (size_t i = 2; i < call.attributes.size(); ++i) options[i - 2] = call.real(i);

  std::vector<Part> parts;
  parts.reserve(count);
  int64_t total = 0;
  double before[kMaxOptimizerCounts] = {}, after[kMaxOptimizerCounts] = {};
  double coefficients[kMaxOptimizerCoefficients] = {};
  bool ready = false, was_narrow = false;
  for (size_t i = 0; i < count; ++i) {
    const auto count_tensor = [&](int k) -> const TensorImpl& {
      return call.in((2 + static_cast<size_t>(spec.states + k)) * count + i);
    };
    double counts[kMaxOptimizerCounts] = {};
    for (int k = 0; k < spec.counts; ++k) counts[k] = read_count(count_tensor(k));
    const bool narrow = spec.counts > 0 && count_tensor(spec.counts - 1).dtype() != DType::Float64;
    // Most parameters have taken the same number of steps: what follows from that is computed once.
    if (!ready || narrow != was_narrow ||
        !std::equal(counts, counts + kMaxOptimizerCounts, before)) {
      std::copy_n(counts, kMaxOptimizerCounts, before);
      std::copy_n(counts, kMaxOptimizerCounts, after);
      spec.prepare(options.data(), after, narrow, coefficients);
      ready = true;
      was_narrow = narrow;
    }
    for (int k = 0; k < spec.counts; ++k) write_count(count_tensor(k), after[k]);
    const TensorImpl& param = call.in(count + i);
    if (param.numel() == 0) continue;
    Part& part = parts.emplace_back(Part{total, param.numel(), param.dtype()});
    total += part.numel;
    for (size_t k = 0; k < 2 + static_cast<size_t>(spec.states); ++k)
      part.operands[k] = call.in(k * count + i).data();
    std::copy_n(coefficients, kMaxOptimizerCoefficients, part.coefficients);
  }

  auto range = [&](int64_t begin, int64_t end) {
    auto part = std::upper_bound(parts.begin(), parts.end(), begin, [](int64_t at, const Part& p) {
      return at < p.start;
    }) - 1;
    for (; begin < end; ++part) {
      const int64_t stop = std::min(end, part->start + part->numel);
      update_part(which, *part, begin - part->start, stop - part->start);
      begin = stop;
    }
  };
  if (total == 0) return;
  if (total <= kGrain) return range(0, total);
  BlockingSection blocking;
  parallel_for(0, total, kGrain, range);
}

const KernelList<DeviceType::CPU> kKernels = {
    {"optimizer_step", optimizer_step},
};

}  // namespace

}  // namespace tapegrad::cpu
