#include "cuda/move.h"

#include "core/registry.h"
#include "cuda/allocator.h"
#include "cuda/context.h"
#include "cuda/driver.h"
#include "cuda/stream.h"

namespace tapegrad::cuda {

namespace {

DevicePointer pointer(const void* data) { return reinterpret_cast<DevicePointer>(data); }

// Between the host and a device, or between two devices. What the host reads next must have arrived, and what it
// writes next must have been read, unless the caller sees to that. The driver reads ordinary memory
// at once; page-locked memory when the device gets to it.
void move(const OpCall& call) {
  const TensorImpl &from = call.in(0), &to = call.out();
  if (to.numel() == 0) return;
  const bool from_host = from.device().is_cpu(), to_host = to.device().is_cpu();
  const int device = (from_host ? to : from).device().index;
  const StreamHandle stream = current_stream(device);
  copy_bytes(to.data(), from.data(), size_t(to.numel()) * itemsize(to.dtype()), device);
  if (!from_host && !to_host) return synchronize(device, stream);
  const void* host = (from_host ? from : to).data();
  const bool pinned = is_pinned(host);
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

void fill_with_zeros(void* to, size_t nbytes, int device) {
  const DeviceGuard guard(device);
  check(driver().fill_bytes(pointer(to), 0, nbytes, current_stream(device)), "fill");
}

}  // namespace tapegrad::cuda
