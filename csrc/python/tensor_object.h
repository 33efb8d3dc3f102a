// The Python object of a tensor. See core/tensor.h, Note [One count for C++ and Python].
#pragma once

#include <Python.h>

#include "core/tensor.h"

namespace tapegrad::python {

struct TensorObject {
  PyObject_HEAD TensorImpl* impl;  // not counted: it lives as long as this object
  PyObject* dict;
  PyObject* weak_references;
};

extern PyTypeObject* tensor_type;

inline bool is_tensor(PyObject* object) { return PyObject_TypeCheck(object, tensor_type); }
inline TensorImpl* impl_of(PyObject* object) {
  return reinterpret_cast<TensorObject*>(object)->impl;
}
// The same as a handle that is borrowed instead of counted: a Tensor is just a pointer to its impl.
inline const Tensor& tensor_of(PyObject* object) {
  static_assert(sizeof(Tensor) == sizeof(TensorImpl*));
  return *reinterpret_cast<const Tensor*>(&reinterpret_cast<TensorObject*>(object)->impl);
}

// Sets the Python error that stands for the C++ exception being handled.
void set_python_error() noexcept;

// Runs body, which returns a new reference or null with an error set, and translates exceptions.
template <class Body>
PyObject* guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

// A new reference to the tensor's Python object, made on first use. Undefined gives None.
PyObject* wrap(Tensor tensor);
// The same with an object of a subclass, for a tensor that has none yet.
PyObject* wrap_as(PyTypeObject* type, Tensor tensor);

// Makes the Python type and installs the counting hooks.
PyTypeObject* make_tensor_type();

}  // namespace tapegrad::python
