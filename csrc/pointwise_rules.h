// The table as C++ templates: for each line a struct with value() and grad0()..grad2(), written once
// and instantiated for numbers (CPU kernels) and for tensors (higher-order gradients).
//
// S is a scalar-like type with arithmetic, comparisons, where() and the math functions found by
// argument-dependent look-up; P is the type of the parameters.
#pragma once

#include "spec/pointwise.h"

// Parameters become named constants at the start of each function.
#define P0
#define P1(A, A_DEFAULT) [[maybe_unused]] const P& A = p[0];
#define P2(A, A_DEFAULT, B, B_DEFAULT) P1(A, A_DEFAULT) [[maybe_unused]] const P& B = p[1];
#define P3(A, A_DEFAULT, B, B_DEFAULT, C, C_DEFAULT) \
  P2(A, A_DEFAULT, B, B_DEFAULT) [[maybe_unused]] const P& C = p[2];

namespace tapegrad::rules {

struct None {};
inline constexpr None none;

#define UNARY(NAME, DTYPES, PARAMS, VALUE, GRAD)                                                   \
  struct NAME##_rule {                                                                             \
    static constexpr int kArity = 1;                                                               \
    static constexpr PointwiseDTypes kDTypes = PointwiseDTypes::DTYPES;                            \
    static constexpr const char* kName = #NAME;                                                    \
    static constexpr const char* kValue = #VALUE;                                                  \
    static constexpr const char* kGrad[3] = {#GRAD, "none", "none"};                               \
    template <class S, class P>                                                                    \
    static auto value(const S& x, const S&, const S&, [[maybe_unused]] const P* p) {               \
      PARAMS return VALUE;                                                                         \
    }                                                                                              \
    template <int I, class S, class P>                                                             \
    static auto grad([[maybe_unused]] const S& g, [[maybe_unused]] const S& x, const S&, const S&, \
                     [[maybe_unused]] const S& y, [[maybe_unused]] const P* p) {                   \
      if constexpr (I == 0) {                                                                      \
        PARAMS return GRAD;                                                                        \
      } else {                                                                                     \
        return none;                                                                               \
      }                                                                                            \
    }                                                                                              \
  };
#define ACTIVATION UNARY
#define BINARY(NAME, DTYPES, PARAMS, VALUE, GRAD_A, GRAD_B)                              \
  struct NAME##_rule {                                                                   \
    static constexpr int kArity = 2;                                                     \
    static constexpr PointwiseDTypes kDTypes = PointwiseDTypes::DTYPES;                  \
    static constexpr const char* kName = #NAME;                                          \
    static constexpr const char* kValue = #VALUE;                                        \
    static constexpr const char* kGrad[3] = {#GRAD_A, #GRAD_B, "none"};                  \
    template <class S, class P>                                                          \
    static auto value(const S& a, const S& b, const S&, [[maybe_unused]] const P* p) {   \
      PARAMS return VALUE;                                                               \
    }                                                                                    \
    template <int I, class S, class P>                                                   \
    static auto grad([[maybe_unused]] const S& g, [[maybe_unused]] const S& a,           \
                     [[maybe_unused]] const S& b, const S&, [[maybe_unused]] const S& y, \
                     [[maybe_unused]] const P* p) {                                      \
      if constexpr (I == 0) {                                                            \
        PARAMS return GRAD_A;                                                            \
      } else if constexpr (I == 1) {                                                     \
        PARAMS return GRAD_B;                                                            \
      } else {                                                                           \
        return none;                                                                     \
      }                                                                                  \
    }                                                                                    \
  };
#define TERNARY(NAME, DTYPES, PARAMS, VALUE, GRAD_A, GRAD_B, GRAD_C)                     \
  struct NAME##_rule {                                                                   \
    static constexpr int kArity = 3;                                                     \
    static constexpr PointwiseDTypes kDTypes = PointwiseDTypes::DTYPES;                  \
    static constexpr const char* kName = #NAME;                                          \
    static constexpr const char* kValue = #VALUE;                                        \
    static constexpr const char* kGrad[3] = {#GRAD_A, #GRAD_B, #GRAD_C};                 \
    template <class S, class P>                                                          \
    static auto value(const S& a, const S& b, const S& c, [[maybe_unused]] const P* p) { \
      PARAMS return VALUE;                                                               \
    }                                                                                    \
    template <int I, class S, class P>                                                   \
    static auto grad([[maybe_unused]] const S& g, [[maybe_unused]] const S& a,           \
                     [[maybe_unused]] const S& b, [[maybe_unused]] const S& c,           \
                     [[maybe_unused]] const S& y, [[maybe_unused]] const P* p) {         \
      if constexpr (I == 0) {                                                            \
        PARAMS return GRAD_A;                                                            \
      } else if constexpr (I == 1) {                                                     \
        PARAMS return GRAD_B;                                                            \
      } else {                                                                           \
        PARAMS return GRAD_C;                                                            \
      }                                                                                  \
    }                                                                                    \
  };
#include "pointwise.def"
#undef UNARY
#undef ACTIVATION
#undef BINARY
#undef TERNARY

}  // namespace tapegrad::rules

#undef P0
#undef P1
#undef P2
#undef P3
