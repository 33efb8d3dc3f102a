#include "races.h"

#include <cstdio>
#include <cstdlib>

namespace tapegrad::cuda {

bool Races::are_asked_for() {
  const char* text = std::getenv("TAPEGRAD_EMULATOR_RACES");
  return text && *text && std::string(text) != "0";
}

// Any operation of a warp is taken to order all its lanes: nothing is reported that is no race.
bool Races::is_unordered(const Access& before, const Access& now) {
  if (before.thread == now.thread || before.barriers != now.barriers) return false;
  return before.thread / kLanes != now.thread / kLanes ||
         before.warp_operations == now.warp_operations;
}

const Races::Access* Races::collision(const Byte& byte, const Access& now, bool writes) const {
  if (!writes) return is_unordered(byte.write, now) ? &byte.write : nullptr;
  if (is_unordered(byte.first_read, now)) return &byte.first_read;
  return is_unordered(byte.last_read, now) ? &byte.last_read : nullptr;
}

std::string Races::note(int kind, size_t offset, size_t nbytes, unsigned thread, bool writes) {
  std::vector<Byte>& memory = memory_[kind];
  if (memory.size() < offset + nbytes) memory.resize(offset + nbytes);
  const Access now{thread, barriers_, warp_operations_[thread / kLanes]};
  for (size_t i = offset; i < offset + nbytes; ++i) {
    Byte& byte = memory[i];
    if (const Access* before = collision(byte, now, writes)) {
      char text[200];
      std::snprintf(text, sizeof text,
                    "a race: thread %u of the block %s byte %zu of %s shared memory, which thread "
                    "%u %s, with no barrier between",
                    thread, writes ? "writes" : "reads", i, kind == 0 ? "static" : "dynamic",
                    before->thread, writes ? "reads" : "writes");
      return text;
    }
    if (writes) byte.write = now;
    else if (byte.first_read.barriers != now.barriers) byte.first_read = now;
    else byte.last_read = now;
  }
  return {};
}

}  // namespace tapegrad::cuda
