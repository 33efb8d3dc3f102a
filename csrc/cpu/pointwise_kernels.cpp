// The CPU's reading of the pointwise table: a loop over contiguous operands for each value and
// each derivative. Compiled once per instruction set; the compiler vectorises the loops.
#include <type_traits>

#include "cpu/num.h"
#include "cpu/pointwise.h"
#include "pointwise_rules.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

// Functions that are cheap on a part of their domain only (see the Note in math/base.h): a tile is
// tested first, and computed with the wide forms when some element needs it.
inline constexpr int64_t kWideTile = 512;

constexpr bool mentions_trig(std::string_view text) {
  return mentions(text, "sin") || mentions(text, "cos") || mentions(text, "tan");
}
constexpr bool mentions_quotient(std::string_view text) {
  return mentions(text, "fmod") || mentions(text, "remainder") || mentions(text, "floor_divide");
}

// Counted in words as wide as T: a bool would keep the compiler from vectorising.
template <class T>
bool any_needs_wide(std::string_view text, const T* a, const T* b, int64_t n) {
  using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  Word any = 0;
  if (mentions_trig(text)) {
    for (int64_t i = 0; i < n; ++i) any |= math::needs_wide_trig(a[i]) ? Word(1) : Word(0);
  } else {
    for (int64_t i = 0; i < n; ++i)
      any |= math::needs_wide_quotient(a[i], b[i]) ? Word(1) : Word(0);
  }
  return any != 0;
}

template <class T, bool kWide>
T store(Num<T, kWide> value) {
  return value.v;
}
inline uint8_t store(Mask value) { return value.set; }

template <class S>
struct Params {
  S values[kMaxParams];
  // A null pointer stands for an op without parameters.
  explicit Params(const Scalar* params) {
    using T = decltype(S::v);
    for (int i = 0; i < kMaxParams; ++i) values[i] = params ? params[i].template as<T>() : T(0);
  }
};

// A loop that calls a function is not vectorised: flatten draws every call into it, however large.
template <class Rule, class S, class T, class Result>
[[gnu::flatten]] void value_loop(Result* y, const T* a, const T* b, const T* c, int64_t n, const Scalar* params) {
  const Params<S> p(params);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (Rule::kArity == 1) y[i] = store(Rule::value(S(a[i]), S(), S(), p.values));
    else if constexpr (Rule::kArity == 2)
      y[i] = store(Rule::value(S(a[i]), S(b[i]), S(), p.values));
    else y[i] = store(Rule::value(S(a[i]), S(b[i]), S(c[i]), p.values));
  }
}

template <class Rule, class T>
void value_kernel(void* out, const void* const* operands, int64_t n, const Scalar* params) {
  using S = Num<T>;
  using Result = decltype(store(Rule::value(S(), S(), S(), static_cast<S*>(nullptr))));
  auto* a = static_cast<const T*>(operands[0]);
  auto* b = static_cast<const T*>(operands[1]);
  auto* c = static_cast<const T*>(operands[2]);
  auto* y = static_cast<Result*>(out);
  constexpr std::string_view kText = Rule::kValue;
  if constexpr (S::kFloating && (mentions_trig(kText) || mentions_quotient(kText))) {
    for (int64_t i = 0; i < n; i += kWideTile) {
      int64_t count = n - i < kWideTile ? n - i : kWideTile;
      if (any_needs_wide(kText, a + i, b + i, count)) [[unlikely]]
        value_loop<Rule, Num<T, true>>(y + i, a + i, b + i, c, count, params);
      else value_loop<Rule, S>(y + i, a + i, b + i, c, count, params);
    }
  } else {
    value_loop<Rule, S>(y, a, b, c, n, params);
  }
}

template <class T>
struct GradOperands {
  const T *g, *a, *b, *c, *y;
  explicit GradOperands(const void* const* operands)
      : g(static_cast<const T*>(operands[0])),
        a(static_cast<const T*>(operands[1])),
        b(static_cast<const T*>(operands[2])),
        c(static_cast<const T*>(operands[3])),
        y(static_cast<const T*>(operands[4])) {}
};

template <class Rule, int I, class S, class T>
[[gnu::flatten]] void grad_loop(T* out, const GradOperands<T>& in, int64_t begin, int64_t end,
                                const Scalar* params) {
  constexpr uint8_t kMask = mentioned_operands(Rule::kGrad[I], Rule::kArity);
  const Params<S> p(params);
  // Operands that the text does not mention are null and are not read.
  auto load = [](const T* operand, int64_t i, bool mentioned) {
    return mentioned ? S(operand[i]) : S(T(0));
  };
  const T *g = in.g, *a = in.a, *b = in.b, *c = in.c, *y = in.y;
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) {
    out[i] = store(S(Rule::template grad<I>(
        load(g, i, kMask & kGrad), load(a, i, kMask & kInput0), load(b, i, kMask & kInput1),
        load(c, i, kMask & kInput2), load(y, i, kMask & kOutput), p.values)));
  }
}

template <class Rule, int I, class T>
void grad_kernel(void* out, const void* const* operands, int64_t n, const Scalar* params) {
  constexpr std::string_view kText = Rule::kGrad[I];
  auto* result = static_cast<T*>(out);
  const GradOperands<T> in(operands);
  if constexpr (mentions_trig(kText) || mentions_quotient(kText)) {
    for (int64_t i = 0; i < n; i += kWideTile) {
      int64_t end = n - i < kWideTile ? n : i + kWideTile;
      if (any_needs_wide(kText, in.a + i, in.b + i, end - i)) [[unlikely]]
        grad_loop<Rule, I, Num<T, true>>(result, in, i, end, params);
      else grad_loop<Rule, I, Num<T>>(result, in, i, end, params);
    }
  } else {
    grad_loop<Rule, I, Num<T>>(result, in, 0, n, params);
  }
}

constexpr bool is_none(const char* text) { return std::string_view(text) == "none"; }

template <class Rule, class T>
constexpr void fill(PointwiseKernels& kernels, ComputeType type) {
  kernels.value[static_cast<int>(type)] = value_kernel<Rule, T>;
}

template <class Rule, int I>
constexpr void fill_grad(PointwiseKernels& kernels) {
  if constexpr (I < Rule::kArity && !is_none(Rule::kGrad[I])) {
    kernels.grad[I][static_cast<int>(ComputeType::Float32)] = grad_kernel<Rule, I, float>;
    kernels.grad[I][static_cast<int>(ComputeType::Float64)] = grad_kernel<Rule, I, double>;
  }
}

template <class Rule>
constexpr void fill_all(PointwiseKernels& kernels) {
  constexpr PointwiseDTypes kDTypes = Rule::kDTypes;
  if constexpr (kDTypes != PointwiseDTypes::Integral && kDTypes != PointwiseDTypes::Integer) {
    fill<Rule, float>(kernels, ComputeType::Float32);
    fill<Rule, double>(kernels, ComputeType::Float64);
  }
  if constexpr (kDTypes != PointwiseDTypes::Real && kDTypes != PointwiseDTypes::Floating &&
                kDTypes != PointwiseDTypes::Rounding) {
    fill<Rule, int32_t>(kernels, ComputeType::Int32);
    fill<Rule, int64_t>(kernels, ComputeType::Int64);
  }
  fill_grad<Rule, 0>(kernels);
  fill_grad<Rule, 1>(kernels);
  fill_grad<Rule, 2>(kernels);
}

// Constant-initialised: no code of this file may run before the instruction set is known.
constexpr PointwiseTable make_table() {
  PointwiseTable table{};
  [[maybe_unused]] PointwiseKernels* next = table.kernels;
#define UNARY(NAME, ...) fill_all<rules::NAME##_rule>(*next++);
#define ACTIVATION UNARY
#define BINARY UNARY
#define TERNARY UNARY
#include "pointwise.def"
#undef UNARY
#undef ACTIVATION
#undef BINARY
#undef TERNARY
  return table;
}

}  // namespace

extern const PointwiseTable pointwise_table;
constinit const PointwiseTable pointwise_table = make_table();

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
