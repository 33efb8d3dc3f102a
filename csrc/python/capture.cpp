// Capturing what passes the dispatch point, and running it again.
#include "core/op.h"
#include "python/binding.h"

namespace tapegrad::python {

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
      steps.append(nb::make_tuple(step.op->name, step.inputs, step.attributes, step.outputs));
    return steps;
  }, "(op, inputs, attributes, outputs) of each call.");
}

}  // namespace tapegrad::python
