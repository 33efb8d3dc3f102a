// Races in shared memory: two threads that use a byte with nothing that orders them, one of them
// writing. Two that write are let pass, as they mostly write the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tapegrad::cuda {

class Races {
 public:
  static bool are_asked_for();

  // What orders accesses: the beginning of a block and its barriers, and operations of a warp.
  void pass_barrier() { ++barriers_; }
  void pass_warp_operation(unsigned warp) { ++warp_operations_[warp]; }
  // Notes an access to one of the two kinds of shared memory; returns what it collides with.
  std::string note(int kind, size_t offset, size_t nbytes, unsigned thread, bool writes);

 private:
  static constexpr unsigned kLanes = 32, kMostWarps = 32;
  struct Access {
    unsigned thread = 0;
    uint64_t barriers = 0, warp_operations = 0;  // that it comes after; no access: no barrier
  };
  struct Byte {
    Access write, first_read, last_read;
  };

  static bool is_unordered(const Access& before, const Access& now);
  const Access* collision(const Byte& byte, const Access& now, bool writes) const;

  // Never counted back, so that what earlier blocks did is not taken for an access of this one.
  uint64_t barriers_ = 1, warp_operations_[kMostWarps] = {};
  std::vector<Byte> memory_[2];
};

}  // namespace tapegrad::cuda
