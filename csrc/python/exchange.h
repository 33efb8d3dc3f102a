// Tensors and Python numbers.
#pragma once

#include <Python.h>

#include "core/tensor.h"

namespace tapegrad::python {

// The only element of a one-element tensor.
Scalar element_of(const Tensor& tensor);

// The number slots of the Tensor type. Each returns a new reference, or -1 or null with an error
// set.
PyObject* tensor_item(PyObject* self);
int tensor_bool(PyObject* self);
PyObject* tensor_int(PyObject* self);
PyObject* tensor_float(PyObject* self);
PyObject* tensor_index(PyObject* self);

}  // namespace tapegrad::python
