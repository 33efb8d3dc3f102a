// What the binding files share: casters between Python and the core's types, and helpers to define
// an op as function and method at once.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "core/device.h"
#include "core/error.h"
#include "core/layout.h"
#include "core/tensor.h"
#include "python/tensor_object.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tapegrad::python {

// Dimensions or sizes given as one int or a sequence of ints. Zero-dimensional integer tensors and
// NumPy integers count as ints, as __index__ says.
struct IntList {
  DimVector values;
  operator Sizes() const { return values; }
};

// What torch.dtype is: one interned object per dtype.
nb::handle dtype_object(DType dtype);
bool dtype_from_object(PyObject* object, DType* dtype);

// Reads a Python number; false if the object is not one.
bool scalar_from_object(PyObject* object, Scalar* scalar);
// The same of a number that is written to a tensor of the dtype: uint64 takes integers of 64 bits.
bool element_from_object(PyObject* object, DType dtype, Scalar* scalar);
// Reads a complex one; false for others.
bool complex_from_object(PyObject* object, Complex<double>* number);
// It as an operand, weak in promotion; undefined if the object is none. Of numbers of either kind the other.
Tensor complex_operand(PyObject* object);
Tensor number_operand(PyObject* object);
bool int_list_from_object(PyObject* object, DimVector* values);
// x.view(2, 3) and x.view((2, 3)): the same.
DimVector int_list_from_args(const char* op, const nb::args& args);

// A number that is complex; real ones are Scalars.
struct ComplexArgument {
  Complex<double> number{};
};

// Before something that somebody asked for: of complex values real ones are kept.
void warn_if_discarding(DType from, DType to);

// None stands for preserve_format; anything but a memory format raises TypeError.
MemoryFormat memory_format_of(const char* op, nb::handle format);

// "cpu", "cuda", "cuda:1", "meta", a torch.device; 1 is the same as "cuda:1", and None the default device.
Device device_of(nb::handle device);

// Copies a result into out= and returns it, or returns the result itself. `operands` are what it was
// computed from: out= must not overlap them in part.
Tensor into_out(const char* op, Tensor result, const std::optional<Tensor>& out,
                std::initializer_list<const Tensor*> operands = {});

// Defines module-level functions and Tensor methods.
class Binder {
 public:
  Binder(nb::module_ module, nb::handle tensor_type) : module_(module), tensor_type_(tensor_type) {}

  // tapegrad.name(input, ...)
  template <class F, class... Extra>
  void function(const char* name, F&& f, const Extra&... extra) {
    module_.def(name, std::forward<F>(f), extra...);
  }
  // Tensor.name(...): the annotations leave self out.
  template <class F, class... Extra>
  void method(const char* name, F&& f, const Extra&... extra) {
    nb::cpp_function_def(std::forward<F>(f), nb::scope(tensor_type_), nb::name(name),
                         nb::is_method(), extra...);
  }
  // Both, where the function's first argument is called `input`.
  template <class F, class... Extra>
  void both(const char* name, F f, const Extra&... extra) {
    function(name, f, "input"_a, extra...);
    method(name, f, extra...);
  }
  template <class F>
  void property(const char* name, F getter, const char* doc);

  nb::module_ module() const { return module_; }
  nb::handle tensor_type() const { return tensor_type_; }

 private:
  nb::module_ module_;
  nb::handle tensor_type_;
};

template <class F>
void Binder::property(const char* name, F getter, const char* doc) {
  nb::object function = nb::cpp_function(getter, nb::is_method(), nb::is_getter());
  nb::object property =
      nb::module_::import_("builtins").attr("property")(function, nb::none(), nb::none(), doc);
  nb::setattr(tensor_type_, name, property);
}

// One per family, called by module.cpp.
void bind_pointwise(Binder& b);
void bind_create(Binder& b);
void bind_tensor(Binder& b);
void bind_view(Binder& b);
void bind_autograd(Binder& b);
void bind_autocast(Binder& b);
void bind_hooks(Binder& b);
void bind_nodes(Binder& b);
void bind_function(Binder& b);
void bind_transforms(Binder& b);
void bind_capture(Binder& b);
void bind_program(Binder& b);
void bind_trace(Binder& b);
void bind_tape(Binder& b);
void bind_system(Binder& b);
void bind_cuda_kernels(Binder& b);
void bind_reduce(Binder& b);
void bind_softmax(Binder& b);
void bind_conv(Binder& b);
void bind_normalize(Binder& b);
void bind_attention(Binder& b);
void bind_recurrent(Binder& b);
void bind_scan(Binder& b);
void bind_matmul(Binder& b);
void bind_linalg(Binder& b);
void bind_index(Binder& b);
void bind_join(Binder& b);
void bind_sort(Binder& b);
void bind_random(Binder& b);
void bind_exchange(Binder& b);
void bind_optimizer(Binder& b);
void bind_pooling(Binder& b);
void bind_profiler(Binder& b);
void bind_compress(Binder& b);
void bind_cuda(Binder& b);
void bind_cuda_graph(Binder& b);
void bind_complex(Binder& b);
void bind_fft(Binder& b);

}  // namespace tapegrad::python

namespace nanobind::detail {

template <>
struct type_caster<tapegrad::Tensor> {
  NB_TYPE_CASTER(tapegrad::Tensor, const_name("Tensor"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    if (!tapegrad::python::is_tensor(source.ptr())) return false;
    value = tapegrad::Tensor(tapegrad::python::impl_of(source.ptr()));
    return true;
  }
  static handle from_cpp(tapegrad::Tensor tensor, rv_policy, cleanup_list*) noexcept {
    return tapegrad::python::wrap(std::move(tensor));
  }
};

template <>
struct type_caster<tapegrad::Scalar> {
  NB_TYPE_CASTER(tapegrad::Scalar, const_name("bool | int | float"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    return tapegrad::python::scalar_from_object(source.ptr(), &value);
  }
  static handle from_cpp(tapegrad::Scalar scalar, rv_policy, cleanup_list*) noexcept {
    using Kind = tapegrad::Scalar::Kind;
    if (scalar.kind() == Kind::Float) return PyFloat_FromDouble(scalar.as_double());
    if (scalar.kind() == Kind::Bool) return PyBool_FromLong(scalar.as_bool());
    return PyLong_FromLongLong(scalar.as_int());
  }
};

template <>
struct type_caster<tapegrad::python::ComplexArgument> {
  NB_TYPE_CASTER(tapegrad::python::ComplexArgument, const_name("complex"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    try {
      return tapegrad::python::complex_from_object(source.ptr(), &value.number);
    } catch (...) {
      PyErr_Clear();
      return false;
    }
  }
  static handle from_cpp(tapegrad::python::ComplexArgument argument, rv_policy,
                         cleanup_list*) noexcept {
    return PyComplex_FromDoubles(argument.number.real, argument.number.imag);
  }
};

template <>
struct type_caster<tapegrad::DType> {
  NB_TYPE_CASTER(tapegrad::DType, const_name("dtype"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    return tapegrad::python::dtype_from_object(source.ptr(), &value);
  }
  static handle from_cpp(tapegrad::DType dtype, rv_policy, cleanup_list*) noexcept {
    return tapegrad::python::dtype_object(dtype).inc_ref();
  }
};

template <>
struct type_caster<tapegrad::python::IntList> {
  NB_TYPE_CASTER(tapegrad::python::IntList, const_name("int | Sequence[int]"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    return tapegrad::python::int_list_from_object(source.ptr(), &value.values);
  }
  static handle from_cpp(const tapegrad::python::IntList& list, rv_policy, cleanup_list*) noexcept {
    PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(list.values.size()));
    for (size_t i = 0; tuple && i < list.values.size(); ++i)
      PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(list.values[i]));
    return tuple;
  }
};

}  // namespace nanobind::detail
