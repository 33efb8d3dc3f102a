// What users allow in exchange for speed: torch.backends.cuda.matmul, torch.use_deterministic_algorithms().
#pragma once

#include <cstdint>

namespace tapegrad::cuda {

// What products of float32 are computed in: float32, TF32 or bfloat16 at the least.
enum class Float32Precision : uint8_t { Highest, High, Medium };

struct MatmulSettings {
  Float32Precision float32_precision = Float32Precision::Highest;
  // Partial sums of a product of float16 or bfloat16 may be added in that dtype.
  bool allow_float16_reduction = true;
  bool allow_bfloat16_reduction = true;
  bool allow_float16_accumulation = false;

  bool allows_tf32() const { return float32_precision != Float32Precision::Highest; }
};
inline MatmulSettings matmul_settings;

// Note [Any order]
// Values that are added to one place of a tensor by many threads arrive in any order, and a floating sum then differs
// in its last digits from run to run; of values that are stored in one place, any may stay. Where this is
// set they are sorted first (cuda/meet.h), which takes about twice as long. Integers add up to the same in any
// order.
inline bool deterministic_algorithms = false;

}  // namespace tapegrad::cuda
