// Keeping what passes the dispatch point: programs (program.cpp), and results of chosen calls.
#include "intercept/capture.h"
#include "core/layout.h"
#include "graph/grad_mode.h"
#include "intercept/call_cache.h"
#include "python/binding.h"
#include "python/callback.h"

namespace tapegrad::python {

namespace {

bool is_true(nb::handle answer) {
  const int truth = PyObject_IsTrue(answer.ptr());
  if (truth < 0) throw nb::python_error();
  return truth;
}

// A cache with the Python functions that choose.
struct ChosenCalls {
  nb::object wants, decides;
  CallCache cache;
  // What listened before each block that is open, and what went on in this cache.
  struct Outer {
    CallCache* listened;
    CallCache::Run run;
  };
  std::vector<Outer> outer;

  ChosenCalls(nb::object wants, nb::object decides, bool allow_mutation)
      : wants(std::move(wants)),
        decides(std::move(decides)),
        cache({ask, this->decides.is_none() ? nullptr : decide, this}, allow_mutation) {}

  static bool ask(void* self, const char* op) {
    return is_true(call_back(static_cast<ChosenCalls*>(self)->wants, nb::str(op)));
  }
  // Whoever decides may compute: that is no part of the program.
  static bool decide(void* self, const OpCall& call) {
    const NoReuse unseen;
    const CaptureScope uncaptured(nullptr);
    const GradMode unrecorded(false);
    nb::object decides = static_cast<ChosenCalls*>(self)->decides;
    return is_true(
        call_back(decides, nb::str(call.op.name), looks_at(call.inputs), looks_at(call.outputs)));
  }
  static nb::tuple looks_at(std::span<TensorImpl* const> operands) {
    nb::list found;
    for (const TensorImpl* operand : operands) found.append(Tensor(operand->bare_alias()));
    return nb::tuple(found);
  }
};

// The functions may refer to the tensors whose history refers to the cache.
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  auto* chosen = nb::inst_ptr<ChosenCalls>(self);
  Py_VISIT(chosen->wants.ptr());
  Py_VISIT(chosen->decides.ptr());
  return 0;
}

int clear(PyObject* self) {
  if (!nb::inst_ready(self)) return 0;
  auto* chosen = nb::inst_ptr<ChosenCalls>(self);
  chosen->wants = nb::none();
  chosen->decides = nb::none();
  return 0;
}

PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {0, nullptr}};

void enter(ChosenCalls& self, bool replaying) {
  auto mode = replaying ? CallCache::Mode::Replay : CallCache::Mode::Record;
  CallCache::Run before = self.cache.start(mode);
  self.outer.push_back({std::exchange(reusing, &self.cache), std::move(before)});
  intercept_here(Interceptor::Reuse, true);
}

void leave(ChosenCalls& self) {
  TAPEGRAD_CHECK(!self.outer.empty() && reusing == &self.cache,
                 "CallCache: blocks must end in the reverse order of their beginning");
  reusing = self.outer.back().listened;
  self.cache.resume(std::move(self.outer.back().run));
  self.outer.pop_back();
  intercept_here(Interceptor::Reuse, reusing != nullptr);
}

// No cache listens, as if there were none around.
void hide(ChosenCalls& self) {
  self.outer.push_back({std::exchange(reusing, nullptr), self.cache.start(CallCache::Mode::Off)});
  intercept_here(Interceptor::Reuse, false);
}

void show(ChosenCalls& self) {
  TAPEGRAD_CHECK(!self.outer.empty() && !reusing,
                 "CallCache: blocks must end in the reverse order of their beginning");
  reusing = self.outer.back().listened;
  self.cache.resume(std::move(self.outer.back().run));
  self.outer.pop_back();
  intercept_here(Interceptor::Reuse, reusing != nullptr);
}

int64_t find_moved(const std::vector<Tensor>& tensors, const std::vector<Tensor>& aliases) {
  TAPEGRAD_CHECK_AS(ValueError, tensors.size() == aliases.size(),
                    "_find_moved: expected as many tensors as aliases");
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!shows_same(tensors[i], aliases[i])) return static_cast<int64_t>(i);
  return -1;
}

void bind_call_cache(Binder& b) {
  nb::class_<ChosenCalls>(
      b.module(), "CallCache", nb::type_slots(slots),
      "Results of chosen calls, kept while a function runs and used when it "
      "runs again.\n\n"
      "Args:\n"
      "    wants: asked once for each op, with its name, whether to keep its "
      "results.\n"
      "    decides: asked at each call of such an op, with the name, the inputs "
      "and the\n"
      "        outputs, whether to keep this one; None keeps all.\n"
      "    allow_mutation: whether to use a result that was written in place.")
      .def(nb::init<nb::object, nb::object, bool>(), "wants"_a, "decides"_a = nb::none(),
           "allow_mutation"_a = false)
      .def("_enter", enter, "replaying"_a, "Begins to keep results, or to use those kept.")
      .def("_leave", leave, "Ends what _enter began.")
      .def("_hide", hide, "Hides calls from whatever cache listens.")
      .def("_show", show, "Ends what _hide began.")
      .def("__len__", [](const ChosenCalls& self) {
    return self.cache.size();
  }).def("clear", [](ChosenCalls& self) { self.cache.clear(); }, "Lets go of all results.");
}

}  // namespace

void bind_capture(Binder& b) {
  bind_program(b);
  b.function("_find_moved", find_moved, "tensors"_a, "aliases"_a,
             "The place of the first tensor that is not where its alias is; -1 if there is none.");
  b.function("_was_left", [](const Tensor& x) { return x->storage().has(Storage::kLeft); }, "x"_a,
             "Whether a tensor that showed the same memory was given other memory.");
  bind_call_cache(b);
}

}  // namespace tapegrad::python
