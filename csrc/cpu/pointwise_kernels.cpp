// The CPU's reading of the pointwise table: a loop over contiguous operands for each value and
// each derivative. Compiled once per instruction set; the compiler vectorises the loops.
#include <type_traits>

#include "cpu/num.h"
#include "cpu/pointwise.h"
#include "pointwise_rules.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

// Functions that are cheap on a part of their domain only (see Note: the plain and the wide form): a
// tile is tested first, and computed in the costlier form when some element needs it.
inline constexpr int64_t kTestedTile = 512;

enum class Domain { Whole, Exp, Log, Normal, Gamma, Trig, Quotient };

constexpr Domain domain_of(std::string_view text) {
  if (is_call(text, "exp")) return Domain::Exp;
  for (std::string_view name : {"log", "log2", "log10"})
    if (is_call(text, name)) return Domain::Log;
  if (is_call(text, "gelu") || mentions(text, "normal_cdf")) return Domain::Normal;
  if (is_call(text, "lgamma")) return Domain::Gamma;
  for (std::string_view name : {"sin", "cos", "tan"})
    if (mentions(text, name)) return Domain::Trig;
  for (std::string_view name : {"fmod", "remainder", "floor_divide"})
    if (mentions(text, name)) return Domain::Quotient;
  return Domain::Whole;
}

template <Domain kDomain>
inline constexpr bool kHasWide = kDomain == Domain::Trig || kDomain == Domain::Quotient;
template <Domain kDomain>
inline constexpr Form kEasy = kHasWide<kDomain> ? Form::Plain : Form::Narrow;
template <Domain kDomain>
inline constexpr Form kHard = kHasWide<kDomain> ? Form::Wide : Form::Plain;

template <class Word>
Word larger(Word a, Word b) {
  return a > b ? a : b;
}

// The difficulty of a tile, one element after another.
template <Domain kDomain, class T>
math::BitsOf<T> worse(math::BitsOf<T> worst, T a, [[maybe_unused]] T b) {
  if constexpr (kDomain == Domain::Exp) return larger(worst, math::exp_difficulty(a));
  else if constexpr (kDomain == Domain::Log) return larger(worst, math::log_difficulty(a));
  else if constexpr (kDomain == Domain::Normal) return larger(worst, math::normal_difficulty(a));
  else if constexpr (kDomain == Domain::Gamma) return larger(worst, math::gamma_difficulty(a));
  else if constexpr (kDomain == Domain::Trig) return worst | math::trig_difficulty(a);
  else return worst | math::quotient_difficulty(a, b);
}

template <Domain kDomain, class T>
bool is_hard(math::BitsOf<T> worst) {
  if constexpr (kDomain == Domain::Exp) return worst > math::kExpEasy<T>;
  else if constexpr (kDomain == Domain::Log) return worst > math::kLogEasy<T>;
  else if constexpr (kDomain == Domain::Normal) return worst > math::kNormalEasy<T>;
  else if constexpr (kDomain == Domain::Gamma) return worst > math::kGammaEasy<T>;
  else return worst > 0;
}

template <Domain kDomain, class T>
[[gnu::flatten]] bool any_is_hard(const T* a, const T* b, int64_t n) {
  math::BitsOf<T> worst = 0;
  for (int64_t i = 0; i < n; ++i)
    worst = worse<kDomain>(worst, a[i], kDomain == Domain::Quotient ? b[i] : T(0));
  return is_hard<kDomain, T>(worst);
}

template <class T, Form kForm>
T store(Num<T, kForm> value) {
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
[[gnu::flatten]] void value_loop(Result* y, const T* a, const T* b, const T* c, int64_t n,
                                 const Scalar* params) {
  const Params<S> p(params);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (Rule::kArity == 1) y[i] = store(Rule::value(S(a[i]), S(), S(), p.values));
    else if constexpr (Rule::kArity == 2)
      y[i] = store(Rule::value(S(a[i]), S(b[i]), S(), p.values));
    else y[i] = store(Rule::value(S(a[i]), S(b[i]), S(c[i]), p.values));
  }
}

// The narrow forms are so short that a test of its own would cost as much as what they save: a tile
// is computed while it is tested, and once more where that was in vain.
template <class Rule, Domain kDomain, class T>
[[gnu::flatten]] bool narrow_loop(T* y, const T* a, int64_t n, const Scalar* params) {
  using S = Num<T, Form::Narrow>;
  const Params<S> p(params);
  math::BitsOf<T> worst = 0;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    worst = worse<kDomain>(worst, a[i], T(0));
    y[i] = store(Rule::value(S(a[i]), S(), S(), p.values));
  }
  return !is_hard<kDomain, T>(worst);
}

template <class Rule, Domain kDomain, class T>
void narrow_or_plain(T* y, const T* a, int64_t n, const Scalar* params) {
  T tile[kTestedTile];  // where the result shall replace the argument
  T* target = y == a ? tile : y;
  if (!narrow_loop<Rule, kDomain>(target, a, n, params)) [[unlikely]]
    value_loop<Rule, Num<T>>(y, a, a, a, n, params);
  else if (target == tile) __builtin_memcpy(y, tile, n * sizeof(T));
}

template <class Rule, class T>
void value_kernel(void* out, const void* const* operands, int64_t n, const Scalar* params) {
  using S = Num<T>;
  using Result = decltype(store(Rule::value(S(), S(), S(), static_cast<S*>(nullptr))));
  auto* a = static_cast<const T*>(operands[0]);
  auto* b = static_cast<const T*>(operands[1]);
  auto* c = static_cast<const T*>(operands[2]);
  auto* y = static_cast<Result*>(out);
  constexpr Domain kDomain = S::kFloating ? domain_of(Rule::kValue) : Domain::Whole;
  if constexpr (kDomain != Domain::Whole) {
    for (int64_t i = 0; i < n; i += kTestedTile) {
      int64_t count = n - i < kTestedTile ? n - i : kTestedTile;
      if constexpr (!kHasWide<kDomain>) narrow_or_plain<Rule, kDomain>(y + i, a + i, count, params);
      else if (any_is_hard<kDomain>(a + i, b + i, count)) [[unlikely]]
        value_loop<Rule, Num<T, Form::Wide>>(y + i, a + i, b + i, c, count, params);
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
  constexpr Domain kDomain = domain_of(Rule::kGrad[I]);
  auto* result = static_cast<T*>(out);
  const GradOperands<T> in(operands);
  if constexpr (kDomain != Domain::Whole) {
    for (int64_t i = 0; i < n; i += kTestedTile) {
      int64_t end = n - i < kTestedTile ? n : i + kTestedTile;
      if (any_is_hard<kDomain>(in.a + i, in.b + i, end - i)) [[unlikely]]
        grad_loop<Rule, I, Num<T, kHard<kDomain>>>(result, in, i, end, params);
      else grad_loop<Rule, I, Num<T, kEasy<kDomain>>>(result, in, i, end, params);
    }
  } else {
    grad_loop<Rule, I, Num<T>>(result, in, 0, n, params);
  }
}

template <class Rule, class T>
constexpr void fill(PointwiseKernels& kernels, ComputeType type) {
  kernels.value[static_cast<int>(type)] = value_kernel<Rule, T>;
}

template <class Rule, int I>
constexpr void fill_grad(PointwiseKernels& kernels) {
  if constexpr (I < Rule::kArity && derivative_kind(Rule::kGrad[I]) != DerivativeKind::None) {
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
