// Exchange of tensors with other libraries without a copy, by the DLPack protocol.
#pragma once

#include "python/binding.h"

namespace tapegrad::python {

bool has_dlpack(PyObject* object);
// From an object with __dlpack__, or from a capsule, which it consumes. Without a device it stays where it is.
Tensor tensor_from_dlpack(const char* op, nb::handle source, std::optional<Device> device,
                          std::optional<bool> copy);

void bind_dlpack(Binder& b);

}  // namespace tapegrad::python
