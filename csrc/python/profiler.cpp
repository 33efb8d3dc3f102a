// Profiles in Python: what tapegrad/profiler is built on.
#include "intercept/profile.h"
#include "python/binding.h"

namespace tapegrad::python {

namespace {

constexpr const char* kKinds[] = {"op", "backward", "user"};

nb::object shapes_of(const Profile& profile, const Profile::Event& event) {
  if (event.shapes < 0) return nb::none();
  const int64_t* at = profile.shapes().data() + event.shapes;
  nb::list inputs;
  for (int64_t count = *at++; count > 0; --count) {
    nb::list sizes;
    for (int64_t rank = *at++; rank > 0; --rank) sizes.append(*at++);
    inputs.append(sizes);
  }
  return inputs;
}

nb::list events_of(const Profile& profile) {
  nb::list result;
  for (const Profile::Event& event : profile.events())
    result.append(nb::make_tuple(event.name, kKinds[static_cast<int>(event.kind)],
                                 event.in_backward, event.start, event.end, event.allocated,
                                 event.freed, shapes_of(profile, event), event.sequence));
  return result;
}

// The range that record_function opened, if there is a profile; it ends where it began.
size_t open_range(const std::string& name) {
  if (!profiling) return 0;
  profiling->open_range(name, Profile::Kind::User);
  return profiling->depth();
}

void close_range(size_t depth) {
  if (profiling && depth > 0 && profiling->depth() >= depth) profiling->close_to(depth - 1);
}

}  // namespace

void bind_profiler(Binder& b) {
  nb::class_<Profile>(b.module(), "_Profile", "Times and memory of the calls on one thread.")
      .def(nb::init<bool>(), "record_shapes"_a)
      .def("start", &Profile::start, "Begins to record on this thread.")
      .def("stop", &Profile::stop, "Ends recording.")
      .def("events", events_of,
           "(name, kind, in backward, start, end, bytes allocated, bytes freed, shapes, sequence "
           "number of the entry) of each.")
      .def_prop_ro("thread", &Profile::thread);
  b.function("_open_range", open_range, "name"_a,
             "Opens a range in this thread's profile; returns what closes it, 0 if there is none.");
  b.function("_close_range", close_range, "depth"_a, "Closes a range.");
  b.function("_is_profiling", [] { return profiling != nullptr; },
             "Whether a profile is running on this thread.");
}

}  // namespace tapegrad::python
