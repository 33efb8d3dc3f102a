// The pointwise table in Python: functions, methods, in-place methods, out=, docstrings, all from one
// parser. A call costs no more than reading its arguments, so it does not go through nanobind.
#include "ops/pointwise.h"

#include <cmath>
#include <cstring>
#include <string>

#include "core/error.h"
#include "graph/write_log.h"
#include "ops/complex_composed.h"
#include "ops/copy.h"
#include "ops/promotion.h"
#include "ops/view.h"
#include "python/exchange.h"
#include "python/function_ops.h"
#include "python/out.h"
#include "python/sparse.h"
#include "python/text.h"

namespace tapegrad::python {

namespace {

constexpr int kMaxArguments = kMaxArity + kMaxParams + 1;

// add and sub have alpha, div has rounding_mode; in the table these are lines of their own.
const char* variant_name(const PointwiseInfo& info) {
  if (info.has(kAlpha)) return "alpha";
  return info.has(kRoundingMode) ? "rounding_mode" : nullptr;
}

// The arguments of one call, borrowed.
struct Arguments {
  PyObject* operands[kMaxArity] = {};
  PyObject* params[kMaxParams] = {};
  PyObject* variant = nullptr;
  PyObject* out = nullptr;
};

PyObject** find_argument(const PointwiseInfo& info, Arguments& arguments, PyObject* name) {
  auto is = [&](const char* text) {
    return text && PyUnicode_CompareWithASCIIString(name, text) == 0;
  };
  for (int i = 0; i < info.arity; ++i)
    if (is(info.operands.names[i]) || (i == 0 && is("self"))) return &arguments.operands[i];
  for (int i = 0; i < info.param_count; ++i)
    if (is(info.param_names[i])) return &arguments.params[i];
  if (is(variant_name(info))) return &arguments.variant;
  if (is("out")) return &arguments.out;
  return nullptr;
}

// The old order of arguments: addcmul(input, value, tensor1, tensor2), add(input, alpha, other).
bool parse_deprecated(const PointwiseInfo& info, PyObject* self, PyObject* const* args,
                      Py_ssize_t count, Arguments& arguments) {
  const bool scaled = info.has(kScaled), sum = info.has(kAlpha);
  Py_ssize_t first = self ? 0 : 1;  // where the number stands
  if (!(scaled && count == first + 3) && !(sum && count == first + 2)) return false;
  Scalar number;
  if (!scalar_from_object(args[first], &number)) return false;
  std::string text =
      concat("This overload of ", info.name, " is deprecated: the number goes last, as ",
             scaled ? "value=" : "alpha=");
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw nb::python_error();
  arguments.operands[0] = self ? self : args[0];
  for (Py_ssize_t i = first + 1; i < count; ++i) arguments.operands[i - first] = args[i];
  (scaled ? arguments.params[0] : arguments.variant) = args[first];
  return true;
}

void parse(const PointwiseInfo& info, PyObject* self, PyObject* const* args, Py_ssize_t count,
           PyObject* keywords, Arguments& arguments) {
  int position = 0;
  auto place = [&](PyObject* value) {
    if (position < info.arity) arguments.operands[position] = value;
    else if (position - info.arity < info.param_count)
      arguments.params[position - info.arity] = value;
    else
      fail<TypeError>(info.name, "() takes ", info.arity + info.param_count,
                      info.arity + info.param_count == 1 ? " positional argument but "
                                                         : " positional arguments but ",
                      count + (self ? 1 : 0), " were given");
    ++position;
  };
  bool more = count > info.arity - (self ? 1 : 0);  // positions than operands
  if (!more || !parse_deprecated(info, self, args, count, arguments)) {
    if (self) place(self);
    for (Py_ssize_t i = 0; i < count; ++i) place(args[i]);
  }
  if (!keywords) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i) {
    PyObject* name = PyTuple_GET_ITEM(keywords, i);
    PyObject** slot = find_argument(info, arguments, name);
    if (!slot)
      fail<TypeError>(info.name, "() got an unexpected keyword argument '", utf8(name), "'");
    if (*slot) fail<TypeError>(info.name, "() got multiple values for argument '", utf8(name), "'");
    *slot = args[count + i];
  }
}

// Where PyTorch takes a Python number for an operand.
bool takes_number(const PointwiseInfo& info, int operand) {
  if (!(info.deviations & (kNoNumbers | kNumberSecond | kNumberThird))) return true;
  return (info.has(kNumberSecond) && operand == 1) || (info.has(kNumberThird) && operand == 2);
}

[[noreturn]] void fail_operand(const PointwiseInfo& info, int i, PyObject* object) {
  if (!object)
    fail<TypeError>(info.name, "(): missing required argument \"", info.operands.names[i], "\"");
  fail<TypeError>(info.name, "(): argument '", info.operands.names[i], "' must be Tensor",
                  info.arity > 1 && takes_number(info, i) ? " or Number" : "", ", not ",
                  Py_TYPE(object)->tp_name);
}

// The operands as tensors: borrowed, or made of numbers.
struct OperandTensors {
  Tensor numbers[kMaxArity];
  const Tensor* pointers[kMaxArity];

  OperandTensors(const PointwiseInfo& info, const Arguments& arguments) {
    bool any_tensor = false;
    for (int i = 0; i < info.arity; ++i) {
      PyObject* object = arguments.operands[i];
      if (object && is_tensor(object)) {
        pointers[i] = &tensor_of(object);
        any_tensor = true;
        continue;
      }
      Scalar number;
      if (object && info.arity > 1 && takes_number(info, i)) {
        if (scalar_from_object(object, &number)) [[likely]]
          numbers[i] = wrapped_number(number);
        else numbers[i] = complex_operand(object);
      }
      if (!numbers[i].defined()) fail_operand(info, i, object);
      pointers[i] = &numbers[i];
    }
    if (!any_tensor) fail_operand(info, 0, arguments.operands[0]);
  }
};

struct ParamValues {
  Scalar values[kMaxParams];
  int count = 0;

  ParamValues(const PointwiseInfo& info, const Arguments& arguments) {
    count = info.param_count;
    for (int i = 0; i < count; ++i) {
      values[i] = info.param_defaults[i];
      PyObject* object = arguments.params[i];
      if (object && is_number_tensor(object))
        object = nullptr, read_tensor(info, arguments.params[i], values[i]);
      if (object && !scalar_from_object(object, &values[i]))
        fail<TypeError>(info.name, "(): argument '", info.param_names[i], "' must be Number, not ",
                        Py_TYPE(object)->tp_name);
    }
  }
  static void read_tensor(const PointwiseInfo& info, PyObject* object, Scalar& value) {
    nb::object item = nb::handle(object).attr("item")();
    if (!scalar_from_object(item.ptr(), &value))
      fail<NotImplementedError>(info.name, ": a complex parameter is not supported, got ",
                                repr_of(item), "; multiply the operand by it");
  }
};

// A complex factor cannot be a parameter, which is real: the second operand is multiplied by it.
void take_complex_factor(const PointwiseInfo& info, Arguments& arguments,
                         OperandTensors& operands) {
  if (!info.has(kAlpha) && !info.has(kScaled)) return;
  PyObject*& object = info.has(kAlpha) ? arguments.variant : arguments.params[0];
  Scalar number;
  if (!object || is_tensor(object) || scalar_from_object(object, &number)) return;
  const Tensor factor = complex_operand(object);
  if (!factor.defined()) return;
  ResultType type;
  for (int i = 0; i < info.arity; ++i) type.add(*operands.pointers[i]);
  if (info.has(kAlpha))
    TAPEGRAD_CHECK(is_complex(type.get()), info.name,
                   ": For non-complex input tensors, argument alpha must not be a complex number.");
  TAPEGRAD_CHECK(is_complex(type.get()), info.name, ": value cannot be converted to type ",
                 name(type.get()), " without overflow");
  operands.numbers[1] = mul(cast(*operands.pointers[1], type.get()), factor);
  operands.pointers[1] = &operands.numbers[1];
  object = nullptr;
}

// Turns add(alpha=) and div(rounding_mode=) into the lines that do them.
PointwiseId choose_variant(const PointwiseInfo& info, PyObject* variant,
                           const Tensor* const* operands, ParamValues& params) {
  PointwiseId id = info.op.id;
  if (!variant || variant == Py_None) return id;
  if (info.has(kRoundingMode)) {
    const std::string mode = PyUnicode_Check(variant) ? utf8(variant) : "";
    if (mode == "trunc") return PointwiseId::div_trunc;
    if (mode == "floor") return PointwiseId::floor_divide;
    fail("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found ",
         repr_of(variant));
  }
  Scalar alpha;
  if (!scalar_from_object(variant, &alpha) && !number_of_tensor(variant, &alpha))
    fail<TypeError>(info.name, "(): argument 'alpha' must be Number, not ",
                    Py_TYPE(variant)->tp_name);
  ResultType type;
  type.add(*operands[0]);
  type.add(*operands[1]);
  TAPEGRAD_CHECK(!alpha.is_bool() || type.get() == DType::Bool, info.name,
                 ": boolean alpha only supported for boolean results");
  TAPEGRAD_CHECK(
      !alpha.is_float() || has_gradient(type.get()), info.name,
      ": for integral input tensors, argument alpha must not be a floating point number");
  for (int i = 0; i < 2; ++i)
    TAPEGRAD_CHECK(!info.has(kForbidsBool) || operands[i]->dtype() != DType::Bool, info.name,
                   ": Subtraction, the `-` operator, with a bool tensor is not supported. Use the "
                   "`^` or `logical_xor()` operator instead.");
  if (alpha.as_double() == 1) return id;
  if (id == PointwiseId::sub)
    alpha = alpha.is_float() ? Scalar(-alpha.as_double())
                             : Scalar(static_cast<int64_t>(-static_cast<uint64_t>(alpha.as_int())));
  params.values[0] = alpha;
  params.count = 1;
  return PointwiseId::add_scaled;
}

// The same for a line that is made of others where a number is complex.
PyObject* call_composed(const PointwiseInfo& info, bool inplace, const Arguments& arguments,
                        const OperandTensors& operands) {
  Tensor result = complex_line(info.op.id, {operands.pointers, size_t(info.arity)});
  if (inplace) {
    copy_(*operands.pointers[0], result);
    return Py_NewRef(arguments.operands[0]);
  }
  if (!arguments.out || arguments.out == Py_None) return wrap(result);
  if (!is_tensor(arguments.out)) fail<TypeError>(info.name, "(): out= must be a Tensor");
  return wrap(into_out(info.name, result, tensor_of(arguments.out)));
}

bool any_complex(const PointwiseInfo& info, const OperandTensors& operands) {
  for (int i = 0; i < info.arity; ++i)
    if (is_complex(operands.pointers[i]->dtype())) return true;
  return false;
}

PyObject* run(const PointwiseInfo& info, bool inplace, PyObject* self, PyObject* const* args,
              Py_ssize_t count, PyObject* keywords, bool composed) {
  Arguments arguments;
  parse(info, self, args, count, keywords, arguments);
  OperandTensors operands(info, arguments);
  if (limited_tensors_exist()) [[unlikely]]
    take_complex_factor(info, arguments, operands);
  ParamValues params(info, arguments);
  if (composed && any_complex(info, operands))
    return call_composed(info, inplace, arguments, operands);
  PointwiseId id = choose_variant(info, arguments.variant, operands.pointers, params);
  Operands inputs(operands.pointers, info.arity);
  Params values(params.values, params.count);
  if (inplace) {
    if (!is_tensor(arguments.operands[0])) fail_operand(info, 0, arguments.operands[0]);
    pointwise_inplace(id, inputs, values);
    return Py_NewRef(arguments.operands[0]);
  }
  if (arguments.out && arguments.out != Py_None) {
    if (!is_tensor(arguments.out)) fail<TypeError>(info.name, "(): out= must be a Tensor");
    const Tensor& out = tensor_of(arguments.out);
    DimVector before(out.sizes());
    pointwise_out(id, inputs, values, out);
    warn_resized(before, out);
    return Py_NewRef(arguments.out);
  }
  return wrap(pointwise(id, inputs, values));
}

PyObject* call(const PointwiseInfo& info, bool inplace, PyObject* self, PyObject* const* args,
               Py_ssize_t count, PyObject* keywords, bool composed) noexcept {
  try {
    return run(info, inplace, self, args, count, keywords, composed);
  } catch (...) {
    const std::string name = inplace ? std::string(info.name) + "_" : info.name;
    return failed(name.c_str(), self, args, count, keywords);
  }
}

enum class Form { Function, Method, InplaceFunction, InplaceMethod };

template <PointwiseId kId, Form kForm>
PyObject* entry(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  constexpr bool kMethod = kForm == Form::Method || kForm == Form::InplaceMethod;
  constexpr bool kInplace = kForm == Form::InplaceFunction || kForm == Form::InplaceMethod;
  return call(pointwise_info(kId), kInplace, kMethod ? self : nullptr, args, count, keywords,
              has_complex_form(kId));
}

// ---- definitions

bool has_inplace(const PointwiseInfo& info) {
  if (info.deviations & (kInplace | kNoInplace)) return info.has(kInplace);
  return info.dtypes != PointwiseDTypes::Test || info.arity == 2;
}

std::string documentation(const PointwiseInfo& info, const std::string& name, bool inplace) {
  std::string text = name + "(";
  for (int i = 0; i < info.arity; ++i) text += std::string(i ? ", " : "") + info.operands.names[i];
  for (int i = 0; i < info.param_count; ++i) text += std::string(", ") + info.param_names[i];
  text += std::string(inplace ? "" : ", *, out=None") + ") -> Tensor\n\n";
  text += std::string("Elementwise ") + info.value_text + (inplace ? ", in place" : "") +
          ", where " +
          (info.arity == 1   ? "x is"
           : info.arity == 2 ? "a and b are"
                             : "a, b and c are") +
          " the operand" + (info.arity > 1 ? "s" : "") + ", broadcast together.\n\n";
  constexpr const char* kOf[][3] = {{"x", "", ""}, {"a", "b", ""}, {"a", "b", "c"}};
  for (int i = 0; i < info.arity; ++i) {
    const PointwiseDerivative& d = info.derivatives[i];
    text += std::string("Gradient of ") + kOf[info.arity - 1][i] + ": " + d.text + "\n";
  }
  return text;
}

PyMethodDef* make_definition(const PointwiseInfo& info, const std::string& name, bool inplace,
                             _PyCFunctionFastWithKeywords function) {
  return new PyMethodDef{
      strdup(name.c_str()), reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
      METH_FASTCALL | METH_KEYWORDS, strdup(documentation(info, name, inplace).c_str())};
}

void define_function(Binder& b, PyMethodDef* definition) {
  nb::object module_name = b.module().attr("__name__");
  PyObject* function = PyCFunction_NewEx(definition, nullptr, module_name.ptr());
  nb::setattr(b.module(), definition->ml_name, nb::steal(function));
}

void define_method(Binder& b, PyMethodDef* definition) {
  auto* type = reinterpret_cast<PyTypeObject*>(b.tensor_type().ptr());
  nb::setattr(b.tensor_type(), definition->ml_name, nb::steal(PyDescr_NewMethod(type, definition)));
}

template <PointwiseId kId>
void define(Binder& b) {
  const PointwiseInfo& info = pointwise_info(kId);
  if (info.has(kInternal)) return;
  std::string name = info.name;
  if (info.has(kSpecialOnly)) {
    name = "_special_" + name;
    runs(strdup(name.c_str()), {info.op.name});
    return define_function(b, make_definition(info, name, false, entry<kId, Form::Function>));
  }
  bool activation = std::strcmp(info.kind, "ACTIVATION") == 0;
  define_function(b, make_definition(info, name, false, entry<kId, Form::Function>));
  if (has_inplace(info) && info.arity == 1)
    define_function(b, make_definition(info, name + "_", true, entry<kId, Form::InplaceFunction>));
  if (activation) return;
  define_method(b, make_definition(info, name, false, entry<kId, Form::Method>));
  if (has_inplace(info))
    define_method(b, make_definition(info, name + "_", true, entry<kId, Form::InplaceMethod>));
}

// ---- by hand

using Bound = std::optional<nb::object>;

bool read_bound(const Bound& bound, Scalar* scalar) {
  return bound && scalar_from_object(bound->ptr(), scalar);
}

// The line, operands and params that clamp(x, min, max) means.
struct Clamp {
  PointwiseId id;
  Tensor tensors[kMaxArity];
  int arity;
  Scalar params[2];
  int param_count = 0;

  Clamp(const char* op, const Tensor& x, const Bound& min, const Bound& max) {
    TAPEGRAD_CHECK(min || max, op, ": At least one of 'min' or 'max' must not be None");
    tensors[0] = x;
    arity = 1;
    Scalar low, high;
    bool scalars = (!min || read_bound(min, &low)) && (!max || read_bound(max, &high));
    if (!scalars) {
      set_tensors(op, min, max);
      return;
    }
    if (min) params[param_count++] = low;
    if (max) params[param_count++] = high;
    id = min && max ? PointwiseId::clamp_between
         : min      ? PointwiseId::clamp_min
                    : PointwiseId::clamp_max;
  }

  template <class Run>
  auto run(Run&& run) const {
    const Tensor* pointers[kMaxArity] = {&tensors[0], &tensors[1], &tensors[2]};
    return run(id, Operands(pointers, arity), Params(params, param_count));
  }

 private:
  void set_tensors(const char* op, const Bound& min, const Bound& max) {
    if (min) tensors[arity++] = as_tensor(op, *min);
    if (max) tensors[arity++] = as_tensor(op, *max);
    id = min && max ? PointwiseId::clamp_tensor
         : min      ? PointwiseId::clamp_min_tensor
                    : PointwiseId::clamp_max_tensor;
  }
  static Tensor as_tensor(const char* op, const nb::object& bound) {
    if (is_tensor(bound.ptr())) return tensor_of(bound.ptr());
    Scalar number;
    if (!scalar_from_object(bound.ptr(), &number))
      fail<TypeError>(op, "(): bounds must be Tensor or Number, not ",
                      Py_TYPE(bound.ptr())->tp_name);
    return wrapped_number(number);
  }
};

Tensor clamp(const char* op, const Tensor& x, const Bound& min, const Bound& max,
             const std::optional<Tensor>& out) {
  return Clamp(op, x, min, max).run([&](PointwiseId id, Operands operands, Params params) {
    if (!out) return pointwise(id, operands, params);
    DimVector before(out->sizes());
    pointwise_out(id, operands, params, *out);
    warn_resized(before, *out);
    return *out;
  });
}

Tensor clamp_(const char* op, Tensor self, const Bound& min, const Bound& max) {
  Clamp(op, self, min, max).run([](PointwiseId id, Operands operands, Params params) {
    pointwise_inplace(id, operands, params);
    return 0;
  });
  return self;
}

void bind_clamp(Binder& b) {
  for (const char* name : {"clamp", "clip"}) {
    b.both(
        name,
        [](const Tensor& x, const Bound& min, const Bound& max, const std::optional<Tensor>& out) {
      return clamp("clamp", x, min, max, out);
    }, "min"_a.none() = nb::none(), "max"_a.none() = nb::none(), nb::kw_only(),
        "out"_a.none() = nb::none(), "Values below min become min, values above max become max.");
    std::string inplace = std::string(name) + "_";
    b.method(inplace.c_str(), [](Tensor self, const Bound& min, const Bound& max) {
      return clamp_("clamp_", std::move(self), min, max);
    }, "min"_a.none() = nb::none(), "max"_a.none() = nb::none(), "clamp() in place.");
  }
  auto out = "out"_a.none() = nb::none();
  b.both("clamp_min", [](const Tensor& x, const Bound& min, const std::optional<Tensor>& out) {
    return clamp("clamp_min", x, min, {}, out);
  }, "min"_a, nb::kw_only(), out, "Values below min become min.");
  b.both("clamp_max", [](const Tensor& x, const Bound& max, const std::optional<Tensor>& out) {
    return clamp("clamp_max", x, {}, max, out);
  }, "max"_a, nb::kw_only(), out, "Values above max become max.");
  b.method("clamp_min_", [](Tensor self, const Bound& min) {
    return clamp_("clamp_min_", std::move(self), min, {});
  }, "min"_a, "clamp_min() in place.");
  b.method("clamp_max_", [](Tensor self, const Bound& max) {
    return clamp_("clamp_max_", std::move(self), {}, max);
  }, "max"_a, "clamp_max() in place.");
}

std::array<Scalar, 3> nan_to_num_params(const Tensor& x, std::optional<double> nan,
                                        std::optional<double> posinf,
                                        std::optional<double> neginf) {
  double limit = largest_float(real_dtype(x.dtype()));
  return {Scalar(nan.value_or(0.0)), Scalar(posinf.value_or(limit)),
          Scalar(neginf.value_or(-limit))};
}

// Complex numbers part by part.
Tensor nan_to_num(const Tensor& x, const std::array<Scalar, 3>& params) {
  if (is_integral(x.dtype())) return clone(x);
  const Tensor parts = is_complex(x.dtype()) ? view_as_real(x) : x;
  const Tensor* operands[] = {&parts};
  const Tensor result = pointwise(PointwiseId::nan_to_num, operands, params);
  return is_complex(x.dtype()) ? view_as_complex(result) : result;
}

Tensor round_decimals(const Tensor& x, int64_t decimals) {
  const Tensor* operands[] = {&x};
  if (decimals == 0) return pointwise(PointwiseId::round, operands);
  if (is_reduced_float(x.dtype()))  // whose multiples would be rounded, or overflow
    return cast(round_decimals(cast(x, DType::Float32), decimals), x.dtype());
  double scale = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  return decimals > 0 ? div(round(mul(x, scale)), scale) : mul(round(div(x, scale)), scale);
}

using Out = std::optional<Tensor>;

Tensor where_any(const Tensor& condition, const nb::object& input, const nb::object& other,
                 const Out& out) {
  auto as_tensor = [](const nb::object& object) {
    if (is_tensor(object.ptr())) return tensor_of(object.ptr());
    const Tensor number = number_operand(object.ptr());
    if (!number.defined())
      fail<TypeError>("where(): operands must be Tensor or Number, not ",
                      Py_TYPE(object.ptr())->tp_name);
    return number;
  };
  Tensor x = as_tensor(input), y = as_tensor(other);
  return into_out("where", where(condition, x, y), out, {&condition, &x, &y});
}

void bind_special(Binder& b) {
  b.both("round",
         [](const Tensor& x, int64_t decimals, const Out& out) {
    return into_out("round", round_decimals(x, decimals), out, {&x});
  }, nb::kw_only(), "decimals"_a = 0, "out"_a.none() = nb::none(),
         "The nearest integer, halves to even; or the nearest multiple of 10**-decimals.");
  b.method("round_", [](Tensor self, int64_t decimals) {
    copy_(self, round_decimals(self, decimals));
    return self;
  }, nb::kw_only(), "decimals"_a = 0, "round() in place.");
  b.both("nan_to_num",
         [](const Tensor& x, std::optional<double> nan, std::optional<double> posinf,
            std::optional<double> neginf, const Out& out) {
    Tensor y = nan_to_num(x, nan_to_num_params(x, nan, posinf, neginf));
    return into_out("nan_to_num", y, out, {&x});
  },
         "nan"_a.none() = nb::none(), "posinf"_a.none() = nb::none(),
         "neginf"_a.none() = nb::none(), nb::kw_only(), "out"_a.none() = nb::none(),
         "Replaces NaN (by 0) and infinities (by the largest finite numbers).");
  b.method("nan_to_num_",
           [](Tensor self, std::optional<double> nan, std::optional<double> posinf,
              std::optional<double> neginf) {
    const Tensor parts = is_complex(self.dtype()) ? view_as_real(self) : self;
    const Tensor* operands[] = {&parts};
    if (is_integral(self.dtype())) note_write("nan_to_num_", self);
    else
      pointwise_inplace(PointwiseId::nan_to_num, operands,
                        nan_to_num_params(self, nan, posinf, neginf));
    return self;
  },
           "nan"_a.none() = nb::none(), "posinf"_a.none() = nb::none(),
           "neginf"_a.none() = nb::none(), "nan_to_num() in place.");
  auto polygamma_checked = [](int64_t n, const Tensor& input) {
    TAPEGRAD_CHECK(n >= 0, "polygamma: n must be non-negative, got ", n);
    return n == 0 ? digamma(input) : polygamma(static_cast<double>(n), input);
  };
  b.function("polygamma",
             [polygamma_checked](int64_t n, const Tensor& input, const Out& out) {
    return into_castable_out("polygamma", polygamma_checked(n, input), out);
  }, "n"_a, "input"_a, nb::kw_only(), "out"_a.none() = nb::none(),
             "The n-th derivative of digamma; n = 0 is digamma itself.");
  b.method("polygamma", [polygamma_checked](const Tensor& self, int64_t n) {
    return polygamma_checked(n, self);
  }, "n"_a, "The n-th derivative of digamma.");
  b.function("where", where_any, "condition"_a, "input"_a, "other"_a, nb::kw_only(),
             "out"_a.none() = nb::none(),
             "Elements of input where condition holds, of other elsewhere.");
  b.method("where", [](const Tensor& self, const Tensor& condition, const nb::object& other) {
    return where_any(condition, nb::cast(self), other, {});
  }, "condition"_a, "other"_a, "Elements of self where condition holds, of other elsewhere.");
  b.function("gelu", [](const Tensor& input, const std::string& approximate) {
    TAPEGRAD_CHECK(approximate == "none" || approximate == "tanh",
                   "gelu: approximate argument must be either none or tanh, got ", approximate);
    return approximate == "none" ? gelu(input) : gelu_tanh(input);
  }, "input"_a, "approximate"_a = "none", "x * P(X <= x) for a standard normal X.");
}

std::array<Scalar, 2> limits_of_logit(double eps) {
  TAPEGRAD_CHECK(eps <= 0.5, "logit: expected eps to be at most 0.5, got ", eps);
  return {Scalar(eps), Scalar(1 - eps)};
}

Tensor logit_within(const Tensor& x, std::optional<double> eps) {
  if (!eps || *eps < 0) return logit(x);
  const Tensor* operands[] = {&x};
  return logit(pointwise(PointwiseId::clamp_between, operands, limits_of_logit(*eps)));
}

// The logarithm of pi^(p (p - 1) / 4) gamma(x) gamma(x - 1/2) ... gamma(x - (p - 1) / 2)
Tensor mvlgamma(const Tensor& x, int64_t p) {
  TAPEGRAD_CHECK(p >= 1, "mvlgamma: p has to be greater than or equal to 1, got ", p);
  TAPEGRAD_CHECK(p <= 100000, "mvlgamma: expected p to be at most 100000, got ", p);
  TAPEGRAD_CHECK(x.dtype() != DType::Bool, "mvlgamma: expected numbers, got bool");
  constexpr double kLogPi = 0x1.250d048e7a1bdp0;
  Tensor sum = lgamma(x);
  for (int64_t j = 1; j < p; ++j) sum = sum + lgamma(x - 0.5 * static_cast<double>(j));
  return p == 1 ? sum : sum + 0.25 * kLogPi * static_cast<double>(p) * static_cast<double>(p - 1);
}

void bind_gamma_and_logit(Binder& b) {
  auto out = "out"_a.none() = nb::none();
  b.both("logit",
         [](const Tensor& x, std::optional<double> eps, const Out& out) {
    return into_castable_out("logit", logit_within(x, eps), out);
  }, "eps"_a.none() = nb::none(), nb::kw_only(), out,
         "log(x / (1 - x)), the inverse of sigmoid; x is first brought between eps and 1 - eps.");
  b.both("logit_", [](Tensor self, std::optional<double> eps) {
    const Tensor* operands[] = {&self};
    if (eps && *eps >= 0)
      pointwise_inplace(PointwiseId::clamp_between, operands, limits_of_logit(*eps));
    pointwise_inplace(PointwiseId::logit, operands, {});
    return self;
  }, "eps"_a.none() = nb::none(), "logit() in place.");
  runs("logit", {"logit", "clamp_between"});
  b.both("mvlgamma",
         [](const Tensor& x, int64_t p, const Out& out) {
    return into_castable_out("mvlgamma", mvlgamma(x, p), out);
  }, "p"_a, nb::kw_only(), out,
         "The logarithm of the multivariate gamma function of dimension p: that of "
         "pi^(p (p - 1) / 4) gamma(x) gamma(x - 1/2) ... gamma(x - (p - 1) / 2).");
  b.method("mvlgamma_", [](Tensor self, int64_t p) {
    TAPEGRAD_CHECK(is_floating(self.dtype()), "mvlgamma_: expected a floating dtype, got ",
                   name(self.dtype()), ", to which the result can't be cast; call mvlgamma()");
    copy_(self, mvlgamma(clone(self), p));  // the derivative reads what is overwritten
    return self;
  }, "p"_a, "mvlgamma() in place.");
  runs("mvlgamma", {"lgamma"});
}

const char* dtypes_name(PointwiseDTypes dtypes) {
  constexpr const char* kNames[] = {"Real",     "Floating", "Any",      "Number",
                                    "Rounding", "Integer",  "Integral", "Test"};
  return kNames[static_cast<int>(dtypes)];
}

nb::list table() {
  nb::list rows;
  for (int i = 0; i < kPointwiseCount; ++i) {
    const PointwiseInfo& info = pointwise_info(static_cast<PointwiseId>(i));
    nb::dict row;
    std::string kind = info.kind;
    row["name"] = info.line;
    row["kind"] = kind == "BINARY" ? "binary" : kind == "TERNARY" ? "ternary" : "unary";
    row["activation"] = kind == "ACTIVATION";
    row["internal"] = info.has(kInternal);
    row["dtypes"] = dtypes_name(info.dtypes);
    row["value"] = info.value_text;
    nb::list params, derivatives;
    for (int p = 0; p < info.param_count; ++p)
      params.append(nb::make_tuple(info.param_names[p], nb::cast(info.param_defaults[p])));
    bool differentiable = false;
    for (int d = 0; d < info.arity; ++d) {
      derivatives.append(info.derivatives[d].text);
      differentiable |= info.derivatives[d].kind != DerivativeKind::None;
    }
    row["params"] = params;
    row["derivatives"] = derivatives;
    row["differentiable"] = differentiable;
    rows.append(row);
  }
  return rows;
}

}  // namespace

void bind_pointwise(Binder& b) {
#define UNARY(NAME, ...) define<PointwiseId::NAME>(b);
#define ACTIVATION UNARY
#define BINARY UNARY
#define TERNARY UNARY
#include "pointwise.def"
#undef UNARY
#undef ACTIVATION
#undef BINARY
#undef TERNARY
  bind_clamp(b);
  runs("clamp", {"clamp_between", "clamp_min", "clamp_max", "clamp_tensor", "clamp_min_tensor",
                 "clamp_max_tensor"});
  runs("sub", {"sub", "add_scaled"});
  runs("div", {"div", "div_trunc", "floor_divide"});
  runs("clamp_min", {"clamp_min", "clamp_min_tensor"});
  runs("clamp_max", {"clamp_max", "clamp_max_tensor"});
  bind_special(b);
  bind_gamma_and_logit(b);
  b.function("pointwise_table", table, "The lines of the pointwise table, as dicts.");
}

}  // namespace tapegrad::python
