// Generator: where random ops get their stream of numbers.
//
// Note [Random streams]
// Random bits are a function of a seed and a counter (Philox 4x32, ten rounds; spec/philox.h), so a
// generator is only a seed and an offset: how many counters of the seed's stream are used up. A
// random op reserves as many as it needs and passes seed and offset to its kernel as attributes.
// Every element is computed from its own number within the reservation. It follows that a captured
// call replays exactly, that results do not depend on the number of threads or the instruction
// set, and that two ops never see the same bits.
//
// Note [Random numbers of captured work]
// Work that a device captures, to run it many times, draws other numbers each time: those that the program would
// draw if the work ran then. While a capture goes on, a generator counts from a mark on, a number that no
// offset reaches otherwise, so that what a call draws is known by how far behind the mark it lies, also when a program
// keeps the state and comes back to it. Each time the work runs, its kernels add the state that the generator then
// has to the difference. A state without the mark, and a new seed, are refused meanwhile: the numbers
// would be the same ones each time; and so is a state with a mark when the capture is over.
#pragma once

#include <cstdint>

#include "core/device.h"

namespace tapegrad {

// A reserved stretch of a stream, the first two attributes of a random op.
struct RandomStream {
  uint64_t seed;
  uint64_t offset;
};

class Generator {
 public:
  // What PyTorch gives a new Generator; the default generator starts from a random seed instead.
  static constexpr uint64_t kDefaultSeed = 67280421310721;

  explicit Generator(uint64_t seed = kDefaultSeed, Device device = {})
      : stream_{seed, 0}, device_(device) {}

  Device device() const { return device_; }  // whose tensors it fills

  uint64_t initial_seed() const { return stream_.seed; }
  void manual_seed(uint64_t seed);
  // Takes a seed from the system and returns it.
  uint64_t seed();

  RandomStream state() const { return stream_; }
  void set_state(RandomStream state);

  // Hands out the next `counters` of the stream.
  RandomStream reserve(uint64_t counters) {
    RandomStream reserved = stream_;
    stream_.offset += counters;
    return reserved;
  }
  // The same for numbers that are not the program's: they leave its stream as it is, and are used
  // in a domain of their own.
  RandomStream reserve_aside(uint64_t counters) {
    RandomStream reserved{stream_.seed, aside_};
    aside_ += counters;
    return reserved;
  }

  // See Note [Random numbers of captured work]. Marks are multiples of kMark.
  static constexpr uint64_t kMark = uint64_t{1} << 56;
  static uint64_t mark_of(uint64_t offset) { return offset / kMark; }
  bool is_captured() const { return mark_ != 0; }
  void begin_capture(uint64_t mark);
  // Takes back the state of the beginning; returns how many counters of the stream, and aside, were used.
  struct Used {
    uint64_t counters = 0, aside = 0;
  };
  Used end_capture();

 private:
  RandomStream stream_;
  uint64_t aside_ = 0;
  Device device_;
  uint64_t mark_ = 0;  // while it is captured
  uint64_t offset_before_ = 0, aside_before_ = 0;
};

// The one that ops use when no generator is given: of the CPU, or of a CUDA device.
Generator& default_generator();
Generator& default_generator(Device device);
// Seeds those of all CUDA devices, those that have not been asked for yet included.
void seed_devices(uint64_t seed);

}  // namespace tapegrad
