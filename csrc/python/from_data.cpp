// Reading nested sequences takes three passes: the first elements give the shape, all elements give
// the dtype, then the elements are stored and the shape is verified.
#include "python/from_data.h"

#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/op.h"
#include "graph/grad_mode.h"
#include "intercept/capture.h"
#include "ops/copy.h"
#include "ops/view.h"
#include "python/cuda_array.h"
#include "python/exchange.h"
#include "python/numpy.h"
#include "python/sparse.h"

namespace tapegrad::python {

namespace {

bool is_plain_number(PyObject* data) {
  return PyFloat_CheckExact(data) || PyLong_CheckExact(data) || PyBool_Check(data);
}

// Whether the object is read element by element. Tensors count as numbers, as in PyTorch.
bool is_sequence(PyObject* object) {
  if (PyList_Check(object) || PyTuple_Check(object)) return true;
  if (PyFloat_Check(object) || PyLong_Check(object) || PyComplex_Check(object) ||
      PyUnicode_Check(object) || PyBytes_Check(object) || is_any_tensor(object) ||
      !PySequence_Check(object))
    return false;
  if (PySequence_Size(object) >= 0) return true;
  PyErr_Clear();  // an array without dimensions
  return false;
}

// A list or tuple as it is, other sequences as a list.
nb::object as_list(PyObject* object) {
  PyObject* list = PySequence_Fast(object, "not a sequence");
  if (!list) throw nb::python_error();
  return nb::steal(list);
}

DimVector measure(const char* op, PyObject* data) {
  DimVector sizes;
  nb::object current = nb::borrow(nb::handle(data));
  while (is_sequence(current.ptr())) {
    TAPEGRAD_CHECK_AS(ValueError, sizes.size() < kMaxRank, op, ": too many dimensions, more than ",
                      kMaxRank);
    nb::object list = as_list(current.ptr());
    sizes.push_back(PySequence_Fast_GET_SIZE(list.ptr()));
    if (sizes.back() == 0) break;
    current = nb::borrow(nb::handle(PySequence_Fast_GET_ITEM(list.ptr(), 0)));
  }
  return sizes;
}

DType infer_dtype(const char* op, PyObject* data, size_t depth);

DType infer_sequence(const char* op, PyObject* data, size_t depth) {
  TAPEGRAD_CHECK_AS(ValueError, depth < kMaxRank, op, ": too many dimensions, more than ",
                    kMaxRank);
  nb::object list = as_list(data);
  Py_ssize_t count = PySequence_Fast_GET_SIZE(list.ptr());
  if (count == 0) return default_dtype();
  DType result = infer_dtype(op, PySequence_Fast_GET_ITEM(list.ptr(), 0), depth + 1);
  PyTypeObject* seen = Py_TYPE(PySequence_Fast_GET_ITEM(list.ptr(), 0));
  for (Py_ssize_t i = 1; i < PySequence_Fast_GET_SIZE(list.ptr()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(list.ptr(), i);
    // Numbers of one class have one dtype.
    if (Py_TYPE(item) == seen && is_plain_number(item)) continue;
    seen = Py_TYPE(item);
    result = promote_types(result, infer_dtype(op, item, depth + 1));
  }
  return result;
}

DType infer_dtype(const char* op, PyObject* data, size_t depth) {
  if (PyFloat_CheckExact(data)) return default_dtype();
  if (PyLong_CheckExact(data)) return DType::Int64;
  if (PyBool_Check(data)) return DType::Bool;
  if (PyList_Check(data) || PyTuple_Check(data)) return infer_sequence(op, data, depth);
  if (is_tensor(data)) return tensor_of(data).dtype();
  if (is_numpy_array(data) || is_numpy_scalar(data)) return numpy_dtype(op, data);
  if (PyFloat_Check(data)) return default_dtype();
  if (PyLong_Check(data)) return DType::Int64;
  if (PyComplex_Check(data)) return complex_dtype(default_dtype());
  const bool is_text = PyUnicode_Check(data) || PyBytes_Check(data);
  TAPEGRAD_CHECK_AS(ValueError, !is_text || depth == 0, op, ": too many dimensions '",
                    Py_TYPE(data)->tp_name, "'");
  TAPEGRAD_CHECK_AS(TypeError, !is_text, op, ": new(): invalid data type '", Py_TYPE(data)->tp_name,
                    "'");
  TAPEGRAD_CHECK(is_sequence(data), op, ": Could not infer dtype of ", Py_TYPE(data)->tp_name);
  return infer_sequence(op, data, depth);
}

// ---- storing

[[noreturn]] void fail_overflow(const char* op, DType dtype) {
  fail(op, ": value cannot be converted to type ", name(dtype), " without overflow");
}

double to_real(PyObject* object) {
  double value = PyFloat_AsDouble(object);
  if (value == -1.0 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

template <class T>
T to_integer(const char* op, PyObject* object) {
  constexpr bool kWideUnsigned = is_wide_unsigned(dtype_of<T>);
  if (PyFloat_Check(object)) {
    double value = std::trunc(PyFloat_AS_DOUBLE(object));
    // 2^(digits) is the first value beyond the range, and exact.
    double limit = std::ldexp(1.0, std::numeric_limits<T>::digits);
    double lowest = std::is_signed_v<T> ? -limit : 1 - limit;
    if (kWideUnsigned) lowest = 0;
    if (!(value >= lowest && value < limit)) fail_overflow(op, dtype_of<T>);
    if constexpr (kWideUnsigned) return static_cast<T>(value);
    return static_cast<T>(static_cast<int64_t>(value));
  }
  PyObject* index = PyLong_Check(object) ? Py_NewRef(object) : PyNumber_Index(object);
  if (!index) throw nb::python_error();
  if constexpr (std::is_same_v<T, uint64_t>) {
    const nb::object held = nb::steal(index);
    const uint64_t number = PyLong_AsUnsignedLongLong(index);
    if (PyErr_Occurred()) throw nb::python_error();
    return number;
  }
  int overflow = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(index, &overflow);
  Py_DECREF(index);
  TAPEGRAD_CHECK_AS(ValueError, !overflow, op,
                    ": Overflow when unpacking long long: an int does not fit into 64 bits");
  // Unsigned types take negative numbers modulo their range, as in C.
  constexpr auto kMost = static_cast<int64_t>(std::numeric_limits<T>::max());
  constexpr int64_t kLeast =
      std::is_signed_v<T> ? static_cast<int64_t>(std::numeric_limits<T>::min()) : -kMost;
  if (value > kMost || value < kLeast) fail_overflow(op, dtype_of<T>);
  return static_cast<T>(value);
}

// The fast path, for the most common elements of the most common dtypes.
template <class T>
bool store_plain(PyObject* item, T* to) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    if (!PyFloat_CheckExact(item)) return false;
    *to = static_cast<T>(PyFloat_AS_DOUBLE(item));
    return true;
  } else if constexpr (std::is_same_v<T, int64_t>) {
    if (!PyLong_CheckExact(item)) return false;
    int overflow = 0;
    *to = PyLong_AsLongLongAndOverflow(item, &overflow);
    return overflow == 0;
  } else {
    return false;
  }
}

template <class T>
T to_real_element(const char* op, PyObject* object);

template <class T>
T to_element(const char* op, PyObject* object) {
  T plain;
  if (store_plain(object, &plain)) return plain;
  if constexpr (is_complex_type<T>) {
    TAPEGRAD_CHECK_AS(TypeError, !is_sequence(object) && !PyUnicode_Check(object), op,
                      ": expected a number, got '", Py_TYPE(object)->tp_name,
                      "': the sequences are not equally deep");
    const Py_complex value = PyComplex_AsCComplex(object);
    if (PyErr_Occurred()) throw nb::python_error();
    return T(Complex<double>(value.real, value.imag));
  } else return to_real_element<T>(op, object);
}

template <class T>
T to_real_element(const char* op, PyObject* object) {
  if (is_tensor(object)) {
    bool integral = is_integral(tensor_of(object).dtype());
    PyObject* number = integral ? tensor_int(object) : tensor_float(object);
    if (!number) throw nb::python_error();
    return to_element<T>(op, nb::steal(number).ptr());
  }
  TAPEGRAD_CHECK_AS(TypeError, !is_sequence(object) && !PyUnicode_Check(object), op,
                    ": expected a number, got '", Py_TYPE(object)->tp_name,
                    "': the sequences are not equally deep");
  if constexpr (std::is_same_v<T, bool>) {
    int truth = PyObject_IsTrue(object);
    if (truth < 0) throw nb::python_error();
    return truth == 1;
  } else if constexpr (std::is_integral_v<T>) {
    return to_integer<T>(op, object);
  } else if constexpr (std::is_same_v<T, double>) {
    return to_real(object);
  } else {
    return T(static_cast<float>(to_real(object)));
  }
}

// Stores dimension d and those inside it; returns where the next element goes.
template <class T>
T* store(const char* op, PyObject* data, Sizes sizes, size_t d, T* to) {
  if (d == sizes.size()) {
    *to = to_element<T>(op, data);
    return to + 1;
  }
  TAPEGRAD_CHECK_AS(TypeError, is_sequence(data), op, ": expected a sequence at dim ", d, ", got '",
                    Py_TYPE(data)->tp_name, "'");
  nb::object list = as_list(data);
  Py_ssize_t count = PySequence_Fast_GET_SIZE(list.ptr());
  TAPEGRAD_CHECK_AS(ValueError, count == sizes[d], op, ": expected sequence of length ", sizes[d],
                    " at dim ", d, " (got ", count, ")");
  for (Py_ssize_t i = 0; i < count; ++i) {
    // Reading an element may run Python code, which may shorten the list.
    TAPEGRAD_CHECK(PySequence_Fast_GET_SIZE(list.ptr()) == count, op,
                   ": a list changed its length while it was read");
    PyObject* item = PySequence_Fast_GET_ITEM(list.ptr(), i);
    if (d + 1 == sizes.size() && store_plain(item, to)) {
      ++to;
      continue;
    }
    nb::object held = nb::borrow(nb::handle(item));
    to = store(op, item, sizes, d + 1, to);
  }
  return to;
}

// Calls body(T{}) with the type that elements of the dtype are read as.
template <class Body>
void visit_element_type(const char* op, DType dtype, Body&& body) {
  if (dtype == DType::UInt16) body(uint16_t{});
  else if (dtype == DType::UInt32) body(uint32_t{});
  else if (dtype == DType::UInt64) body(uint64_t{});
  else visit_any_dtype(op, dtype, body);
}

Tensor from_sequence(const char* op, PyObject* data, std::optional<DType> dtype) {
  DimVector sizes = measure(op, data);
  DType type = dtype ? *dtype : infer_dtype(op, data, 0);
  Tensor out = empty(op, sizes, is_float8(type) ? DType::Float32 : type, Device{});
  visit_element_type(op, out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    store(op, data, sizes, 0, fill_on_host<T>(out));
  });
  note_constant(out);
  return cast(out, type);
}

Tensor detached(const Tensor& x, std::optional<DType> dtype) {
  GradMode off(false);
  if (dtype && *dtype != x.dtype()) return cast(x, *dtype);
  return clone(x);
}

Tensor from_number(const char* op, PyObject* data, std::optional<DType> dtype) {
  const DType type = dtype ? *dtype : infer_dtype(op, data, 0);
  Tensor out = empty(op, {}, is_float8(type) ? DType::Float32 : type, Device{});
  visit_element_type(op, out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    *fill_on_host<T>(out) = to_element<T>(op, data);
  });
  note_constant(out);
  return cast(out, type);
}

}  // namespace

Tensor tensor_from_data(const char* op, PyObject* data, std::optional<DType> dtype) {
  if (is_plain_number(data)) return from_number(op, data, dtype);
  if (PyList_CheckExact(data)) return from_sequence(op, data, dtype);
  if (is_tensor(data)) return detached(tensor_of(data), dtype);
  if (is_numpy_array(data)) return detached(tensor_from_numpy(op, data, ReadOnly::Allow), dtype);
  if (has_cuda_array(data))
    return detached(tensor_from_cuda_array(op, data, CudaArrayUse::Copy), dtype);
  return from_sequence(op, data, dtype);
}

Tensor tensor_over_data(const char* op, PyObject* data, std::optional<DType> dtype) {
  if (is_tensor(data)) return dtype ? cast(tensor_of(data), *dtype) : tensor_of(data);
  const bool is_array = is_numpy_array(data);
  if (!is_array && (PyList_CheckExact(data) || !has_cuda_array(data)))
    return from_sequence(op, data, dtype);
  Tensor shared = is_array ? tensor_from_numpy(op, data, ReadOnly::Allow)
                           : tensor_from_cuda_array(op, data, CudaArrayUse::Share);
  return dtype ? cast(shared, *dtype) : shared;
}

}  // namespace tapegrad::python
