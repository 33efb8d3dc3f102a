// NumPy arrays in and out, through the buffer protocol: NumPy is imported only when an array is
// asked for.
#pragma once

#include "python/binding.h"

namespace tapegrad::python {

// Both are false, at no cost, while NumPy has not been imported.
bool is_numpy_array(PyObject* object);
// Whether it is a complex one.
bool is_numpy_complex(PyObject* object);
bool is_numpy_scalar(PyObject* object);  // numpy.float32(1) and its like

// The dtype of an array or a NumPy scalar. TypeError when there is none for it.
DType numpy_dtype(const char* op, PyObject* array);

// The dtype of what NumPy calls "f4", if there is one.
std::optional<DType> dtype_of_kind(std::string_view kind);

enum class ReadOnly { Warn, Allow };
// A tensor over the array's memory, which keeps the array alive.
Tensor tensor_from_numpy(const char* op, PyObject* array, ReadOnly read_only);
// A tensor over the memory of any object with a contiguous buffer.
Tensor tensor_from_buffer(const char* op, PyObject* object, DType dtype, int64_t count,
                          int64_t offset);

// An array over the tensor's memory. `force` detaches first.
nb::object numpy_of(const Tensor& tensor, bool force);

void bind_numpy(Binder& b);

}  // namespace tapegrad::python
