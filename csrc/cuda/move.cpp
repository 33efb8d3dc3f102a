#include "cuda/move.h"

#include "core/error.h"
#include "core/registry.h"
#include "cuda/allocator.h"
#include "cuda/context.h"
#include "cuda/driver.h"
#include "cuda/stream.h"

namespace tapegrad::cuda {

namespace {

constexpr size_t kMostPutAside =
    64 * 1024;  // bytes of ordinary memory that the driver copies at once

DevicePointer pointer(const void* data) { return reinterpret_cast<DevicePointer>(data); }

// Between the host and a device, or between two devices. What the host reads next must have arrived, and what it
// writes next must have been read, unless the caller sees to that. The driver reads ordinary memory
// at once, and waits for the stream if that is too much to put aside; page-locked memory when the device
// gets to it.
void move(const OpCall& call) {
  const TensorImpl &from = call.in(0), &to = call.out();
  if (to.numel() == 0) return;
  const bool from_host = from.device().is_cpu(), to_host = to.device().is_cpu();
  const int device = (from_host ? to : from).device().index;
  const StreamHandle stream = current_stream(device);
  const size_t nbytes = size_t(to.numel()) * itemsize(to.dtype());
  const void* host = from_host ? from.data() : to_host ? to.data() : nullptr;
  const bool pinned = host && is_pinned(host);
  if (from_host && !pinned && nbytes > kMostPutAside) note_wait();
  copy_bytes(to.data(), from.data(), nbytes, device);
  if (!host) return synchronize(device, stream);
  if (pinned && call.attributes[0].as_bool()) return record_pinned(host, device, stream);
  if (to_host || pinned) synchronize(device, stream);
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"move", move},
};

}  // namespace

void copy_bytes(void* to, const void* from, size_t nbytes, int device) {
  const DeviceGuard guard(device);
  check(driver().copy(pointer(to), pointer(from), nbytes, current_stream(device)), "copy");
}

void copy_aside(const TensorImpl& to, const TensorImpl& from, StreamHandle stream,
                StreamHandle after) {
  const bool to_host = to.device().is_cpu();
  const TensorImpl &host = to_host ? to : from, &there = to_host ? from : to;
  const size_t nbytes = size_t(to.numel()) * itemsize(to.dtype());
  TAPEGRAD_CHECK(host.device().is_cpu() && there.device().type == DeviceType::CUDA &&
                     to.is_contiguous() && from.is_contiguous() &&
                     nbytes == size_t(from.numel()) * itemsize(from.dtype()),
                 "copy_aside: expected as many bytes of a device and of the host, side by side");
  if (nbytes == 0) return;
  TAPEGRAD_CHECK(is_pinned(host.data()), "copy_aside: expected page-locked memory");
  const int device = there.device().index;
  const DeviceGuard guard(device);
  const EventHandle event = record_pooled_event(device, after);
  TAPEGRAD_CHECK(event, "copy_aside: the driver gives no event");
  const Result result = driver().make_stream_wait(stream, event, 0);
  return_pooled_event(device, event);  // the stream waits for what it is now
  check(result, "cuda: waiting for an event");
  note_use(there.storage(), stream);
  record_pinned(host.data(), device, stream);
  check(driver().copy(pointer(to.data()), pointer(from.data()), nbytes, stream), "copy");
}

void fill_with_zeros(void* to, size_t nbytes, int device) {
  const DeviceGuard guard(device);
  check(driver().fill_bytes(pointer(to), 0, nbytes, current_stream(device)), "fill");
}

}  // namespace tapegrad::cuda
