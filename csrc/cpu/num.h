// Num<T>: the scalar type with which the CPU kernels read the pointwise table. It keeps literals
// in T (a plain `0.5 * x` would compute in double), makes integer arithmetic wrap, and finds the
// functions of math.h by argument-dependent look-up. It compiles to plain T.
//
// Num<T, Form::Narrow> and Num<T, Form::Wide> use other forms of the functions that have them (see
// Note: the plain and the wide form).
#pragma once

#include <cstdint>
#include <type_traits>

#include "cpu/math.h"
#include "cpu/math/normal.h"
#include "cpu/special.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

struct Mask {
  bool set;
  friend Mask operator&(Mask a, Mask b) { return {bool(a.set & b.set)}; }
  friend Mask operator|(Mask a, Mask b) { return {bool(a.set | b.set)}; }
  friend Mask operator^(Mask a, Mask b) { return {bool(a.set ^ b.set)}; }
};

enum class Form { Narrow, Plain, Wide };

template <class T, Form kForm = Form::Plain>
struct Num {
  T v;

  static constexpr bool kFloating = std::is_floating_point_v<T>;
  using Unsigned =
      typename std::conditional_t<kFloating, std::type_identity<T>, std::make_unsigned<T>>::type;

  Num() = default;
  constexpr Num(T value) : v(value) {}
  // A literal of the table: 2 or 0.5.
  template <class L>
    requires(std::is_arithmetic_v<L> && !std::is_same_v<L, T>)
  constexpr Num(L literal) : v(static_cast<T>(literal)) {}

  friend Num operator-(Num a) {
    if constexpr (kFloating) return -a.v;
    else return T(Unsigned(0) - Unsigned(a.v));
  }
  friend Num operator+(Num a, Num b) { return T(Unsigned(a.v) + Unsigned(b.v)); }
  friend Num operator-(Num a, Num b) { return T(Unsigned(a.v) - Unsigned(b.v)); }
  friend Num operator*(Num a, Num b) { return T(Unsigned(a.v) * Unsigned(b.v)); }
  friend Num operator/(Num a, Num b) { return a.v / b.v; }

  friend Mask operator==(Num a, Num b) { return {a.v == b.v}; }
  friend Mask operator!=(Num a, Num b) { return {a.v != b.v}; }
  friend Mask operator<(Num a, Num b) { return {a.v < b.v}; }
  friend Mask operator<=(Num a, Num b) { return {a.v <= b.v}; }
  friend Mask operator>(Num a, Num b) { return {a.v > b.v}; }
  friend Mask operator>=(Num a, Num b) { return {a.v >= b.v}; }

  friend Num operator&(Num a, Num b) { return T(a.v & b.v); }
  friend Num operator|(Num a, Num b) { return T(a.v | b.v); }
  friend Num operator^(Num a, Num b) { return T(a.v ^ b.v); }
  friend Num operator~(Num a) { return T(~a.v); }
  // Shifts by the width or more, or by a negative count, shift everything out.
  friend Num left_shift(Num a, Num b) {
    bool inside = b.v >= 0 && b.v < T(8 * sizeof(T));
    return inside ? T(Unsigned(a.v) << (inside ? b.v : 0)) : T(0);
  }
  friend Num right_shift(Num a, Num b) {
    constexpr T kLast = 8 * sizeof(T) - 1;
    return T(a.v >> (b.v >= 0 && b.v < kLast ? b.v : kLast));
  }
  // Euclid's algorithm. The smallest number has no absolute value and is divided as it is.
  friend Num gcd(Num a, Num b) {
    T x = a.v < 0 ? T(Unsigned(0) - Unsigned(a.v)) : a.v;
    T y = b.v < 0 ? T(Unsigned(0) - Unsigned(b.v)) : b.v;
    while (x != 0) {
      const T rest = T(y % x);
      y = x;
      x = rest;
    }
    return y;
  }

  friend Num where(Mask c, Num p, Num q) { return c.set ? p.v : q.v; }
  // NaN in either operand comes through. Two selects in a row: a combined condition would keep the
  // compiler from vectorising a nest of these.
  friend Num maximum(Num a, Num b) {
    T larger = a.v > b.v ? a.v : b.v;
    return a.v != a.v ? a.v : larger;
  }
  friend Num minimum(Num a, Num b) {
    T smaller = a.v < b.v ? a.v : b.v;
    return a.v != a.v ? a.v : smaller;
  }
  friend Num sign(Num a) { return T(T(a.v > 0) - T(a.v < 0)); }
  friend Num square(Num a) { return a * a; }

  // Functions with an integer form.
  friend Num abs(Num a) {
    if constexpr (kFloating) return math::abs(a.v);
    else return a.v < 0 ? -a : a;
  }
  friend Num copysign(Num a, Num b) {
    if constexpr (kFloating) return math::copysign(a.v, b.v);
    else return (a.v < 0) == (b.v < 0) ? a : -a;
  }
  friend Num pow(Num a, Num b) {
    if constexpr (kFloating) return math::pow(a.v, b.v);
    else return math::pow_integer(a.v, b.v);
  }
  friend Num div_trunc(Num a, Num b) {
    if constexpr (kFloating) return math::trunc(a.v / b.v);
    else return math::truncate_divide(a.v, b.v);
  }
  friend Num floor_divide(Num a, Num b) {
    if constexpr (!kFloating) return math::floor_divide_integer(a.v, b.v);
    else if constexpr (kForm == Form::Wide) return math::wide::floor_divide(a.v, b.v);
    else return math::floor_divide(a.v, b.v);
  }
  friend Num remainder(Num a, Num b) {
    if constexpr (!kFloating) return math::remainder_integer(a.v, b.v);
    else if constexpr (kForm == Form::Wide) return math::wide::remainder(a.v, b.v);
    else return math::remainder(a.v, b.v);
  }
  friend Num fmod(Num a, Num b) {
    if constexpr (!kFloating) return math::fmod_integer(a.v, b.v);
    else if constexpr (kForm == Form::Wide) return math::wide::fmod(a.v, b.v);
    else return math::fmod(a.v, b.v);
  }
  friend Num polygamma(Num n, Num a) { return math::polygamma(static_cast<int>(n.v), a.v); }

  // Computed in double: Note [Functions written once].
#define TAPEGRAD_SPECIAL(NAME) \
  friend Num NAME(Num a) { return T(special::NAME(double(a.v))); }
#define TAPEGRAD_SPECIAL_2(NAME) \
  friend Num NAME(Num a, Num b) { return T(special::NAME(double(a.v), double(b.v))); }
#define TAPEGRAD_SPECIAL_3(NAME)                                            \
  friend Num NAME(Num a, Num b, Num parameter) {                            \
    return T(special::NAME(double(a.v), double(b.v), double(parameter.v))); \
  }
#include "cpu/special_names.h"
  friend Num ndtri(Num a) {
    return T(sizeof(T) == 4 ? special::ndtri_estimate(a.v) : special::ndtri(double(a.v)));
  }
#undef TAPEGRAD_SPECIAL
#undef TAPEGRAD_SPECIAL_2
#undef TAPEGRAD_SPECIAL_3

#define TAPEGRAD_FORWARD(NAME) \
  friend Num NAME(Num a) { return math::NAME(a.v); }
#define TAPEGRAD_FORWARD_WIDE(NAME)                                  \
  friend Num NAME(Num a) {                                           \
    if constexpr (kForm == Form::Wide) return math::wide::NAME(a.v); \
    else return math::NAME(a.v);                                     \
  }
#define TAPEGRAD_FORWARD_NARROW(NAME)                                    \
  friend Num NAME(Num a) {                                               \
    if constexpr (kForm == Form::Narrow) return math::narrow::NAME(a.v); \
    else return math::NAME(a.v);                                         \
  }
#define TAPEGRAD_FORWARD_2(NAME) \
  friend Num NAME(Num a, Num b) { return math::NAME(a.v, b.v); }
  TAPEGRAD_FORWARD(sqrt)
  TAPEGRAD_FORWARD(rsqrt)
  TAPEGRAD_FORWARD(floor)
  TAPEGRAD_FORWARD(ceil)
  TAPEGRAD_FORWARD(trunc)
  TAPEGRAD_FORWARD(round)
  TAPEGRAD_FORWARD_NARROW(exp)
  TAPEGRAD_FORWARD(exp2)
  TAPEGRAD_FORWARD(expm1)
  TAPEGRAD_FORWARD_NARROW(log)
  TAPEGRAD_FORWARD_NARROW(log2)
  TAPEGRAD_FORWARD_NARROW(log10)
  TAPEGRAD_FORWARD(log1p)
  TAPEGRAD_FORWARD_WIDE(sin)
  TAPEGRAD_FORWARD_WIDE(cos)
  TAPEGRAD_FORWARD_WIDE(tan)
  TAPEGRAD_FORWARD(asin)
  TAPEGRAD_FORWARD(acos)
  TAPEGRAD_FORWARD(atan)
  TAPEGRAD_FORWARD(sinh)
  TAPEGRAD_FORWARD(cosh)
  TAPEGRAD_FORWARD(tanh)
  TAPEGRAD_FORWARD(asinh)
  TAPEGRAD_FORWARD(acosh)
  TAPEGRAD_FORWARD(atanh)
  TAPEGRAD_FORWARD(sinc)
  TAPEGRAD_FORWARD(sigmoid)
  TAPEGRAD_FORWARD(erf)
  TAPEGRAD_FORWARD(erfc)
  TAPEGRAD_FORWARD(erfinv)
  TAPEGRAD_FORWARD(ndtr)
  TAPEGRAD_FORWARD_NARROW(normal_cdf)
  TAPEGRAD_FORWARD_NARROW(gelu)
  TAPEGRAD_FORWARD_NARROW(normal_density)
  TAPEGRAD_FORWARD_NARROW(lgamma)
  TAPEGRAD_FORWARD(digamma)
  TAPEGRAD_FORWARD_2(zeta)
  TAPEGRAD_FORWARD_2(atan2)
  TAPEGRAD_FORWARD_2(hypot)
  TAPEGRAD_FORWARD_2(nextafter)
  TAPEGRAD_FORWARD_2(logaddexp)
  TAPEGRAD_FORWARD_2(logaddexp2)
#undef TAPEGRAD_FORWARD
#undef TAPEGRAD_FORWARD_WIDE
#undef TAPEGRAD_FORWARD_NARROW
#undef TAPEGRAD_FORWARD_2
};

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
