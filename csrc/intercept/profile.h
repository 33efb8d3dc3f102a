// What a profiler sees: every call that passes the dispatch point, entries of the tape as the sweep
// runs them, and ranges that the program opens and closes. Recording is per thread; a thread without
// a profile pays nothing, because the dispatch point asks all watchers with one test (core/op.h).
//
// An event's memory is what was allocated and freed since the event before it ended, which includes
// its outputs: they are allocated right before the call.
//
// Where a device runs the calls, its back end tells when (core/device_times.h); a call is known there by its
// number among the events.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/device_times.h"
#include "core/op.h"
#include "core/source.h"

namespace tapegrad {

// The sequence number that the next entry of the tape will get.
inline uint64_t next_sequence = 1;

// Nanoseconds of the steady clock.
int64_t clock_ticks();

class Profile {
 public:
  enum class Kind : uint8_t { Op, Backward, User };

  struct Event {
    const char* name;
    Kind kind;
    bool in_backward;                  // while a sweep was running on this thread
    int64_t start, end = 0;            // nanoseconds of the steady clock
    int64_t allocated = 0, freed = 0;  // bytes of the CPU
    DeviceTimes::Bytes on_device_bytes = {};
    int64_t shapes = -1;    // where the shapes begin: of the inputs, then of the outputs
    uint64_t sequence = 0;  // of the entry that a backward event runs, or that comes next
    Device device = {};     // of a call
    // Of the program, where lines are recorded: where a call was made, and an entry recorded.
    SourceLine line = {};
    const char* entry_line = nullptr;
  };

  Profile(bool record_shapes, bool record_lines)
      : record_shapes_(record_shapes), record_lines_(record_lines) {}
  ~Profile() {
    device_times_.reset();  // nobody asks any more
    if (running_ && profiling_here()) stop();
  }
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // Makes this the profile of the calling thread; fails when there is one already. Calls on devices are timed
  // by what is given, if it is.
  void start(std::unique_ptr<DeviceTimes> device_times = nullptr);
  void stop();
  bool is_running() const { return running_; }

  // Opens an event inside those that are open; close() ends the innermost.
  void open(const char* name, Kind kind, uint64_t sequence = next_sequence);
  void open_call(const OpCall& call);
  void open_range(std::string_view name, Kind kind,
                  uint64_t sequence = next_sequence);  // copies the name
  void open_entry(std::string_view name, uint64_t sequence, std::string_view line);
  void close();
  // A sweep begins or ends: events in between are marked.
  void enter_sweep() { ++sweeps_; }
  void leave_sweep() { --sweeps_; }
  bool records_lines() const { return record_lines_; }
  // How many events are open, and closing until that many are left.
  size_t depth() const { return open_.size(); }
  void close_to(size_t depth);

  const std::deque<Event>& events() const { return events_; }
  // What devices did, once it is stopped.
  const std::vector<DeviceActivity>& device_activities() const { return device_activities_; }
  // For inputs and outputs of an event: their number, then rank and sizes of each.
  const std::vector<int64_t>& shapes() const { return shapes_; }
  uint64_t thread() const { return thread_; }

 private:
  bool profiling_here() const;
  void settle_memory(Event& event);
  void note_shapes(std::span<TensorImpl* const> tensors);
  void begin_on_device(const OpCall& call);
  void end_on_device(Event& event);

  const bool record_shapes_, record_lines_;
  bool running_ = false;
  std::unique_ptr<DeviceTimes> device_times_;
  std::vector<DeviceActivity> device_activities_;
  DeviceTimes::Bytes device_bytes_[kMostDevices];  // as the last event left them
  uint64_t thread_ = 0;
  int sweeps_ = 0;
  int64_t allocated_ = 0, live_ = 0;  // as the last event left them
  std::deque<Event> events_;
  std::vector<size_t> open_;
  std::vector<int64_t> shapes_;
  std::unordered_set<std::string> names_;
};

// The profile of this thread, or null.
inline thread_local Profile* profiling = nullptr;

// An event that lasts as long as this lives, if there is a profile. Events opened inside and left open
// end with it.
class ProfileScope {
 public:
  explicit ProfileScope(const OpCall& call) : profile_(profiling) {
    if (!profile_) return;
    profile_->open_call(call);
    depth_ = profile_->depth();
  }
  ProfileScope(std::string_view name, Profile::Kind kind, uint64_t sequence = next_sequence)
      : profile_(profiling) {
    if (!profile_) return;
    profile_->open_range(name, kind, sequence);
    depth_ = profile_->depth();
  }
  ~ProfileScope() {
    if (profile_ && profile_ == profiling) profile_->close_to(depth_ - 1);
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  Profile* profile_;
  size_t depth_ = 0;
};

}  // namespace tapegrad
