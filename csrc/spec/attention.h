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

// What computes a call, where its device has the choice. Dnn is NVIDIA's cuDNN, or Own where that does not compute it;
// with dropout it is cuDNN in both directions, since its random numbers are not ours.
enum class AttentionKernel : int64_t { Own, Dnn };

// Note [Dropped weights]
// Weights are numbered as they lie in the matrix of all of them, (batch, heads, queries, keys). Number n takes its word
// from a tile of Philox (spec/philox.h): of counter n / 64 * 16 + n % 16 the word n % 64 / 16. It is dropped where the
// word is below the threshold, and the others are scaled. Kernels of all devices and both directions draw alike.
struct AttentionDropout {
  static constexpr int64_t kTile = 64, kTileCounters = 16;

  AttentionDropout() = default;
  AttentionDropout(double probability, uint64_t seed, uint64_t offset)
      : seed(seed),
        offset(offset),
        threshold(static_cast<uint64_t>(probability * 0x1p32 + 0.5)),
        scale(probability < 1 ? 1 / (1 - probability) : 0) {}

  static uint64_t counters(int64_t weights) {
    return static_cast<uint64_t>((weights + kTile - 1) / kTile * kTileCounters);
  }
  bool drops() const { return threshold > 0; }

  uint64_t seed = 0, offset = 0;
  uint64_t threshold = 0;  // of 2^32
  double scale = 1;
};

}  // namespace tapegrad
