// What devices do while a profile runs.
//
// Where CUPTI can be loaded, NVIDIA's library for profilers, it tells of every kernel, copy and fill, and of the
// call of the driver that asked for it. Where it cannot, events around each op take its time as a whole.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device_times.h"
#include "cuda/driver.h"

namespace tapegrad::cuda {

// Set by the binding layer: where CUPTI may lie, the best place first. Empty where there is none.
inline std::vector<std::string> (*find_cupti)() = nullptr;

// What both have in common.
class CudaTimes : public DeviceTimes {
 public:
  int count() const final;
  Bytes bytes(int device) const final;
};

// By CUPTI if it can be used: null, and the reason, where it cannot, because there is none, another profiler uses
// it, or it fails.
std::unique_ptr<DeviceTimes> watch_by_cupti(std::string* reason);
// By events around each call.
std::unique_ptr<DeviceTimes> watch_by_events();

}  // namespace tapegrad::cuda
