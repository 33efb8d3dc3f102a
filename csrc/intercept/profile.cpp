#include "intercept/profile.h"

#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "core/allocator.h"
#include "core/error.h"

namespace tapegrad {

namespace {

[[maybe_unused]] const bool installed =
    install(Interceptor::Profile, [](const OpCall& call, const Next& next) {
  const ProfileScope profiled(call);
  next(call);
});

}  // namespace

int64_t clock_ticks() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

void Profile::start(std::unique_ptr<DeviceTimes> device_times) {
  TAPEGRAD_CHECK(!profiling, "profile: a profiler is already running on this thread");
  device_times_ = std::move(device_times);
  for (int device = 0; device_times_ && device < device_times_->count(); ++device)
    device_bytes_[device] = device_times_->bytes(device);
  running_ = true;
  profiling = this;
  thread_ = std::hash<std::thread::id>()(std::this_thread::get_id());
  allocated_ = memory_stats().allocated_bytes;
  live_ = memory_stats().live_bytes;
  intercept_here(Interceptor::Profile, true);
}

void Profile::stop() {
  TAPEGRAD_CHECK(running_ && profiling == this,
                 "profile: expected to be stopped on the thread that started it");
  close_to(0);
  running_ = false;
  profiling = nullptr;
  intercept_here(Interceptor::Profile, false);
  if (const auto times = std::exchange(device_times_, nullptr))
    device_activities_ = times->finish();
}

bool Profile::profiling_here() const { return profiling == this; }

void Profile::open(const char* name, Kind kind, uint64_t sequence) {
  open_.push_back(events_.size());
  Event& event = events_.emplace_back(Event{name, kind, sweeps_ > 0, 0});
  event.sequence = sequence;
  if (record_lines_ && kind != Kind::Backward) event.line = SourceLine::here();
  event.start = clock_ticks();
}

void Profile::open_range(std::string_view name, Kind kind, uint64_t sequence) {
  open(names_.emplace(name).first->c_str(), kind, sequence);
}

void Profile::open_entry(std::string_view name, uint64_t sequence, std::string_view line) {
  const char* kept = record_lines_ ? names_.emplace(line).first->c_str() : nullptr;
  open_range(name, Kind::Backward, sequence);
  events_.back().entry_line = kept;
}

void Profile::note_shapes(std::span<TensorImpl* const> tensors) {
  shapes_.push_back(static_cast<int64_t>(tensors.size()));
  for (const TensorImpl* tensor : tensors) {
    shapes_.push_back(tensor->dim());
    shapes_.insert(shapes_.end(), tensor->sizes().begin(), tensor->sizes().end());
  }
}

void Profile::open_call(const OpCall& call) {
  int64_t shapes = -1;
  if (record_shapes_) {
    shapes = static_cast<int64_t>(shapes_.size());
    note_shapes(call.inputs);
    note_shapes(call.outputs);
  }
  open(call.op.name, Kind::Op);
  events_.back().shapes = shapes;
  if (device_times_) begin_on_device(call);
}

void Profile::begin_on_device(const OpCall& call) {
  const Device output = call.out().device();
  const Device input = call.inputs.empty() ? output : call.in(0).device();
  const Device device = kernel_device(call.op, input, output);
  if (device.is_cpu() || device.is_meta()) return;
  device_times_->begin(device, static_cast<int64_t>(events_.size()) - 1);
  events_.back().device = device;
}

void Profile::end_on_device(Event& event) {
  device_times_->end();
  // Sums that the program has started again begin at zero.
  const DeviceTimes::Bytes now = device_times_->bytes(event.device.index);
  DeviceTimes::Bytes& before = device_bytes_[event.device.index];
  const bool is_same_sum = now.allocated >= before.allocated && now.freed >= before.freed;
  event.on_device_bytes = {now.allocated - (is_same_sum ? before.allocated : 0),
                           now.freed - (is_same_sum ? before.freed : 0)};
  before = now;
}

void Profile::close() {
  if (open_.empty()) return;
  Event& event = events_[open_.back()];
  open_.pop_back();
  event.end = clock_ticks();
  if (device_times_ && !event.device.is_cpu()) end_on_device(event);
  // A range has the memory of the events inside it, and none of its own.
  if (event.kind == Kind::Op) settle_memory(event);
}

void Profile::close_to(size_t depth) {
  while (open_.size() > depth) close();
}

void Profile::settle_memory(Event& event) {
  const MemoryStats& stats = memory_stats();
  event.allocated = stats.allocated_bytes - allocated_;
  event.freed = event.allocated - (stats.live_bytes - live_);
  allocated_ = stats.allocated_bytes;
  live_ = stats.live_bytes;
}

}  // namespace tapegrad
