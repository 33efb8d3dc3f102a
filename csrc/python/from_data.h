// Tensors from Python data: numbers, nested sequences of them, arrays, tensors.
#pragma once

#include <optional>

#include "python/binding.h"

namespace tapegrad::python {

// A new tensor with a copy of the data. Without a dtype it is inferred: bool, int64, the default
// dtype for floats, an array's or tensor's own, and what they promote to together.
Tensor tensor_from_data(const char* op, PyObject* data, std::optional<DType> dtype);

// The same, sharing memory with an array or tensor where the dtype allows it.
Tensor tensor_over_data(const char* op, PyObject* data, std::optional<DType> dtype);

}  // namespace tapegrad::python
