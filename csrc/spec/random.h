// What the kernels of all devices draw alike: parts of distributions that the host works out.
#pragma once

#include "core/dtype.h"
#include "spec/philox.h"

namespace tapegrad {

// The words of a reservation one after the other, for kernels that go step by step.
class WordStream {
 public:
  WordStream(uint64_t seed, uint64_t counter) : seed_(seed), counter_(counter) {}

  uint64_t next() {
    if (!half_used_) block_ = philox(seed_, counter_++);
    half_used_ = !half_used_;
    return block_.wide(half_used_ ? 0 : 1);
  }

 private:
  uint64_t seed_, counter_;
  PhiloxBlock block_{};
  bool half_used_ = false;
};

// Puts the numbers below n into a random order (Fisher and Yates).
void shuffle(int64_t* order, int64_t n, uint64_t seed, uint64_t offset);

// The largest number of a floating dtype below `bound`.
double largest_below(double bound, DType dtype);

// Which words are ones of a Bernoulli variable: those below a threshold, of 32 bits or, where the rarer outcome
// is very rare, of 63.
struct BernoulliThreshold {
  explicit BernoulliThreshold(double probability);
  bool is_wide;
  uint64_t value;
};

// A range of integers that is longer takes two words.
inline constexpr uint64_t kNarrowRange = uint64_t{1} << 24;

}  // namespace tapegrad
