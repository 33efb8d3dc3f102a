#include "core/random.h"

#include <limits>
#include <memory>
#include <optional>
#include <random>

namespace tapegrad {

namespace {

uint64_t system_seed() {
  std::random_device device;
  uint64_t high = device();
  return high << 32 | device();
}

// The generators of CUDA devices, by index, and the seed of those that are still to be made.
std::unique_ptr<Generator> device_generators[std::numeric_limits<uint8_t>::max() + 1];
std::optional<uint64_t> seed_of_devices;

}  // namespace

uint64_t Generator::seed() {
  manual_seed(system_seed());
  return initial_seed();
}

Generator& default_generator() {
  static Generator generator(system_seed());
  return generator;
}

Generator& default_generator(Device device) {
  if (device.type != DeviceType::CUDA) return default_generator();
  std::unique_ptr<Generator>& found = device_generators[device.index];
  if (!found)
    found = std::make_unique<Generator>(seed_of_devices ? *seed_of_devices : system_seed(), device);
  return *found;
}

void seed_devices(uint64_t seed) {
  seed_of_devices = seed;
  for (std::unique_ptr<Generator>& each : device_generators)
    if (each) each->manual_seed(seed);
}

}  // namespace tapegrad
