// Streams, events, copies and fills.
//
// Work runs as late as CUDA allows: when somebody waits for it, or for work that has to come after
// it. A program that forgets to wait then reads old values every time, not once in a thousand runs.
#include <atomic>
#include <cstring>
#include <map>

#include "emulator.h"

namespace tapegrad::cuda {

namespace {

constexpr unsigned kNonBlocking = 1, kNoTime = 2;
// Like the driver, which makes a host wait that is too far ahead.
constexpr size_t kQueueLimit = 1024;
// Copies from pageable memory that are larger are not kept for later.
constexpr size_t kStagingLimit = size_t{1} << 24;

uint64_t last_sequence = 0;
std::atomic<long long> waits = 0;

// Null stream and blocking streams of a context wait for each other's earlier work.
void run_what_is_waited_for(StreamTag& stream, const Work& work) {
  const uint64_t sequence = work.sequence;
  if (const auto record = work.waits_for; record && !record->done)
    run_until(*record->stream, record->sequence + 1);
  if (!stream.is_blocking) return;
  for (const auto& other : stream.context->streams)
    if (other.get() != &stream && other->is_blocking && (stream.is_null || other->is_null))
      run_until(*other, sequence);
}

// The default stream that each thread has of its own, beside the one that all share.
StreamTag* stream_of_thread(ContextTag& context) {
  thread_local std::map<ContextTag*, StreamTag*> own;
  StreamTag*& stream = own[&context];
  if (!stream) {
    context.streams.emplace_back(new StreamTag{&context, false, true, {}});
    stream = context.streams.back().get();
  }
  return stream;
}

bool is_idle(const StreamTag& stream) { return stream.queue.empty(); }

// As CUPTI numbers them: from the host, to it, within a device.
int way_of_copy(Memory target, Memory source) {
  constexpr int kFromHost = 1, kToHost = 2, kWithin = 8, kOnHost = 9;
  if (target == Memory::kDevice) return source == Memory::kDevice ? kWithin : kFromHost;
  return source == Memory::kDevice ? kToHost : kOnHost;
}

}  // namespace

StreamHandle find_stream(StreamHandle handle) {
  constexpr uintptr_t kLegacy = 1, kPerThread = 2;
  if (!current()) return nullptr;
  if (!handle || reinterpret_cast<uintptr_t>(handle) == kLegacy) return current()->null_stream;
  if (reinterpret_cast<uintptr_t>(handle) == kPerThread) return stream_of_thread(*current());
  for (const auto& stream : current()->streams)
    if (stream.get() == handle) return handle;
  return nullptr;
}

uint64_t enqueue(StreamTag& stream, std::function<void()> run, std::shared_ptr<Record> waits_for) {
  if (stream.capture) {
    add_node(stream, std::move(run));
    return last_sequence;
  }
  const uint64_t sequence = ++last_sequence;
  stream.queue.push_back({sequence, std::move(run), std::move(waits_for)});
  stream.was_asked_for = false;
  if (stream.queue.size() > kQueueLimit) run_until(stream, stream.queue[kQueueLimit / 2].sequence);
  return sequence;
}

void run_until(StreamTag& stream, uint64_t limit) {
  while (!stream.queue.empty() && stream.queue.front().sequence < limit) {
    // All of it was asked for earlier, so it does not come back to this piece of work.
    run_what_is_waited_for(stream, stream.queue.front());
    const Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    if (!work.run) continue;
    open_memory();
    work.run();
  }
}

void count_wait() { ++waits; }

void run_all(ContextTag& context) {
  for (const auto& stream : context.streams) run_until(*stream, kEverything);
}

void run_all() {
  for (ContextTag& context : devices()) run_all(context);
}

extern "C" {

// For tests: how often the host has waited so far.
long long tapegradEmulatorWaits() { return waits; }

Result cuStreamCreateWithPriority(StreamHandle* stream, unsigned flags, int) {
  const Inside inside;
  if (!current()) return kInvalidContext;
  if (flags > kNonBlocking) return kInvalidValue;
  auto& streams = current()->streams;
  streams.emplace_back(new StreamTag{current(), false, flags != kNonBlocking, {}});
  *stream = streams.back().get();
  return kSuccess;
}

Result cuStreamSynchronize(StreamHandle handle) {
  count_wait();
  const Inside inside;
  StreamTag* stream = find_stream(handle);
  if (!stream) return current() ? kInvalidHandle : kInvalidContext;
  if (const Result result = check_wait(*stream)) return result;
  run_until(*stream, kEverything);
  return take_error(*stream->context);
}

// Work that is asked about is done by the second time, so that programs see both answers.
Result cuStreamQuery(StreamHandle handle) {
  const Inside inside;
  StreamTag* stream = find_stream(handle);
  if (!stream) return current() ? kInvalidHandle : kInvalidContext;
  if (const Result result = check_wait(*stream)) return result;
  if (!is_idle(*stream) && !std::exchange(stream->was_asked_for, true)) return kNotReady;
  run_until(*stream, kEverything);
  return take_error(*stream->context);
}

Result cuStreamWaitEvent(StreamHandle handle, EventHandle event, unsigned) {
  const Inside inside;
  StreamTag* stream = find_stream(handle);
  if (!stream || !event) return kInvalidHandle;
  if (const Result result = check_work(*stream)) return result;
  if (event->capture) return wait_for_captured(*stream, *event);
  if (event->record && stream->capture) return invalidate(*stream->capture, kCaptureIsolation);
  if (event->record) enqueue(*stream, nullptr, event->record);
  return kSuccess;
}

Result cuEventCreate(EventHandle* event, unsigned flags) {
  const Inside inside;
  if (!current()) return kInvalidContext;
  *event = new EventTag{current(), (flags & kNoTime) == 0, nullptr, nullptr, {}};
  return kSuccess;
}

Result cuEventRecord(EventHandle event, StreamHandle handle) {
  const Inside inside;
  StreamTag* stream = find_stream(handle);
  if (!stream || !event || event->context != stream->context) return kInvalidHandle;
  if (const Result result = check_work(*stream)) return result;
  event->capture = stream->capture;
  event->tail = stream->tail;
  event->record = nullptr;
  if (stream->capture) return kSuccess;
  auto record = std::make_shared<Record>(Record{stream, 0, false, false, {}});
  record->sequence = enqueue(*stream, [record] {
    record->done = true;
    record->time = std::chrono::steady_clock::now();
  });
  event->record = std::move(record);
  return kSuccess;
}

Result cuEventQuery(EventHandle event) {
  const Inside inside;
  if (!event) return kInvalidHandle;
  if (event->capture) return kCapturedEvent;
  if (const Result result = check_unsafe()) return result;
  Record* record = event->record.get();
  if (record && !record->done) {
    if (!std::exchange(record->was_asked_for, true)) return kNotReady;
    run_until(*record->stream, record->sequence + 1);
  }
  return take_error(*event->context);
}

Result cuEventSynchronize(EventHandle event) {
  count_wait();
  const Inside inside;
  if (!event) return kInvalidHandle;
  if (event->capture) return kCapturedEvent;
  if (const auto record = event->record; record && !record->done)
    run_until(*record->stream, record->sequence + 1);
  return take_error(*event->context);
}

Result cuEventElapsedTime(float* milliseconds, EventHandle start, EventHandle end) {
  const Inside inside;
  if (!start || !end || start->context != end->context) return kInvalidHandle;
  for (const EventHandle event : {start, end})
    if (!event->record || !event->has_time) return kInvalidHandle;
  if (!start->record->done || !end->record->done) return kNotReady;
  const auto span = end->record->time - start->record->time;
  *milliseconds = std::chrono::duration<float, std::milli>(span).count();
  return kSuccess;
}

Result cuEventDestroy_v2(EventHandle event) {
  const Inside inside;
  if (!event) return kInvalidHandle;
  delete event;  // work that waits for it holds the record
  return kSuccess;
}

Result cuMemsetD8Async(DevicePointer data, unsigned char value, size_t count, StreamHandle handle) {
  const Inside inside;
  StreamTag* stream = find_stream(handle);
  if (!stream) return current() ? kInvalidHandle : kInvalidContext;
  if (count == 0) return kSuccess;
  Memory memory;
  if (!classify(data, count, &memory)) return kInvalidValue;
  if (memory != Memory::kDevice && memory != Memory::kPinned) return kInvalidValue;
  if (const Result result = check_work(*stream)) return result;
  const DriverCall call(kFillCall);
  auto run = [=] { std::memset(reinterpret_cast<void*>(data), value, count); };
  enqueue(*stream, call.reported({kFillRecord, nullptr, count}, *stream, std::move(run)));
  return kSuccess;
}

// For libraries that stand in for NVIDIA's: work of theirs that uses the memory of the device. It may be captured, and
// run often; what it is about is freed when it cannot run any more.
void tapegrad_emulator_enqueue_work(StreamHandle handle, void (*run)(void*), void* argument,
                                    void (*free_argument)(void*)) {
  const Inside inside;
  const std::shared_ptr<void> held(argument, free_argument);
  StreamTag* stream = find_stream(handle);
  if (!stream || check_work(*stream) != kSuccess) return;
  const DriverCall call(kLaunchCall);
  enqueue(*stream,
          call.reported({kKernelRecord, "of a library"}, *stream, [=] { run(held.get()); }));
}

Result cuMemcpyAsync(DevicePointer to, DevicePointer from, size_t nbytes, StreamHandle handle) {
  const Inside inside;
  StreamTag* stream = find_stream(handle);
  if (!stream) return current() ? kInvalidHandle : kInvalidContext;
  if (nbytes == 0) return kSuccess;
  Memory target, source;
  if (!classify(to, nbytes, &target) || !classify(from, nbytes, &source)) return kInvalidValue;
  if (target == Memory::kFreed || source == Memory::kFreed) return kInvalidValue;
  if (const Result result = check_work(*stream)) return result;
  const bool is_pageable = target == Memory::kPageable || source == Memory::kPageable;
  if (stream->capture && is_pageable) return invalidate(*stream->capture, kCaptureUnsupported);
  auto* data = reinterpret_cast<void*>(to);
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  const DriverCall call(kCopyCall);
  std::function<void()> run = [=] { std::memmove(data, bytes, nbytes); };
  if (source == Memory::kPageable && target != Memory::kPageable) {
    const auto staged = std::make_shared<std::vector<unsigned char>>(bytes, bytes + nbytes);
    run = [=] { std::memcpy(data, staged->data(), nbytes); };
  }
  const Reported what{kCopyRecord, nullptr, nbytes, way_of_copy(target, source)};
  const uint64_t sequence = enqueue(*stream, call.reported(what, *stream, std::move(run)));
  const bool is_staged_too_large = source == Memory::kPageable && nbytes > kStagingLimit;
  if (target != Memory::kPageable && !is_staged_too_large) return kSuccess;
  count_wait();
  run_until(*stream, sequence + 1);
  return take_error(*stream->context);
}

}  // extern "C"

}  // namespace tapegrad::cuda
