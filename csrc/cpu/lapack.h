// LAPACK and BLAS routines by their names, for real and complex numbers: lapack::potrf<T>()(...). Fortran's conventions:
// columns are contiguous, arguments are pointers, integers have 32 bits.
//
// Complex numbers have names of their own where the transpose becomes the adjoint (ungqr for orgqr), and a workspace of
// real numbers where a routine needs one.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "core/complex.h"
#include "core/error.h"
#include "cpu/blas.h"

namespace tapegrad::cpu::lapack {

using Int = int32_t;

// 's' for float, 'd' for double, 'c' and 'z' for complex numbers of them.
template <class T>
constexpr char kLetter = std::is_same_v<T, float>            ? 's'
                         : std::is_same_v<T, double>         ? 'd'
                         : std::is_same_v<T, Complex<float>> ? 'c'
                                                             : 'z';

// One of the name NAME for real numbers, and COMPLEX_NAME for complex ones.
#define TAPEGRAD_LAPACK_BOTH(NAME, COMPLEX_NAME, ...)                          \
  template <class T>                                                           \
  auto NAME() {                                                                \
    static auto* const routine = lapack_function<void(__VA_ARGS__)>(           \
        kLetter<T> + std::string(is_complex_type<T> ? #COMPLEX_NAME : #NAME)); \
    return routine;                                                            \
  }
#define TAPEGRAD_LAPACK(NAME, ...) TAPEGRAD_LAPACK_BOTH(NAME, NAME, __VA_ARGS__)

using Char = const char*;
using In = const Int*;
using Out = Int*;

// clang-format off
TAPEGRAD_LAPACK(potrf, Char uplo, In n, T* a, In lda, Out info)
TAPEGRAD_LAPACK(getrf, In m, In n, T* a, In lda, Out pivots, Out info)
TAPEGRAD_LAPACK(getrs, Char trans, In n, In columns, const T* a, In lda, In pivots, T* b, In ldb, Out info)
TAPEGRAD_LAPACK(getri, In n, T* a, In lda, In pivots, T* work, In lwork, Out info)
TAPEGRAD_LAPACK(trsm, Char side, Char uplo, Char trans, Char diag, In m, In n, const T* alpha, const T* a, In lda, T* b, In ldb)
TAPEGRAD_LAPACK(geqrf, In m, In n, T* a, In lda, T* tau, T* work, In lwork, Out info)
TAPEGRAD_LAPACK_BOTH(orgqr, ungqr, In m, In n, In k, T* a, In lda, const T* tau, T* work, In lwork, Out info)
TAPEGRAD_LAPACK_BOTH(ormqr, unmqr, Char side, Char trans, In m, In n, In k, const T* a, In lda, const T* tau, T* c, In ldc, T* work, In lwork, Out info)
TAPEGRAD_LAPACK(syevd, Char jobz, Char uplo, In n, T* a, In lda, T* w, T* work, In lwork, Out iwork, In liwork, Out info)
TAPEGRAD_LAPACK(gesdd, Char jobz, In m, In n, T* a, In lda, T* s, T* u, In ldu, T* vt, In ldvt, T* work, In lwork, Out iwork, Out info)
TAPEGRAD_LAPACK(gels, Char trans, In m, In n, In columns, T* a, In lda, T* b, In ldb, T* work, In lwork, Out info)
TAPEGRAD_LAPACK(gelsy, In m, In n, In columns, T* a, In lda, T* b, In ldb, Out jpvt, const T* rcond, Out rank, T* work, In lwork, Out info)
TAPEGRAD_LAPACK(gelsd, In m, In n, In columns, T* a, In lda, T* b, In ldb, T* s, const T* rcond, Out rank, T* work, In lwork, Out iwork, Out info)
TAPEGRAD_LAPACK(gelss, In m, In n, In columns, T* a, In lda, T* b, In ldb, T* s, const T* rcond, Out rank, T* work, In lwork, Out info)
TAPEGRAD_LAPACK(sytrf, Char uplo, In n, T* a, In lda, Out pivots, T* work, In lwork, Out info)
TAPEGRAD_LAPACK(sytrs, Char uplo, In n, In columns, const T* a, In lda, In pivots, T* b, In ldb, Out info)
// Of real numbers, then of complex ones only.
TAPEGRAD_LAPACK(geev, Char left, Char right, In n, T* a, In lda, T* real, T* imag, T* vl, In ldvl, T* vr, In ldvr, T* work, In lwork, Out info)
TAPEGRAD_LAPACK(hetrf, Char uplo, In n, T* a, In lda, Out pivots, T* work, In lwork, Out info)
TAPEGRAD_LAPACK(hetrs, Char uplo, In n, In columns, const T* a, In lda, In pivots, T* b, In ldb, Out info)
#define TAPEGRAD_WITH_REAL_WORK(NAME, ROUTINE, ...)                                     \
  template <class C, class T = decltype(C::real)>                                       \
  auto NAME() {                                                                         \
    static auto* const routine =                                                        \
        lapack_function<void(__VA_ARGS__)>(std::string(1, kLetter<C>) + #ROUTINE);      \
    return routine;                                                                     \
  }
TAPEGRAD_WITH_REAL_WORK(complex_geev, geev, Char left, Char right, In n, C* a, In lda, C* w, C* vl, In ldvl, C* vr, In ldvr, C* work, In lwork, T* rwork, Out info)
TAPEGRAD_WITH_REAL_WORK(heevd, heevd, Char jobz, Char uplo, In n, C* a, In lda, T* w, C* work, In lwork, T* rwork, In lrwork, Out iwork, In liwork, Out info)
TAPEGRAD_WITH_REAL_WORK(complex_gesdd, gesdd, Char jobz, In m, In n, C* a, In lda, T* s, C* u, In ldu, C* vt, In ldvt, C* work, In lwork, T* rwork, Out iwork, Out info)
TAPEGRAD_WITH_REAL_WORK(complex_gelsy, gelsy, In m, In n, In columns, C* a, In lda, C* b, In ldb, Out jpvt, const T* rcond, Out rank, C* work, In lwork, T* rwork, Out info)
TAPEGRAD_WITH_REAL_WORK(complex_gelsd, gelsd, In m, In n, In columns, C* a, In lda, C* b, In ldb, T* s, const T* rcond, Out rank, C* work, In lwork, T* rwork, Out iwork, Out info)
TAPEGRAD_WITH_REAL_WORK(complex_gelss, gelss, In m, In n, In columns, C* a, In lda, C* b, In ldb, T* s, const T* rcond, Out rank, C* work, In lwork, T* rwork, Out info)
TAPEGRAD_WITH_REAL_WORK(gemm, gemm, Char trans_a, Char trans_b, In m, In n, In k, const C* alpha, const C* a, In lda, const C* b, In ldb, const C* beta, C* c, In ldc)
// clang-format on
#undef TAPEGRAD_WITH_REAL_WORK
#undef TAPEGRAD_LAPACK
#undef TAPEGRAD_LAPACK_BOTH

// A size for LAPACK, which counts in 32 bits.
inline Int size(const char* op, int64_t size) {
  TAPEGRAD_CHECK(size <= std::numeric_limits<Int>::max(), op,
                 ": LAPACK takes sizes up to 2^31 - 1, got ", size);
  return static_cast<Int>(size);
}
// The same for a leading dimension, which is at least one.
inline Int leading(const char* op, int64_t rows) { return size(op, rows > 1 ? rows : 1); }

}  // namespace tapegrad::cpu::lapack
