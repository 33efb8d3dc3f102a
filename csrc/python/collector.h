// How Python's collector of cycles sees through tensors and tape entries. The mechanism is told in
// collector.cpp.
#pragma once

#include <Python.h>

#include "engine/stepped_sweep.h"
#include "graph/node.h"

namespace tapegrad::python {

// Makes the collector track a tensor: call it when something of Python's is attached to the graph
// before or behind it.
void track(const Tensor& tensor);
// Whether the tensor has attributes or hooks.
bool holds_python_objects(const Tensor& tensor);
// A leaf has got an attribute or a hook: what is computed from it must be tracked.
void track_leaf(const Tensor& leaf);
// The same for all tensors that a Python object refers to, directly or through a few containers.
void track_referents(PyObject* object);

// The bodies of tp_traverse for a tensor, for the Python object of an entry, and for that of a sweep.
int traverse_tensor(TensorImpl* tensor, visitproc visit, void* arg);
int traverse_node(PyObject* object, Node* node, visitproc visit, void* arg);
int traverse_sweep(PyObject* object, const SteppedSweep& sweep, visitproc visit, void* arg);
// tp_clear of a tensor: what autograd attached to it goes.
void clear_tensor(TensorImpl* tensor);

// How many entries all walks have gone through, for tests of what a collection costs.
uint64_t walked_entries();

// Starts listening to the collector: entries have Python objects from now on.
void install_collector();

}  // namespace tapegrad::python
