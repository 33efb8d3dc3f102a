// The pointwise table as data: names, parameters, texts, kernel records, tensor derivatives.
#include <algorithm>
#include <cstring>
#include <string>

#include "complex_rules.h"
#include "ops/create.h"
#include "ops/pointwise.h"

namespace tapegrad {

// For the rules read with tensors; the kernels have their own.
static Tensor normal_cdf(const Tensor& x) { return 0.5 * erfc(-0.7071067811865476 * x); }
static Tensor normal_density(const Tensor& x) { return 0.3989422804014327 * exp(-0.5 * square(x)); }

namespace {

using Derivative = PointwiseDerivative;

struct ParamList {
  int count = 0;
  const char* names[kMaxParams] = {};
  Scalar defaults[kMaxParams];
};
#define P0 \
  ParamList {}
#define P1(A, A_DEFAULT)   \
  ParamList {              \
    1, {#A}, { A_DEFAULT } \
  }
#define P2(A, A_DEFAULT, B, B_DEFAULT)    \
  ParamList {                             \
    2, {#A, #B}, { A_DEFAULT, B_DEFAULT } \
  }
#define P3(A, A_DEFAULT, B, B_DEFAULT, C, C_DEFAULT)     \
  ParamList {                                            \
    3, {#A, #B, #C}, { A_DEFAULT, B_DEFAULT, C_DEFAULT } \
  }

template <class Rule, int I>
Tensor recorded_derivative(const Tensor& g, const Tensor& a, const Tensor& b, const Tensor& c,
                           const Tensor& y, const double* params) {
  if (is_complex(g.dtype())) return rules::complex_grad<Rule, I>(g, a, b, c, y, params);
  return Rule::template grad<I>(g, a, b, c, y, params);
}

void fill_op(PointwiseOp& op, const char* name, PointwiseId id, int derivative,
             const ParamList& params, uint16_t traits) {
  op.name = name;
  op.kernel_name = "pointwise";
  op.attributes = {"dtype"};
  op.attributes.insert(op.attributes.end(), params.names, params.names + params.count);
  if (params.count > 0) op.attributes.resize(1 + kMaxParams, "unused");
  // Which bare dtypes a line takes is seen to where its dtypes are resolved.
  op.traits = kAnyRank | kOverwrites | kBare | traits | (takes_complex(id) ? kComplex : 0);
  op.id = id;
  op.derivative = static_cast<int8_t>(derivative);
  op.enlist();
}

// "tanh_backward", "mul_backward_a".
const char* derivative_name(const std::string& line, int arity, int input) {
  const std::string suffix = arity == 1 ? "" : std::string("_") + "abc"[input];
  return strdup((line + "_backward" + suffix).c_str());
}

template <class Rule, int I>
void fill_derivative(Derivative& d, PointwiseId id, const ParamList& params) {
  if (I >= Rule::kArity) return;
  d.text = Rule::kGrad[I];
  d.kind = derivative_kind(d.text);
  d.mentions = mentioned_operands(d.text, Rule::kArity);
  if (d.kind != DerivativeKind::Kernel) return;
  fill_op(d.op, derivative_name(Rule::kName, Rule::kArity, I), id, I, params, kUnrecorded);
  int next = 0;
  for (int slot = 0; slot < kGradOperands; ++slot)
    if (d.mentions >> slot & 1) d.op.slots[next++] = static_cast<uint8_t>(slot);
  if constexpr (derivative_kind(Rule::kGrad[I]) == DerivativeKind::Kernel)
    d.recorded = recorded_derivative<Rule, I>;
}

// The use of an operand that asks most of it.
template <class Rule>
constexpr SavedUse use_of(std::string_view word) {
  SavedUse use = SavedUse::Smooth;
  for (int i = 0; i < Rule::kArity; ++i)
    use = std::max(use, use_in(Rule::kGrad[i], word, Rule::kArity));
  return use;
}

// The public op that a line is a variant of: "clamp" for clamp_between.
std::string public_name(std::string name) {
  for (const char* suffix : {"_scaled", "_between", "_tensor", "_tanh", "_trunc"})
    if (size_t at = name.find(suffix); at != std::string::npos && at > 0) name.resize(at);
  return name;
}

// Whether its result can have a derivative: it is not always bool or integer.
constexpr bool is_differentiable(PointwiseDTypes dtypes) {
  return dtypes != PointwiseDTypes::Test && dtypes != PointwiseDTypes::Integer &&
         dtypes != PointwiseDTypes::Integral;
}

// What PyTorch calls an operand of the derivative when it is saved: the input is "self" there.
const char* saved_name(const PointwiseInfo& info, int slot) {
  if (slot == kGradOperands - 1) return "result";
  const char* name = info.operands.names[slot - 1];
  return std::string_view(name) == "input" ? "self" : name;
}

// The entry saves the operands that its derivatives mention.
void fill_entry(PointwiseInfo& info) {
  EntryKind& entry = info.entry;
  const char* prefix = info.has(kSpecialOnly) ? "special_" : "";
  entry.name = EntryKind::usual_name(prefix + std::string(info.name), 0);
  entry.function = info.name;
  entry.op = &info.op;
  for (int slot = 1; slot < kGradOperands; ++slot) {
    if (!(info.mentions >> slot & 1)) continue;
    SavedName saved(saved_name(info, slot), {});
    for (int i = 0; i < info.arity; ++i)
      saved.inputs |= static_cast<uint8_t>((info.derivatives[i].mentions >> slot & 1) << i);
    entry.saved.push_back(saved);
  }
  entry.enlist();
}

const CastRule* cast_rule(const PointwiseInfo& info) {
  if (info.has(kFloat32OnCuda)) return new CastRule(info.name, Cast::None, Cast::Float32);
  if (info.has(kWidestOnCuda)) return new CastRule(info.name, Cast::None, Cast::Widest);
  return nullptr;
}

template <class Rule>
void fill(PointwiseInfo& info, PointwiseId id, const char* kind, const ParamList& params) {
  info.line = Rule::kName;
  info.name = strdup(public_name(Rule::kName).c_str());
  info.kind = kind;
  info.arity = Rule::kArity;
  info.dtypes = Rule::kDTypes;
  info.deviations = deviations_of(id);
  info.operands = operand_names(id);
  info.cast = cast_rule(info);
  info.value_text = Rule::kValue;
  info.param_count = params.count;
  for (int i = 0; i < kMaxParams; ++i) {
    info.param_names[i] = params.names[i];
    info.param_defaults[i] = params.defaults[i];
  }
  fill_op(info.op, Rule::kName, id, -1, params,
          is_differentiable(Rule::kDTypes) ? 0 : kNoDerivative);
  info.op.is_test = Rule::kDTypes == PointwiseDTypes::Test;
  for (uint8_t i = 0; i < kMaxArity; ++i) info.op.slots[i] = i;
  constexpr const char* kWords[] = {"g", Rule::kArity == 1 ? "x" : "a", "b", "c", "y"};
  for (int slot = 1; slot < kGradOperands; ++slot) info.uses[slot] = use_of<Rule>(kWords[slot]);
  fill_derivative<Rule, 0>(info.derivatives[0], id, params);
  fill_derivative<Rule, 1>(info.derivatives[1], id, params);
  fill_derivative<Rule, 2>(info.derivatives[2], id, params);
  for (const Derivative& d : info.derivatives) info.mentions |= d.mentions;
  if (is_differentiable(Rule::kDTypes)) fill_entry(info);
}

struct Infos {
  PointwiseInfo entries[kPointwiseCount] = {};
  Infos() {
    PointwiseInfo* next = entries;
#define ROW(KIND, NAME, ...) \
  fill<rules::NAME##_rule>(*next++, PointwiseId::NAME, #KIND, __VA_ARGS__);
#define UNARY(NAME, DTYPES, PARAMS, ...) ROW(UNARY, NAME, PARAMS)
#define ACTIVATION(NAME, DTYPES, PARAMS, ...) ROW(ACTIVATION, NAME, PARAMS)
#define BINARY(NAME, DTYPES, PARAMS, ...) ROW(BINARY, NAME, PARAMS)
#define TERNARY(NAME, DTYPES, PARAMS, ...) ROW(TERNARY, NAME, PARAMS)
#include "pointwise.def"
#undef ROW
#undef UNARY
#undef ACTIVATION
#undef BINARY
#undef TERNARY
  }
};

const Infos infos;

}  // namespace

const PointwiseInfo& pointwise_info(PointwiseId id) { return infos.entries[static_cast<int>(id)]; }

}  // namespace tapegrad
