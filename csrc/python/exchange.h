// Tensors and Python numbers.
#pragma once

#include <Python.h>

#include "core/tensor.h"

namespace tapegrad::python {

// The only element of a one-element tensor.
Scalar element_of(const Tensor& tensor);

// Where a number is expected, a tensor without dimensions counts as one, as PyTorch has it. One that
// requires a gradient does not: the gradient would be lost.
bool is_number_tensor(PyObject* object);
// Reads such a tensor; false of other objects, and of complex ones.
bool number_of_tensor(PyObject* object, Scalar* number);

// The number slots of the Tensor type. Each returns a new reference, or -1 or null with an error
// set.
PyObject* tensor_item(PyObject* self);
int tensor_bool(PyObject* self);
PyObject* tensor_int(PyObject* self);
PyObject* tensor_float(PyObject* self);
PyObject* tensor_index(PyObject* self);

}  // namespace tapegrad::python
