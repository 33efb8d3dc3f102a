// The pointwise ops on tensors: what the table's lines mean above the kernels.
#pragma once

#include <initializer_list>
#include <span>

#include "graph/autocast.h"
#include "graph/record.h"
#include "ops/promotion.h"
#include "spec/pointwise.h"

namespace tapegrad {

using Operands = std::span<const Tensor* const>;
using Params = std::span<const Scalar>;

// One derivative of a line: its kernel's record, its tensor form, and what it mentions.
struct PointwiseDerivative {
  DerivativeKind kind;
  uint8_t mentions;
  const char* text;
  PointwiseOp op;
  Tensor (*recorded)(const Tensor& g, const Tensor& a, const Tensor& b, const Tensor& c,
                     const Tensor& y, const double* params);
};

// All the system knows about a line of the table.
struct PointwiseInfo {
  const char* line;  // as in the table: "clamp_between"
  const char* name;  // of the public op: "clamp"
  const char* kind;  // "UNARY", "ACTIVATION", "BINARY" or "TERNARY"
  EntryKind entry;   // of what it records
  int arity;
  PointwiseDTypes dtypes;
  uint32_t deviations;    // what it does unlike its relatives
  OperandNames operands;  // what PyTorch calls them
  const CastRule* cast;   // what autocast does with them, or null
  const char* value_text;
  int param_count;
  const char* param_names[kMaxParams];
  Scalar param_defaults[kMaxParams];
  PointwiseOp op;
  uint8_t mentions;              // what any of the derivatives mentions
  SavedUse uses[kGradOperands];  // how the derivatives read each operand
  PointwiseDerivative derivatives[kMaxArity];

  bool has(Deviation deviation) const { return deviations & deviation; }
};

const PointwiseInfo& pointwise_info(PointwiseId id);

// Runs a line on operands that broadcast together. Missing params take their defaults.
Tensor pointwise(PointwiseId id, Operands operands, Params params = {});
// The same into `out`, which is resized when it has another shape (out= of the public functions).
void pointwise_out(PointwiseId id, Operands operands, Params params, const Tensor& out);
// Overwrites the first operand.
void pointwise_inplace(PointwiseId id, Operands operands, Params params);

// sum += term for two tensors of one shape and dtype of which nobody else sees `sum`: nothing to check,
// nothing to record.
void add_to_own(const Tensor& sum, const Tensor& term);

// ---- the table as C++ functions, for derivatives and composed ops
#define UNARY(NAME, ...) \
  inline Tensor NAME(const Tensor& x) { return pointwise(PointwiseId::NAME, {{&x}}); }
#define ACTIVATION UNARY
#define BINARY(NAME, ...)                                                              \
  inline Tensor NAME(const Tensor& a, const Tensor& b) {                               \
    const Tensor* operands[] = {&a, &b};                                               \
    return pointwise(PointwiseId::NAME, operands);                                     \
  }                                                                                    \
  inline Tensor NAME(const Tensor& a, double b) { return NAME(a, wrapped_number(b)); } \
  inline Tensor NAME(double a, const Tensor& b) { return NAME(wrapped_number(a), b); }
#define TERNARY(NAME, ...)                                                \
  inline Tensor NAME(const Tensor& a, const Tensor& b, const Tensor& c) { \
    const Tensor* operands[] = {&a, &b, &c};                              \
    return pointwise(PointwiseId::NAME, operands);                        \
  }
#include "pointwise.def"
#undef UNARY
#undef ACTIVATION
#undef BINARY
#undef TERNARY

inline Tensor where(const Tensor& c, const Tensor& p, double q) {
  return where(c, p, wrapped_number(q));
}
inline Tensor where(const Tensor& c, double p, const Tensor& q) {
  return where(c, wrapped_number(p), q);
}
inline Tensor polygamma(double n, const Tensor& x) {
  const Tensor* operands[] = {&x};
  Scalar order(n);
  return pointwise(PointwiseId::polygamma, operands, {&order, 1});
}

inline Tensor gegenbauer(const Tensor& x, const Tensor& n, double order) {
  const Tensor* operands[] = {&x, &n};
  Scalar parameter(order);
  return pointwise(PointwiseId::gegenbauer, operands, {&parameter, 1});
}
inline Tensor laguerre(const Tensor& x, const Tensor& n, double order) {
  const Tensor* operands[] = {&x, &n};
  Scalar parameter(order);
  return pointwise(PointwiseId::laguerre, operands, {&parameter, 1});
}

inline Tensor operator-(const Tensor& a) { return neg(a); }
#define TAPEGRAD_OPERATOR(SYMBOL, NAME)                                                  \
  inline Tensor operator SYMBOL(const Tensor& a, const Tensor& b) { return NAME(a, b); } \
  inline Tensor operator SYMBOL(const Tensor& a, double b) { return NAME(a, b); }        \
  inline Tensor operator SYMBOL(double a, const Tensor& b) { return NAME(a, b); }
TAPEGRAD_OPERATOR(+, add)
TAPEGRAD_OPERATOR(-, sub)
TAPEGRAD_OPERATOR(*, mul)
TAPEGRAD_OPERATOR(/, div)
TAPEGRAD_OPERATOR(==, eq)
TAPEGRAD_OPERATOR(!=, ne)
TAPEGRAD_OPERATOR(<, lt)
TAPEGRAD_OPERATOR(<=, le)
TAPEGRAD_OPERATOR(>, gt)
TAPEGRAD_OPERATOR(&, logical_and)
TAPEGRAD_OPERATOR(|, logical_or)
#undef TAPEGRAD_OPERATOR
// Where a derivative asks this of a complex number, it means the real part.
Tensor operator>=(const Tensor& a, const Tensor& b);
inline Tensor operator>=(const Tensor& a, double b) { return a >= wrapped_number(b); }

}  // namespace tapegrad
