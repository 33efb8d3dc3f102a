// What the mask ops and their kernels agree on.
#pragma once

#include <cstdint>

namespace tapegrad {

// A mask is cut into blocks of so many elements; counting the true ones of each block tells every
// block where its results go, so blocks can be worked on at the same time and in any order.
inline constexpr int64_t kMaskBlock = 16384;

}  // namespace tapegrad
