// The CPU's reading of the pointwise table for complex dtypes: the lines that say COMPLEX. Their time is that of
// the mathematical library, so they are compiled once, for every processor.
#include "cpu/complex_pointwise.h"

#include "complex_rules.h"
#include "cpu/complex_num.h"

namespace tapegrad::cpu {

namespace {

template <class T>
Complex<T> store(ComplexNum<T> value) {
  return value.v;
}
uint8_t store(Truth value) { return value.set; }

// Parameters are real.
template <class T>
struct Params {
  T values[kMaxParams];
  explicit Params(const Scalar* params) {
    for (int i = 0; i < kMaxParams; ++i) values[i] = params ? params[i].as<T>() : T(0);
  }
};

template <class Rule, class T>
auto value_of(ComplexNum<T> a, ComplexNum<T> b, ComplexNum<T> c, const T* params) {
  // The table's text asks for both parts at once.
  if constexpr (std::is_same_v<Rule, rules::isinf_rule>)
    return Truth{std::isinf(a.real()) || std::isinf(a.imag())};
  else return Rule::value(a, b, c, params);
}

template <class Rule, class T>
void value_kernel(void* out, const void* const* operands, int64_t n, const Scalar* params) {
  using S = ComplexNum<T>;
  using Result = decltype(store(value_of<Rule>(S(), S(), S(), static_cast<const T*>(nullptr))));
  const Params<T> p(params);
  auto* a = static_cast<const Complex<T>*>(operands[0]);
  auto* b = static_cast<const Complex<T>*>(operands[1]);
  auto* c = static_cast<const Complex<T>*>(operands[2]);
  auto* y = static_cast<Result*>(out);
  for (int64_t i = 0; i < n; ++i) {
    const S second = Rule::kArity > 1 ? S(b[i]) : S(0), third = Rule::kArity > 2 ? S(c[i]) : S(0);
    y[i] = store(value_of<Rule>(S(a[i]), second, third, p.values));
  }
}

// See Note [Gradients of complex functions] in ops/complex.h.
template <class Rule, int I, class T>
void grad_kernel(void* out, const void* const* operands, int64_t n, const Scalar* params) {
  using S = ComplexNum<T>;
  constexpr uint8_t kMask = mentioned_operands(Rule::kGrad[I], Rule::kArity);
  const Params<T> p(params);
  auto* result = static_cast<Complex<T>*>(out);
  auto load = [&](int slot, int64_t i) {
    if (!(kMask >> slot & 1)) return S(0);
    return S(static_cast<const Complex<T>*>(operands[slot])[i]);
  };
  for (int64_t i = 0; i < n; ++i) {
    const S grad = rules::complex_grad<Rule, I>(conjugate(load(0, i)), load(1, i), load(2, i),
                                                load(3, i), load(4, i), p.values);
    result[i] = conjugate(grad).v;
  }
}

template <class Rule, int I>
constexpr void fill_grad(ComplexKernels& kernels) {
  if constexpr (I < Rule::kArity && derivative_kind(Rule::kGrad[I]) == DerivativeKind::Kernel) {
    kernels.grad[I][0] = grad_kernel<Rule, I, float>;
    kernels.grad[I][1] = grad_kernel<Rule, I, double>;
  }
}

template <class Rule>
constexpr void fill(ComplexKernels& kernels) {
  kernels.value[0] = value_kernel<Rule, float>;
  kernels.value[1] = value_kernel<Rule, double>;
  fill_grad<Rule, 0>(kernels);
  fill_grad<Rule, 1>(kernels);
  fill_grad<Rule, 2>(kernels);
}

struct ComplexTable {
  ComplexKernels kernels[kPointwiseCount] = {};
};

constexpr ComplexTable make_table() {
  ComplexTable table;
#define COMPLEX(NAME) fill<rules::NAME##_rule>(table.kernels[static_cast<int>(PointwiseId::NAME)]);
#include "pointwise.def"
#undef UNARY
#undef ACTIVATION
#undef BINARY
#undef TERNARY
  return table;
}

constinit const ComplexTable table = make_table();

}  // namespace

const ComplexKernels& complex_kernels(PointwiseId id) {
  return table.kernels[static_cast<int>(id)];
}

}  // namespace tapegrad::cpu
