#include "core/device.h"

#include "core/error.h"

namespace tapegrad {

// Back ends fill in theirs while the library is loaded.
constinit DeviceAllocator device_allocators[kDeviceTypes] = {
    {},
    {},
    {[](Device, size_t) -> void* { return nullptr; }, [](Device, void*, size_t) noexcept {}},
};

std::string to_string(Device device) {
  const char* type = name(device.type);
  return device.type == DeviceType::CUDA ? concat(type, ":", int{device.index}) : type;
}

}  // namespace tapegrad
