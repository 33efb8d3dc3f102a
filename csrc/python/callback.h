// Calling the user's Python code from C++: hooks, custom functions, policies.
#pragma once

#include <nanobind/nanobind.h>

namespace tapegrad::python {

// Calls a Python object; null with an error set where it raises. The only way to call what the user
// wrote: see Note [Threads at the end of the interpreter] and Note [Callbacks and the stack].
PyObject* call_object(PyObject* function, PyObject* const* args, size_t count) noexcept;

// The same with objects.
template <class... Objects>
nanobind::object call_back(nanobind::handle function, const Objects&... objects) {
  PyObject* args[] = {nullptr, objects.ptr()...};  // room before the first, as vectorcall likes it
  PyObject* result = call_object(function.ptr(), args + 1, sizeof...(objects));
  if (!result) throw nanobind::python_error();
  return nanobind::steal(result);
}

// PyEval_RestoreThread and PyGILState_Ensure for threads that may outlive the interpreter.
void take_lock(PyThreadState* state) noexcept;
PyGILState_STATE take_lock_anywhere() noexcept;

}  // namespace tapegrad::python
