// Streams and events.
//
// A stream is a queue of work on one device. Every thread has a current one for each device, which is the
// null stream until another is chosen; kernels, copies and allocations are about it.
#pragma once

#include <utility>

#include "cuda/context.h"
#include "cuda/driver.h"

namespace tapegrad::cuda {

namespace detail {
inline thread_local StreamHandle current_streams[kMostDevices] = {};
}

inline StreamHandle current_stream(int device) { return detail::current_streams[device]; }
// The thread is in the lane of its streams: see Note [Lanes]. Under Note [The GIL guards handles].
void set_current_stream(int device, StreamHandle stream);

// A stream that does not wait for the null stream. As in PyTorch there are 32 of each priority, made when
// first asked for, handed out in turn and never destroyed, so that a handle stays good. Lower numbers come
// first; those beyond what the device has are moved to the nearest.
StreamHandle create_stream(int device, int priority = 0);
// From the least to the greatest priority: zero and a negative number.
std::pair<int, int> stream_priorities(int device);
// The priority that a stream of create_stream() was made with; zero for others.
int stream_priority(int device, StreamHandle stream);

// Whether everything that was put into a stream is done.
bool is_done(int device, StreamHandle stream);
// Waits for it. See Note [Waiting unasked].
void synchronize(int device, StreamHandle stream);

// What is put into `later` from now on waits for what is in `earlier` now. The host does not wait. If `earlier`
// is captured `later` is as well from now on; if `later` is captured, `earlier` must be.
void order_streams(int device, StreamHandle earlier, StreamHandle later);

// A place in a stream. The driver's event is made when it is first recorded, on the stream's device.
class Event {
 public:
  enum Flag : unsigned { kDefault = 0, kBlockingSync = 1, kDisableTiming = 2 };

  explicit Event(unsigned flags = kDisableTiming) : flags_(flags) {}
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(int device, StreamHandle stream);
  // The same, but calls that are held (cuda/held_calls.h) stay so: for times of what is launched.
  void record_here(int device, StreamHandle stream);
  // What is put into the stream from now on waits for the event. Does nothing before it is recorded, like
  // the following.
  void make_wait(int device, StreamHandle stream) const;
  bool is_done() const;
  void synchronize() const;
  // In milliseconds, from this one to another; both must be recorded, and done.
  float elapsed(const Event& end) const;

  EventHandle handle() const { return handle_; }
  int device() const { return device_; }  // -1 before it is recorded

 private:
  unsigned flags_;
  bool is_captured_ =
      false;  // recorded in a stream that was captured: it stands for a place in a graph
  int device_ = -1;
  EventHandle handle_ = nullptr;
};

// Events without timing for use inside the back end, kept for reuse. Under Note [The GIL guards handles].
// Null where the driver gives none: it is shutting down, or the device has failed.
EventHandle record_pooled_event(int device, StreamHandle stream) noexcept;
void return_pooled_event(int device, EventHandle event) noexcept;
// Whether an event has passed; a device that has failed does nothing any more.
bool has_passed(int device, EventHandle event) noexcept;

}  // namespace tapegrad::cuda
