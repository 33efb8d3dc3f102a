#include "core/random.h"

#include <random>

namespace tapegrad {

namespace {

uint64_t system_seed() {
  std::random_device device;
  uint64_t high = device();
  return high << 32 | device();
}

}  // namespace

uint64_t Generator::seed() {
  manual_seed(system_seed());
  return initial_seed();
}

Generator& default_generator() {
  static Generator generator(system_seed());
  return generator;
}

}  // namespace tapegrad
