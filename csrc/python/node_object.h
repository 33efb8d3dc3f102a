// The Python object of a tape entry: tensor.grad_fn.
#pragma once

#include <Python.h>

#include "graph/node.h"

namespace tapegrad::python {

// A new reference; None for null. The same entry gives the same object while one is alive.
PyObject* wrap_node(Node* node);

}  // namespace tapegrad::python
