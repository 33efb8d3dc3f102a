#include "python/node_object.h"

#include <string>
#include <unordered_map>

#include "graph/accumulate.h"
#include "python/binding.h"

namespace tapegrad::python {

namespace {

struct NodeObject {
  PyObject_HEAD Node* node;  // counted
};

PyTypeObject* node_type = nullptr;
std::unordered_map<const Node*, PyObject*> objects;
std::unordered_map<std::string, PyTypeObject*> types;  // a subclass for each name

Node& node_of(PyObject* self) { return *reinterpret_cast<NodeObject*>(self)->node; }

void deallocate(PyObject* self) {
  auto* object = reinterpret_cast<NodeObject*>(self);
  objects.erase(object->node);
  object->node->release();
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* represent(PyObject* self) {
  return PyUnicode_FromFormat("<%s object at %p>", node_of(self).name(), self);
}

PyObject* get_name(PyObject* self, PyObject*) { return PyUnicode_FromString(node_of(self).name()); }

PyObject* next_functions(PyObject* self, void*) {
  std::span<Edge> edges = node_of(self).edges();
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(edges.size()));
  for (size_t i = 0; tuple && i < edges.size(); ++i)
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i),
                     Py_BuildValue("(NI)", wrap_node(edges[i].node.get()), edges[i].output_number));
  return tuple;
}

PyObject* sequence_number(PyObject* self, PyObject*) {
  return PyLong_FromUnsignedLongLong(node_of(self).sequence());
}

PyObject* source_line(PyObject* self, void*) {
  return PyUnicode_FromString(node_of(self).line().c_str());
}

PyObject* get_variable(PyObject* self, void*) {
  if (!node_of(self).is_accumulator()) {
    PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'variable'",
                 node_of(self).name());
    return nullptr;
  }
  return wrap(leaf_of(node_of(self)));
}

PyMethodDef methods[] = {
    {"name", get_name, METH_NOARGS, "The name of the op's entry, such as MulBackward0."},
    {"_sequence_nr", sequence_number, METH_NOARGS, "The entry's place in the tape."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"next_functions", next_functions, nullptr,
     "(entry, output number) of each input; (None, 0) where no gradient is needed.", nullptr},
    {"source_line", source_line, nullptr, "The Python line that recorded the entry.", nullptr},
    {"variable", get_variable, nullptr, "The leaf behind an AccumulateGrad.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject* type_named(const char* name, PyTypeObject* base, const char* module) {
  std::string full = std::string(module) + "." + name;
  PyType_Slot base_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                              {Py_tp_repr, reinterpret_cast<void*>(represent)},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, properties},
                              {0, nullptr}};
  PyType_Slot derived_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                                 {0, nullptr}};
  PyType_Spec spec = {strdup(full.c_str()), sizeof(NodeObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      base ? derived_slots : base_slots};
  PyObject* bases = base ? PyTuple_Pack(1, base) : nullptr;
  auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, bases));
  Py_XDECREF(bases);
  return type;
}

}  // namespace

PyObject* wrap_node(Node* node) {
  if (!node) return Py_NewRef(Py_None);
  if (auto found = objects.find(node); found != objects.end()) return Py_NewRef(found->second);
  if (!node_type) node_type = type_named("Node", nullptr, "tapegrad.autograd.graph");
  PyTypeObject*& type = types[node->name()];
  if (!type) type = type_named(node->name(), node_type, "tapegrad.autograd");
  if (!type) return nullptr;
  auto* object = PyObject_New(NodeObject, type);
  if (!object) return nullptr;
  node->retain();
  object->node = node;
  objects.emplace(node, reinterpret_cast<PyObject*>(object));
  return reinterpret_cast<PyObject*>(object);
}

}  // namespace tapegrad::python
