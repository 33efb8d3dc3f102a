#include "spec/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/half.h"

namespace tapegrad {

namespace {

template <class T>
double largest_below(double bound) {
  if constexpr (sizeof(T) == 2) {
    T value(static_cast<float>(bound));
    if (static_cast<float>(value) < bound) return static_cast<float>(value);
    // The bits of a half count up with its magnitude.
    if (static_cast<float>(value) == 0) value.bits = 0x8001;
    else value.bits += value.bits & 0x8000 ? 1 : -1;
    return static_cast<float>(value);
  } else {
    T value = static_cast<T>(bound);
    return value < bound ? value : std::nextafter(value, -std::numeric_limits<T>::infinity());
  }
}

}  // namespace

void shuffle(int64_t* order, int64_t n, uint64_t seed, uint64_t offset) {
  std::iota(order, order + n, 0);
  WordStream words(seed, offset);
  for (int64_t i = 0; i + 1 < n; ++i) {
    const auto left = static_cast<unsigned __int128>(n - i);
    std::swap(order[i], order[i + static_cast<int64_t>(words.next() * left >> 64)]);
  }
}

double largest_below(double bound, DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return largest_below<Half>(bound);
    case DType::BFloat16:
      return largest_below<BFloat16>(bound);
    case DType::Float32:
      return largest_below<float>(bound);
    default:
      return largest_below<double>(bound);
  }
}

BernoulliThreshold::BernoulliThreshold(double probability) {
  const double rarer = std::min(probability, 1 - probability);
  is_wide = rarer > 0 && rarer < 0x1p-8;
  value = static_cast<uint64_t>(std::rint(std::ldexp(probability, is_wide ? 63 : 32)));
}

}  // namespace tapegrad
