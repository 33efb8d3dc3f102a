// Note [Collecting cycles through the tape]
//
// A hook that refers to a tensor behind it, a custom function's context that holds its output, a
// gradient with a history that leads back to its leaf: such cycles run partly through Python's
// objects and partly through C++ ones (entries, tensors that Python never saw), which the collector
// does not know. tp_traverse of a tensor therefore shows the collector what the C++ objects behind
// it refer to.
//
// The collector first subtracts from each object's count the references it is shown ("decref" visits);
// an object with references left is alive. A C++ object with several owners must be shown through
// exactly once, and only if all its owners are among the objects being collected; so we count how
// many owners have come by and go through it when that is all of them. Other visits only spread
// reachability: there the first owner suffices. Note [Which visit subtracts] tells how the kinds of
// visits are told apart.
//
// gc.callbacks tells when a collection starts and stops, and a pass within it is over when another visit
// function or a tensor met before comes. Counts hold within one pass. In a collection that was not announced
// (the interpreter makes such when it exits), and if the subtracting function is not known, we go through
// objects with a single owner only: a cycle through others stays, and nothing is freed that is in use.
//
// A collection of young objects goes through young entries only, those made since the last one: else
// each would walk the whole tape behind the newest tensor. What is behind an older entry just counts
// as alive, until a collection of everything comes to it. Where Python collects in increments, there is no
// such collection unless the program asks for one; there an increment goes through old entries too whenever as
// many have been recorded since the last that did as are alive, which keeps the work per entry constant.
//
// Tensors take part only if tracked: those with Python attributes, hooks, or behind an entry that holds
// something of Python's (Node::is_collected). Others cannot be part of a cycle.
#include "python/collector.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/stepped_sweep.h"
#include "graph/record.h"
#include "python/binding.h"
#include "python/interpreter.h"
#include "python/tensor_object.h"
#include "python/visit_probe.h"

namespace tapegrad::python {

namespace {

struct Pass {
  bool running = false;       // an announced collection is
  visitproc visit = nullptr;  // of this pass
  uint64_t oldest = 0;        // entries before this one are not gone through
  std::unordered_set<const void*> roots;
  std::unordered_map<const void*, uint32_t> seen;

  void clear() {
    visit = nullptr;
    roots.clear();
    seen.clear();
  }
};
Pass pass;

uint64_t entries_walked = 0;

// One walk from a tracked object.
class Walk {
 public:
  Walk(visitproc visit, void* arg)
      : visit_(visit),
        arg_(arg),
        may_subtract_(!subtracting_visit() || visit == subtracting_visit()) {}

  int from_tensor(const void* root, TensorImpl* tensor) {
    begin(root);
    referents(*tensor);
    return drain();
  }
  int from_node(const void* root, Node* node) {
    begin(root);
    entry(node);
    return drain();
  }
  int from_sweep(const void* root, const SteppedSweep& sweep) {
    begin(root);
    sweep.visit(visitor());
    return drain();
  }

 private:
  void begin(const void* root) {
    if (!pass.running) return;
    if (pass.visit != visit_ || !pass.roots.insert(root).second) {
      pass.clear();
      pass.visit = visit_;
      pass.roots.insert(root);
    }
  }

  // Whether to go through a C++ object that has `count` owners.
  bool enters(const void* object, uint32_t count) {
    const bool counting = pass.running && subtracting_visit();
    if (may_subtract_) return counting ? ++pass.seen[object] == count : count == 1;
    return pass.running ? ++pass.seen[object] == 1 : seen_.insert(object).second;
  }

  Node::Visitor visitor() {
    return {[](const Tensor& x, void* walk) { static_cast<Walk*>(walk)->tensor(x); },
            [](Node* inner, void* walk) { static_cast<Walk*>(walk)->entry(inner); },
            [](void* found, void* walk) { static_cast<Walk*>(walk)->object(found); }, this};
  }

  void object(void* pointer) {
    if (pointer && !result_) result_ = visit_(static_cast<PyObject*>(pointer), arg_);
  }
  void tensor(const Tensor& x) {
    if (!x.defined()) return;
    if (void* python = x->python_object()) return object(python);
    if (enters(x.impl(), x->count())) tensors_.push_back(x.impl());
  }
  void entry(Node* node) {
    if (node && pass.running && node->sequence() < pass.oldest) return;
    if (node && enters(node, node->count())) nodes_.push_back(node);
  }

  void referents(TensorImpl& x) {
    const AutogradMeta* meta = x.meta();
    if (!meta) return;
    tensor(meta->grad);
    if (!meta->is_leaf) entry(meta->node);
    const AutogradExtras* extra = meta->extra;
    if (!extra) return;
    tensor(extra->base);
    tensor(extra->primal);
    object(extra->hooks.object());
    object(extra->accumulate_hooks.object());
    if (extra->tangents && enters(extra->tangents.get(), extra->tangents->count))
      for (const Tangent& tangent : extra->tangents->entries) tensor(tangent.value);
  }
  void referents(Node& node) {
    ++entries_walked;
    for (const Edge& edge : node.edges()) entry(edge.node.get());
    for (const SavedValue& value : node.saved_values()) {
      object(value.packed());
      // Borrowed: peek() would take a reference of its own.
      value.with_tensor([this](const Tensor& x) { tensor(x); });
    }
    if (const NodeHooks* hooks = find_hooks(node)) {
      for (const NodeHooks::OfOutput& of : hooks->tensor_hooks) object(of.hooks.object());
      object(hooks->before.object());
      object(hooks->after.object());
      object(hooks->metadata.object());
    }
    node.visit(visitor());
  }

  int drain() {
    while (!result_ && (!tensors_.empty() || !nodes_.empty())) {
      if (!tensors_.empty()) {
        TensorImpl* next = tensors_.back();
        tensors_.pop_back();
        referents(*next);
      } else {
        Node* next = nodes_.back();
        nodes_.pop_back();
        referents(*next);
      }
    }
    return result_;
  }

  visitproc visit_;
  void* arg_;
  bool may_subtract_;
  int result_ = 0;
  std::vector<TensorImpl*> tensors_;
  std::vector<Node*> nodes_;
  std::unordered_set<const void*> seen_;
};

constexpr int kGenerations = 3;
// The sequence number at the end of the last collection of each generation.
uint64_t collected_until[kGenerations] = {};
// The same of the last collection that went through entries of any age.
uint64_t deep_until = 0;

bool goes_deep(long generation) {
  if (generation == kGenerations - 1) return true;
  return kCollectsInIncrements &&
         next_sequence_number() - deep_until >= static_cast<uint64_t>(live_node_count());
}

PyObject* on_collection(PyObject*, PyObject* args) {
  const char* phase = nullptr;
  PyObject* info = nullptr;
  if (!PyArg_ParseTuple(args, "sO", &phase, &info)) return nullptr;
  pass.clear();
  pass.running = phase[0] == 's' && phase[2] == 'a';  // "start", not "stop"
  PyObject* number = PyDict_GetItemString(info, "generation");
  long found = number ? PyLong_AsLong(number) : kGenerations - 1;
  long generation = std::clamp<long>(found, 0, kGenerations - 1);
  if (pass.running) {
    pass.oldest = goes_deep(generation) ? 0 : collected_until[generation];
  } else {
    if (pass.oldest == 0) deep_until = next_sequence_number();
    for (long i = 0; i <= generation; ++i) collected_until[i] = next_sequence_number();
  }
  Py_RETURN_NONE;
}
PyMethodDef on_collection_def = {"tapegrad_on_collection", on_collection, METH_VARARGS, nullptr};

void track_object(PyObject* object) {
  install_collector();
  if (!PyObject_GC_IsTracked(object)) PyObject_GC_Track(object);
}

// Also what will be computed from the tensor.
void track_with_history(PyObject* object) {
  track_object(object);
  const AutogradMeta* meta = impl_of(object)->meta();
  if (meta && !meta->is_leaf) meta->node->set_collected();
}

bool is_of_module(PyObject* globals) {
  PyObject* name = PyDict_GetItemString(globals, "__name__");
  nb::object module = nb::steal(name ? PyImport_GetModule(name) : nullptr);
  PyErr_Clear();
  return module.is_valid() && PyModule_Check(module.ptr()) &&
         PyModule_GetDict(module.ptr()) == globals;
}

int collect_referent(PyObject* object, void* found) {
  static_cast<std::vector<PyObject*>*>(found)->push_back(object);
  return 0;
}

}  // namespace

// Only when the first tensor is tracked or entry shown: the callback costs a little at every
// collection.
void install_collector() {
  static bool installed = false;
  if (std::exchange(installed, true)) return;
  nb::object callback = nb::steal(PyCFunction_New(&on_collection_def, nullptr));
  nb::module_::import_("gc").attr("callbacks").attr("append")(callback);
}

void track(const Tensor& tensor) {
  nb::object object = nb::steal(wrap(tensor));  // made now if need be: the collector knows objects
  track_object(object.ptr());
}

bool holds_python_objects(const Tensor& tensor) {
  auto* object = static_cast<TensorObject*>(tensor->python_object());
  if (object && object->dict && PyDict_GET_SIZE(object->dict) > 0) return true;
  const AutogradMeta* meta = tensor->meta();
  const AutogradExtras* extra = meta ? meta->extra : nullptr;
  return extra && (extra->hooks || extra->accumulate_hooks);
}

void track_leaf(const Tensor& leaf) {
  track(leaf);
  const AutogradMeta* meta = leaf->meta();
  if (meta && meta->node) meta->node->set_collected();
}

void track_referents(PyObject* object) {
  constexpr int kDepth = 4;
  constexpr size_t kLimit = 1000;
  std::vector<PyObject*> layer = {object};
  std::unordered_set<PyObject*> seen;
  for (int depth = 0; depth < kDepth && !layer.empty(); ++depth) {
    std::vector<PyObject*> next;
    for (PyObject* holder : layer) {
      if (!seen.insert(holder).second || seen.size() > kLimit) continue;
      if (is_tensor(holder)) track_with_history(holder);
      bool container = PyObject_IS_GC(holder) && !PyType_Check(holder) && !PyModule_Check(holder);
      traverseproc traverse = Py_TYPE(holder)->tp_traverse;
      if (PyFunction_Check(holder)) {
        // What a module holds lives on anyway.
        PyObject* globals = PyFunction_GetGlobals(holder);
        if (!is_of_module(globals)) next.push_back(globals);
        if (PyObject* closure = PyFunction_GetClosure(holder)) next.push_back(closure);
        if (PyObject* defaults = PyFunction_GetDefaults(holder)) next.push_back(defaults);
      } else if (container && traverse && !is_tensor(holder)) {
        traverse(holder, collect_referent, &next);
      }
    }
    layer = std::move(next);
  }
}

int traverse_tensor(TensorImpl* tensor, visitproc visit, void* arg) {
  return Walk(visit, arg).from_tensor(tensor, tensor);
}

int traverse_node(PyObject* object, Node* node, visitproc visit, void* arg) {
  return Walk(visit, arg).from_node(object, node);
}

int traverse_sweep(PyObject* object, const SteppedSweep& sweep, visitproc visit, void* arg) {
  return Walk(visit, arg).from_sweep(object, sweep);
}

uint64_t walked_entries() { return entries_walked; }

void clear_tensor(TensorImpl* tensor) {
  AutogradMeta* meta = tensor->meta();
  if (!meta) return;
  tensor->set_meta(nullptr);
  destroy_autograd_meta(tensor, meta);
}

}  // namespace tapegrad::python
