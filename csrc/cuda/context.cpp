#include "cuda/context.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "core/error.h"
#include "cuda/capturing.h"
#include "cuda/foreign.h"
#include "cuda/held_calls.h"
#include "cuda/kernel_errors.h"

namespace tapegrad::cuda {

namespace {

thread_local int chosen_device = 0;

std::mutex contexts_lock;
ContextHandle contexts[kMostDevices] = {};  // retained for good

DeviceHandle handle_of(int device) {
  DeviceHandle handle = 0;
  check(driver().get_device(&handle, device), "cuda: finding a device");
  return handle;
}

ContextHandle context_of(int device) {
  const std::lock_guard lock(contexts_lock);
  ContextHandle& context = contexts[device];
  if (!context)
    check(driver().retain_context(&context, handle_of(device)), "cuda: starting to use a device");
  return context;
}

// Of CUdevice_attribute, what is asked for.
struct Attribute {
  int number;
  int DeviceProperties::* member;
};
constexpr Attribute kAttributes[] = {
    {1, &DeviceProperties::max_threads_per_block},
    {8, &DeviceProperties::shared_memory_per_block},
    {10, &DeviceProperties::warp_size},
    {13, &DeviceProperties::clock_rate},
    {16, &DeviceProperties::multiprocessors},
    {18, &DeviceProperties::is_integrated},
    {33, &DeviceProperties::pci_bus_id},
    {34, &DeviceProperties::pci_device_id},
    {36, &DeviceProperties::memory_clock_rate},
    {37, &DeviceProperties::memory_bus_width},
    {38, &DeviceProperties::l2_cache_size},
    {39, &DeviceProperties::max_threads_per_multiprocessor},
    {50, &DeviceProperties::pci_domain_id},
    {75, &DeviceProperties::major},
    {76, &DeviceProperties::minor},
    {81, &DeviceProperties::shared_memory_per_multiprocessor},
    {82, &DeviceProperties::registers_per_multiprocessor},
    {84, &DeviceProperties::is_multi_gpu_board},
    {97, &DeviceProperties::shared_memory_per_block_optin},
    {106, &DeviceProperties::max_blocks_per_multiprocessor},
};

DeviceProperties ask_properties(DeviceHandle device) {
  const Driver& table = driver();
  const char* what = "cuda: asking for the properties of a device";
  DeviceProperties found;
  char name[256] = {};
  check(table.get_device_name(name, sizeof name, device), what);
  found.name = name;
  check(table.get_device_uuid(reinterpret_cast<char*>(found.uuid), device), what);
  check(table.get_device_memory(&found.total_memory, device), what);
  for (const Attribute& attribute : kAttributes)  // one that the driver does not know stays zero
    if (table.get_device_attribute(&(found.*attribute.member), attribute.number, device) !=
        kSuccess)
      found.*attribute.member = 0;
  return found;
}

}  // namespace

int device_count() {
  if (!is_available()) return 0;
  static const int count = [] {
    int all = 0;
    check(driver().get_device_count(&all), "cuda: counting devices");
    return std::min(all, kMostDevices);
  }();
  return count;
}

bool has_started() {
  const std::lock_guard lock(contexts_lock);
  return std::any_of(contexts, contexts + kMostDevices, [](ContextHandle each) { return each; });
}

void check_device(int device) {
  driver();  // throws where there is none
  const int count = device_count();
  if (device >= 0 && device < count) return;
  throw AcceleratorError(
      concat("cuda: CUDA error: invalid device ordinal: expected a device from 0 to ", count - 1,
             ", got ", device),
      kInvalidDevice);
}

int current_device() {
  driver();
  return chosen_device;
}

void set_device(int device) {
  check_device(device);
  chosen_device = device;
  detail::enter_device(device);
}

namespace detail {

void enter_device(int device) {
  check_device(device);
  check(driver().set_context(context_of(device)), "cuda: choosing a device");
  context_device = device;
}

void leave_device(int device) noexcept {
  // A thread that had no context keeps that of the device it has chosen, for other libraries to find.
  const int outer = device >= 0 ? device : chosen_device;
  if (outer == context_device) return;
  try {
    enter_device(outer);
  } catch (...) {  // the next guard fails in its turn, and says why
  }
}

}  // namespace detail

const DeviceProperties& device_properties(int device) {
  check_device(device);
  static std::mutex lock;
  static auto* const known = new std::unique_ptr<DeviceProperties>[kMostDevices];
  const std::lock_guard guard(lock);
  if (!known[device])
    known[device] = std::make_unique<DeviceProperties>(ask_properties(handle_of(device)));
  return *known[device];
}

bool can_access_peer(int device, int peer) {
  check_device(device);
  check_device(peer);
  if (device == peer) return false;
  int can = 0;
  check(driver().can_access_peer(&can, handle_of(device), handle_of(peer)),
        "cuda: asking for access to a peer");
  return can != 0;
}

MemoryInfo memory_info(int device) {
  const DeviceGuard guard(device);
  const RelaxedCapture relaxed;
  MemoryInfo info;
  check(driver().get_memory_info(&info.free, &info.total), "cuda: asking for free memory");
  return info;
}

void note_wait() {
  if (AskedWait::is_asked) return;
  ++unasked_waits;
  if (unasked_wait == UnaskedWait::Allowed) return;
  TAPEGRAD_CHECK(
      unasked_wait != UnaskedWait::Refused,
      "cuda: called a synchronizing CUDA operation, which set_sync_debug_mode() refuses");
  if (warn_of_wait) warn_of_wait();
}

void synchronize(int device) {
  if (capture_underway && capturing_device == device) [[unlikely]]
    fail_in_capture("cuda.synchronize", "the host cannot wait for a device", "wait after a replay");
  run_expected_calls();
  const DeviceGuard guard(device);
  wait_by([] { return driver().synchronize_context(); }, "cuda: waiting for a device");
  collect_foreign();
  throw_kernel_errors(device);
}

}  // namespace tapegrad::cuda
