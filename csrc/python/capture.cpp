// Capturing what passes the dispatch point, and running it again.
#include "core/call_cache.h"
#include "core/op.h"
#include "python/binding.h"

namespace tapegrad::python {

namespace {

// A cache with the Python function that chooses.
struct ChosenCalls {
  nb::object wants;
  CallCache cache;
  // Whether it is in the middle of a block, and what listened before.
  struct Outer {
    CallCache* listened;
    CallCache::State state;
  };
  std::vector<Outer> outer;

  ChosenCalls(nb::object function, bool allow_mutation)
      : wants(std::move(function)), cache(ask, this, allow_mutation) {}
  static bool ask(void* self, const char* op) {
    return nb::cast<bool>(static_cast<ChosenCalls*>(self)->wants(op));
  }
};

void enter(ChosenCalls& self, bool replaying) {
  auto mode = replaying ? CallCache::Mode::Replay : CallCache::Mode::Record;
  CallCache::State before = self.cache.start(mode);
  self.outer.push_back({std::exchange(reusing, &self.cache), before});
  watch(kWatchReuse, true);
}

void leave(ChosenCalls& self) {
  TAPEGRAD_CHECK(!self.outer.empty() && reusing == &self.cache,
                 "CallCache: blocks must end in the reverse order of their beginning");
  reusing = self.outer.back().listened;
  self.cache.resume(self.outer.back().state);
  self.outer.pop_back();
  watch(kWatchReuse, reusing != nullptr);
}

void bind_call_cache(Binder& b) {
  nb::class_<ChosenCalls>(b.module(), "CallCache",
                          "Results of chosen ops, kept while a function runs and used when it runs "
                          "again.")
      .def(nb::init<nb::object, bool>(), "wants"_a, "allow_mutation"_a = false)
      .def("_enter", enter, "replaying"_a, "Begins to keep results, or to use those kept.")
      .def("_leave", leave, "Ends what _enter began.")
      .def("__len__", [](const ChosenCalls& self) {
    return self.cache.size();
  }).def("clear", [](ChosenCalls& self) { self.cache.clear(); }, "Lets go of all results.");
}

}  // namespace

void bind_capture(Binder& b) {
  nb::class_<Program>(b.module(), "Program", "A list of op calls, captured as they ran.")
      .def(nb::init<>())
      .def("__len__", [](const Program& program) { return program.steps().size(); })
      .def("replay", &Program::replay, "Executes every call again, on the same tensors.")
      .def("__enter__",
           [](Program& program) -> Program& {
    TAPEGRAD_CHECK(!capturing, "capture: another capture is active on this thread");
    capturing = &program;
    watch(kWatchCapture, true);
    return program;
  }, nb::rv_policy::reference)
      .def("__exit__", [](Program&, nb::args) {
    capturing = nullptr;
    watch(kWatchCapture, false);
  }).def("steps", [](const Program& program) {
    nb::list steps;
    for (const Program::Step& step : program.steps())
      steps.append(nb::make_tuple(step.op ? step.op->name : "read", step.inputs, step.attributes,
                                  step.outputs));
    return steps;
  }, "(op, inputs, attributes, outputs) of each call; op \"read\" where a value was looked at.");
  bind_call_cache(b);
}

}  // namespace tapegrad::python
