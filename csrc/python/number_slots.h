// Python's operators on tensors: a + b, a @ b, a[i], a == b, abs(a), ...
#pragma once

#include <Python.h>

#include <vector>

namespace tapegrad::python {

void add_number_slots(std::vector<PyType_Slot>& slots);

}  // namespace tapegrad::python
