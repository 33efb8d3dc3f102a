// Calls that a bound function refuses, looked at again.
//
// Note [A refused call gets a second look]
// Two things that PyTorch's functions take are known only from arguments that ours refuse: NumPy's names of parameters
// (axis, keepdims, x, x1, a, x2), and objects of other classes that compute by themselves, by `__torch_function__`. Neither
// costs a call that succeeds anything: a function raises TypeError before it has done anything, and only then
// somebody looks whether the call means one of these. What is written by hand for speed comes here from failed(),
// nanobind's functions by the way they are called (sparse.cpp), operators by themselves. A call that means nothing else is
// told in the words of PyTorch's errors.
#pragma once

#include "python/binding.h"

namespace tapegrad::python {

// To be called with an error set. Returns what the call gives by the second look, or null with an error set:
// the same one if the call means nothing else. `args` begin with self if function is a method.
PyObject* second_look(PyObject* function, PyObject* const* args, Py_ssize_t count,
                      PyObject* keywords) noexcept;
// The same of a function or, where there is a self, a method that is known by its name.
PyObject* second_look(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t count,
                      PyObject* keywords) noexcept;

// Whether the object is of another class that computes by itself.
bool computes_itself(PyObject* object) noexcept;
// tensor + object, where the object computes by itself; NotImplemented if it does not know how.
PyObject* let_compute(const char* method, PyObject* tensor, PyObject* object) noexcept;

void bind_second_look(Binder& b);

}  // namespace tapegrad::python
