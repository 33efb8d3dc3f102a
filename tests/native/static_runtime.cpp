// A module with the library's way of raising errors and its threads, and a C++ runtime of its own.
// tests/test_static_runtime.py builds it and calls it beside libraries that load another runtime.
#include <Python.h>

#include <limits>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "core/shape.h"

namespace {

using namespace tapegrad;

// Every kind of part that a text is made of, by way of the core's own checks.
void fail_by_number(long which) {
  const int64_t sizes[] = {2, -3};
  switch (which) {
    case 0: checked_numel("probe", sizes); break;
    case 1: fail("probe: ", 0.1, " ", 1e300, " ", 2.5f, " ", -1.0 / 3.0, " ", 1e-5, " ", 100000.0);
    case 2: fail<IndexError>("probe: ", std::numeric_limits<int64_t>::min(), " ", ~uint64_t{0});
    case 3: fail<TypeError>(std::string("probe: "), 'c', " ", true, " ", size_t{7}, " ", short{-7});
    case 4: fail<ValueError>("probe: ", std::numeric_limits<double>::infinity());
    case 5: std::vector<int>().at(3); break;
    case 6: parallel_for(0, 1000, 1, [](int64_t begin, int64_t end) {
        fail("probe: thread, at ", begin == 0 && end > 0 ? 0.5 : 1.5);
      });
  }
}

PyObject* raise(PyObject*, PyObject* number) {
  try {
    fail_by_number(PyLong_AsLong(number));
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* sum_on_threads(PyObject*, PyObject*) {
  std::vector<int64_t> numbers(100000);
  set_num_threads(2);
  parallel_for(0, 100000, 1000, [&](int64_t begin, int64_t end) {
    std::iota(numbers.begin() + begin, numbers.begin() + end, begin);
  });
  return PyLong_FromLongLong(std::accumulate(numbers.begin(), numbers.end(), int64_t{0}));
}

PyMethodDef methods[] = {{"raise_error", raise, METH_O, nullptr},
                         {"sum_on_threads", sum_on_threads, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "static_runtime", nullptr, -1, methods,
                          nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_static_runtime() { return PyModule_Create(&definition); }
