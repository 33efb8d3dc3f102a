// Times of calls by events of the device: one before the call, on the stream that is current, and one after.
#include <chrono>
#include <memory>
#include <utility>

#include "cuda/allocator.h"
#include "cuda/capturing.h"
#include "cuda/profile.h"
#include "cuda/stream.h"

namespace tapegrad::cuda {

namespace {

int64_t now() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

class EventTimes final : public CudaTimes {
 public:
  EventTimes() {
    if (has_started()) origin_of(current_device());
  }

  void begin(Device device, int64_t call) override {
    Timed& timed = calls_.emplace_back();
    timed.call = call;
    timed.device = device.index;
    timed.stream = current_stream(device.index);
    open_.push_back(calls_.size() - 1);
    origin_of(device.index);
    record(timed, timed.start);
  }

  void end() noexcept override {
    Timed& timed = calls_[open_.back()];
    open_.pop_back();
    record(timed, timed.end);
  }

  std::vector<DeviceActivity> finish() override {
    std::vector<DeviceActivity> found;
    if (capture_underway) return found;  // the host cannot wait
    for (int device = 0; device < kMostDevices; ++device)
      if (origins_[device].event) wait_for(device);
    for (const Timed& timed : calls_) {
      const Origin& origin = origins_[timed.device];
      float since = 0, length = 0;
      const DeviceGuard guard(timed.device);
      // What a graph captured has no time of its own.
      if (!timed.start || !timed.end || !origin.event ||
          driver().get_elapsed_time(&since, origin.event->handle(), timed.start->handle()) ||
          driver().get_elapsed_time(&length, timed.start->handle(), timed.end->handle()))
        continue;
      DeviceActivity& activity = found.emplace_back();
      activity.device = timed.device;
      activity.stream = number_of(timed.stream);
      activity.start = origin.ticks + static_cast<int64_t>(since * 1e6);
      activity.end = activity.start + static_cast<int64_t>(length * 1e6);
      activity.call = timed.call;
    }
    return found;
  }

  bool sees_kernels() const override { return false; }

 private:
  struct Timed {
    int64_t call = 0;
    int device = 0;
    StreamHandle stream = nullptr;
    std::unique_ptr<Event> start, end;
  };
  // An event, and when it passed.
  struct Origin {
    std::unique_ptr<Event> event;
    int64_t ticks = 0;
  };

  // A device that has failed has no times; the op that meets it says so.
  static void record(const Timed& timed, std::unique_ptr<Event>& event) noexcept {
    try {
      event = std::make_unique<Event>(Event::kDefault);
      event->record_here(timed.device, timed.stream);
    } catch (...) {
      event.reset();
    }
  }

  void origin_of(int device) {
    Origin& origin = origins_[device];
    if (origin.event || capture_underway) return;
    wait_for(device);
    auto event = std::make_unique<Event>(Event::kDefault);
    event->record(device, current_stream(device));
    const AskedWait asked;
    event->synchronize();
    origin.ticks = now();
    origin.event = std::move(event);
  }

  static void wait_for(int device) {
    const AskedWait asked;
    synchronize(device);
  }

  uint64_t number_of(StreamHandle stream) {
    for (size_t k = 0; k < streams_.size(); ++k)
      if (streams_[k] == stream) return k;
    streams_.push_back(stream);
    return streams_.size() - 1;
  }

  std::vector<Timed> calls_;
  std::vector<size_t> open_;
  std::vector<StreamHandle> streams_{nullptr};  // the default one is number 0
  Origin origins_[kMostDevices];
};

}  // namespace

int CudaTimes::count() const { return device_count(); }

DeviceTimes::Bytes CudaTimes::bytes(int device) const {
  const Statistic& all = statistics(device).all.allocated_bytes;
  return {all.allocated, all.freed};
}

std::unique_ptr<DeviceTimes> watch_by_events() { return std::make_unique<EventTimes>(); }

}  // namespace tapegrad::cuda
