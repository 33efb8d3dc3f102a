// Warnings, raised where the program has made errors of them.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <string>

namespace tapegrad::python {

inline void warn_user(const std::string& text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw nanobind::python_error();
}

}  // namespace tapegrad::python
