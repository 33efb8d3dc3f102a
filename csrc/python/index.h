// x[...] and x[...] = value: the slots of the Tensor type.
#pragma once

#include <Python.h>

#include "python/binding.h"

namespace tapegrad::python {

PyObject* tensor_subscript(PyObject* self, PyObject* key);
// A null value means `del x[...]`, which is refused.
int tensor_assign_subscript(PyObject* self, PyObject* key, PyObject* value);

// A tensor as it is, or a number as a 0-d tensor of x's dtype: what fills and scatters take.
Tensor value_of(const char* op, const Tensor& x, nb::handle value);

// The parts of bind_index.
void bind_scatter(Binder& b);
void bind_mask(Binder& b);

}  // namespace tapegrad::python
