#include "cuda/move.h"

#include "core/error.h"
#include "core/registry.h"
#include "cuda/allocator.h"
#include "cuda/capturing.h"
#include "cuda/context.h"
#include "cuda/driver.h"
#include "cuda/graph.h"
#include "cuda/held_calls.h"
#include "cuda/stream.h"

namespace tapegrad::cuda {

namespace {

constexpr size_t kMostPutAside =
    64 * 1024;  // bytes of ordinary memory that the driver copies at once

DevicePointer pointer(const void* data) { return reinterpret_cast<DevicePointer>(data); }

// Who reads values on the host: an op whose result the host looks at, or the program.
std::string reader_name() {
  return last_op && (last_op->traits & kHostRead) ? last_op->name : "item (or tolist, numpy, cpu)";
}

// Into a graph. Page-locked memory is read or written when the graph runs; other memory may be gone by then.
void check_capture(bool from_host, bool to_host, bool pinned, bool non_blocking) {
  if (to_host && !(pinned && non_blocking))
    fail_in_capture(
        reader_name(), "the host cannot wait for values of the device",
        "look at them after a replay, or copy them with copy_(x, non_blocking=True) into a "
        "tensor in page-locked memory");
  if (from_host && !(pinned && non_blocking))
    fail_in_capture(
        "to (or tensor, copy_)", "ordinary memory of the host cannot be copied from",
        "make the tensor before the capture, use torch.full(), or copy from pin_memory() "
        "with non_blocking=True");
  if (!from_host && !to_host)
    fail_in_capture("to (or copy_)", "nothing can be copied between devices", "copy it before");
}

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
  const bool non_blocking = call.attributes[0].as_bool();
  if (is_capturing(device, stream)) [[unlikely]] {
    check_capture(from_host, to_host, pinned, non_blocking);
    keep_pinned(host, current_capture());
  }
  if (from_host && !pinned && nbytes > kMostPutAside) note_wait();
  copy_bytes(to.data(), from.data(), nbytes, device);
  if (!host) return synchronize(device, stream);
  if (pinned && non_blocking) return record_pinned(host, device, stream);
  if (to_host || pinned) synchronize(device, stream);
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"move", move},
};

}  // namespace

void copy_bytes(void* to, const void* from, size_t nbytes, int device) {
  const DeviceGuard guard(device);
  const RelaxedCapture relaxed;  // of a stream that is not captured, while another one is
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
  run_held_calls();  // before the place in the stream that it is behind
  TAPEGRAD_CHECK(is_pinned(host.data()), "copy_aside: expected page-locked memory");
  const int device = there.device().index;
  if (is_capturing(device, stream) || is_capturing(device, after))
    fail_in_capture("tape.offload", "values cannot be moved to the host and back",
                    "capture without it: the memory of a graph is its own anyway");
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
