// What the norms over many tensors and their kernels agree on.
#pragma once

namespace tapegrad {

// The norms that have loops; others are composed.
enum class TotalNorm { One, Two, Infinity };

}  // namespace tapegrad
