// Devices: where bytes lie, and where kernels run.
//
// Note [The meta device]
// A tensor on it has sizes, strides and a dtype, and no bytes. Ops allocate and check as everywhere, and no
// kernel runs. So shapes, errors and memory of a model can be had without computing it. What asks for
// elements is refused, where they are asked for: TensorImpl::data().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tapegrad {

enum class DeviceType : uint8_t { CPU, CUDA, Meta };
inline constexpr int kDeviceTypes = 3;

constexpr const char* name(DeviceType type) {
  constexpr const char* kNames[] = {"cpu", "cuda", "meta"};
  return kNames[static_cast<int>(type)];
}

struct Device {
  DeviceType type = DeviceType::CPU;
  uint8_t index = 0;  // among those of its type

  constexpr bool is_cpu() const { return type == DeviceType::CPU; }
  constexpr bool is_meta() const { return type == DeviceType::Meta; }
  friend constexpr bool operator==(Device, Device) = default;
};

// Of one type: tables by device are of this length, and further devices are not counted.
inline constexpr int kMostDevices = 16;
// Each device has a place in a table of all.
inline constexpr int kDevicePlaces = kDeviceTypes * kMostDevices;
constexpr int place_of(Device device) {
  return static_cast<int>(device.type) * kMostDevices + device.index;
}
constexpr Device device_at(int place) {
  return {static_cast<DeviceType>(place / kMostDevices),
          static_cast<uint8_t>(place % kMostDevices)};
}

std::string to_string(Device device);  // "cpu", "cuda:0", "meta"

// How a back end gives memory, and takes it back; null where there is no back end. The CPU's own memory does
// not pass here (core/allocator.h).
struct DeviceAllocator {
  void* (*allocate)(Device device, size_t nbytes) = nullptr;
  void (*deallocate)(Device device, void* data, size_t nbytes) noexcept = nullptr;
};
extern DeviceAllocator device_allocators[kDeviceTypes];

// Where new tensors of this thread go if nobody says otherwise.
inline thread_local Device default_device;

}  // namespace tapegrad
