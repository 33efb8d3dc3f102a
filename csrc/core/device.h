// Devices. Only the CPU has kernels now; CUDA is parsed and refused by the binding layer.
#pragma once

#include <cstdint>

namespace tapegrad {

enum class DeviceType : uint8_t { CPU, CUDA };
inline constexpr int kDeviceTypes = 2;

constexpr const char* name(DeviceType device) { return device == DeviceType::CPU ? "cpu" : "cuda"; }

}  // namespace tapegrad
