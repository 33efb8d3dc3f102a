// The Python object of a tape entry: tensor.grad_fn.
#pragma once

#include <nanobind/nanobind.h>

#include "graph/node.h"

namespace tapegrad::python {

// A new reference; None for null. The same entry gives the same object while one is alive.
PyObject* wrap_node(Node* node);
// The entry behind an object, or null if it is no entry's object.
Node* node_from(PyObject* object);
// The class of all entries' objects: autograd.graph.Node.
PyTypeObject* node_class();

// The context of a custom function's entry; a null object for others.
nanobind::object function_context(const Node& node);

}  // namespace tapegrad::python
