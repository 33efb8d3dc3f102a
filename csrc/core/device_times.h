// When the calls of a profile ran on a device: a profile asks (intercept/profile.h), a back end answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device.h"

namespace tapegrad {

// Something that a device did, or the call of its driver that asked for it.
struct DeviceActivity {
  enum class Kind : uint8_t { Kernel, Copy, Fill, Launch };

  Kind kind = Kind::Kernel;
  std::string name;
  int device = 0;
  uint64_t stream = 0;         // a number among those of the device
  int64_t start = 0, end = 0;  // nanoseconds of the steady clock
  int64_t call = -1;           // during which call of the profile the host asked for it
  uint64_t launch = 0;         // the same for what a device did and for the call that asked for it
  int64_t nbytes = 0;          // of a copy or a fill
};

// Watches the devices from when it is made until finish(), on the thread that made it.
class DeviceTimes {
 public:
  DeviceTimes() = default;
  virtual ~DeviceTimes() = default;
  DeviceTimes(const DeviceTimes&) = delete;
  DeviceTimes& operator=(const DeviceTimes&) = delete;

  // A call that runs on a device begins, and ends: the innermost that has begun.
  virtual void begin(Device device, int64_t call) = 0;
  virtual void end() noexcept = 0;
  // How many devices it watches.
  virtual int count() const = 0;
  // The bytes of a device that have been handed out to tensors so far, and those that came back.
  struct Bytes {
    int64_t allocated = 0, freed = 0;
  };
  virtual Bytes bytes(int device) const = 0;
  // Waits for the devices; returns what they did, in order of time.
  virtual std::vector<DeviceActivity> finish() = 0;
  // Whether activities are single kernels, rather than all that a call did.
  virtual bool sees_kernels() const = 0;
};

}  // namespace tapegrad
