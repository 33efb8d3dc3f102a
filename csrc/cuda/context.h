// Devices: which there are, which one a thread has chosen, and what they can do.
//
// Note [The context of a thread]
// The driver keeps, for each thread, the context that its calls are about. Each device has one that all
// libraries of a process share, and no other is used here. Whoever calls the driver about a device holds a
// DeviceGuard. It remembers which context the thread has, so that it costs a comparison where nothing is
// to be changed. Another library that changes the context of the thread behind its back is not seen;
// set_device() puts it right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/parallel.h"
#include "cuda/driver.h"

namespace tapegrad::cuda {

// How many there are; zero where CUDA cannot be used.
int device_count();

// Whether a device has been used in this process: asking what there is does not count.
bool has_started();

// The device that this thread has chosen: what "cuda" without a number means.
int current_device();
void set_device(int device);

// Throws RuntimeError for a number that no device has, or where CUDA cannot be used.
void check_device(int device);

namespace detail {
// The device whose context the thread has, as far as is known here; -1 in the beginning.
inline thread_local int context_device = -1;
void enter_device(int device);
void leave_device(int device) noexcept;
}  // namespace detail

// Makes calls of this thread be about a device while it lives. See Note [The context of a thread].
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) : outer_(detail::context_device) {
    if (device != outer_) [[unlikely]]
      detail::enter_device(device);
  }
  ~DeviceGuard() {
    if (detail::context_device != outer_) [[unlikely]]
      detail::leave_device(outer_);
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  const int outer_;
};

struct DeviceProperties {
  std::string name;
  unsigned char uuid[16] = {};
  size_t total_memory = 0;
  int major = 0, minor = 0;  // of the compute capability
  int multiprocessors = 0;
  int warp_size = 0;
  int max_threads_per_block = 0;
  int max_threads_per_multiprocessor = 0;
  int max_blocks_per_multiprocessor = 0;
  int registers_per_multiprocessor = 0;
  int shared_memory_per_block = 0;
  int shared_memory_per_block_optin = 0;  // what a kernel may have that asks for it
  int shared_memory_per_multiprocessor = 0;
  int l2_cache_size = 0;
  int clock_rate = 0, memory_clock_rate = 0;  // in kHz
  int memory_bus_width = 0;                   // in bits
  int is_integrated = 0, is_multi_gpu_board = 0;
  int pci_domain_id = 0, pci_bus_id = 0, pci_device_id = 0;
};
// Asked for once, and kept.
const DeviceProperties& device_properties(int device);

bool can_access_peer(int device, int peer);

struct MemoryInfo {
  size_t free = 0, total = 0;
};
// Of the whole device, whoever uses it.
MemoryInfo memory_info(int device);

// Waits until everything that was launched on a device is done.
void synchronize(int device);

// Note [Waiting unasked]
// The host should run ahead of the device. What makes it wait although the program did not ask for that by
// name (an element that is read, memory that runs out) says so with note_wait(), so that tests can
// count it and users can find it with torch.cuda.set_sync_debug_mode().
enum class UnaskedWait : uint8_t { Allowed, Warned, Refused };
inline UnaskedWait unasked_wait = UnaskedWait::Allowed;
inline void (*warn_of_wait)() = nullptr;  // set by the binding layer
inline int64_t unasked_waits = 0;         // so far

// Before the host waits; throws where that is refused.
void note_wait();

// The way of all calls of the driver that wait. Other threads run meanwhile, unless the caller has a
// NoBlockingSection.
template <class Call>
void wait_by(Call&& call, const char* what) {
  note_wait();
  const BlockingSection section;
  check(call(), what);
}

// The program asks for the waits of this thread while it lives.
class AskedWait {
 public:
  AskedWait() : outer_(is_asked) { is_asked = true; }
  ~AskedWait() { is_asked = outer_; }
  AskedWait(const AskedWait&) = delete;
  AskedWait& operator=(const AskedWait&) = delete;

 private:
  friend void note_wait();
  static inline thread_local bool is_asked = false;
  const bool outer_;
};

}  // namespace tapegrad::cuda
