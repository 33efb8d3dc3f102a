// Running and recording a line of the pointwise table.
#include "ops/pointwise.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.h"
#include "core/torch_names.h"
#include "graph/view.h"
#include "graph/write_log.h"
#include "ops/autocast.h"
#include "ops/complex.h"
#include "ops/copy.h"
#include "ops/create.h"

namespace tapegrad {

namespace {

using Derivative = PointwiseDerivative;

// ---- dtypes

// The dtype the operands are computed in, and the one the result has.
struct DTypes {
  DType compute;
  DType result;
};

[[noreturn]] void fail_dtype(const PointwiseInfo& info, const char* expected, DType got,
                             const char* advice) {
  fail<NotImplementedError>(info.name, ": expected ", expected, ", got ", name(got), advice);
}

DType common_dtype(const PointwiseInfo& info, Operands operands, Params params) {
  // The condition of where() takes no part.
  if (info.has(kCondition)) operands = operands.subspan(1);
  DType first = (*operands[0]).dtype();
  // Only the bounds of clamp() take part in promotion; other parameters follow the tensors.
  const bool counts_params = info.has(kPromotingParams);
  bool plain = !(*operands[0])->is_wrapped_number() && (!counts_params || is_floating(first));
  // A number is of no account beside floats, unless it is complex.
  for (const Tensor* operand : operands.subspan(1))
    plain = plain &&
            ((*operand)->is_wrapped_number() ? is_floating(first) && !is_complex(operand->dtype())
                                             : operand->dtype() == first);
  if (plain) return first;
  ResultType type;
  for (const Tensor* operand : operands) type.add(*operand);
  if (counts_params)
    for (Scalar param : params) type.add(param);
  return type.get();
}

[[noreturn]] void fail_bool(const PointwiseInfo& info) {
  if (!info.has(kForbidsBool)) fail_unsupported_dtype(info.name, DType::Bool);
  if (info.name == std::string_view("neg"))
    fail<Error>(
        "neg: Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
        "invert a mask, use the `~` or `logical_not()` operator instead.");
  fail<Error>(info.name,
              ": Subtraction, the `-` operator, with two bool tensors is not supported. Use the "
              "`^` or `logical_xor()` operator instead.");
}

// PyTorch reads the parameters of most ops as float32 where the tensors are 16-bit floats.
DType param_dtype(const PointwiseInfo& info, DType common) {
  return is_reduced_float(common) && !info.has(kStrictParams) ? DType::Float32 : common;
}

// The parameters as the op's dtype holds them.
struct HeldParams {
  union {
    Scalar values[kMaxParams];  // left alone where there is nothing to change
  };
  Params params;

  HeldParams(const PointwiseInfo& info, Params given, DType common) : params(given) {
    if (given.empty()) return;
    DType dtype = param_dtype(info, common);
    if (dtype_of_compute(compute_type(dtype)) == dtype) return;
    for (size_t i = 0; i < given.size(); ++i) values[i] = as_held(given[i], dtype);
    params = {values, given.size()};
  }
};

// x ** number: the exponent is read in the dtype of x.
void check_exponent(const Tensor& exponent, DType common) {
  if (!exponent->is_wrapped_number() || is_complex(common)) return;
  Scalar number = number_of(exponent);
  if (is_integral(common) || is_reduced_float(common)) check_fits("pow", number, common);
  TAPEGRAD_CHECK(!is_integral(common) || number.as_int() >= 0,
                 "pow: Integers to negative integer powers are not allowed; call .float() first");
}

void check_one_dtype(const PointwiseInfo& info, Operands operands, DType common) {
  for (const Tensor* operand : operands) {
    if ((*operand)->is_wrapped_number()) {
      if (!is_complex(operand->dtype()))
        check_fits(info.name, number_of(*operand), param_dtype(info, common));
    } else {
      TAPEGRAD_CHECK(operand->dtype() == common, info.name,
                     ": expected all tensors to have the same dtype, got ", name(common), " and ",
                     name(operand->dtype()));
    }
  }
}

void check_params(const PointwiseInfo& info, Params params, DType common) {
  if (params.empty()) return;
  if (!info.has(kStoredParams))
    for (Scalar param : params) check_fits(info.name, param, param_dtype(info, common));
  const double first = params[0].as_double();
  if (info.has(kUnsignedLimits))
    TAPEGRAD_CHECK(common != DType::UInt8 || first >= 0, info.name, ": cannot do ", info.name,
                   " on an unsigned type with negative limits");
  if (!info.has(kFiniteParam)) return;
  check_fits(info.name, params[0], common);
  TAPEGRAD_CHECK(first >= 0 && std::isfinite(first), info.name,
                 ": lambda must be finite and greater or equal to 0, but found to be ", first);
}

// Where PyTorch wants more of the dtypes than the table's column says.
void check_special_dtypes(const PointwiseInfo& info, Operands operands, Params params,
                          DType common) {
  check_params(info, params, common);
  constexpr uint32_t kWantsMore =
      kRefusesBool | kRefusesHalf | kForbidsBoolOperands | kOneDType | kPower | kCondition;
  if (!(info.deviations & kWantsMore)) [[likely]]
    return;
  if (info.has(kRefusesBool) && common == DType::Bool) fail_unsupported_dtype(info.name, common);
  if (info.has(kRefusesHalf) && is_reduced_float(common)) fail_unsupported_dtype(info.name, common);
  if (info.has(kForbidsBoolOperands))
    for (const Tensor* operand : operands)
      if (operand->dtype() == DType::Bool) fail_bool(info);
  if (info.has(kOneDType)) check_one_dtype(info, operands, common);
  if (info.has(kPower)) check_exponent(*operands[1], common);
  if (info.has(kCondition))
    for (const Tensor* operand : operands)
      if ((*operand)->is_wrapped_number() && !is_complex(operand->dtype()))
        check_element_fits(info.name, number_of(*operand), common);
}

[[noreturn]] void fail_complex(const PointwiseInfo& info, DType dtype) {
  TAPEGRAD_CHECK(info.op.id != PointwiseId::sign,
                 "sign: Unlike NumPy, torch.sign doesn't support complex numbers; use torch.sgn");
  fail_unsupported_dtype(info.name, dtype);
}

// That the line takes a complex or bare dtype. Ops that make floats of integers do so of unsigned ones as well.
void check_limited_dtype(const PointwiseInfo& info, Operands operands, DType common) {
  if (is_complex(common)) {
    if (!takes_complex(info.op.id)) fail_complex(info, common);
    return;
  }
  const bool integer = is_wide_unsigned(common);
  if (integer && (info.dtypes == PointwiseDTypes::Real || info.dtypes == PointwiseDTypes::Floating))
    return;
  if (!(bare_dtypes_of(info.op.id) & (integer ? kWideUnsigned : kFloat8)))
    fail_unsupported_dtype(info.name, common);
  if (!integer && info.op.id == PointwiseId::mul)
    for (const Tensor* operand : operands)
      if ((*operand)->is_wrapped_number()) fail_unsupported_dtype(info.name, common);
}

DTypes resolve_dtypes(const PointwiseInfo& info, Operands operands, Params params) {
  DType common = common_dtype(info, operands, params);
  if (is_limited(common)) [[unlikely]]
    check_limited_dtype(info, operands, common);
  check_special_dtypes(info, operands, params, common);
  switch (info.dtypes) {
    case PointwiseDTypes::Real:
      if (is_integral(common)) common = default_dtype();
      break;
    case PointwiseDTypes::Floating:
      if (is_integral(common))
        fail_dtype(info, "a floating dtype (neither integer nor bool)", common,
                   "; call .float() first");
      break;
    case PointwiseDTypes::Number:
      if (common == DType::Bool) {
        if (info.has(kBoolIsInt64)) common = DType::Int64;
        else if (!info.has(kPower) || !(*operands[1])->is_wrapped_number()) fail_bool(info);
      }
      break;
    case PointwiseDTypes::Integer:
      if (is_floating(common) || common == DType::Bool)
        fail_dtype(info, "integer tensors", common, "; convert with .int() first");
      break;
    case PointwiseDTypes::Integral:
      if (is_floating(common))
        fail_dtype(info, "integer or bool tensors", common, "; convert with .int() first");
      break;
    case PointwiseDTypes::Test:
      return {common, DType::Bool};
    case PointwiseDTypes::Rounding:
      if (common == DType::Bool) fail_bool(info);
      break;
    case PointwiseDTypes::Any:
      break;
  }
  return {common, common};
}

// ---- shapes

bool same_shapes(Operands operands) {
  Sizes first = operands[0]->sizes();
  for (const Tensor* operand : operands.subspan(1))
    if (!same_sizes(first, operand->sizes())) return false;
  return true;
}

DimVector result_sizes(const PointwiseInfo& info, Operands operands) {
  DimVector sizes(operands[0]->sizes());
  for (const Tensor* operand : operands.subspan(1))
    sizes = broadcast_sizes(info.name, sizes, operand->sizes());
  return sizes;
}

bool all_contiguous(Operands operands) {
  for (const Tensor* operand : operands)
    if (!operand->is_contiguous()) return false;
  return true;
}

// Whether it is plain that the result is contiguous. A dimension of size one may have any stride, also
// in a contiguous operand.
bool has_usual_order(Sizes sizes, Operands operands) {
  if (sizes.size() < 2) return true;
  return all_contiguous(operands) && std::find(sizes.begin(), sizes.end(), 1) == sizes.end();
}

DimVector result_strides(const PointwiseInfo& info, Sizes sizes, Operands operands, DType compute) {
  // In PyTorch these are contiguous whatever they are given.
  bool usual = sizes.size() < 2 || info.has(kContiguous) ||
               (info.has(kPower) && (*operands[0])->is_wrapped_number());
  if (usual) return contiguous_strides(sizes);
  // What has another dtype is copied first there, and the copy is dense.
  Tensor copies[kMaxArity];
  const Tensor* seen[kMaxArity];
  for (size_t i = 0; i < operands.size(); ++i) {
    const Tensor& x = *operands[i];
    bool is_condition = i == 0 && info.has(kCondition);
    seen[i] = &x;
    if (is_condition || x.dtype() == compute || is_dense(*x.impl())) continue;
    copies[i] = alias(x, x.sizes(), strides_like(*x.impl()), x->offset());
    seen[i] = &copies[i];
  }
  return elementwise_strides(sizes, {seen, operands.size()});
}

// The device of the operands. A 0-d one on the CPU gives way: it counts as a number.
Device common_device(Operands operands) {
  Device device = (*operands[0])->device();
  if (!device_storages) [[likely]]
    return device;
  for (const Tensor* operand : operands.subspan(1))
    if (device.is_cpu()) device = (*operand)->device();
  return device;
}

// The operand that a single number is added to, multiplied by, ..., or null.
const TensorImpl* beside_number(Operands operands) {
  if (operands.size() != 2) return nullptr;
  if ((*operands[1])->is_wrapped_number()) return operands[0]->impl();
  return (*operands[0])->is_wrapped_number() ? operands[1]->impl() : nullptr;
}

// A fresh result, in the memory order of the operands, so that walking all of them is linear.
Tensor make_result(const PointwiseInfo& info, Operands operands, DType dtype, DType compute) {
  bool same = same_shapes(operands);
  if (same && all_contiguous(operands)) [[likely]]
    return Tensor(TensorImpl::empty(dtype, operands[0]->sizes(), operands[0]->numel(),
                                    common_device(operands)));
  if (const TensorImpl* x = beside_number(operands); x && has_usual_order(x->sizes(), operands))
    return Tensor(TensorImpl::empty(dtype, x->sizes(), x->numel(), common_device(operands)));
  DimVector sizes = same ? DimVector(operands[0]->sizes()) : result_sizes(info, operands);
  Tensor out = empty(info.name, sizes, dtype, common_device(operands));
  if (has_usual_order(sizes, operands)) return out;
  DimVector strides = result_strides(info, sizes, operands, compute);
  if (!same_sizes(strides, out.strides())) out->set_geometry(sizes, strides, 0);
  return out;
}

// ---- running

void check_condition(const PointwiseInfo& info, Operands operands) {
  if (!info.has(kCondition)) return;
  DType dtype = operands[0]->dtype();
  TAPEGRAD_CHECK(dtype == DType::Bool || dtype == DType::UInt8,
                 "where expected condition to be a boolean tensor, but got a tensor with dtype ",
                 type_name(dtype));
}

// The elements in another dtype, outside the tape.
Tensor as_dtype(const Tensor& x, DType dtype) {
  Tensor y = empty_like(x, x.sizes(), dtype);
  copy_into(y, x);
  return y;
}

// Integer division by zero has no value to give, and would trap.
void check_divisor(const PointwiseInfo& info, Operands operands, DType compute) {
  if (!info.has(kIntegerDivision) || !is_integral(compute)) return;
  const Tensor& divisor = *operands[1];
  bool zero = has_zero(divisor.dtype() == compute ? divisor : as_dtype(divisor, compute));
  TAPEGRAD_CHECK(!zero, info.name, ": ZeroDivisionError: an integer divisor is zero");
}

// The line that computes x ** number without a general power, or pow itself. As in PyTorch, float16
// always takes pow, whose value at (-inf) ** 0.5 is another.
PointwiseId power_line(const Tensor& exponent, DType compute) {
  bool special = has_gradient(compute) && compute != DType::Float16;
  if (!exponent->is_wrapped_number() || is_complex(exponent.dtype()) || !special)
    return PointwiseId::pow;
  double number = number_of(exponent).as_double();
  if (number == 2) return PointwiseId::square;
  if (number == 0.5) return PointwiseId::sqrt;
  if (number == -0.5) return PointwiseId::rsqrt;
  if (number == -1) return PointwiseId::reciprocal;
  return PointwiseId::pow;
}

const Op nextafter_half_op("nextafter_half", {}, kUnrecorded);

// 16-bit floats are computed in float32 everywhere else, but their neighbours are other numbers.
void execute_nextafter_half(Operands operands, DType dtype, const Tensor& out) {
  Tensor values[2];
  for (int i = 0; i < 2; ++i) {
    values[i] = empty_like(out, out.sizes(), dtype);
    copy_into(values[i], *operands[i]);
  }
  Tensor result = empty_like(out, out.sizes(), dtype);
  dispatch(nextafter_half_op, {values[0], values[1]}, {}, {result});
  copy_into(out, result);
}

// Kernels compute small integers in 32 bits. An operand of another dtype, a number or a 0-d tensor,
// is made what the op's dtype can hold first: compared with uint8, -3 is 253.
Operands narrowed_operands(const PointwiseInfo& info, Operands operands, DType compute,
                           Tensor (&narrow)[kMaxArity], const Tensor* (&values)[kMaxArity]) {
  if (compute == DType::Int64 || compute == DType::Bool) return operands;
  size_t condition = info.has(kCondition) ? 0 : operands.size();
  for (size_t i = 0; i < operands.size(); ++i) {
    const Tensor& operand = *operands[i];
    values[i] = &operand;
    if (i == condition || operand.dim() > 0 || operand.dtype() == compute) continue;
    narrow[i] = empty_like(operand, {}, compute);
    copy_into(narrow[i], operand);
    values[i] = &narrow[i];
  }
  return {values, operands.size()};
}

[[gnu::always_inline]] inline void run_line(const PointwiseInfo& info, Operands operands,
                                            Params params, DType compute, const Tensor& out) {
  TensorImpl* inputs[kMaxArity];
  for (size_t i = 0; i < operands.size(); ++i) inputs[i] = operands[i]->impl();
  TensorImpl* outputs[] = {out.impl()};
  Scalar attributes[1 + kMaxParams] = {compute};
  size_t attribute_count = 1;
  if (info.param_count > 0) {
    for (int i = 0; i < kMaxParams; ++i)
      attributes[attribute_count++] =
          static_cast<size_t>(i) < params.size() ? params[i] : info.param_defaults[i];
  }
  dispatch(info.op, {inputs, operands.size()}, {attributes, attribute_count}, outputs);
}

void execute_integers(const PointwiseInfo& info, Operands given, Params params, DType compute,
                      const Tensor& out) {
  Tensor narrow[kMaxArity];
  const Tensor* values[kMaxArity];
  Operands operands = narrowed_operands(info, given, compute, narrow, values);
  check_divisor(info, operands, compute);
  if (info.dtypes == PointwiseDTypes::Rounding) return copy_into(out, *operands[0]);
  // ~True is -2 in the integers the kernel computes with.
  bool negates = compute == DType::Bool && info.has(kNegatesBool);
  run_line(negates ? pointwise_info(PointwiseId::logical_not) : info, operands, params, compute,
           out);
}

// The same memory as integers of the same size.
Tensor as_integers(const Tensor& x) {
  constexpr DType kTypes[] = {DType::UInt8, DType::UInt8, DType::Int16, DType::Int16, DType::Int32,
                              DType::Int32, DType::Int32, DType::Int32, DType::Int64};
  return Tensor(TensorImpl::create(x->storage_ref(), kTypes[itemsize(x.dtype())], x.sizes(),
                                   x.strides(), x->offset()));
}

// where() of bare dtypes chooses bytes: a condition read as a float8_e8m0fnu would never be zero.
void execute_choice(const PointwiseInfo& info, Operands given, DType dtype, const Tensor& out) {
  Tensor held[kMaxArity] = {*given[0]};
  const Tensor* operands[kMaxArity] = {&held[0]};
  for (size_t i = 1; i < given.size(); ++i) {
    held[i] = as_integers(given[i]->dtype() == dtype ? *given[i] : as_dtype(*given[i], dtype));
    operands[i] = &held[i];
  }
  const Tensor bytes = as_integers(out);
  run_line(info, {operands, given.size()}, {}, bytes.dtype(), bytes);
}

void execute(const PointwiseInfo& info, Operands operands, Params params, DType compute,
             const Tensor& out) {
  if (is_bare(compute) && info.has(kCondition)) [[unlikely]]
    return execute_choice(info, operands, compute, out);
  if (info.has(kNeighbours) && is_reduced_float(compute))
    return execute_nextafter_half(operands, compute, out);
  if (is_integral(compute)) [[unlikely]]
    return execute_integers(info, operands, params, compute, out);
  if (info.has(kPower)) {
    PointwiseId line = power_line(*operands[1], compute);
    if (line != PointwiseId::pow)
      return run_line(pointwise_info(line), operands.first(1), params, compute, out);
  }
  run_line(info, operands, params, compute, out);
}

// ---- recording

class PointwiseNode : public Node {
 public:
  PointwiseNode(const PointwiseInfo& info, uint8_t saved_mask)
      : info_(info), saved_mask_(saved_mask) {}
  const EntryKind& kind() const override { return info_.entry; }
  void vjp(Gradients grads, Gradients grad_inputs) override;

  const PointwiseInfo& info() const { return info_; }
  size_t saved_place(size_t i) const override;
  SavedReading reading(size_t i, const Tensor& elements) const override;

 protected:
  virtual const Scalar* params() const { return nullptr; }

 private:
  // Saved operands by their Mention bit; undefined where the bit was not saved.
  void load(Tensor (&operands)[kGradOperands]) const;
  Tensor derivative(const Derivative& d, Tensor (&operands)[kGradOperands], bool overwrite) const;

  const PointwiseInfo& info_;
  uint8_t saved_mask_;
};

class PointwiseParamNode final : public PointwiseNode {
 public:
  PointwiseParamNode(const PointwiseInfo& info, uint8_t saved_mask, Params params)
      : PointwiseNode(info, saved_mask) {
    for (int i = 0; i < kMaxParams; ++i)
      values_[i] = static_cast<size_t>(i) < params.size() ? params[i] : info.param_defaults[i];
  }

 private:
  const Scalar* params() const override { return values_; }
  std::vector<Attribute> attributes() const override {
    std::vector<Attribute> result;
    for (int i = 0; i < info().param_count; ++i)
      result.push_back({info().param_names[i], values_[i].as_double()});
    return result;
  }
  Scalar values_[kMaxParams];
};

// Its kind names what any of the derivatives mentions; this one may have saved less.
size_t PointwiseNode::saved_place(size_t i) const {
  size_t place = 0;
  for (int slot = 1; slot < kGradOperands; ++slot) {
    if ((saved_mask_ >> slot & 1) && i-- == 0) break;
    place += info_.mentions >> slot & 1;
  }
  return place;
}

// On which side of its limits each element lies is told by the derivative at gradient one.
SavedReading PointwiseNode::reading(size_t i, const Tensor& elements) const {
  int slot = 1;
  while (slot < kGradOperands && !((saved_mask_ >> slot & 1) && i-- == 0)) ++slot;
  if (slot == kGradOperands) return {};
  SavedReading result{info_.uses[slot]};
  if (result.use != SavedUse::Test) return result;
  const GradMode off(false);
  Tensor operands[kGradOperands];
  operands[0] =
      alias(ones({}, elements.dtype(), elements->device()), elements.sizes(), DimVector{0}, 0);
  operands[slot] = elements;
  result.sides = derivative(info_.derivatives[0], operands, false);
  return result;
}

void PointwiseNode::load(Tensor (&operands)[kGradOperands]) const {
  size_t next = 0;
  for (int slot = 1; slot < kGradOperands; ++slot)
    if (saved_mask_ >> slot & 1) operands[slot] = saved(next++);
}

// Passes the gradient of a value on; of the other input, on which the value depends only by
// comparison, it is zero.
const EntryKind link_entry("link", EntryKind::Role::Graph);

struct LinkBackward final : Entry<link_entry> {
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = grads[0];
    if (needs(1)) grad_inputs[1] = zeros(output_of_edge(1), grads[0].dtype(), grads[0]->device());
  }
  Sizes output_of_edge(size_t i) const {
    const Edge& edge = edges()[i];
    return edge.node->output_sizes(edge.output_number);
  }
};

// Note [Derivatives by comparison]
// The derivative of relu, g * (x > 0), is a constant almost everywhere, and the tape sees no way
// from it to x. Asking for its derivative with respect to x must give zero, not an error, so the
// way is added where the entries since `before` do not contain it.
Tensor linked(const Tensor& value, const Tensor& operand, uint64_t before) {
  if (!grad_enabled || !operand.defined() || !requires_grad(operand)) return value;
  Edge target = real_edge(operand);
  std::vector<Edge> found = {real_edge(value)};
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].node) continue;
    if (found[i].node == target.node && found[i].output_number == target.output_number)
      return value;
    if (found[i].node->sequence() < before) continue;
    for (const Edge& edge : found[i].node->edges()) found.push_back(edge);
  }
  Tensor y = alias(value, value.sizes(), value.strides(), value->offset());
  record<LinkBackward>({&value, &operand}, y, 0);
  return y;
}

// A fresh gradient of an operand, in the memory order of what it is computed from.
Tensor make_gradient(const Derivative& d, Tensor (&operands)[kGradOperands]) {
  const Tensor& g = operands[0];
  Tensor out = empty_like(g);
  if (g.is_contiguous() || g.dim() < 2) return out;
  const Tensor* mentioned[kGradOperands];
  size_t count = 0;
  for (int slot = 0; slot < kGradOperands; ++slot)
    if (d.mentions >> slot & 1) mentioned[count++] = &operands[slot];
  out->set_geometry(g.sizes(), elementwise_strides(g.sizes(), {mentioned, count}), 0);
  return out;
}

[[gnu::always_inline]] inline Tensor PointwiseNode::derivative(const Derivative& d,
                                                               Tensor (&operands)[kGradOperands],
                                                               bool overwrite) const {
  const Tensor& g = operands[0];
  switch (d.kind) {
    case DerivativeKind::PassThrough:
      return g;
    case DerivativeKind::Zero:
      return zeros_like(g);
    case DerivativeKind::None:
      fail<NotImplementedError>("the derivative for '", info_.name,
                                "' is not implemented; it was recorded at ", line());
    case DerivativeKind::Kernel:
      break;
  }
  const Scalar* params = this->params();
  if (is_differentiating()) {
    double values[kMaxParams] = {};
    for (int i = 0; i < info_.param_count; ++i) values[i] = params[i].as_double();
    // A number has no dtype of its own: here it takes part in the precision of the op.
    for (int slot = 1; slot < kGradOperands; ++slot)
      if (operands[slot].defined() && operands[slot]->is_wrapped_number())
        operands[slot] = as_dtype(operands[slot], g.dtype());
    // The logarithm of a negative base is complex where the power is.
    if (info_.has(kPower) && is_complex(g.dtype()) && operands[1].defined())
      operands[1] = cast(operands[1], g.dtype());
    uint64_t before = next_sequence_number();
    Tensor result = d.recorded(conj(g), operands[1], operands[2], operands[3], operands[4], values);
    result = conj(result);  // see Note [Gradients of complex functions]
    for (int slot = 1; slot < kGradOperands; ++slot)
      if (d.mentions >> slot & 1) result = linked(result, operands[slot], before);
    return result;
  }
  // Nobody else sees the incoming gradient: its memory takes the result.
  Tensor out = overwrite && is_sole_owner(g) ? g : make_gradient(d, operands);
  TensorImpl* inputs[kGradOperands];
  size_t count = 0;
  for (int slot = 0; slot < kGradOperands; ++slot)
    if (d.mentions >> slot & 1) inputs[count++] = operands[slot].impl();
  Scalar attributes[1 + kMaxParams] = {g.dtype()};
  if (params) std::copy(params, params + kMaxParams, attributes + 1);
  TensorImpl* outputs[] = {out.impl()};
  dispatch(d.op, {inputs, count}, {attributes, params ? 1u + kMaxParams : 1u}, outputs);
  return out;
}

void PointwiseNode::vjp(Gradients grads, Gradients grad_inputs) {
  Tensor operands[kGradOperands];
  load(operands);
  operands[0] = std::move(grads[0]);
  int last = info_.arity - 1;
  while (last > 0 && !needs(last)) --last;
  for (int i = 0; i <= last; ++i)
    if (needs(i)) grad_inputs[i] = derivative(info_.derivatives[i], operands, i == last);
}

// What the derivatives of the inputs that need one mention, apart from g.
uint8_t needed_operands(const PointwiseInfo& info, Operands operands) {
  uint8_t mask = 0;
  bool forward = forward_levels != 0;
  for (int i = 0; i < info.arity; ++i)
    if (forward ? is_active(*operands[i]) : requires_grad(*operands[i]))
      mask |= info.derivatives[i].mentions;
  return mask & static_cast<uint8_t>(~kGrad);
}

// `values` are the operands as they were before the op ran.
Ref<Node> make_node(const PointwiseInfo& info, Operands operands, Operands values, Params params,
                    const Tensor& out) {
  Edge edges[kMaxArity];
  for (int i = 0; i < info.arity; ++i) edges[i] = gradient_edge(*operands[i]);
  uint8_t mask = needed_operands(info, operands);
  if (forward_levels) [[unlikely]]
    await_tangents(out);
  size_t saved_count = static_cast<size_t>(std::popcount(mask));
  std::span<const Tensor> outputs(&out, 1);
  Ref<Node> node;
  if (info.param_count > 0)
    node = Node::create<PointwiseParamNode>(info.arity, saved_count, outputs, info, mask, params);
  else node = Node::create<PointwiseNode>(info.arity, saved_count, outputs, info, mask);
  for (int i = 0; i < info.arity; ++i) node->edges()[i] = std::move(edges[i]);
  node->stamp();
  size_t next = 0;
  for (int i = 0; i < info.arity; ++i)
    if (mask >> (i + 1) & 1) node->save_input(next++, *values[i]);
  if (mask & kOutput) node->save_output(next, out);
  return node;
}

// Runs a line on what autocast makes of its operands.
Tensor pointwise_cast(const PointwiseInfo& info, Operands given, Params params) {
  Tensor operands[kMaxArity];
  const Tensor* pointers[kMaxArity];
  for (size_t i = 0; i < given.size(); ++i) {
    operands[i] = *given[i];
    pointers[i] = &operands[i];
  }
  cast_operands(*info.cast, {operands, given.size()});
  const WithoutAutocast lifted;
  return pointwise(info.op.id, {pointers, given.size()}, params);
}

bool any_active(Operands operands) {
  bool forward = forward_levels != 0;
  for (const Tensor* operand : operands)
    if (forward ? is_active(*operand) : requires_grad(*operand)) return true;
  return false;
}

}  // namespace

Tensor pointwise(PointwiseId id, Operands operands, Params params) {
  const PointwiseInfo& info = pointwise_info(id);
  if (info.deviations & (kCondition | kFloat32OnCuda | kWidestOnCuda | kMagnitude)) [[unlikely]] {
    if (info.has(kMagnitude) && is_complex(operands[0]->dtype())) return complex_abs(*operands[0]);
    if (autocast_devices && info.cast) return pointwise_cast(info, operands, params);
    check_condition(info, operands);
  }
  DTypes dtypes = resolve_dtypes(info, operands, params);
  HeldParams held(info, params, dtypes.compute);
  params = held.params;
  Tensor out = make_result(info, operands, dtypes.result, dtypes.compute);
  execute(info, operands, params, dtypes.compute, out);
  if (is_differentiating() && has_gradient(dtypes.result) && any_active(operands))
    set_history(out, make_node(info, operands, operands, params, out), 0);
  return out;
}

namespace {

// Whether out= must have the result's own dtype. Ops that promote, as those of two operands and those
// that take integers to floats, write any dtype their result can be cast to.
bool wants_same_dtype(const PointwiseInfo& info) {
  if (info.deviations & (kAnyOut | kSameOut)) return info.has(kSameOut);
  return info.arity == 1 && info.dtypes != PointwiseDTypes::Real;
}

// Whether an element of the operand may lie where the op writes another one.
bool is_misaligned(const Tensor& operand, const Tensor& out) {
  return operand->storage_ref() == out->storage_ref() && !same_geometry(operand, out);
}

}  // namespace

static void magnitude_out(Operands operands, const Tensor& out) {
  TAPEGRAD_CHECK(
      !(is_differentiating() && (any_active(operands) || is_active(out))),
      "abs: functions with out=... arguments don't support automatic differentiation, but "
      "one of the arguments requires grad; use the form without out=, or no_grad()");
  const Tensor result = complex_abs(*operands[0]);
  prepare_out("abs", out, result.sizes(), result.dtype(), operands);
  copy_into(out, result);
  note_write("abs", out);
}

void pointwise_out(PointwiseId id, Operands operands, Params params, const Tensor& out) {
  const PointwiseInfo& info = pointwise_info(id);
  check_condition(info, operands);
  if (info.has(kMagnitude) && is_complex(operands[0]->dtype())) return magnitude_out(operands, out);
  TAPEGRAD_CHECK(!(is_differentiating() && (any_active(operands) || is_active(out))), info.name,
                 ": functions with out=... arguments don't support automatic differentiation, but "
                 "one of the arguments requires grad; use the form without out=, or no_grad()");
  DTypes dtypes = resolve_dtypes(info, operands, params);
  HeldParams held(info, params, dtypes.compute);
  params = held.params;
  TAPEGRAD_CHECK(out.dtype() == dtypes.result || !wants_same_dtype(info), info.name,
                 ": expected out tensor to have dtype ", name(dtypes.result), ", but got ",
                 name(out.dtype()), " instead");
  DimVector sizes = result_sizes(info, operands);
  bool resized = !same_sizes(out.sizes(), sizes);
  prepare_out(info.name, out, sizes, dtypes.result, operands);
  if (resized)
    out->set_geometry(sizes, result_strides(info, sizes, operands, dtypes.compute), out->offset());
  // Operands that the op reads while it writes are copied first.
  Tensor copies[kMaxArity];
  const Tensor* inputs[kMaxArity];
  for (int i = 0; i < info.arity; ++i) {
    if (is_misaligned(*operands[i], out)) copies[i] = clone(*operands[i]);
    inputs[i] = copies[i].defined() ? &copies[i] : operands[i];
  }
  // Not every kernel of real numbers has a complex sibling that would write complex ones.
  const bool through_real = is_complex(out.dtype()) && !is_complex(dtypes.compute);
  const Tensor target = through_real ? empty_like(out, out.sizes(), dtypes.result) : out;
  execute(info, {inputs, operands.size()}, params, dtypes.compute, target);
  if (through_real) copy_into(out, target);
  note_write(info.name, out);
}

Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(real(a), real(b)); }

void add_to_own(const Tensor& sum, const Tensor& term) {
  TensorImpl* inputs[] = {sum.impl(), term.impl()};
  TensorImpl* outputs[] = {sum.impl()};
  Scalar attributes[] = {sum.dtype()};
  dispatch(pointwise_info(PointwiseId::add).op, inputs, attributes, outputs);
}

void pointwise_inplace(PointwiseId id, Operands operands, Params params) {
  const PointwiseInfo& info = pointwise_info(id);
  const Tensor& self = *operands[0];
  TAPEGRAD_CHECK(
      !info.has(kMagnitude) || !is_complex(self.dtype()),
      "abs_: In-place abs is not supported for complex tensors, whose magnitudes are real");
  bool record = is_differentiating() && any_active(operands);
  check_inplace(info.name, self, record);
  check_condition(info, operands);
  DTypes dtypes = resolve_dtypes(info, operands, params);
  HeldParams held(info, params, dtypes.compute);
  params = held.params;
  check_inplace_result(info.name, self, result_sizes(info, operands), dtypes.result, operands);
  // Operands that the op overwrites, or reads while it writes, are copied first.
  Tensor copies[kMaxArity];
  const Tensor* values[kMaxArity];
  const Tensor* inputs[kMaxArity];
  uint8_t saved = record ? needed_operands(info, operands) : 0;
  for (int i = 0; i < info.arity; ++i) {
    const Tensor& operand = *operands[i];
    bool shares = operand->storage_ref() == self->storage_ref();
    bool misaligned = is_misaligned(operand, self);
    if (misaligned || (shares && (saved >> (i + 1) & 1))) copies[i] = clone_with_history(operand);
    values[i] = copies[i].defined() ? &copies[i] : &operand;
    inputs[i] = misaligned ? &copies[i] : &operand;
  }
  execute(info, {inputs, operands.size()}, params, dtypes.compute, self);
  note_write(info.name, self, "_");
  if (record)
    rebase_history(self, make_node(info, operands, {values, operands.size()}, params, self));
}

}  // namespace tapegrad
