#include "core/random.h"

#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "core/error.h"

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

void Generator::manual_seed(uint64_t seed) {
  TAPEGRAD_CHECK(
      !mark_, "manual_seed: a generator cannot be seeded while a CUDA graph is captured that draws "
              "from it; seed it before the capture, or before a replay");
  stream_ = {seed, 0};
  aside_ = 0;
}

void Generator::set_state(RandomStream state) {
  if (mark_)
    TAPEGRAD_CHECK(
        mark_of(state.offset) == mark_of(mark_) && state.seed == stream_.seed,
        "set_state: expected a state that the generator has had since the capture of the "
        "CUDA graph began, got one from before or of another generator: the graph would "
        "draw the same numbers in every replay");
  else
    TAPEGRAD_CHECK(!mark_of(state.offset),
                   "set_state: the state was taken while a CUDA graph was captured, which is over");
  stream_ = state;
}

void Generator::begin_capture(uint64_t mark) {
  mark_ = mark;
  offset_before_ = std::exchange(stream_.offset, mark);
  aside_before_ = std::exchange(aside_, mark);
}

Generator::Used Generator::end_capture() {
  const Used used{stream_.offset - mark_, aside_ - mark_};
  stream_.offset = offset_before_;
  aside_ = aside_before_;
  mark_ = 0;
  return used;
}

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
