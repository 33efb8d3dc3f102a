// Python classes that live in the Python layer and that the bindings make instances of.
#pragma once

#include <Python.h>

#include "core/device.h"
#include "core/shape.h"

namespace tapegrad::python {

struct PythonTypes {
  PyTypeObject* size = nullptr;  // a tuple subclass
  PyObject* devices[kDeviceTypes] =
      {};  // instances of torch.device, by type; of CUDA without a number
  PyObject* strided = nullptr;
};
extern PythonTypes python_types;

// The torch.device that stands for a device; borrowed.
PyObject* device_object(Device device);
// A Size of these sizes.
PyObject* make_size(Sizes sizes);

}  // namespace tapegrad::python
