#include "python/node_object.h"

#include <string>
#include <unordered_map>

#include "core/error.h"
#include "engine/sweep.h"
#include "graph/accumulate.h"
#include "graph/hooks.h"
#include "graph/record.h"
#include "ops/create.h"
#include "python/binding.h"
#include "python/collector.h"
#include "python/sparse.h"

namespace tapegrad::python {

namespace {

struct NodeObject {
  PyObject_HEAD Node* node;  // counted
};

// Saved value i of an entry, as grad_fn._raw_saved_self gives it.
struct RawSaved {
  Ref<Node> node;
  size_t index;
};

PyTypeObject* node_type = nullptr;
std::unordered_map<const Node*, PyObject*> objects;
std::unordered_map<std::string, PyTypeObject*> types;  // a subclass for each name

Node& node_of(PyObject* self) { return *reinterpret_cast<NodeObject*>(self)->node; }

void deallocate(PyObject* self) {
  auto* object = reinterpret_cast<NodeObject*>(self);
  PyObject_GC_UnTrack(self);
  objects.erase(object->node);
  object->node->release();
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  auto* object = reinterpret_cast<NodeObject*>(self);
  Py_VISIT(Py_TYPE(self));
  return traverse_node(self, object->node, visit, arg);
}

// The saved value that an attribute such as _saved_self or _raw_saved_self names; -1 for none.
int saved_index(const Node& node, std::string_view name) {
  for (size_t i = 0; i < node.saved_values().size(); ++i)
    if (node.saved_name(i) == name) return static_cast<int>(i);
  return -1;
}

// A number that took part in the op is a number again.
PyObject* saved_object(Tensor value) {
  PyObject* object = wrap(value);
  if (!object || !value.defined() || !value->is_wrapped_number()) return object;
  PyObject* number = PyObject_CallMethod(object, "item", nullptr);
  Py_DECREF(object);
  return number;
}

PyObject* attribute_object(const Node::Attribute& attribute) {
  if (auto* flag = std::get_if<bool>(&attribute.value)) return PyBool_FromLong(*flag);
  if (auto* number = std::get_if<int64_t>(&attribute.value)) return PyLong_FromLongLong(*number);
  if (auto* number = std::get_if<double>(&attribute.value)) return PyFloat_FromDouble(*number);
  return nb::cast(IntList{std::get<DimVector>(attribute.value)}).release().ptr();
}

PyObject* special_attribute(Node& node, PyObject* name) {
  const char* utf8 = PyUnicode_AsUTF8(name);
  if (!utf8) return nullptr;
  std::string_view text = utf8;
  constexpr std::string_view kSaved = "_saved_", kRaw = "_raw_saved_";
  if (text.starts_with(kSaved)) {
    int i = saved_index(node, text.substr(kSaved.size()));
    if (i >= 0) return guarded([&] { return saved_object(node.saved(static_cast<size_t>(i))); });
    for (const Node::Attribute& attribute : node.attributes())
      if (text.substr(kSaved.size()) == attribute.name) return attribute_object(attribute);
    if (node.kind().may_save(text.substr(kSaved.size()))) return Py_NewRef(Py_None);
  } else if (text.starts_with(kRaw)) {
    int i = saved_index(node, text.substr(kRaw.size()));
    if (i >= 0) return nb::cast(RawSaved{Ref<Node>(&node), static_cast<size_t>(i)}).release().ptr();
  }
  nb::object context = function_context(node);
  if (context.is_valid()) return PyObject_GetAttr(context.ptr(), name);
  PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", node.name(), name);
  return nullptr;
}

PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* result = PyObject_GenericGetAttr(self, name);
  if (result || !PyErr_ExceptionMatches(PyExc_AttributeError)) return result;
  PyErr_Clear();
  return special_attribute(node_of(self), name);
}

// A custom function's entry and its context are one to the user.
int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
  nb::object context = function_context(node_of(self));
  if (context.is_valid()) return PyObject_SetAttr(context.ptr(), name, value);
  return PyObject_GenericSetAttr(self, name, value);
}

PyObject* list_attributes(PyObject* self, PyObject*) {
  PyObject* list = PyObject_Dir(reinterpret_cast<PyObject*>(Py_TYPE(self)));
  const Node& node = node_of(self);
  for (size_t i = 0; list && i < node.saved_values().size(); ++i)
    for (const char* prefix : {"_saved_", "_raw_saved_"}) {
      PyObject* text = PyUnicode_FromString((prefix + node.saved_name(i)).c_str());
      PyList_Append(list, text);
      Py_XDECREF(text);
    }
  return list;
}

PyObject* get_metadata(PyObject* self, void*) {
  Node& node = node_of(self);
  node.set_collected();
  HookList& metadata = ensure_hooks(node).metadata;
  if (!metadata) metadata = HookList(nb::dict().ptr());
  return Py_NewRef(static_cast<PyObject*>(metadata.object()));
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

// grad_fn(*grads): the entry's part of a backward, by itself.
PyObject* call(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    Node& node = node_of(self);
    TAPEGRAD_CHECK_AS(TypeError, !keywords || PyDict_GET_SIZE(keywords) == 0, node.name(),
                      ": takes no keyword arguments");
    std::vector<Tensor> grads;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
      PyObject* argument = PyTuple_GET_ITEM(arguments, i);
      TAPEGRAD_CHECK_AS(TypeError, argument == Py_None || is_any_tensor(argument), node.name(),
                        ": expected a Tensor or None, got ", Py_TYPE(argument)->tp_name);
      grads.push_back(argument == Py_None ? Tensor() : tensor_of(argument));
    }
    Ref<Node> alive(&node);
    std::vector<Tensor> results = run_alone(node, std::move(grads));
    if (results.size() == 1) return wrap(results[0]);
    nb::list list;
    for (Tensor& result : results) list.append(nb::steal(wrap(result)));
    return nb::tuple(list).release().ptr();
  });
}

PyMethodDef methods[] = {
    {"name", get_name, METH_NOARGS, "The name of the op's entry, such as MulBackward0."},
    {"__dir__", list_attributes, METH_NOARGS, nullptr},
    {"_sequence_nr", sequence_number, METH_NOARGS, "The entry's place in the tape."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"next_functions", next_functions, nullptr,
     "(entry, output number) of each input; (None, 0) where no gradient is needed.", nullptr},
    {"metadata", get_metadata, nullptr, "A dict for notes about the entry.", nullptr},
    {"source_line", source_line, nullptr, "The Python line that recorded the entry.", nullptr},
    {"variable", get_variable, nullptr, "The leaf behind an AccumulateGrad.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject* type_named(const char* name, PyTypeObject* base, const char* module) {
  std::string full = std::string(module) + "." + name;
  PyType_Slot base_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                              {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                              {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
                              {Py_tp_setattro, reinterpret_cast<void*>(set_attribute)},
                              {Py_tp_repr, reinterpret_cast<void*>(represent)},
                              {Py_tp_call, reinterpret_cast<void*>(call)},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, properties},
                              {0, nullptr}};
  PyType_Slot derived_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                                 {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                 {0, nullptr}};
  PyType_Spec spec = {strdup(full.c_str()), sizeof(NodeObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                          Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      base ? derived_slots : base_slots};
  PyObject* bases = base ? PyTuple_Pack(1, base) : nullptr;
  auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, bases));
  Py_XDECREF(bases);
  return type;
}

}  // namespace

PyTypeObject* node_class() {
  if (!node_type) node_type = type_named("Node", nullptr, "tapegrad.autograd.graph");
  return node_type;
}

Node* node_from(PyObject* object) {
  return PyObject_TypeCheck(object, node_class()) ? &node_of(object) : nullptr;
}

void bind_nodes(Binder& b) {
  nb::class_<RawSaved>(b.module(), "SavedTensor", "A value that an entry of the tape saved.")
      .def("register_hooks",
           [](RawSaved& self, nb::object pack, nb::object unpack) {
    nb::object push = nb::module_::import_("tapegrad._C").attr("_push_saved_hooks");
    nb::object pop = nb::module_::import_("tapegrad._C").attr("_pop_saved_hooks");
    push(pack, unpack);
    try {
      self.node->saved_values()[self.index].repack();
    } catch (...) {
      pop();
      throw;
    }
    pop();
  }, "pack_hook"_a, "unpack_hook"_a,
           "Packs the value now, and unpacks it when a backward reads it.");
  b.function("_gradient_edge", [](const Tensor& x) {
    Edge edge = real_edge(x);
    return nb::make_tuple(nb::steal(wrap_node(edge.node.get())), edge.output_number);
  }, "tensor"_a, "(node, output number) where the tensor's gradient flows to.");
  b.function("_edge_tensor", [](nb::handle object, uint32_t number) {
    Node* node = node_from(object.ptr());
    TAPEGRAD_CHECK_AS(TypeError, node, "GradientEdge: expected a Node");
    TAPEGRAD_CHECK(number < node->output_count(), "GradientEdge: ", node->name(), " has ",
                   node->output_count(), " outputs, not one of number ", number);
    Sizes sizes = node->output_sizes(number);
    Tensor stand_in = alias(zeros({}, node->output_dtype(number), node->output_device(number)),
                            sizes, DimVector(sizes.size()), 0);
    put_history(stand_in, Ref<Node>(node), number);
    return stand_in;
  }, "node"_a, "output_number"_a, "A tensor that stands for an output of an entry in a sweep.");
}

PyObject* wrap_node(Node* node) {
  if (!node) return Py_NewRef(Py_None);
  if (auto found = objects.find(node); found != objects.end()) return Py_NewRef(found->second);
  PyTypeObject*& type = types[node->name()];
  if (!type) type = type_named(node->name(), node_class(), "tapegrad.autograd");
  if (!type) return nullptr;
  install_collector();
  auto* object = PyObject_GC_New(NodeObject, type);
  if (!object) return nullptr;
  node->retain();
  object->node = node;
  objects.emplace(node, reinterpret_cast<PyObject*>(object));
  PyObject_GC_Track(reinterpret_cast<PyObject*>(object));
  return reinterpret_cast<PyObject*>(object);
}

}  // namespace tapegrad::python
