// __cuda_array_interface__: memory of a GPU described by a dict, in and out.
#pragma once

#include "python/binding.h"

namespace tapegrad::python {

bool has_cuda_array(PyObject* object);

// What is done with the memory: it is shown by a tensor, which could be written to, or copied at once.
enum class CudaArrayUse { Share, Copy };
// A tensor over the memory of an object that has the attribute; the object lives as long as the memory is used.
Tensor tensor_from_cuda_array(const char* op, PyObject* object, CudaArrayUse use);

// The property of tensors. AttributeError for those on other devices, so that hasattr() is False.
PyObject* get_cuda_array_interface(PyObject* self, void*);

}  // namespace tapegrad::python
