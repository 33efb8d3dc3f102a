#include "cuda/stream.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/lane.h"
#include "cuda/allocator.h"
#include "cuda/capturing.h"
#include "cuda/foreign.h"
#include "cuda/held_calls.h"
#include "cuda/kernel_errors.h"

namespace tapegrad::cuda {

namespace {

constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
constexpr int kStreamsPerPriority = 32;
constexpr int kMostPriorities = 8;

struct StreamPool {
  std::vector<StreamHandle> streams;
  int next = 0;
};
struct DeviceStreams {
  StreamPool pools[kMostPriorities];  // the least priority first
  std::vector<EventHandle> free_events;
};
// Never destroyed: storages may outlive static objects. Under Note [The GIL guards handles].
auto* const device_streams = new DeviceStreams[kMostDevices];

// ---- lanes

using Streams = std::array<StreamHandle, kMostDevices>;
// By the number of the lane. Never destroyed. Under Note [The GIL guards handles].
auto& lanes = *new std::vector<Streams>(1, Streams{});

Lane lane_of(const Streams& streams) {
  const auto found = std::find(lanes.begin(), lanes.end(), streams);
  if (found == lanes.end()) {
    TAPEGRAD_CHECK(lanes.size() <= std::numeric_limits<Lane>::max(), "cuda: more than ",
                   std::numeric_limits<Lane>::max(), " combinations of current streams");
    lanes.push_back(streams);
    lanes_in_use = true;
    return static_cast<Lane>(lanes.size() - 1);
  }
  return static_cast<Lane>(found - lanes.begin());
}

void enter_lane(Lane lane) {
  std::copy(lanes[lane].begin(), lanes[lane].end(), detail::current_streams);
  current_lane = lane;
}

void order_lanes(Lane earlier, Lane later) {
  for (int device = 0; device < kMostDevices; ++device) {
    const auto index = static_cast<size_t>(device);
    order_streams(device, lanes[earlier][index], lanes[later][index]);
  }
}

void note_use_in(const Storage& storage, Lane lane) {
  if (storage.device().type != DeviceType::CUDA) return;
  note_use(storage, lanes[lane][storage.device().index]);
}

bool is_shared(const Storage& storage) {
  return storage.device().type == DeviceType::CUDA && is_recorded(storage);
}

bool is_captured(Lane lane) {
  for (int device = 0; device < kMostDevices; ++device)
    if (is_capturing(device, lanes[lane][static_cast<size_t>(device)])) return true;
  return false;
}

[[maybe_unused]] const bool has_lanes = [] {
  lane_calls = {enter_lane, order_lanes, note_use_in, is_shared, is_captured};
  return true;
}();

}  // namespace

void set_current_stream(int device, StreamHandle stream) {
  Streams streams;
  std::copy_n(detail::current_streams, kMostDevices, streams.begin());
  streams[static_cast<size_t>(device)] = stream;
  enter_lane(lane_of(streams));
}

std::pair<int, int> stream_priorities(int device) {
  const DeviceGuard guard(device);
  int least = 0, greatest = 0;
  check(driver().get_stream_priorities(&least, &greatest), "cuda: asking for priorities");
  return {least, std::max(greatest, least - kMostPriorities + 1)};
}

StreamHandle create_stream(int device, int priority) {
  const DeviceGuard guard(device);
  const auto [least, greatest] = stream_priorities(device);
  priority = std::clamp(priority, greatest, least);
  StreamPool& pool = device_streams[device].pools[least - priority];
  const int place = std::exchange(pool.next, (pool.next + 1) % kStreamsPerPriority);
  if (place == static_cast<int>(pool.streams.size())) {
    StreamHandle stream = nullptr;
    check(driver().create_stream(&stream, kNonBlocking, priority), "cuda: creating a stream");
    pool.streams.push_back(stream);
  }
  return pool.streams[static_cast<size_t>(place)];
}

int stream_priority(int device, StreamHandle stream) {
  for (int below = 0; below < kMostPriorities; ++below) {
    const auto& streams = device_streams[device].pools[below].streams;
    if (std::find(streams.begin(), streams.end(), stream) != streams.end())
      return stream_priorities(device).first - below;
  }
  return 0;
}

bool is_done(int device, StreamHandle stream) {
  if (is_capturing(device, stream)) [[unlikely]]
    fail_in_capture("Stream.query", "a captured stream is never done", "ask after a replay");
  run_expected_calls();
  const DeviceGuard guard(device);
  const RelaxedCapture relaxed;
  const Result result = driver().query_stream(stream);
  if (result != kNotReady) check(result, "cuda: asking a stream");
  return result == kSuccess;
}

void synchronize(int device, StreamHandle stream) {
  if (is_capturing(device, stream)) [[unlikely]]
    fail_in_capture("Stream.synchronize", "the host cannot wait for a captured stream",
                    "wait after a replay");
  run_expected_calls();
  const DeviceGuard guard(device);
  const RelaxedCapture relaxed;
  wait_by([&] { return driver().synchronize_stream(stream); }, "cuda: waiting for a stream");
  collect_foreign();
  throw_kernel_errors(device);
}

namespace {

// Before a stream waits for a place in another, which is captured or not.
void check_order(int device, bool earlier_is_captured, StreamHandle later) {
  const bool is_captured = is_capturing(device, later);
  if (is_captured && !earlier_is_captured)
    fail_in_capture("wait", "a captured stream cannot wait for work that is not part of the graph",
                    "wait for it before the capture, and record all that backward() is called on "
                    "within the capture");
  if (!is_captured && earlier_is_captured && !later)
    fail_in_capture("wait", "the default stream cannot wait for a captured one",
                    "use another stream, and join it to the captured one before the capture ends; "
                    "and record all that backward() is called on within the capture");
  capture_has_joins |= is_captured || earlier_is_captured;
}

}  // namespace

void order_streams(int device, StreamHandle earlier, StreamHandle later) {
  if (earlier == later) return;
  run_held_calls();
  if (capture_underway) [[unlikely]]
    check_order(device, is_capturing(device, earlier), later);
  const EventHandle event = record_pooled_event(device, earlier);
  TAPEGRAD_CHECK(event, "cuda: no event to order two streams with: the device has failed, or ",
                 reinterpret_cast<uintptr_t>(earlier), " is no stream of 'cuda:", device, "'");
  const DeviceGuard guard(device);
  const Result result = driver().make_stream_wait(later, event, 0);
  return_pooled_event(device, event);  // the stream waits for what it stands for now
  check(result, "cuda: ordering two streams");
}

Event::~Event() {
  if (!handle_) return;
  try {
    const DeviceGuard guard(device_);
    driver().destroy_event(handle_);
  } catch (...) {  // the process ends, or was forked
  }
}

void Event::record(int device, StreamHandle stream) {
  run_held_calls();
  record_here(device, stream);
}

void Event::record_here(int device, StreamHandle stream) {
  TAPEGRAD_CHECK(device_ < 0 || device_ == device, "Event.record: the event belongs to device ",
                 device_, ", the stream to device ", device, "; use an event for each device");
  const DeviceGuard guard(device);
  if (!handle_) {
    check(driver().create_event(&handle_, flags_), "cuda: creating an event");
    device_ = device;
  }
  check(driver().record_event(handle_, stream), "cuda: recording an event");
  is_captured_ = is_capturing(device, stream);
}

void Event::make_wait(int device, StreamHandle stream) const {
  if (!handle_) return;
  run_held_calls();
  if (capture_underway) [[unlikely]]
    check_order(device, is_captured_, stream);
  const DeviceGuard guard(device);
  check(driver().make_stream_wait(stream, handle_, 0), "cuda: waiting for an event");
}

bool Event::is_done() const {
  if (!handle_) return true;
  if (capture_underway && is_captured_) [[unlikely]]
    fail_in_capture("Event.query", "a captured event never passes", "ask after a replay");
  const DeviceGuard guard(device_);
  const RelaxedCapture relaxed;
  const Result result = driver().query_event(handle_);
  if (result != kNotReady) check(result, "cuda: asking an event");
  return result == kSuccess;
}

void Event::synchronize() const {
  if (!handle_) return;
  if (capture_underway && is_captured_) [[unlikely]]
    fail_in_capture("Event.synchronize", "the host cannot wait for a captured event",
                    "wait after a replay");
  const DeviceGuard guard(device_);
  const RelaxedCapture relaxed;
  wait_by([&] { return driver().synchronize_event(handle_); }, "cuda: waiting for an event");
  collect_foreign();
  throw_kernel_errors(device_);
}

float Event::elapsed(const Event& end) const {
  TAPEGRAD_CHECK_AS(ValueError, !((flags_ | end.flags_) & kDisableTiming),
                    "Event.elapsed_time: Both events must be created with argument "
                    "'enable_timing=True'.");
  TAPEGRAD_CHECK_AS(ValueError, handle_ && end.handle_,
                    "Event.elapsed_time: Both events must be recorded before calculating elapsed "
                    "time.");
  TAPEGRAD_CHECK_AS(ValueError, is_done() && end.is_done(),
                    "Event.elapsed_time: Both events must be completed before calculating elapsed "
                    "time; call synchronize() first.");
  float milliseconds = 0;
  const DeviceGuard guard(device_);
  check(driver().get_elapsed_time(&milliseconds, handle_, end.handle_), "cuda: timing events");
  return milliseconds;
}

EventHandle record_pooled_event(int device, StreamHandle stream) noexcept {
  try {
    const DeviceGuard guard(device);
    auto& free_events = device_streams[device].free_events;
    EventHandle event = nullptr;
    if (free_events.empty()) {
      if (driver().create_event(&event, Event::kDisableTiming) != kSuccess) return nullptr;
    } else {
      event = free_events.back();
      free_events.pop_back();
    }
    if (driver().record_event(event, stream) == kSuccess) return event;
    return_pooled_event(device, event);
  } catch (...) {  // the process ends, or was forked
  }
  return nullptr;
}

void return_pooled_event(int device, EventHandle event) noexcept {
  try {
    device_streams[device].free_events.push_back(event);
  } catch (...) {  // one event is lost
  }
}

bool has_passed(int device, EventHandle event) noexcept {
  try {
    const DeviceGuard guard(device);
    const RelaxedCapture relaxed;
    return driver().query_event(event) != kNotReady;
  } catch (...) {
    return true;
  }
}

}  // namespace tapegrad::cuda
