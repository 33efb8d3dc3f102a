// What ops and kernels of attention agree on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tapegrad {

// Places of attributes: those of all four ops, and those that only the ops with dropout have.
enum AttentionAttribute : size_t {
  kAttentionScale,
  kAttentionCausal,
  kAttentionMasked,
  kAttentionKernel,
  kAttentionDropout,
  kAttentionSeed,
  kAttentionOffset
};

// What computes a call, where its device has the choice. Dnn is NVIDIA's cuDNN, or Own where that does not compute it.
enum class AttentionKernel : int64_t { Own, Dnn };

}  // namespace tapegrad
