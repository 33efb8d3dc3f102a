// Python classes that live in the Python layer and that the bindings make instances of.
#pragma once

#include <Python.h>

#include "core/shape.h"

namespace tapegrad::python {

struct PythonTypes {
  PyTypeObject* size = nullptr;  // a tuple subclass
  PyObject* cpu_device = nullptr;
  PyObject* strided = nullptr;
};
extern PythonTypes python_types;

// A Size of these sizes.
PyObject* make_size(Sizes sizes);

}  // namespace tapegrad::python
