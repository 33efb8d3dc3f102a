// The budget: how many bytes the tape may keep, and what is evicted when there are more.
//
// While one is active, every call is noted (recipe.h). When a value is about to be saved and the limit
// would be passed, others are evicted: their storage stays, its bytes go. Whoever asks for the bytes
// later, a derivative or the user, has them computed again; so nothing above this layer knows.
//
// Which to evict is the rule of dynamic tensor rematerialization (Kirisame et al., 2021): the one
// with the smallest cost / (size * staleness). The cost is that of the calls to be made again: its own,
// those whose results are gone already, and those of neighbouring evicted values, kept as sums over
// components that only ever grow together until everything is back.
//
// Each device has memory of its own, so a limit is one for each: what is evicted is on the device that has too
// little room, whatever it was computed from.
//
// Note [A budget that cannot be kept]
// What is in use, held by the program or not computable stays. Where that is more than the limit, the
// limit is raised to what was needed: so many bytes were there anyway, and evicting for less would
// only cost time. It is raised by a quarter, too, when computing again has cost kMostAgain times what
// the calls themselves cost since the limit was set (and kMoreAgain times more since it was last
// raised): the time of a step is bounded, whatever the limit. A strict budget is never raised. When
// the next step begins, the limit is as it was set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/recipe.h"

namespace tapegrad {

class Budget {
 public:
  struct Stats {
    int64_t evictions = 0;
    int64_t recomputed = 0;      // calls made again
    int64_t recompute_time = 0;  // nanoseconds
  };
  // How a budget turned out.
  struct Outcome {
    int64_t peak = 0;       // the most bytes that were saved at a time
    int64_t shortfall = 0;  // by how many of them the limit was passed
    std::string obstacles;  // what was irreducible then
    Device device;          // where that was
  };

  // Begins and returns a number that ends it. The limit of the one that began last holds, for the
  // tapes of all threads: what is counted is the process's. It holds on each device by itself.
  static int64_t start(int64_t limit, bool strict);
  static Outcome stop(int64_t number);
  // The same for the process, since the start or a reset, whatever budgets began meanwhile.
  static int64_t peak(Device device);
  static void reset_peak(Device device);
  // How many storages are without their bytes.
  static uint32_t evicted_count();
  static const Stats& stats();

  // A storage is about to be saved: makes room for it.
  static void admit(const Storage& storage) {
    if (storage.savers() == 0 && !storage.has(Storage::kLeaf))
      make_room(storage.nbytes(), storage.device());
  }
  // Evicts until this many bytes more may be kept; notes by how much that fell short.
  // Fails under a strict budget, unless the caller is in the middle of something.
  static void make_room(size_t nbytes, Device device, bool may_fail = true);
  // The same; false if it cannot be.
  static bool try_room(size_t nbytes, Device device);
  // Why a saved storage cannot be evicted; null if it can.
  static const char* obstacle(const Storage& storage);
  // The largest saved values that cannot be evicted, with the reason, one a line.
  static std::string irreducible(Device device);

  // Before a call: this thread takes part in the budgets that are active, or ends that.
  static void join() {
    if (has_joined != is_active) [[unlikely]]
      change_joined();
  }
  // For recipe.cpp: values that might be evicted; time spent in calls; storages without bytes.
  static void add_candidate(Value& value);
  static void drop_candidate(Value& value) noexcept;
  static void leave_component(Value& value) noexcept;
  static int64_t clock();
  static void advance(int64_t cost);
  static void count_recomputed(int64_t cost, int64_t time);
  static void count_evicted(int change) noexcept;
  static bool is_too_small(size_t nbytes);
  // Whether anything may be evicted.
  static bool is_limited();
  // Values that are held while the program holds them, too: they are not counted until it lets go.
  static void hold_uncounted(Value& value);
  static void end_uncounted(Value& value) noexcept;
  // A storage whose bytes are absent.
  static Ref<Storage> empty_storage(size_t nbytes, Device device);
  static void take_bytes(Storage& storage) noexcept;
  static void give_bytes(Storage& storage);
  static void move_bytes(Storage& from, Storage& to) noexcept;

 private:
  static void change_joined();
  static inline bool is_active = false;
  static inline thread_local bool has_joined = false;
};

}  // namespace tapegrad
