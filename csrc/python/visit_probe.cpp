// Note [Which visit subtracts]
//
// The collector calls tp_traverse with one visit function to take the references that it is shown off its
// copies of the reference counts, and with others to spread reachability. tp_traverse is not told which is
// which, their order differs between versions, and a gc callback or a finalizer may bring in more
// (gc.get_referents). What each does can be seen, though, by the contract of tp_traverse alone: an object
// all of whose references have been taken off is garbage, and is finalized.
//
// So a probe is made, an object with one reference, which is ours. Traversed with the function under
// suspicion it shows a reference to itself, and with others nothing. If the collector then finalizes it
// although we hold it, that function subtracts. (The probe has no tp_clear, and survives.) Static functions
// stay where they are, so once is enough for the life of the process.
//
// Exactly one function must be found. If not, as when the library is imported in the middle of a
// collection, none is known, and Note [Collecting cycles through the tape] says what follows.
#include "python/visit_probe.h"

#include <algorithm>
#include <vector>

#include "python/binding.h"

namespace tapegrad::python {

namespace {

struct Trial {
  visitproc suspect = nullptr;
  std::vector<visitproc> met;
  bool finalized = false;
};
Trial* trial = nullptr;  // the one under way

struct TrialGuard {
  explicit TrialGuard(Trial& own) { trial = &own; }
  ~TrialGuard() { trial = nullptr; }
};

int traverse_probe(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!trial) return 0;
  if (std::ranges::find(trial->met, visit) == trial->met.end()) trial->met.push_back(visit);
  return visit == trial->suspect ? visit(self, arg) : 0;
}

void finalize_probe(PyObject*) {
  if (trial) trial->finalized = true;
}

void free_probe(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

nb::object make_probe_type() {
  PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_probe)},
                         {Py_tp_finalize, reinterpret_cast<void*>(finalize_probe)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(free_probe)},
                         {0, nullptr}};
  PyType_Spec spec = {"tapegrad._C.VisitProbe", sizeof(PyObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  return nb::steal(PyType_FromSpec(&spec));
}

// Collects the young objects, a probe among them.
Trial try_suspect(nb::handle type, visitproc suspect) {
  Trial result;
  result.suspect = suspect;
  auto* probe = PyObject_GC_New(PyObject, reinterpret_cast<PyTypeObject*>(type.ptr()));
  if (!probe) throw nb::python_error();
  PyObject_GC_Track(probe);
  nb::object held = nb::steal(probe);
  TrialGuard guard(result);
  nb::module_::import_("gc").attr("collect")(0);
  return result;
}

visitproc found = nullptr;

}  // namespace

void find_subtracting_visit() {
  nb::object type = make_probe_type();
  if (!type.is_valid()) throw nb::python_error();
  std::vector<visitproc> subtracting;
  for (visitproc suspect : try_suspect(type, nullptr).met)
    if (try_suspect(type, suspect).finalized) subtracting.push_back(suspect);
  found = subtracting.size() == 1 ? subtracting.front() : nullptr;
}

visitproc subtracting_visit() { return found; }

}  // namespace tapegrad::python
