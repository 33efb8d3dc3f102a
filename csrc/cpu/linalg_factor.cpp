// Factorizations: Cholesky, LU, QR, LDL. Small matrices by loops of our own, others by LAPACK.
#include "core/registry.h"
#include "cpu/linalg.h"
#include "cpu/linalg_small.h"

namespace tapegrad::cpu::linalg {

namespace {

constexpr int64_t kSmallFactor = 16;  // below, LAPACK's own overhead is most of its time
constexpr int64_t kSmallQr = 24;

double cube(int64_t m, int64_t n) {
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(std::min(m, n));
}

// What LAPACK asks for as a workspace, in elements.
template <class T>
Int workspace_of(T answer) {
  return std::max<Int>(1, static_cast<Int>(real_part(answer)));
}

// Attributes: upper, check. Outputs: the factor, the order of the first minor that is not positive.
void cholesky(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead lead(call, 2);
    const Items<const T> a(call.in(0), lead);
    const Items<T> factor(call.out(0), lead);
    const Items<Int> info(call.out(1), lead);
    const bool upper = call.integer(0);
    const int64_t n = a.rows, ld = factor.ld();
    const Int size = lapack::size("linalg.cholesky", n),
              lda = lapack::leading("linalg.cholesky", ld);
    std::vector<Int> infos(lead.count);
    auto* const potrf = n > kSmallFactor ? lapack::potrf<T>() : nullptr;
    for_items(lead.count, cube(n, n) / 3, [&](int64_t first, int64_t last) {
      T local[kSmallFactor * kSmallFactor];
      for (int64_t i = first; i < last; ++i) {
        T* out = factor[i];
        if (potrf) {
          a.copy(i, out, ld);
          potrf(upper ? "U" : "L", &size, out, &lda, &infos[i]);
          if (upper) clear_below(out, n, n, ld);
          else clear_above(out, n, n, ld);
        } else {
          const T* from = a[i];
          const int64_t down = upper ? a.column_stride : a.row_stride;
          const int64_t across = upper ? a.row_stride : a.column_stride;
          for (int64_t c = 0; c < n; ++c)
            for (int64_t r = c; r < n; ++r) {
              const T value = from[r * down + c * across];
              local[c * n + r] = upper ? conjugate_of(value) : value;
            }
          infos[i] = with_size(n, [&](auto known) { return small_cholesky<known>(local, n, n); });
          for (int64_t c = 0; c < n; ++c)
            for (int64_t r = 0; r < n; ++r)
              out[c * ld + r] = upper ? (r <= c ? conjugate_of(local[r * n + c]) : T(0))
                                      : (r >= c ? local[c * n + r] : T(0));
        }
        *info[i] = infos[i];
      }
    });
    check_outcomes(call, infos);
  });
}

// Attribute: check. Outputs: L and U in one matrix, pivots, the place of the first zero of U's diagonal.
void lu_factor(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead lead(call, 2);
    const Items<const T> a(call.in(0), lead);
    const Items<T> factors(call.out(0), lead);
    const Items<Int> pivots(call.out(1), lead), info(call.out(2), lead);
    const int64_t m = a.rows, n = a.columns, ld = factors.ld();
    const Int rows = lapack::size("linalg.lu_factor", m),
              columns = lapack::size("linalg.lu_factor", n);
    const Int lda = lapack::leading("linalg.lu_factor", ld);
    std::vector<Int> infos(lead.count);
    auto* const getrf = std::max(m, n) > kSmallFactor ? lapack::getrf<T>() : nullptr;
    for_items(lead.count, cube(m, n) / 2, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        T* out = factors[i];
        a.copy(i, out, ld);
        if (getrf) getrf(&rows, &columns, out, &lda, pivots[i], &infos[i]);
        else
          infos[i] = with_size(m == n ? n : 0, [&](auto known) {
            return small_lu<known>(out, m, n, ld, pivots[i]);
          });
        *info[i] = infos[i];
      }
    });
    check_outcomes(call, infos);
  });
}

// Pivots to the rows of A in the order of those of L U, or with "inverse" the places where they went.
void lu_permutation(const OpCall& call) {
  const Lead lead(call, 1);
  const Items<const Int> pivots(call.in(0), lead);
  const Items<int64_t> order(call.out(0), lead);
  const bool inverse = call.integer(0);
  for_items(lead.count, static_cast<double>(order.rows), [&](int64_t first, int64_t last) {
    std::vector<int64_t> rows(order.rows);
    for (int64_t i = first; i < last; ++i) {
      for (int64_t k = 0; k < order.rows; ++k) rows[k] = k;
      const Int* swaps = pivots[i];
      for (int64_t k = 0; k < pivots.rows; ++k) {
        const int64_t other = swaps[k * pivots.row_stride] - 1;
        // Pivots may come from anywhere: what leads out of the matrix is left to the check afterwards.
        if (other >= 0 && other < order.rows) std::swap(rows[k], rows[other]);
      }
      int64_t* out = order[i];
      for (int64_t k = 0; k < order.rows; ++k) {
        if (inverse) out[rows[k] * order.row_stride] = k;
        else out[k * order.row_stride] = rows[k];
      }
    }
  });
  for (int64_t i = 0; i < lead.count; ++i)
    for (int64_t k = 0; k < pivots.rows; ++k) {
      const int64_t pivot = pivots[i][k * pivots.row_stride];
      TAPEGRAD_CHECK(pivot >= 1 && pivot <= order.rows,
                     "lu_unpack: expected LU_pivots to be between 1 and ", order.rows, ", got ",
                     pivot);
    }
}

// ---- QR

// R and the reflectors of A, as geqrf leaves them, in a place with contiguous columns.
template <class T>
class Reflectors {
 public:
  Reflectors(const char* op, int64_t m, int64_t n, int64_t ld)
      : m_(m),
        n_(n),
        ld_(ld),
        rows_(lapack::size(op, m)),
        columns_(lapack::size(op, n)),
        lda_(lapack::leading(op, ld)) {
    if (std::max(m, n) <= kSmallQr) return;
    geqrf_ = lapack::geqrf<T>();
    T answer = 0;
    const Int query = -1;
    Int info = 0;
    geqrf_(&rows_, &columns_, nullptr, &lda_, nullptr, &answer, &query, &info);
    lwork = workspace_of(answer);
  }
  void operator()(T* a, T* tau, T* work) const {
    Int info = 0;
    if (geqrf_) geqrf_(&rows_, &columns_, a, &lda_, tau, work, &lwork, &info);
    else with_size(m_ == n_ ? n_ : 0, [&](auto known) { small_qr<known>(a, m_, n_, ld_, tau); });
  }
  Int lwork = 1;

 private:
  int64_t m_, n_, ld_;
  Int rows_, columns_, lda_;
  decltype(lapack::geqrf<T>()) geqrf_ = nullptr;
};

// Columns of the product of reflectors, in place.
template <class T>
class Product {
 public:
  Product(const char* op, int64_t m, int64_t columns, int64_t reflectors, int64_t ld)
      : m_(m),
        n_(columns),
        k_(reflectors),
        ld_(ld),
        rows_(lapack::size(op, m)),
        columns_(lapack::size(op, columns)),
        count_(lapack::size(op, reflectors)),
        lda_(lapack::leading(op, ld)) {
    if (m <= kSmallQr) return;
    orgqr_ = lapack::orgqr<T>();
    T answer = 0;
    const Int query = -1;
    Int info = 0;
    orgqr_(&rows_, &columns_, &count_, nullptr, &lda_, nullptr, &answer, &query, &info);
    lwork = workspace_of(answer);
  }
  void operator()(T* a, const T* tau, T* work) const {
    Int info = 0;
    if (orgqr_) return orgqr_(&rows_, &columns_, &count_, a, &lda_, tau, work, &lwork, &info);
    T local[kSmallQr * kSmallQr];
    for (int64_t c = 0; c < k_; ++c) std::copy_n(a + c * ld_, m_, local + c * m_);
    small_q(local, m_, tau, k_, a, m_, n_, ld_);
  }
  Int lwork = 1;

 private:
  int64_t m_, n_, k_, ld_;
  Int rows_, columns_, count_, lda_;
  decltype(lapack::orgqr<T>()) orgqr_ = nullptr;
};

// Attribute: mode. Outputs: Q, which has no elements with mode "r", and R.
void qr(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead lead(call, 2);
    const Items<const T> a(call.in(0), lead);
    const Items<T> r(call.out(1), lead);
    const auto mode = static_cast<QrMode>(call.integer(0));
    const int64_t m = a.rows, n = a.columns, k = std::min(m, n);
    if (m == 0) return;  // nothing to write, of however many columns
    const int64_t q_columns = mode == QrMode::R ? 0 : mode == QrMode::Complete ? m : k;
    const Items<T> q(call.out(0), lead);
    const int64_t width = std::max(n, q_columns), ld = std::max<int64_t>(m, 1);
    const Reflectors<T> reduce("linalg.qr", m, n, ld);
    const Product<T> multiply("linalg.qr", m, q_columns, std::min(k, q_columns), ld);
    for_items(lead.count, 2 * cube(m, width), [&](int64_t first, int64_t last) {
      std::vector<T> place(ld * std::max<int64_t>(width, 1)), tau(k + 1),
          work(std::max(reduce.lwork, multiply.lwork));
      for (int64_t i = first; i < last; ++i) {
        a.copy(i, place.data(), ld);
        reduce(place.data(), tau.data(), work.data());
        T* upper = r[i];
        for (int64_t c = 0; c < n; ++c)
          for (int64_t row = 0; row < r.rows; ++row)
            upper[c * r.ld() + row] = row <= c ? place[c * ld + row] : T(0);
        if (q_columns == 0) continue;
        multiply(place.data(), tau.data(), work.data());
        T* out = q[i];
        for (int64_t c = 0; c < q_columns; ++c)
          std::copy_n(place.data() + c * ld, m, out + c * q.ld());
      }
    });
  });
}

// Outputs: R and the reflectors in one matrix, their scales.
void geqrf(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead lead(call, 2);
    const Items<const T> a(call.in(0), lead);
    const Items<T> out(call.out(0), lead), tau(call.out(1), lead);
    const Reflectors<T> reduce("geqrf", a.rows, a.columns, out.ld());
    for_items(lead.count, cube(a.rows, a.columns), [&](int64_t first, int64_t last) {
      std::vector<T> work(reduce.lwork), scales(tau.rows + 1);
      for (int64_t i = first; i < last; ++i) {
        a.copy(i, out[i], out.ld());
        reduce(out[i], scales.data(), work.data());
        for (int64_t k = 0; k < tau.rows; ++k) tau[i][k * tau.row_stride] = scales[k];
      }
    });
  });
}

template <class T>
std::vector<T> vector_at(const Items<const T>& vectors, int64_t i) {
  std::vector<T> copy(vectors.rows + 1);
  for (int64_t k = 0; k < vectors.rows; ++k) copy[k] = vectors[i][k * vectors.row_stride];
  return copy;
}

// The first columns of the product of reflectors.
void householder_product(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead lead(call, 2);
    const Items<const T> a(call.in(0), lead), tau(call.in(1), lead);
    const Items<T> out(call.out(0), lead);
    const Product<T> multiply("linalg.householder_product", a.rows, a.columns, tau.rows, out.ld());
    for_items(lead.count, 2 * cube(a.rows, a.columns), [&](int64_t first, int64_t last) {
      std::vector<T> work(multiply.lwork);
      for (int64_t i = first; i < last; ++i) {
        a.copy(i, out[i], out.ld());
        if (a.columns > 0) multiply(out[i], vector_at(tau, i).data(), work.data());
      }
    });
  });
}

// Attributes: left, transpose. The product of Q, given by its reflectors, or of its adjoint and another matrix.
void ormqr(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead lead(call, 2);
    const Items<const T> a(call.in(0), lead), tau(call.in(1), lead), other(call.in(2), lead);
    const Items<T> out(call.out(0), lead);
    if (call.out(0).numel() == 0) return;
    const char *side = call.integer(0) ? "L" : "R", *trans = !call.integer(1)     ? "N"
                                                             : is_complex_type<T> ? "C"
                                                                                  : "T";
    const char* op = "ormqr";
    const Int m = lapack::size(op, out.rows), n = lapack::size(op, out.columns);
    const Int k = lapack::size(op, tau.rows), lda = lapack::leading(op, a.rows);
    const Int ldc = lapack::leading(op, out.ld());
    auto* const routine = lapack::ormqr<T>();
    const Int query = -1;
    T answer = 0;
    Int info = 0;
    routine(side, trans, &m, &n, &k, nullptr, &lda, nullptr, nullptr, &ldc, &answer, &query, &info);
    const Int lwork = workspace_of(answer);
    for_items(lead.count, 4 * cube(out.rows, out.columns), [&](int64_t first, int64_t last) {
      std::vector<T> work(lwork), place(std::max<int64_t>(1, a.rows * a.columns));
      Int outcome = 0;
      for (int64_t i = first; i < last; ++i) {
        a.copy(i, place.data(), std::max<int64_t>(1, a.rows));
        other.copy(i, out[i], out.ld());
        routine(side, trans, &m, &n, &k, place.data(), &lda, vector_at(tau, i).data(), out[i], &ldc,
                work.data(), &lwork, &outcome);
      }
    });
  });
}

// ---- symmetric indefinite

// Attributes: hermitian, check. Outputs: L and D in one matrix, pivots, the outcome.
void ldl_factor(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead lead(call, 2);
    const Items<const T> a(call.in(0), lead);
    const Items<T> out(call.out(0), lead);
    const Items<Int> pivots(call.out(1), lead), info(call.out(2), lead);
    const Int n = lapack::size("linalg.ldl_factor", a.rows),
              lda = lapack::leading("linalg.ldl_factor", out.ld());
    auto* const sytrf =
        is_complex_type<T> && call.integer(0) ? lapack::hetrf<T>() : lapack::sytrf<T>();
    const Int query = -1;
    T answer = 0;
    Int outcome = 0;
    sytrf("L", &n, nullptr, &lda, nullptr, &answer, &query, &outcome);
    const Int lwork = workspace_of(answer);
    std::vector<Int> infos(lead.count);
    for_items(lead.count, cube(n, n) / 2, [&](int64_t first, int64_t last) {
      std::vector<T> work(lwork);
      for (int64_t i = first; i < last; ++i) {
        a.copy(i, out[i], out.ld());
        clear_above(out[i], n, n, out.ld());
        sytrf("L", &n, out[i], &lda, pivots[i], work.data(), &lwork, &infos[i]);
        *info[i] = infos[i];
      }
    });
    check_outcomes(call, infos);
  });
}

// Attribute: hermitian. Solutions by the factors of ldl_factor.
void ldl_solve(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead lead(call, 2);
    const Items<const T> factors(call.in(0), lead), b(call.in(2), lead);
    const Items<const Int> pivots(call.in(1), lead);
    const Items<T> out(call.out(0), lead);
    const char* op = "linalg.ldl_solve";
    const Int n = lapack::size(op, out.rows), columns = lapack::size(op, out.columns);
    const Int lda = lapack::leading(op, factors.rows), ldb = lapack::leading(op, out.ld());
    auto* const sytrs =
        is_complex_type<T> && call.integer(0) ? lapack::hetrs<T>() : lapack::sytrs<T>();
    for_items(lead.count, cube(n, n) + 2 * cube(n, columns), [&](int64_t first, int64_t last) {
      std::vector<T> place(std::max<int64_t>(1, factors.rows * factors.rows));
      std::vector<Int> swaps(n + 1);
      Int info = 0;
      for (int64_t i = first; i < last; ++i) {
        factors.copy(i, place.data(), std::max<int64_t>(1, factors.rows));
        b.copy(i, out[i], out.ld());
        bool inside = true;
        for (Int k = 0; k < n; ++k) {
          swaps[k] = pivots[i][k * pivots.row_stride];
          inside = inside && swaps[k] != 0 && std::abs(static_cast<int64_t>(swaps[k])) <= n;
        }
        TAPEGRAD_CHECK(inside, op, ": expected pivots as linalg.ldl_factor gives them, got others");
        if (n > 0) sytrs("L", &n, &columns, place.data(), &lda, swaps.data(), out[i], &ldb, &info);
      }
    });
  });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"linalg_cholesky_ex", cholesky},
    {"linalg_lu_factor_ex", lu_factor},
    {"lu_permutation", lu_permutation},
    {"linalg_qr", qr},
    {"geqrf", geqrf},
    {"linalg_householder_product", householder_product},
    {"ormqr", ormqr},
    {"linalg_ldl_factor_ex", ldl_factor},
    {"linalg_ldl_solve", ldl_solve},
};

}  // namespace

}  // namespace tapegrad::cpu::linalg
