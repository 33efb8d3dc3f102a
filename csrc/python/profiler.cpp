// Profiles in Python: what tapegrad/profiler is built on.
#include "cuda/profile.h"
#include "engine/events.h"
#include "intercept/profile.h"
#include "python/binding.h"

namespace tapegrad::python {

namespace {

constexpr const char* kKinds[] = {"op", "backward", "user"};
constexpr const char* kActivities[] = {"kernel", "copy", "fill", "launch"};

// Reads the shapes of several tensors and goes on behind them.
nb::list read_shapes(const int64_t*& at) {
  nb::list shapes;
  for (int64_t count = *at++; count > 0; --count) {
    nb::list sizes;
    for (int64_t rank = *at++; rank > 0; --rank) sizes.append(*at++);
    shapes.append(sizes);
  }
  return shapes;
}

nb::object shapes_of(const Profile& profile, const Profile::Event& event) {
  if (event.shapes < 0) return nb::none();
  const int64_t* at = profile.shapes().data() + event.shapes;
  return read_shapes(at);
}

// What flop counters price.
nb::list calls_of(const Profile& profile) {
  nb::list result;
  for (int64_t i = 0; const Profile::Event& event : profile.events()) {
    if (event.shapes >= 0) {
      const int64_t* at = profile.shapes().data() + event.shapes;
      const nb::list inputs = read_shapes(at), outputs = read_shapes(at);
      result.append(nb::make_tuple(i, event.name, inputs, outputs));
    }
    ++i;
  }
  return result;
}

nb::object line_of(const Profile::Event& event) {
  if (event.entry_line) return nb::cast(event.entry_line);
  if (!event.line.known()) return nb::none();
  return nb::cast(event.line.text());
}

nb::list events_of(const Profile& profile) {
  nb::list result;
  for (const Profile::Event& event : profile.events())
    result.append(nb::make_tuple(
        event.name, kKinds[static_cast<int>(event.kind)], event.in_backward, event.start, event.end,
        event.allocated, event.freed, shapes_of(profile, event), event.sequence, line_of(event),
        event.on_device_bytes.allocated, event.on_device_bytes.freed));
  return result;
}

nb::list activities_of(const Profile& profile) {
  nb::list result;
  for (const DeviceActivity& each : profile.device_activities())
    result.append(nb::make_tuple(kActivities[static_cast<int>(each.kind)], each.name, each.device,
                                 each.stream, each.start, each.end, each.call, each.launch,
                                 each.nbytes));
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
    const bool wants_line = profile_->records_lines();
    profile_->open_entry(node.name(), node.sequence(), wants_line ? node.line() : std::string());
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

  // How devices are watched: "cupti", "events", or "" if they are not.
  void start(const std::string& watch) {
    TAPEGRAD_CHECK(!profiling, "profile: a profiler is already running on this thread");
    std::unique_ptr<DeviceTimes> times;
    if (watch == "cupti") times = cuda::watch_by_cupti(&problem_);
    if (!times && !watch.empty()) times = cuda::watch_by_events();
    sees_kernels_ = times && times->sees_kernels();
    Profile::start(std::move(times));
    listener_ = std::make_shared<ProfiledSweeps>(*this);
    add_listener(listener_);
  }
  void stop() {
    Profile::stop();
    remove_listener(listener_.get());
  }
  const std::string& problem() const { return problem_; }
  bool sees_kernels() const { return sees_kernels_; }

 private:
  std::shared_ptr<ProfiledSweeps> listener_;
  std::string problem_;
  bool sees_kernels_ = false;
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

std::vector<std::string> find_cupti() {
  nb::object find = nb::module_::import_("tapegrad.profiler.devices").attr("find_cupti");
  return nb::cast<std::vector<std::string>>(find());
}

}  // namespace

void bind_profiler(Binder& b) {
  cuda::find_cupti = find_cupti;
  nb::class_<ListeningProfile>(b.module(), "_Profile",
                               "Times and memory of the calls on one thread.")
      .def(nb::init<bool, bool>(), "record_shapes"_a, "record_lines"_a = false)
      .def(
          "start", &ListeningProfile::start, "watch"_a = "",
          "Begins to record on this thread; devices are watched by \"cupti\", by \"events\", or \"\".")
      .def("stop", &ListeningProfile::stop, "Ends recording.")
      .def("events", [](const ListeningProfile& self) { return events_of(self); },
           "(name, kind, in backward, start, end, bytes allocated, bytes freed, shapes, sequence "
           "number of the entry, source line, bytes allocated and freed on the device) of each.")
      .def("calls", [](const ListeningProfile& self) { return calls_of(self); },
           "(number among the events, op, shapes of inputs, shapes of outputs) of each call.")
      .def("count", [](const ListeningProfile& self) { return self.events().size(); },
           "How many events there are so far.")
      .def(
          "activities", [](const ListeningProfile& self) { return activities_of(self); },
          "(kind, name, device, stream, start, end, number of the event, number of the launch, bytes) "
          "of what devices did.")
      .def_prop_ro("problem", &ListeningProfile::problem,
                   "Why CUPTI could not be used, or nothing.")
      .def_prop_ro("sees_kernels", &ListeningProfile::sees_kernels,
                   "Whether activities are single kernels.")
      .def_prop_ro("thread", &ListeningProfile::thread);
  b.function("_open_range", open_range, "name"_a,
             "Opens a range in this thread's profile; returns what closes it, 0 if there is none.");
  b.function("_close_range", close_range, "depth"_a, "Closes a range.");
  b.function("_is_profiling", [] { return profiling != nullptr; },
             "Whether a profile is running on this thread.");
}

}  // namespace tapegrad::python
