#include "core/device.h"

#include "core/error.h"
#include "core/storage.h"

namespace tapegrad {

DeviceAllocator device_allocators[kDeviceTypes] = {
    {},
    {},
    {[](Device, size_t) -> void* { return nullptr; }, [](Device, void*, size_t) noexcept {}},
};

std::string to_string(Device device) {
  const char* type = name(device.type);
  return device.type == DeviceType::CUDA ? concat(type, ":", int{device.index}) : type;
}

Ref<Storage> Storage::allocate_on(Device device, size_t nbytes) {
  const DeviceAllocator& allocator = device_allocators[static_cast<int>(device.type)];
  TAPEGRAD_CHECK(allocator.allocate, "device: '", to_string(device),
                 "' is not available: this build has no back end for it; use 'cpu'");
  void* data = allocator.allocate(device, nbytes);
  auto* storage = new (pool_allocate(sizeof(Storage))) Storage(data, nbytes, nullptr);
  storage->context_.device = device;
  storage->clear(kFresh);  // a budget knows of the CPU's bytes alone
  storage->set(kDevice);
  ++device_storages;
  return Ref<Storage>::adopt(storage);
}

}  // namespace tapegrad
