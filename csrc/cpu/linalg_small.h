// Factorizations of small matrices, whose columns are contiguous and `ld` apart: below some size a call of LAPACK
// takes longer than the work. They give what LAPACK gives but for rounding, signs and pivots included.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "cpu/linalg_scalar.h"

namespace tapegrad::cpu::linalg {

// Calls run(integral_constant<int64_t, n>) for the sizes that loops are unrolled for, else with 0.
template <class Run>
decltype(auto) with_size(int64_t n, Run&& run) {
  switch (n) {
    case 2:
      return run(std::integral_constant<int64_t, 2>());
    case 3:
      return run(std::integral_constant<int64_t, 3>());
    case 4:
      return run(std::integral_constant<int64_t, 4>());
    default:
      return run(std::integral_constant<int64_t, 0>());
  }
}

// The lower factor in place; returns the order of the first minor that is not positive, or 0.
template <int64_t N = 0, class T>
int small_cholesky(T* a, int64_t size, int64_t ld) {
  const int64_t n = N ? N : size;
  for (int64_t k = 0; k < n; ++k) {
    T* column = a + k * ld;
    const Real<T> pivot = real_part(column[k]);
    if (!(pivot > 0)) return static_cast<int>(k + 1);
    const Real<T> root = std::sqrt(pivot);
    column[k] = root;
    for (int64_t i = k + 1; i < n; ++i) column[i] /= root;
    for (int64_t j = k + 1; j < n; ++j) {
      const T factor = conjugate_of(column[j]);
      for (int64_t i = j; i < n; ++i) a[j * ld + i] -= column[i] * factor;
    }
  }
  return 0;
}

// P A = L U in place, pivots counted from 1; returns the place of the first zero on U's diagonal, or 0.
template <int64_t N = 0, class T>
int small_lu(T* a, int64_t rows, int64_t columns, int64_t ld, int32_t* pivots) {
  const int64_t m = N ? N : rows, n = N ? N : columns;
  int info = 0;
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    T* column = a + k * ld;
    int64_t p = k;
    for (int64_t i = k + 1; i < m; ++i)
      if (pivot_size(column[i]) > pivot_size(column[p])) p = i;
    pivots[k] = static_cast<int32_t>(p + 1);
    if (column[p] == T(0)) {
      if (!info) info = static_cast<int>(k + 1);
      continue;
    }
    if (p != k)
      for (int64_t j = 0; j < n; ++j) std::swap(a[j * ld + k], a[j * ld + p]);
    const T pivot = column[k];
    for (int64_t i = k + 1; i < m; ++i) column[i] /= pivot;
    for (int64_t j = k + 1; j < n; ++j) {
      T* other = a + j * ld;
      const T factor = other[k];
      for (int64_t i = k + 1; i < m; ++i) other[i] -= column[i] * factor;
    }
  }
  return info;
}

// The inverse in place, by Gauss-Jordan elimination with the pivots of small_lu; returns what that returns.
template <int64_t N = 0, class T>
int small_inverse(T* a, int64_t size, int64_t ld, int32_t* pivots) {
  const int64_t n = N ? N : size;
  int info = 0;
  for (int64_t k = 0; k < n; ++k) {
    T* column = a + k * ld;
    int64_t p = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (pivot_size(column[i]) > pivot_size(column[p])) p = i;
    pivots[k] = static_cast<int32_t>(p);
    if (column[p] == T(0) && !info) info = static_cast<int>(k + 1);
    if (p != k)
      for (int64_t j = 0; j < n; ++j) std::swap(a[j * ld + k], a[j * ld + p]);
    // As in small_lu, so that a singular matrix is one here too: equal rows cancel exactly.
    const T pivot = column[k];
    for (int64_t i = 0; i < n; ++i)
      if (i != k) column[i] /= pivot;
    for (int64_t j = 0; j < n; ++j) {
      if (j == k) continue;
      T* other = a + j * ld;
      const T factor = other[k];
      for (int64_t i = 0; i < k; ++i) other[i] -= column[i] * factor;
      for (int64_t i = k + 1; i < n; ++i) other[i] -= column[i] * factor;
      other[k] = factor / pivot;
    }
    for (int64_t i = 0; i < n; ++i) column[i] = i == k ? T(1) / pivot : -column[i];
  }
  for (int64_t k = n; k-- > 0;)
    if (pivots[k] != k) std::swap_ranges(a + k * ld, a + k * ld + n, a + pivots[k] * ld);
  return info;
}

// The columns of b become the solutions of T x = b for a triangle of `a`.
template <int64_t N = 0, class T>
void small_triangular(const T* a, int64_t lda, bool upper, bool unit, bool transposed, int64_t size,
                      T* b, int64_t columns, int64_t ldb) {
  const int64_t n = N ? N : size;
  for (int64_t c = 0; c < columns; ++c) {
    T* x = b + c * ldb;
    if (!transposed && upper) {
      for (int64_t k = n; k-- > 0;) {
        if (!unit) x[k] /= a[k * lda + k];
        const T factor = x[k];
        for (int64_t i = 0; i < k; ++i) x[i] -= factor * a[k * lda + i];
      }
    } else if (!transposed) {
      for (int64_t k = 0; k < n; ++k) {
        if (!unit) x[k] /= a[k * lda + k];
        const T factor = x[k];
        for (int64_t i = k + 1; i < n; ++i) x[i] -= factor * a[k * lda + i];
      }
    } else if (upper) {
      for (int64_t k = 0; k < n; ++k) {
        T sum = x[k];
        for (int64_t i = 0; i < k; ++i) sum -= a[k * lda + i] * x[i];
        x[k] = unit ? sum : sum / a[k * lda + k];
      }
    } else {
      for (int64_t k = n; k-- > 0;) {
        T sum = x[k];
        for (int64_t i = k + 1; i < n; ++i) sum -= a[k * lda + i] * x[i];
        x[k] = unit ? sum : sum / a[k * lda + k];
      }
    }
  }
}

template <class T>
void swap_rows(T* b, int64_t columns, int64_t ld, const int32_t* pivots, int64_t count,
               bool backwards) {
  for (int64_t c = 0; c < columns; ++c) {
    T* x = b + c * ld;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t i = backwards ? count - 1 - k : k;
      std::swap(x[i], x[pivots[i] - 1]);
    }
  }
}

// The length of a vector, without overflow on the way.
template <class T>
Real<T> length_of(const T* x, int64_t n) {
  if constexpr (is_complex_type<T>) {
    return length_of(reinterpret_cast<const Real<T>*>(x), 2 * n);
  } else if constexpr (std::is_same_v<T, float>) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
    return static_cast<float>(std::sqrt(sum));
  } else {
    T sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
    if (sum > 1e-280 && sum < 1e280) return std::sqrt(sum);
    T largest = 0;
    for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
    if (std::isnan(sum)) return sum;
    if (largest == 0 || std::isinf(largest)) return largest;
    sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += (x[i] / largest) * (x[i] / largest);
    return largest * std::sqrt(sum);
  }
}

// Columns of c from row k on become (1 - tau v v^H) c, where v is 1 followed by `tail`.
template <class T>
void reflect(const T* tail, T tau, int64_t length, T* c, int64_t columns, int64_t ld) {
  if (tau == T(0)) return;
  for (int64_t j = 0; j < columns; ++j) {
    T* x = c + j * ld;
    T sum = x[0];
    for (int64_t i = 1; i < length; ++i) sum += conjugate_of(tail[i - 1]) * x[i];
    sum *= tau;
    x[0] -= sum;
    for (int64_t i = 1; i < length; ++i) x[i] -= sum * tail[i - 1];
  }
}

// R on and above the diagonal, which is real; the reflectors below it.
template <int64_t N = 0, class T>
void small_qr(T* a, int64_t rows, int64_t columns, int64_t ld, T* tau) {
  const int64_t m = N ? N : rows, n = N ? N : columns;
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    T* x = a + k * ld + k;
    const Real<T> tail = length_of(x + 1, m - k - 1);
    tau[k] = 0;
    if (tail == 0 && imaginary_part(x[0]) == 0) continue;
    const Real<T> beta = -std::copysign(std::hypot(magnitude(x[0]), tail), real_part(x[0]));
    tau[k] = (beta - x[0]) / beta;
    const T divisor = x[0] - beta;
    for (int64_t i = 1; i < m - k; ++i) x[i] /= divisor;
    x[0] = beta;
    reflect(x + 1, conjugate_of(tau[k]), m - k, x + ld, n - k - 1, ld);
  }
}

// The first columns of the product of the reflectors that small_qr left in `a`.
template <class T>
void small_q(const T* a, int64_t lda, const T* tau, int64_t reflectors, T* q, int64_t rows,
             int64_t columns, int64_t ldq) {
  for (int64_t c = 0; c < columns; ++c) {
    std::fill_n(q + c * ldq, rows, T(0));
    q[c * ldq + c] = 1;
  }
  for (int64_t k = reflectors; k-- > 0;)
    reflect(a + k * lda + k + 1, tau[k], rows - k, q + k * ldq + k, columns - k, ldq);
}

// ---- Jacobi's methods, for finite matrices whose largest element is about one

inline constexpr int kMostSweeps = 30;

// The rotation (c, s) that makes a symmetric 2x2 matrix diagonal, and t = s / c.
template <class T>
struct Rotation {
  T c, s, t;
  Rotation(T app, T apq, T aqq) {
    const T apart = aqq - app;
    t = 2 * apq / (apart + std::copysign(std::sqrt(apart * apart + 4 * apq * apq), apart));
    c = 1 / std::sqrt(t * t + 1);
    s = t * c;
  }
  void turn(T* x, T* y, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) {
      const T first = x[i], second = y[i];
      x[i] = c * first - s * second;
      y[i] = s * first + c * second;
    }
  }
};

// Eigenvalues of the symmetric matrix `a`, both triangles given, ascending in w; columns of v, if given, are the
// vectors. Overwrites a. Returns whether it converged.
template <int64_t N = 0, class T>
bool small_eigh(T* a, int64_t size, T* w, T* v) {
  const int64_t n = N ? N : size;
  if (v)
    for (int64_t i = 0; i < n * n; ++i) v[i] = i % (n + 1) == 0 ? T(1) : T(0);
  bool done = false;
  for (int sweep = 0; sweep < kMostSweeps && !done; ++sweep) {
    done = true;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        const T off = a[q * n + p];
        constexpr T kLimit = std::numeric_limits<T>::epsilon() / 8;
        // A square that vanishes is negligible beside the largest element, which is one.
        if (off * off <= kLimit * kLimit * std::abs(a[p * n + p] * a[q * n + q])) continue;
        done = false;
        const Rotation<T> rotation(a[p * n + p], off, a[q * n + q]);
        const T app = a[p * n + p] - rotation.t * off, aqq = a[q * n + q] + rotation.t * off;
        rotation.turn(a + p * n, a + q * n, n);
        for (int64_t i = 0; i < n; ++i) {
          a[i * n + p] = a[p * n + i];
          a[i * n + q] = a[q * n + i];
        }
        a[p * n + p] = app;
        a[q * n + q] = aqq;
        a[q * n + p] = a[p * n + q] = 0;
        if (v) rotation.turn(v + p * n, v + q * n, n);
      }
  }
  for (int64_t i = 0; i < n; ++i) w[i] = a[i * n + i];
  for (int64_t i = 0; i < n; ++i) {
    const int64_t least = std::min_element(w + i, w + n) - w;
    if (least == i) continue;
    std::swap(w[i], w[least]);
    if (v) std::swap_ranges(v + i * n, v + i * n + n, v + least * n);
  }
  return done;
}

// Singular values of `a` (rows >= columns), descending in s. The columns of `a` become those of U times them, and
// those of v, if given, the right vectors. Columns count as orthogonal where their angle differs by less than `limit`.
// Returns whether it converged.
template <int64_t N = 0, class T>
bool small_svd(T* a, int64_t rows, int64_t columns, T limit, T* s, T* v) {
  const int64_t m = N ? N : rows, n = N ? N : columns;
  if (v)
    for (int64_t i = 0; i < n * n; ++i) v[i] = i % (n + 1) == 0 ? T(1) : T(0);
  bool done = false;
  for (int sweep = 0; sweep < kMostSweeps && !done; ++sweep) {
    done = true;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        T *x = a + p * m, *y = a + q * m;
        T xx = 0, yy = 0, xy = 0;
        for (int64_t i = 0; i < m; ++i) {
          xx += x[i] * x[i];
          yy += y[i] * y[i];
          xy += x[i] * y[i];
        }
        if (xy * xy <= limit * limit * xx * yy) continue;
        done = false;
        const Rotation<T> rotation(xx, xy, yy);
        rotation.turn(x, y, m);
        if (v) rotation.turn(v + p * n, v + q * n, n);
      }
  }
  for (int64_t i = 0; i < n; ++i) s[i] = length_of(a + i * m, m);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t largest = std::max_element(s + i, s + n) - s;
    if (largest == i) continue;
    std::swap(s[i], s[largest]);
    std::swap_ranges(a + i * m, a + i * m + m, a + largest * m);
    if (v) std::swap_ranges(v + i * n, v + i * n + n, v + largest * n);
  }
  return done;
}

// Fills column k of q with a unit vector that is orthogonal to the k columns before it.
template <class T>
void complete_column(T* q, int64_t rows, int64_t k, int64_t ld) {
  T* x = q + k * ld;
  for (int64_t unit = 0; unit < rows; ++unit) {
    std::fill_n(x, rows, T(0));
    x[unit] = 1;
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t j = 0; j < k; ++j) {
        const T* y = q + j * ld;
        T sum = 0;
        for (int64_t i = 0; i < rows; ++i) sum += x[i] * y[i];
        for (int64_t i = 0; i < rows; ++i) x[i] -= sum * y[i];
      }
    const T length = length_of(x, rows);
    // Of all unit vectors one has at least this part outside of fewer than `rows` columns.
    if (length * length * static_cast<T>(rows) < T(0.99)) continue;
    for (int64_t i = 0; i < rows; ++i) x[i] /= length;
    return;
  }
}

}  // namespace tapegrad::cpu::linalg
