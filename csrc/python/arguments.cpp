#include "python/arguments.h"

#include "core/error.h"
#include "graph/record.h"
#include "graph/write_log.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "python/exchange.h"
#include "python/pinned.h"
#include "python/python_types.h"
#include "python/text.h"

namespace tapegrad::python {

bool read_index(PyObject* object, int64_t* value) {
  if (PyBool_Check(object) || !PyIndex_Check(object)) return false;
  PyObject* index = PyLong_CheckExact(object) ? Py_NewRef(object) : PyNumber_Index(object);
  if (!index) {
    PyErr_Clear();
    return false;
  }
  int overflow = 0;
  *value = PyLong_AsLongLongAndOverflow(index, &overflow);
  Py_DECREF(index);
  return overflow == 0;
}

ParsedArguments::ParsedArguments(const Signature& signature, PyObject* self, PyObject* const* args,
                                 Py_ssize_t count, PyObject* keywords)
    : signature_(signature), self_(self) {
  if (signature.variadic) {
    positions_ = {args, static_cast<size_t>(count)};
  } else {
    if (count > signature.positional)
      fail<TypeError>(signature.function, "() takes ", signature.positional, " positional argument",
                      signature.positional == 1 ? "" : "s", " but ", count,
                      count == 1 ? " was given" : " were given");
    for (Py_ssize_t i = 0; i < count; ++i) values_[i] = args[i];
  }
  if (!keywords) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i) {
    PyObject* name = PyTuple_GET_ITEM(keywords, i);
    int index = find(name);
    bool repeated = values_[index] || (index == 0 && !positions_.empty());
    if (repeated)
      fail<TypeError>(signature.function, "() got multiple values for argument '",
                      signature.names[index], "'");
    values_[index] = args[count + i];
  }
}

int ParsedArguments::find(PyObject* name) const {
  for (int i = 0; i < Signature::kMax && signature_.names[i]; ++i)
    if (signature_.interned[i] == name) return i;
  for (int i = 0; i < Signature::kMax && signature_.names[i]; ++i)
    if (PyUnicode_CompareWithASCIIString(name, signature_.names[i]) == 0) return i;
  fail<TypeError>(function(), "() got an unexpected keyword argument '", utf8(name), "'");
}

void ParsedArguments::fail_type(int i, const char* expected) const {
  fail<TypeError>(function(), "(): argument '", signature_.names[i], "' must be ", expected,
                  ", not ", Py_TYPE(values_[i])->tp_name);
}

void ParsedArguments::fail_missing(int i) const {
  fail<TypeError>(function(), "(): missing required argument \"", signature_.names[i], "\"");
}

PyObject* ParsedArguments::required(int i) const {
  if (!values_[i]) fail_missing(i);
  return values_[i];
}

DimVector ParsedArguments::sizes() const {
  DimVector sizes;
  if (positions_.empty()) {
    if (!int_list_from_object(required(0), &sizes)) fail_type(0, "tuple of ints");
    return sizes;
  }
  PyObject* first = positions_[0];
  bool sequence = positions_.size() == 1 && !is_tensor(first) && PySequence_Check(first);
  if (sequence && int_list_from_object(first, &sizes)) return sizes;
  for (PyObject* position : positions_) {
    int64_t size;
    if (sequence || !read_index(position, &size))
      fail<TypeError>(function(), "(): argument '", signature_.names[0],
                      "' must be ints or a tuple of ints, got ", repr_of(position));
    sizes.push_back(size);
  }
  return sizes;
}

DimVector ParsedArguments::int_tuple(int i) const {
  DimVector values;
  bool sequence = PySequence_Check(required(i)) && !is_tensor(values_[i]);
  if (!sequence || !int_list_from_object(values_[i], &values)) fail_type(i, "tuple of ints");
  return values;
}

int64_t ParsedArguments::integer(int i) const {
  int64_t value;
  if (!read_index(required(i), &value)) {
    if (PyLong_Check(values_[i]) && !PyBool_Check(values_[i]))
      fail<ValueError>(function(), "(): argument '", signature_.names[i],
                       "' does not fit into 64 bits");
    fail_type(i, "int");
  }
  return value;
}

std::optional<int64_t> ParsedArguments::optional_integer(int i) const {
  return has(i) ? std::optional(integer(i)) : std::nullopt;
}

Scalar ParsedArguments::scalar(int i) const {
  PyObject* object = required(i);
  Scalar value;
  if (scalar_from_object(object, &value)) return value;
  if (is_number_tensor(object)) return element_of(tensor_of(object));
  fail_type(i, "Number");
}

double ParsedArguments::real(int i, double otherwise) const {
  return values_[i] ? scalar(i).as_double() : otherwise;
}

bool ParsedArguments::flag(int i) const {
  if (!has(i)) return false;
  if (!PyBool_Check(values_[i])) fail_type(i, "bool");
  return values_[i] == Py_True;
}

DType ParsedArguments::dtype(int i, DType otherwise) const {
  if (!has(i)) return otherwise;
  DType dtype;
  if (!dtype_from_object(values_[i], &dtype)) fail_type(i, "torch.dtype");
  return dtype;
}

const Tensor& ParsedArguments::tensor(int i) const {
  if (!is_tensor(required(i))) fail_type(i, "Tensor");
  return tensor_of(values_[i]);
}

TensorList ParsedArguments::tensors(int i) const {
  PyObject* given = required(i);
  if (is_tensor(given) || PyUnicode_Check(given) || !PySequence_Check(given))
    fail_type(i, "tuple of Tensors");
  nb::object items = nb::steal(PySequence_Fast(given, "expected a sequence"));
  if (!items.is_valid()) throw nb::python_error();
  const auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(items.ptr()));
  TensorList list(count);
  for (size_t k = 0; k < count; ++k) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(k));
    if (!is_tensor(item))
      fail<TypeError>(function(), "(): expected Tensor as element ", k, " in argument '",
                      signature_.names[i], "', but got ", Py_TYPE(item)->tp_name);
    list[k] = tensor_of(item);
  }
  return list;
}

std::optional<Tensor> ParsedArguments::optional_tensor(int i) const {
  return has(i) ? std::optional(tensor(i)) : std::nullopt;
}

namespace {

PyMethodDef* make_definition(const Signature& signature, FastFunction function, const char* doc) {
  for (int i = 0; i < Signature::kMax && signature.names[i]; ++i)
    if (!signature.interned[i])
      signature.interned[i] = PyUnicode_InternFromString(signature.names[i]);
  return new PyMethodDef{signature.function,
                         reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
                         METH_FASTCALL | METH_KEYWORDS, doc};
}

void check_layout(const ParsedArguments& arguments, int i) {
  if (!arguments.has(i) || arguments.object(i) == python_types.strided) return;
  fail<NotImplementedError>(arguments.function(), ": expected layout strided, got ",
                            str_of(arguments.object(i)));
}

}  // namespace

void define_fast_function(Binder& b, const Signature& signature, FastFunction function,
                          const char* doc) {
  nb::object module_name = b.module().attr("__name__");
  PyMethodDef* definition = make_definition(signature, function, doc);
  nb::setattr(b.module(), signature.function,
              nb::steal(PyCFunction_NewEx(definition, nullptr, module_name.ptr())));
}

void define_fast_method(Binder& b, const Signature& signature, FastFunction function,
                        const char* doc) {
  auto* type = reinterpret_cast<PyTypeObject*>(b.tensor_type().ptr());
  PyMethodDef* definition = make_definition(signature, function, doc);
  nb::setattr(b.tensor_type(), signature.function, nb::steal(PyDescr_NewMethod(type, definition)));
}

CreationOptions::CreationOptions(const ParsedArguments& arguments, int first, DType default_dtype,
                                 Device default_device)
    : dtype(arguments.dtype(first, default_dtype)),
      device(default_device),
      requires_grad(arguments.flag(first + 4)) {
  check_layout(arguments, first + 1);
  has_device = arguments.has(first + 2);
  if (has_device) device = device_of(arguments.object(first + 2));
  pin_memory = arguments.flag(first + 3);
  TAPEGRAD_CHECK(!pin_memory || device.is_cpu(), arguments.function(),
                 ": Only dense CPU tensors can be pinned, got device '", to_string(device), "'");
  check_device_dtype(arguments.function(), dtype, device);
  TAPEGRAD_CHECK(!requires_grad || has_gradient(dtype), arguments.function(),
                 ": only Tensors of floating point and complex dtype can require gradients, got ",
                 name(dtype));
}

Device CreationOptions::result_device(const ParsedArguments& arguments, int out) const {
  if (!arguments.has(out)) return device;
  const Device given = arguments.tensor(out)->device();
  TAPEGRAD_CHECK(!has_device || device == given, arguments.function(), ": device ",
                 to_string(device), " does not match device of out parameter (", to_string(given),
                 ")");
  return given;
}

Tensor CreationOptions::finish(Tensor tensor) const {
  if (pin_memory) [[unlikely]]
    tensor = pinned(tensor);
  if (requires_grad) set_requires_grad(tensor, true);
  return tensor;
}

Tensor creation_like(const ParsedArguments& arguments, const Tensor& x, int memory_format,
                     const CreationOptions& options) {
  MemoryFormat format = memory_format_of(arguments.function(), arguments.object(memory_format));
  return empty_like_layout(x, options.dtype, format, options.device);
}

Tensor creation_target(const ParsedArguments& arguments, int out, Sizes sizes,
                       const CreationOptions& options, bool dtype_given) {
  if (!arguments.has(out)) return empty(arguments.function(), sizes, options.dtype, options.device);
  const Tensor& target = arguments.tensor(out);
  options.result_device(arguments, out);
  TAPEGRAD_CHECK(!dtype_given || options.dtype == target.dtype(), arguments.function(), ": dtype ",
                 name(options.dtype), " does not match dtype of out parameter (",
                 name(target.dtype()), ")");
  checked_numel(arguments.function(), sizes);
  check_inplace(arguments.function(), target, grad_enabled && requires_grad(target));
  prepare_out(arguments.function(), target, sizes, target.dtype(), {});
  note_write(arguments.function(), target);
  return target;
}

}  // namespace tapegrad::python
