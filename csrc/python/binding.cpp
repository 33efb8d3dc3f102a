#include "python/binding.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <limits>
#include <span>

#include "core/call.h"
#include "cuda/context.h"
#include "graph/record.h"
#include "graph/write_log.h"
#include "intercept/capture.h"
#include "ops/copy.h"
#include "python/numpy.h"
#include "python/out.h"
#include "python/python_types.h"
#include "python/text.h"
#include "python/warn.h"

namespace tapegrad::python {

PythonTypes python_types;

namespace {

PyObject* dtype_objects[kDTypeCount];

// torch.float32 and the like.
struct DTypeObject {
  DType dtype;
};

bool read_int(PyObject* object, int64_t* value) {
  if (!PyLong_Check(object) && !PyIndex_Check(object)) return false;
  if (PyBool_Check(object)) {
    *value = object == Py_True;
    return true;
  }
  PyObject* index = PyNumber_Index(object);
  if (!index) {
    PyErr_Clear();
    return false;
  }
  int overflow = 0;
  *value = PyLong_AsLongLongAndOverflow(index, &overflow);
  Py_DECREF(index);
  return overflow == 0;
}

}  // namespace

void bind_types(nb::module_ module) {
  auto type =
      nb::class_<DTypeObject>(module, "dtype", "The type of a tensor's elements.")
          .def("__repr__",
               [](const DTypeObject& d) { return std::string("torch.") + name(d.dtype); })
          .def("__reduce__", [](const DTypeObject& d) { return std::string(name(d.dtype)); })
          .def_prop_ro("is_floating_point",
                       [](const DTypeObject& d) { return is_floating(d.dtype); })
          .def_prop_ro("is_complex", [](const DTypeObject& d) { return is_complex(d.dtype); })
          .def_prop_ro("is_signed", [](const DTypeObject& d) { return is_signed(d.dtype); })
          .def_prop_ro("itemsize", [](const DTypeObject& d) { return itemsize(d.dtype); })
          .def("to_real", [](const DTypeObject& d) { return dtype_object(real_dtype(d.dtype)); },
               "The dtype of the parts of a complex number.")
          .def("to_complex", [](const DTypeObject& d) {
    TAPEGRAD_CHECK(is_complex(d.dtype) || (is_floating(d.dtype) && d.dtype != DType::Float16),
                   "to_complex: no complex dtype has parts of ", name(d.dtype));
    return dtype_object(complex_dtype(d.dtype));
  }, "The dtype of complex numbers with parts of this one.");
  for (int i = 0; i < kDTypeCount; ++i) {
    DType dtype = static_cast<DType>(i);
    nb::object object = nb::cast(DTypeObject{dtype});
    module.attr(name(dtype)) = object;
    module.attr(info(dtype).short_name) = object;
    dtype_objects[i] = object.release().ptr();
  }
  module.def("_register_types", [](nb::object size, const nb::list& devices, nb::object strided) {
    python_types.size = reinterpret_cast<PyTypeObject*>(size.release().ptr());
    for (int i = 0; i < kDeviceTypes; ++i)
      python_types.devices[i] = nb::object(devices[i]).release().ptr();
    python_types.strided = strided.release().ptr();
  });
}

namespace {

// The torch.device of a CUDA device, made when first asked for.
PyObject* cuda_device_object(int index) {
  static PyObject* known[std::numeric_limits<uint8_t>::max() + 1] = {};
  if (!known[index]) {
    nb::handle unnumbered(python_types.devices[static_cast<int>(DeviceType::CUDA)]);
    known[index] = unnumbered.type()(nb::str("cuda"), index).release().ptr();
  }
  return known[index];
}

}  // namespace

PyObject* device_object(Device device) {
  if (device.type == DeviceType::CUDA) return cuda_device_object(device.index);
  return python_types.devices[static_cast<int>(device.type)];
}

nb::handle dtype_object(DType dtype) { return dtype_objects[static_cast<int>(dtype)]; }

namespace {

// dtype=float: Python's own types stand for the dtypes they are stored as.
bool python_type_dtype(PyObject* object, DType* dtype) {
  const std::pair<PyTypeObject*, DType> kTypes[] = {{&PyFloat_Type, DType::Float64},
                                                    {&PyLong_Type, DType::Int64},
                                                    {&PyBool_Type, DType::Bool},
                                                    {&PyComplex_Type, DType::Complex128}};
  for (auto [type, found] : kTypes) {
    if (object != reinterpret_cast<PyObject*>(type)) continue;
    *dtype = found;
    return true;
  }
  return false;
}

}  // namespace

bool dtype_from_object(PyObject* object, DType* dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (dtype_objects[i] != object) continue;
    *dtype = static_cast<DType>(i);
    return true;
  }
  return python_type_dtype(object, dtype);
}

bool scalar_from_object(PyObject* object, Scalar* scalar) {
  if (PyFloat_Check(object)) {
    *scalar = Scalar(PyFloat_AS_DOUBLE(object));
    return true;
  }
  if (PyBool_Check(object)) {
    *scalar = Scalar(object == Py_True);
    return true;
  }
  if (PyLong_Check(object)) {
    int overflow = 0;
    int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) return false;
    *scalar = Scalar(value);
    return true;
  }
  if (is_tensor(object) || PyUnicode_Check(object) || object == Py_None) return false;
  if (PyComplex_Check(object) || is_numpy_complex(object)) return false;
  // NumPy scalars and the like.
  if (PyIndex_Check(object)) {
    int64_t value;
    if (!read_int(object, &value)) return false;
    *scalar = Scalar(value);
    return true;
  }
  if (!Py_TYPE(object)->tp_as_number || !Py_TYPE(object)->tp_as_number->nb_float) return false;
  if (PySequence_Check(object) && PySequence_Size(object) > 0) return false;
  PyErr_Clear();
  double value = PyFloat_AsDouble(object);
  if (value == -1.0 && PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  *scalar = Scalar(value);
  return true;
}

bool element_from_object(PyObject* object, DType dtype, Scalar* scalar) {
  if (scalar_from_object(object, scalar)) return true;
  if (dtype != DType::UInt64 || !PyLong_Check(object)) return false;
  const uint64_t value = PyLong_AsUnsignedLongLong(object);
  if (PyErr_Occurred()) throw nb::python_error();
  *scalar = Scalar(value);
  return true;
}

bool complex_from_object(PyObject* object, Complex<double>* number) {
  if (!PyComplex_Check(object) && !is_numpy_complex(object)) return false;
  const Py_complex value = PyComplex_AsCComplex(object);
  if (PyErr_Occurred()) throw nb::python_error();
  *number = {value.real, value.imag};
  return true;
}

Tensor number_operand(PyObject* object) {
  Scalar number;
  return scalar_from_object(object, &number) ? wrapped_number(number) : complex_operand(object);
}

Tensor complex_operand(PyObject* object) {
  Complex<double> value;
  if (!complex_from_object(object, &value)) return {};
  Tensor operand = wrapped_complex(value);
  note_constant(operand);
  return operand;
}

bool int_list_from_object(PyObject* object, DimVector* values) {
  int64_t value;
  if (!PySequence_Check(object) || is_tensor(object)) {
    if (!read_int(object, &value)) return false;
    *values = {value};
    return true;
  }
  if (PyUnicode_Check(object)) return false;
  PyObject* sequence = PySequence_Fast(object, "");
  if (!sequence) {
    PyErr_Clear();
    return false;
  }
  values->clear();
  bool valid = true;
  for (Py_ssize_t i = 0; valid && i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    valid = read_int(PySequence_Fast_GET_ITEM(sequence, i), &value);
    if (valid) values->push_back(value);
  }
  Py_DECREF(sequence);
  return valid;
}

DimVector int_list_from_args(const char* op, const nb::args& args) {
  DimVector values;
  PyObject* tuple = args.ptr();
  PyObject* source = tuple;
  if (PyTuple_GET_SIZE(tuple) == 1) {
    PyObject* only = PyTuple_GET_ITEM(tuple, 0);
    if (PySequence_Check(only) && !is_tensor(only)) source = only;
  }
  if (!int_list_from_object(source, &values))
    fail<TypeError>(op, "(): expected ints or a tuple of ints, got ", repr_of(source));
  return values;
}

std::string utf8(nb::handle text) {
  nb::object bytes = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!bytes.is_valid()) throw nb::python_error();
  return {PyBytes_AS_STRING(bytes.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
}

MemoryFormat memory_format_of(const char* op, nb::handle format) {
  if (!format.is_valid() || format.is_none()) return MemoryFormat::Preserve;
  const std::string text = PyUnicode_Check(format.ptr()) ? "" : str_of(format);
  if (text == "torch.preserve_format") return MemoryFormat::Preserve;
  if (text == "torch.contiguous_format") return MemoryFormat::Contiguous;
  if (text == "torch.channels_last") return MemoryFormat::ChannelsLast;
  if (text == "torch.channels_last_3d") return MemoryFormat::ChannelsLast3d;
  fail<TypeError>(op, "(): argument 'memory_format' must be torch.memory_format, not ",
                  Py_TYPE(format.ptr())->tp_name);
}

namespace {

Device cuda_device(int index) { return {DeviceType::CUDA, static_cast<uint8_t>(index)}; }

Device cuda_device_if_there(int index) {
  cuda::check_device(index);
  return cuda_device(index);
}

// Of a torch.device.
Device device_of_object(nb::handle device) {
  static PyObject* const type_name = PyUnicode_InternFromString("type");
  static PyObject* const index_name = PyUnicode_InternFromString("index");
  const nb::object type = nb::getattr(device, nb::handle(type_name));
  if (PyUnicode_CompareWithASCIIString(type.ptr(), "cpu") == 0) return {};
  if (PyUnicode_CompareWithASCIIString(type.ptr(), "meta") == 0) return {DeviceType::Meta};
  TAPEGRAD_CHECK(PyUnicode_CompareWithASCIIString(type.ptr(), "cuda") == 0,
                 "device: expected 'cpu', 'cuda' or 'meta', got '", str_of(device), "'");
  const nb::object index = nb::getattr(device, nb::handle(index_name));
  if (index.is_none()) return cuda_device(cuda::current_device());
  int64_t number = 0;
  read_int(index.ptr(), &number);
  return cuda_device_if_there(static_cast<int>(std::min<int64_t>(number, INT_MAX)));
}

Device numbered_cuda_device(std::string_view number) {
  unsigned index = 0;
  const char* end = number.data() + number.size();
  const auto parsed = std::from_chars(number.data(), end, index);
  TAPEGRAD_CHECK(parsed.ec == std::errc() && parsed.ptr == end && index <= INT_MAX,
                 "device: invalid device string: 'cuda:", number, "'");
  return cuda_device_if_there(static_cast<int>(index));
}

}  // namespace

Device device_of(nb::handle device) {
  if (device.is_none()) return default_device;
  if (Py_TYPE(device.ptr()) == Py_TYPE(python_types.devices[0])) return device_of_object(device);
  const std::string text = str_of(device);
  if (PyLong_CheckExact(device.ptr())) return numbered_cuda_device(text);
  const size_t colon = text.find(':');
  const std::string_view type = std::string_view(text).substr(0, colon);
  if (type == "cpu") return {};
  if (type == "meta") return {DeviceType::Meta};
  if (type == "cuda") {
    if (colon == std::string::npos) return cuda_device(cuda::current_device());
    return numbered_cuda_device(std::string_view(text).substr(colon + 1));
  }
  fail("device: expected 'cpu', 'cuda' or 'meta', got '", text, "'");
}

namespace {

Tensor write_out(const char* op, const Tensor& result, const Tensor& out,
                 std::span<const Tensor* const> operands) {
  TAPEGRAD_CHECK(!(grad_enabled && (requires_grad(result) || requires_grad(out))), op,
                 ": functions with out=... arguments don't support automatic differentiation, but "
                 "one of the arguments requires grad; use the form without out=, or no_grad()");
  bool resized = !same_sizes(out.sizes(), result.sizes());
  prepare_out(op, out, result.sizes(), result.dtype(), operands);
  if (resized && is_dense(*result.impl()))
    out->set_geometry(result.sizes(), result.strides(), out->offset());
  copy_into(out, result);
  note_write(op, out);
  return out;
}

Tensor write_out_and_warn(const char* op, const Tensor& result, const Tensor& out,
                          std::span<const Tensor* const> operands) {
  DimVector before(out.sizes());
  write_out(op, result, out, operands);
  warn_resized(before, out);
  return out;
}

}  // namespace

Tensor into_out(const char* op, Tensor result, const std::optional<Tensor>& out,
                std::initializer_list<const Tensor*> operands) {
  if (!out) return result;
  TAPEGRAD_CHECK(result.dtype() == out->dtype(), op, ": expected out tensor to have dtype ",
                 name(result.dtype()), ", but got ", name(out->dtype()), " instead");
  return write_out_and_warn(op, result, *out, {operands.begin(), operands.size()});
}

Tensor into_castable_out(const char* op, Tensor result, const std::optional<Tensor>& out,
                         std::initializer_list<const Tensor*> operands) {
  if (!out) return result;
  return write_out_and_warn(op, result, *out, {operands.begin(), operands.size()});
}

Tensor into_creation_out(const char* op, Tensor result, const std::optional<Tensor>& out) {
  return out ? write_out(op, result, *out, {}) : result;
}

void warn_resized(Sizes before, const Tensor& out) {
  bool had_elements = true;
  for (int64_t size : before) had_elements = had_elements && size > 0;
  if (!had_elements || same_sizes(before, out.sizes())) return;
  std::string text = concat(
      "An output with one or more elements was resized since it had shape ", to_string(before),
      ", which does not match the required output shape ", to_string(out.sizes()),
      ". This behavior is deprecated, and in a future PyTorch release outputs will not be resized "
      "unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, "
      "inplace, to zero elements with t.resize_(0).");
  warn_user(text);
}

PyObject* make_size(Sizes sizes) {
  auto count = static_cast<Py_ssize_t>(sizes.size());
  PyObject* tuple = python_types.size->tp_alloc(python_types.size, count);
  for (Py_ssize_t i = 0; tuple && i < count; ++i)
    PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(sizes[i]));
  return tuple;
}

}  // namespace tapegrad::python
