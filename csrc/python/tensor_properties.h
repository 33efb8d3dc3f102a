// Tensor attributes that are computed in C: shape, dtype, grad, ...
#pragma once

#include <Python.h>

namespace tapegrad::python {

PyGetSetDef* tensor_properties();

}  // namespace tapegrad::python
