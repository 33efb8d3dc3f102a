// What the emulator and a kernel text compiled for it know of each other. It is included before
// every kernel text, so it names nothing outside of its namespace and includes nothing.
#pragma once

namespace tapegrad_emulator {

struct Index {
  unsigned x = 1, y = 1, z = 1;
};

// Computes what a lane gets of a warp-wide operation from the values that the lanes brought.
using Combine = unsigned long long (*)(const unsigned long long* values, unsigned lanes, int lane,
                                       int argument);

enum class Vote { kNone, kAnd, kOr, kCount };

// Addresses that a kernel may use.
struct Range {
  unsigned long long start = 0, nbytes = 0;
};

// The state of the running thread and the way to the emulator; each module has one of them.
struct Context {
  Index thread, block, block_size, grid_size;
  unsigned lane = 0;
  unsigned char* shared = nullptr;  // dynamic shared memory of the block
  Range stack;                      // of the thread
  static constexpr int kSharedRanges = 2, kFixedRanges = 4, kRanges = 8;
  Range ranges[kRanges];  // static and dynamic shared memory, arguments, variables; used lately

  // Waits for all threads of the block; returns the vote on the predicates.
  int (*wait_for_block)(Vote vote, int predicate, int line) = nullptr;
  // Waits for the lanes of the mask, which bring a value each; returns what combine gives.
  unsigned long long (*wait_for_lanes)(unsigned mask, unsigned long long value, Combine combine,
                                       int argument, int line) = nullptr;
  // Lets other threads run.
  void (*yield)() = nullptr;
  // Ends the launch unless a kernel of this device may use the memory; remembers it in `ranges`.
  void (*check_access)(const void* address, unsigned long long nbytes, bool writes,
                       const void* code) = nullptr;
  // Ends the launch if another thread uses the shared memory at the same time; null: not asked.
  void (*check_race)(const void* address, unsigned long long nbytes, bool writes,
                     const void* code) = nullptr;
  // Ends the launch with an error of CUDA; does not return.
  void (*fail)(int error, const char* message, int line) = nullptr;
};

struct Parameter {
  unsigned offset, nbytes;
};

// A kernel: how it is called with its parameters in one buffer, and how they lie there.
struct Kernel {
  void (*run)(const unsigned char* parameters);
  const Parameter* parameters;
  unsigned parameter_count, nbytes;
};

}  // namespace tapegrad_emulator
