// Linear systems, inverses, determinants and least squares.
#include "core/error.h"
#include "core/registry.h"
#include "cpu/linalg.h"
#include "cpu/linalg_small.h"

namespace tapegrad::cpu::linalg {

namespace {

constexpr int64_t kSmallSolve = 16;

double square(int64_t n) { return static_cast<double>(n) * static_cast<double>(n); }
double cube(int64_t n) { return square(n) * static_cast<double>(n); }

// L U factorizations of square matrices in place, and solutions by them.
template <class T>
class Solver {
 public:
  Solver(const char* op, int64_t n, int64_t lda)
      : n_(n), lda_(lda), size_(lapack::size(op, n)), leading_(lapack::leading(op, lda)) {
    if (n <= kSmallSolve) return;
    getrf_ = lapack::getrf<T>();
    getrs_ = lapack::getrs<T>();
  }
  Int factor(T* a, Int* pivots) const {
    if (!getrf_)
      return with_size(n_, [&](auto known) { return small_lu<known>(a, n_, n_, lda_, pivots); });
    Int info = 0;
    getrf_(&size_, &size_, a, &leading_, pivots, &info);
    return info;
  }
  void solve(const T* lu, const Int* pivots, bool transposed, T* b, int64_t columns,
             int64_t ldb) const {
    if (getrs_) {
      const Int count = lapack::size("linalg.solve", columns),
                leading = lapack::leading("linalg.solve", ldb);
      Int info = 0;
      getrs_(transposed ? "T" : "N", &size_, &count, lu, &leading_, pivots, b, &leading, &info);
      return;
    }
    with_size(n_, [&](auto known) {
      if (!transposed) swap_rows(b, columns, ldb, pivots, n_, false);
      small_triangular<known>(lu, lda_, transposed, !transposed, transposed, n_, b, columns, ldb);
      small_triangular<known>(lu, lda_, !transposed, transposed, transposed, n_, b, columns, ldb);
      if (transposed) swap_rows(b, columns, ldb, pivots, n_, true);
    });
  }

 private:
  int64_t n_, lda_;
  Int size_, leading_;
  decltype(lapack::getrf<T>()) getrf_ = nullptr;
  decltype(lapack::getrs<T>()) getrs_ = nullptr;
};

// Attribute: check. Outputs: the solutions, L and U, pivots, outcomes.
void solve(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead lead(call, 2);
    const Items<const T> a(call.in(0), lead), b(call.in(1), lead);
    const Items<T> x(call.out(0), lead), lu(call.out(1), lead);
    const Items<Int> pivots(call.out(2), lead), info(call.out(3), lead);
    const int64_t n = a.rows;
    const Solver<T> solver("linalg.solve", n, lu.ld());
    std::vector<Int> infos(lead.count);
    for_items(lead.count, cube(n) / 2 + square(n) * x.columns, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        a.copy(i, lu[i], lu.ld());
        b.copy(i, x[i], x.ld());
        *info[i] = infos[i] = solver.factor(lu[i], pivots[i]);
        solver.solve(lu[i], pivots[i], false, x[i], x.columns, x.ld());
      }
    });
    check_outcomes(call, infos);
  });
}

// Attribute: transpose. Solutions by factors that are given.
void lu_solve(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead lead(call, 2);
    const Items<const T> lu(call.in(0), lead), b(call.in(2), lead);
    const Items<const Int> pivots(call.in(1), lead);
    const Items<T> x(call.out(0), lead);
    const int64_t n = lu.rows;
    const bool transposed = call.integer(0);
    const Solver<T> solver("linalg.lu_solve", n, std::max<int64_t>(n, 1));
    const bool in_place = lu.row_stride == 1 && lu.column_stride == n;
    for_items(lead.count, square(n) * x.columns, [&](int64_t first, int64_t last) {
      std::vector<T> place(in_place ? 1 : n * n + 1);
      std::vector<Int> swaps(n + 1);
      for (int64_t i = first; i < last; ++i) {
        if (!in_place) lu.copy(i, place.data(), n);
        bool inside = true;
        for (int64_t k = 0; k < n; ++k) {
          swaps[k] = pivots[i][k * pivots.row_stride];
          inside = inside && swaps[k] >= 1 && swaps[k] <= n;
        }
        TAPEGRAD_CHECK(inside, "linalg.lu_solve: expected pivots between 1 and ", n);
        b.copy(i, x[i], x.ld());
        solver.solve(in_place ? lu[i] : place.data(), swaps.data(), transposed, x[i], x.columns,
                     x.ld());
      }
    });
  });
}

// Attribute: check. Outputs: the inverses, outcomes.
void inverse(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead lead(call, 2);
    const Items<const T> a(call.in(0), lead);
    const Items<T> out(call.out(0), lead);
    const Items<Int> info(call.out(1), lead);
    const int64_t n = a.rows;
    const Int size = lapack::size("linalg.inv", n), lda = lapack::leading("linalg.inv", out.ld());
    const bool is_small = n <= kSmallSolve;
    Int lwork = 1;
    if (!is_small) {
      const Int query = -1;
      Int outcome = 0;
      T answer = 0;
      lapack::getri<T>()(&size, nullptr, &lda, nullptr, &answer, &query, &outcome);
      lwork = std::max<Int>(1, static_cast<Int>(real_part(answer)));
    }
    std::vector<Int> infos(lead.count);
    for_items(lead.count, cube(n), [&](int64_t first, int64_t last) {
      std::vector<T> work(lwork);
      std::vector<Int> pivots(n + 1);
      for (int64_t i = first; i < last; ++i) {
        T* place = out[i];
        a.copy(i, place, out.ld());
        if (is_small) {
          infos[i] = with_size(n, [&](auto known) {
            return small_inverse<known>(place, n, out.ld(), pivots.data());
          });
        } else {
          lapack::getrf<T>()(&size, &size, place, &lda, pivots.data(), &infos[i]);
          Int outcome = infos[i];
          if (outcome == 0)
            lapack::getri<T>()(&size, place, &lda, pivots.data(), work.data(), &lwork, &outcome);
        }
        *info[i] = infos[i];
      }
    });
    check_outcomes(call, infos);
  });
}

template <class T, class Put>
void factor_all(const OpCall& call, size_t first_factor, Put put) {
  const Lead lead(call, 0);
  const Items<const T> a(call.in(0), lead);
  const Items<T> lu(call.out(first_factor), lead);
  const Items<Int> pivots(call.out(first_factor + 1), lead);
  const int64_t n = a.rows;
  const Solver<T> solver("linalg.det", n, lu.ld());
  for_items(lead.count, cube(n) / 2, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      a.copy(i, lu[i], lu.ld());
      solver.factor(lu[i], pivots[i]);
      T sign = 1;
      for (int64_t k = 0; k < n; ++k)
        if (pivots[i][k] != k + 1) sign = -sign;
      put(lead, i, sign, lu[i], n, lu.ld() + 1);
    }
  });
}

// Outputs: determinants, L and U, pivots.
void determinant(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead all(call, 0);
    const Items<T> result(call.out(0), all);
    factor_all<T>(call, 1,
                  [&](const Lead&, int64_t i, T sign, const T* diagonal, int64_t n, int64_t step) {
      T product = sign;
      for (int64_t k = 0; k < n; ++k) product *= diagonal[k * step];
      *result[i] = product;
    });
  });
}

template <class T>
T times_sign(T sign, T value, Real<T> size) {
  if constexpr (is_complex_type<T>) return sign * (value / size);
  else return value < 0 ? -sign : sign;
}

// Outputs: signs, logarithms of absolute values, L and U, pivots.
void log_determinant(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead all(call, 0);
    const Items<T> signs(call.out(0), all);
    const Items<Real<T>> logs(call.out(1), all);
    factor_all<T>(call, 2,
                  [&](const Lead&, int64_t i, T sign, const T* diagonal, int64_t n, int64_t step) {
      Real<T> sum = 0;
      for (int64_t k = 0; k < n; ++k) {
        const T value = diagonal[k * step];
        const Real<T> size = magnitude(value);
        sign = is_nan(value) ? value : size == 0 ? T(0) : times_sign(sign, value, size);
        sum += std::log(size);
      }
      *signs[i] = sign;
      *logs[i] = sum;
    });
  });
}

// Attributes: upper, left, unitriangular. The other triangle is not read.
void solve_triangular(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead lead(call, 2);
    const Items<const T> a(call.in(0), lead), b(call.in(1), lead);
    const Items<T> x(call.out(0), lead);
    const bool upper = call.integer(0), left = call.integer(1), unit = call.integer(2);
    const int64_t n = a.rows;
    const char* op = "linalg.solve_triangular";
    const bool by_columns = a.row_stride == 1 && a.column_stride >= std::max<int64_t>(n, 1);
    const bool by_rows =
        !by_columns && a.column_stride == 1 && a.row_stride >= std::max<int64_t>(n, 1);
    const bool copies = !by_columns && !by_rows;
    const int64_t lda = by_columns ? a.column_stride
                        : by_rows  ? a.row_stride
                                   : std::max<int64_t>(n, 1);
    const bool small = left && n <= kSmallSolve;
    auto* const trsm = small ? nullptr : lapack::trsm<T>();
    const Int rows = lapack::size(op, x.rows), columns = lapack::size(op, x.columns);
    const Int leading_a = lapack::leading(op, lda), leading_x = lapack::leading(op, x.ld());
    const T one = 1;
    for_items(lead.count, square(n) * static_cast<double>(left ? x.columns : x.rows) / 2,
              [&](int64_t first, int64_t last) {
      std::vector<T> place(copies ? n * n + 1 : 1);
      for (int64_t i = first; i < last; ++i) {
        const T* triangle = a[i];
        if (copies) {
          a.copy(i, place.data(), n);
          triangle = place.data();
        }
        b.copy(i, x[i], x.ld());
        // Rows read as columns are the transpose, whose triangle is the other one.
        const bool stored_upper = by_rows ? !upper : upper;
        if (small)
          with_size(n, [&](auto known) {
            small_triangular<known>(triangle, lda, stored_upper, unit, by_rows, n, x[i], x.columns,
                                    x.ld());
          });
        else if (n > 0)
          trsm(left ? "L" : "R", stored_upper ? "U" : "L", by_rows ? "T" : "N", unit ? "U" : "N",
               &rows, &columns, &one, triangle, &leading_a, x[i], &leading_x);
      }
    });
  });
}

// ---- least squares

// Memory of LAPACK's routines.
template <class T>
struct LeastSquaresWork {
  std::vector<T> work;
  std::vector<Real<T>> values, real_work;
  std::vector<Int> jpvt, integers;
};

template <class T>
struct LeastSquaresCall {
  LeastSquares driver;
  Int m, n, columns, lda, ldb;
  Real<T> rcond;
  Int lwork = 1, lrwork = 1, liwork = 1;

  Int run(T* a, T* b, Int* rank, LeastSquaresWork<T>& memory, Int length) const {
    Int info = 0;
    T* work = memory.work.data();
    Real<T>*s = memory.values.data(), *rwork = memory.real_work.data();
    Int *jpvt = memory.jpvt.data(), *iwork = memory.integers.data();
    auto call = [&](auto* routine, auto... last) {
      routine(&m, &n, &columns, a, &lda, b, &ldb, last..., &info);
    };
    if (driver == LeastSquares::gels) {
      lapack::gels<T>()("N", &m, &n, &columns, a, &lda, b, &ldb, work, &length, &info);
    } else if constexpr (is_complex_type<T>) {
      if (driver == LeastSquares::gelsy)
        call(lapack::complex_gelsy<T>(), jpvt, &rcond, rank, work, &length, rwork);
      else if (driver == LeastSquares::gelsd)
        call(lapack::complex_gelsd<T>(), s, &rcond, rank, work, &length, rwork, iwork);
      else call(lapack::complex_gelss<T>(), s, &rcond, rank, work, &length, rwork);
    } else {
      if (driver == LeastSquares::gelsy)
        call(lapack::gelsy<T>(), jpvt, &rcond, rank, work, &length);
      else if (driver == LeastSquares::gelsd)
        call(lapack::gelsd<T>(), s, &rcond, rank, work, &length, iwork);
      else call(lapack::gelss<T>(), s, &rcond, rank, work, &length);
    }
    return info;
  }
  // Asks how much memory the routine wants.
  void ask() {
    LeastSquaresWork<T> memory{{T(0)}, {0}, {0}, {0}, {1}};
    Int rank = 0;
    run(nullptr, nullptr, &rank, memory, -1);
    lwork = std::max<Int>(1, static_cast<Int>(real_part(memory.work[0])));
    // Only gelsd tells; the others say it in their documentation.
    lrwork = std::max<Int>({1, 2 * n, 5 * std::min(m, n), static_cast<Int>(memory.real_work[0])});
    liwork = std::max<Int>(1, memory.integers[0]);
  }
  LeastSquaresWork<T> memory() const {
    return {std::vector<T>(lwork + 1), std::vector<Real<T>>(std::min(m, n) + 1),
            std::vector<Real<T>>(lrwork), std::vector<Int>(n + 1), std::vector<Int>(liwork)};
  }
};

// Attributes: driver, rcond, check. Outputs: the solutions, with the rest below them where there are more equations
// than unknowns; ranks; singular values; outcomes.
void least_squares(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead lead(call, 2);
    const Items<const T> a(call.in(0), lead), b(call.in(1), lead);
    const Items<T> x(call.out(0), lead);
    const Items<Real<T>> values(call.out(2), lead);
    const Items<int64_t> ranks(call.out(1), lead);
    const char* op = "linalg.lstsq";
    LeastSquaresCall<T> routine{static_cast<LeastSquares>(call.integer(0)),
                                lapack::size(op, a.rows),
                                lapack::size(op, a.columns),
                                lapack::size(op, b.columns),
                                lapack::leading(op, a.rows),
                                lapack::leading(op, x.ld()),
                                static_cast<Real<T>>(call.real(1))};
    const bool is_empty = std::min({a.rows, a.columns}) == 0;
    if (!is_empty) routine.ask();
    std::vector<Int> infos(lead.count);
    const double cost = 4 * square(std::max(a.rows, a.columns)) *
                        static_cast<double>(std::min(a.rows, a.columns) + b.columns);
    for_items(lead.count, cost, [&](int64_t first, int64_t last) {
      std::vector<T> place(a.rows * a.columns + 1);
      LeastSquaresWork<T> memory = routine.memory();
      for (int64_t i = first; i < last; ++i) {
        for (int64_t c = 0; c < x.columns; ++c) std::fill_n(x[i] + c * x.ld(), x.rows, T(0));
        *ranks[i] = 0;
        if (is_empty) continue;
        a.copy(i, place.data(), a.rows);
        b.copy(i, x[i], x.ld());
        std::fill(memory.jpvt.begin(), memory.jpvt.end(), 0);
        Int rank = 0;
        // What is not finite would keep LAPACK's iterations from ending.
        const bool finite = all_finite(place.data(), a.rows, a.columns, a.rows) &&
                            all_finite(x[i], b.rows, b.columns, x.ld());
        if (finite || routine.driver == LeastSquares::gels || routine.driver == LeastSquares::gelsy)
          infos[i] = routine.run(place.data(), x[i], &rank, memory, routine.lwork);
        else infos[i] = 1;
        *ranks[i] = rank;
        for (int64_t k = 0; k < values.rows; ++k)
          values[i][k * values.row_stride] = memory.values[k];
      }
    });
    check_outcomes(call, infos);
  });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"linalg_solve_ex", solve},          {"linalg_lu_solve", lu_solve},
    {"linalg_inv_ex", inverse},          {"linalg_det", determinant},
    {"linalg_slogdet", log_determinant}, {"linalg_solve_triangular", solve_triangular},
    {"linalg_lstsq", least_squares},
};

// What went wrong, in PyTorch's words.
std::string reason(std::string_view caller, Int info) {
  auto names = [&](std::string_view part) { return caller.find(part) != std::string_view::npos; };
  if (names("cholesky"))
    return concat(
        "The factorization could not be completed because the input is not positive-definite (the "
        "leading minor of order ",
        info, " is not positive-definite).");
  if (names("inv"))
    return concat("The diagonal element ", info,
                  " is zero, the inversion could not be completed because the "
                  "input matrix is singular.");
  if (names("solve")) return "The solver failed because the input matrix is singular.";
  if (names("lu"))
    return concat(
        "U[", info, ",", info,
        "] is zero and using it on lu_solve would result in a division by zero. "
        "If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
        "linalg.lu_factor_ex(A, pivot)");
  if (names("ldl"))
    return "The factorization could not be completed: a block of the diagonal is singular.";
  if (names("svd") && info < 0)
    return "The algorithm failed to converge because the input matrix contained non-finite values.";
  if (names("svd"))
    return concat(
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
        "repeated singular values (error code: ",
        info, ").");
  if (names("eig"))
    return concat(
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
        "repeated eigenvalues (error code: ",
        info, ").");
  if (names("lstsq"))
    return concat(
        "The least squares solution could not be computed because the input matrix does not have full "
        "rank (error code: ",
        info, ").");
  return concat("failed with error code ", info, ".");
}

}  // namespace

void check_outcomes(const OpCall& call, const std::vector<Int>& infos) {
  const auto caller = static_cast<size_t>(call.attributes.back().as_int());
  if (caller == 0 || caller >= kLinalgCallers.size()) return;
  for (size_t i = 0; i < infos.size(); ++i) {
    if (infos[i] == 0) continue;
    const char* name = kLinalgCallers[caller];
    const bool is_batch = call.in(0).dim() > 2;
    const std::string text =
        concat(name, ": ", is_batch ? concat("(Batch element ", i, "): ") : std::string(),
               reason(name, infos[i]));
    // As in PyTorch, where the factorization itself succeeds on such a matrix.
    if (std::string_view(name).find("lu") != std::string_view::npos) fail(text);
    fail<LinAlgError>(text);
  }
}

}  // namespace tapegrad::cpu::linalg
