// What users allow in exchange for speed: torch.backends.cuda.matmul.
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

}  // namespace tapegrad::cuda
