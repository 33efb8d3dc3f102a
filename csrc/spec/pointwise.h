// What the layers share about the pointwise table: the ids of its lines, the facts read off their
// text at compile time, and the shape of a kernel.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/op.h"
#include "core/scalar.h"

namespace tapegrad {

enum class PointwiseId : uint16_t {
#define UNARY(NAME, ...) NAME,
#define ACTIVATION(NAME, ...) NAME,
#define BINARY(NAME, ...) NAME,
#define TERNARY(NAME, ...) NAME,
#include "pointwise.def"
#undef UNARY
#undef ACTIVATION
#undef BINARY
#undef TERNARY
  count_,
};
inline constexpr int kPointwiseCount = static_cast<int>(PointwiseId::count_);
inline constexpr int kMaxArity = 3;
inline constexpr int kMaxParams = 3;

enum class PointwiseDTypes : uint8_t {
  Real,
  Floating,
  Any,
  Number,
  Rounding,
  Integer,
  Integral,
  Test
};

// The types kernels compute in. Other dtypes are converted tile by tile: float16 and bfloat16 to
// float32, small integers and bool to int32.
enum class ComputeType : uint8_t { Float32, Float64, Int32, Int64 };
inline constexpr int kComputeTypes = 4;

constexpr ComputeType compute_type(DType dtype) {
  switch (dtype) {
    case DType::Float64:
      return ComputeType::Float64;
    case DType::Int64:
      return ComputeType::Int64;
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32:
      return ComputeType::Float32;
    default:
      return ComputeType::Int32;
  }
}
constexpr DType dtype_of_compute(ComputeType type) {
  constexpr DType kTypes[] = {DType::Float32, DType::Float64, DType::Int32, DType::Int64};
  return kTypes[static_cast<int>(type)];
}

// The operands a derivative may mention, in kernel order.
enum Mention : uint8_t { kGrad = 1, kInput0 = 2, kInput1 = 4, kInput2 = 8, kOutput = 16 };
inline constexpr int kGradOperands = 5;

namespace detail {
constexpr bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
}  // namespace detail

// Whether `word` stands alone in `text`: the compile-time scan that decides what the tape saves.
constexpr bool mentions(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    bool starts = at == 0 || !detail::is_word(text[at - 1]);
    size_t end = at + word.size();
    if (starts && (end == text.size() || !detail::is_word(text[end]))) return true;
  }
  return false;
}

constexpr uint8_t mentioned_operands(std::string_view text, int arity) {
  uint8_t mask = 0;
  if (mentions(text, "g")) mask |= kGrad;
  if (mentions(text, arity == 1 ? "x" : "a")) mask |= kInput0;
  if (arity > 1 && mentions(text, "b")) mask |= kInput1;
  if (arity > 2 && mentions(text, "c")) mask |= kInput2;
  if (mentions(text, "y")) mask |= kOutput;
  return mask;
}

// Computes n elements. Operands are contiguous, of the compute type; the output is too, or one byte
// per element for a Test. A derivative's operands are g, the inputs and y; those not mentioned in
// its text are null.
using TileKernel = void (*)(void* out, const void* const* operands, int64_t n,
                            const Scalar* params);

struct PointwiseKernels {
  TileKernel value[kComputeTypes];
  TileKernel grad[kMaxArity][kComputeTypes];
};

// The record of a pointwise op, value or derivative, below autograd. Its attributes are the dtype
// it computes in, then the parameters.
struct PointwiseOp : Op {
  PointwiseId id{};
  int8_t derivative = -1;             // -1: the value; else of which input
  bool is_test = false;               // writes one byte per element
  uint8_t slots[kGradOperands] = {};  // the kernel operand that input i is
};

}  // namespace tapegrad
