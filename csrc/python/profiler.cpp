// Profiles in Python: what tapegrad/profiler is built on.
#include "engine/events.h"
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

// Events for the sweeps of the profile's thread, and for the entries that run in them.
class ProfiledSweeps final : public SweepListener {
 public:
  explicit ProfiledSweeps(Profile& profile) : profile_(&profile) {}

  Finish sweep_begins(const SweepStart&) override {
    if (profiling != profile_) return {};
    profile_->enter_sweep();
    return [profile = profile_] {
      if (profiling == profile) profile->leave_sweep();
    };
  }
  Finish entry_runs(Node& node) override {
    if (profiling != profile_) return {};
    profile_->open_range(node.name(), Profile::Kind::Backward, node.sequence());
    return [profile = profile_, depth = profile_->depth()] {
      if (profiling == profile) profile->close_to(depth - 1);
    };
  }

 private:
  Profile* profile_;  // only used while it is the thread's
};

class ListeningProfile final : public Profile {
 public:
  using Profile::Profile;
  ~ListeningProfile() { remove_listener(listener_.get()); }

  void start() {
    Profile::start();
    listener_ = std::make_shared<ProfiledSweeps>(*this);
    add_listener(listener_);
  }
  void stop() {
    Profile::stop();
    remove_listener(listener_.get());
  }

 private:
  std::shared_ptr<ProfiledSweeps> listener_;
};

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
  nb::class_<ListeningProfile>(b.module(), "_Profile",
                               "Times and memory of the calls on one thread.")
      .def(nb::init<bool>(), "record_shapes"_a)
      .def("start", &ListeningProfile::start, "Begins to record on this thread.")
      .def("stop", &ListeningProfile::stop, "Ends recording.")
      .def("events", [](const ListeningProfile& self) { return events_of(self); },
           "(name, kind, in backward, start, end, bytes allocated, bytes freed, shapes, sequence "
           "number of the entry) of each.")
      .def_prop_ro("thread", &ListeningProfile::thread);
  b.function("_open_range", open_range, "name"_a,
             "Opens a range in this thread's profile; returns what closes it, 0 if there is none.");
  b.function("_close_range", close_range, "depth"_a, "Closes a range.");
  b.function("_is_profiling", [] { return profiling != nullptr; },
             "Whether a profile is running on this thread.");
}

}  // namespace tapegrad::python
