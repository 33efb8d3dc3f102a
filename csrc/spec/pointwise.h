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

// Where PyTorch treats an op unlike its relatives in the table.
enum Deviation : uint32_t {
  // dtypes
  kCondition = 1 << 0,        // the first operand is a condition, which takes no part in promotion
  kPromotingParams = 1 << 1,  // parameters take part in it
  kStrictParams = 1 << 2,     // reads parameters in the dtype of the tensors, also in 16-bit floats
  kStoredParams = 1 << 3,     // parameters are only stored, as infinity where they are too large
  kForbidsBool = 1 << 4,      // forbids bool in words
  kForbidsBoolOperands = 1 << 5,  // also where another operand is none
  kRefusesBool = 1 << 6,          // says that bool is not implemented
  kBoolIsInt64 = 1 << 7,          // bool is promoted
  kOneDType = 1 << 8,             // wants tensors of one dtype
  kUnsignedLimits = 1 << 9,       // the first parameter of unsigned tensors is not negative
  kFiniteParam = 1 << 10,         // the first parameter is finite, and not negative
  kRefusesHalf = 1 << 30,         // says that 16-bit floats are not implemented
  // running
  kPower = 1 << 11,            // has lines for some exponents
  kIntegerDivision = 1 << 12,  // of integers by zero is refused
  kNeighbours = 1 << 13,       // depends on the dtype: 16-bit floats have a kernel of their own
  kNegatesBool = 1 << 14,      // of bool is logical_not
  kContiguous = 1 << 15,       // the result is contiguous whatever the operands are
  kAnyOut = 1 << 16,           // out= may be of any dtype that the result can be cast to
  kSameOut = 1 << 17,          // out= must be of the result's dtype
  // in Python
  kInternal = 1 << 18,      // reached through another function, or bound by hand
  kNoNumbers = 1 << 19,     // takes no Python number for an operand
  kNumberSecond = 1 << 20,  // takes one for the second alone
  kNumberThird = 1 << 21,   // takes one for the third alone
  kInplace = 1 << 22,       // a test of one operand that has an in-place form
  kNoInplace = 1 << 23,     // has none
  kAlpha = 1 << 24,         // alpha= chooses another line
  kRoundingMode = 1 << 25,  // rounding_mode= chooses another line
  kScaled = 1 << 26,        // the old order of arguments has the number second
  kSpecialOnly = 1 << 29,   // public in the module special only, as a function
  // under autocast (graph/autocast.h)
  kFloat32OnCuda = 1 << 27,  // computes in float32 on CUDA devices
  kWidestOnCuda = 1 << 28,   // computes in the wider of their dtypes there
  // complex numbers
  kMagnitude = 1u << 31,  // of complex numbers is another op, whose result is real
};

// Whether the line is read with complex numbers as well.
constexpr bool takes_complex(PointwiseId id) {
  switch (id) {
#define COMPLEX(NAME) case PointwiseId::NAME:
#include "pointwise.def"
#undef UNARY
#undef ACTIVATION
#undef BINARY
#undef TERNARY
    return true;
    default:
      return false;
  }
}

// Which bare dtypes the line takes.
enum BareDTypes : uint8_t { kNoBare = 0, kWideUnsigned = 1, kFloat8 = 2 };
constexpr uint8_t bare_dtypes_of(PointwiseId id) {
  switch (id) {
#define BARE(NAME, DTYPES) \
  case PointwiseId::NAME:  \
    return DTYPES;
#include "pointwise.def"
#undef UNARY
#undef ACTIVATION
#undef BINARY
#undef TERNARY
    default:
      return kNoBare;
  }
}

constexpr uint32_t deviations_of(PointwiseId id) {
  switch (id) {
#define DEVIATION(NAME, FLAGS) \
  case PointwiseId::NAME:      \
    return FLAGS;
#include "pointwise.def"
#undef UNARY
#undef ACTIVATION
#undef BINARY
#undef TERNARY
    default:
      return 0;
  }
}

// What PyTorch calls the operands of a line.
struct OperandNames {
  const char* names[kMaxArity] = {"input", "other", "third"};
};
constexpr OperandNames operand_names(PointwiseId id) {
  switch (id) {
#define OPERANDS(NAME, ...) \
  case PointwiseId::NAME:   \
    return {{__VA_ARGS__}};
#include "pointwise.def"
#undef UNARY
#undef ACTIVATION
#undef BINARY
#undef TERNARY
    default:
      return {};
  }
}

// The types kernels compute in. Other dtypes are converted tile by tile: float16, bfloat16 and 8-bit floats to
// float32, small integers and bool to int32, wide unsigned integers to int64.
enum class ComputeType : uint8_t { Float32, Float64, Int32, Int64, Complex64, Complex128 };
inline constexpr int kComputeTypes = 4;  // the real ones: complex kernels have a table of their own
constexpr bool is_complex(ComputeType type) { return type >= ComputeType::Complex64; }

constexpr ComputeType compute_type(DType dtype) {
  switch (dtype) {
    case DType::Float64:
      return ComputeType::Float64;
    case DType::Int64:
    case DType::UInt16:
    case DType::UInt32:
    case DType::UInt64:  // the same bits: of its ops none tells the difference
      return ComputeType::Int64;
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32:
    case DType::Float8_e4m3fn:
    case DType::Float8_e5m2:
    case DType::Float8_e4m3fnuz:
    case DType::Float8_e5m2fnuz:
    case DType::Float8_e8m0fnu:
      return ComputeType::Float32;
    case DType::Complex64:
      return ComputeType::Complex64;
    case DType::Complex128:
      return ComputeType::Complex128;
    default:
      return ComputeType::Int32;
  }
}
constexpr DType dtype_of_compute(ComputeType type) {
  constexpr DType kTypes[] = {DType::Float32, DType::Float64,   DType::Int32,
                              DType::Int64,   DType::Complex64, DType::Complex128};
  return kTypes[static_cast<int>(type)];
}

// The operands a derivative may mention, in kernel order.
enum Mention : uint8_t { kGrad = 1, kInput0 = 2, kInput1 = 4, kInput2 = 8, kOutput = 16 };
inline constexpr int kGradOperands = 5;

namespace detail {
constexpr bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
// The place behind the parenthesis that closes the one at `open`.
constexpr size_t group_end(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t at = open; at < text.size(); ++at) {
    if (text[at] == '(') ++depth;
    if (text[at] == ')' && --depth == 0) return at + 1;
  }
  return text.size();
}
}  // namespace detail

// What the text of a derivative is, in the table's own words for those that need no kernel.
enum class DerivativeKind : uint8_t { None, Zero, PassThrough, Kernel };
constexpr DerivativeKind derivative_kind(std::string_view text) {
  if (text == "none") return DerivativeKind::None;
  if (text == "0") return DerivativeKind::Zero;
  if (text == "g") return DerivativeKind::PassThrough;
  return DerivativeKind::Kernel;
}

// Whether the text is a call of the function and nothing else.
constexpr bool is_call(std::string_view text, std::string_view function) {
  return text.starts_with(function) && text.size() > function.size() &&
         text[function.size()] == '(' && detail::group_end(text, function.size()) == text.size();
}

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

// Note [Numbers are rounded first]
// What is computed in a wider type than the op's own (float16 in float32, uint8 in int32) must still
// see its operands as the op's dtype holds them: a float16 tensor == 0.1 compares with the float16
// next to 0.1, and uint8 sums wrap before they are written to an int32 out=. So operands and results
// of a foreign dtype are converted through the op's dtype. Only products and quotients take a single
// second operand as it is, and lerp its weight, as PyTorch's do.
inline bool keeps_precision(const PointwiseOp& op, size_t operand, const TensorImpl& input,
                            DType dtype) {
  if (op.derivative >= 0 || (op.id == PointwiseId::lerp && operand == 2)) return true;
  if (operand != 1 || input.numel() != 1 || !is_floating(dtype)) return false;
  return op.id == PointwiseId::mul || op.id == PointwiseId::div ||
         op.id == PointwiseId::div_trunc || op.id == PointwiseId::floor_divide;
}
// The dtype through which operand i gets to the compute type.
inline DType rounding_dtype(const PointwiseOp& op, size_t operand, const TensorImpl& input,
                            DType dtype) {
  const DType compute = dtype_of_compute(compute_type(dtype));
  const bool keeps =
      dtype != compute && input.dtype() != dtype && keeps_precision(op, operand, input, dtype);
  return keeps ? compute : dtype;
}

}  // namespace tapegrad
