// Eigenvalues and singular values: of small matrices that are real by Jacobi's methods, else by LAPACK.
//
// What is not finite never gets to an iteration: it might not end, and the outcome is the same.
#include <limits>

#include "core/registry.h"
#include "cpu/linalg.h"
#include "cpu/linalg_small.h"

namespace tapegrad::cpu::linalg {

namespace {

constexpr int64_t kSmallEigh = 6, kSmallSvd = 8;

double cube(int64_t m, int64_t n) {
  return 20 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(std::min(m, n));
}

// The largest absolute value, so that squares neither overflow nor vanish after a division by it.
template <class T>
T scale_of(const T* a, int64_t count) {
  T largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(a[i]));
  return largest >= std::numeric_limits<T>::min() ? largest : 1;
}

// ---- eigenvalues

template <class T>
struct Eigh {
  Int n, lda;
  const char *jobz, *uplo;
  Int lwork = 1, lrwork = 1, liwork = 1;

  struct Memory {
    std::vector<T> work;
    std::vector<Real<T>> real_work;
    std::vector<Int> integers;
  };

  Eigh(int64_t size, int64_t ld, bool upper, bool vectors)
      : n(lapack::size("linalg.eigh", size)),
        lda(lapack::leading("linalg.eigh", ld)),
        jobz(vectors ? "V" : "N"),
        uplo(upper ? "U" : "L") {
    Memory answer{{T(0)}, {0}, {1}};
    call(nullptr, nullptr, answer, -1, -1, -1);
    lwork = std::max<Int>(1, static_cast<Int>(real_part(answer.work[0])));
    lrwork = std::max<Int>(1, static_cast<Int>(answer.real_work[0]));
    liwork = std::max<Int>(1, answer.integers[0]);
  }
  Memory memory() const {
    return {std::vector<T>(lwork), std::vector<Real<T>>(lrwork), std::vector<Int>(liwork)};
  }
  Int run(T* a, Real<T>* w, Memory& memory) const {
    return call(a, w, memory, lwork, lrwork, liwork);
  }

 private:
  Int call(T* a, Real<T>* w, Memory& memory, Int length, Int real_length,
           Int integer_length) const {
    Int info = 0;
    T* work = memory.work.data();
    Int* iwork = memory.integers.data();
    if constexpr (is_complex_type<T>)
      lapack::heevd<T>()(jobz, uplo, &n, a, &lda, w, work, &length, memory.real_work.data(),
                         &real_length, iwork, &integer_length, &info);
    else
      lapack::syevd<T>()(jobz, uplo, &n, a, &lda, w, work, &length, iwork, &integer_length, &info);
    return info;
  }
};

// Both triangles from one, scaled; what it was divided by, or NaN if something is not finite.
template <class T>
T load_symmetric(const Items<const T>& a, int64_t i, bool upper, T* to) {
  const int64_t n = a.rows;
  const T* from = a[i];
  const int64_t down = upper ? a.column_stride : a.row_stride,
                across = upper ? a.row_stride : a.column_stride;
  for (int64_t c = 0; c < n; ++c)
    for (int64_t r = c; r < n; ++r) to[c * n + r] = to[r * n + c] = from[r * down + c * across];
  if (!all_finite(to, n, n, n)) return std::numeric_limits<T>::quiet_NaN();
  const T scale = scale_of(to, n * n);
  for (int64_t k = 0; k < n * n; ++k) to[k] /= scale;
  return scale;
}

// Attributes: upper, vectors, check. Outputs: eigenvalues, vectors (of no elements if none are wanted), outcomes.
void eigh(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead lead(call, 1);
    const Items<const T> a(call.in(0), lead);
    const Items<Real<T>> w(call.out(0), lead);
    const Items<T> v(call.out(1), lead);
    const Items<Int> info(call.out(2), lead);
    const bool upper = call.integer(0), vectors = call.integer(1);
    const int64_t n = a.rows;
    const Int failed = std::max<Int>(1, static_cast<Int>(n) - 1);
    std::vector<Int> infos(lead.count);
    if (n > 0 && lead.count > 0) {
      const Eigh<T> routine(n, n, upper, vectors);
      for_items(lead.count, cube(n, n), [&](int64_t first, int64_t last) {
        const bool is_small = !is_complex_type<T> && n <= kSmallEigh;
        std::vector<T> place(n * n), basis(is_small ? n * n : 0);
        std::vector<Real<T>> values(n);
        auto memory = is_small ? typename Eigh<T>::Memory() : routine.memory();
        for (int64_t i = first; i < last; ++i) {
          T* columns = place.data();
          if (is_small) {
            if constexpr (!is_complex_type<T>) {
              const T scale = load_symmetric(a, i, upper, place.data());
              const bool good = !std::isnan(scale) && with_size(n, [&](auto known) {
                return small_eigh<known>(place.data(), n, values.data(),
                                         vectors ? basis.data() : nullptr);
              });
              infos[i] = good ? 0 : failed;
              for (T& value : values) value *= scale;
              columns = basis.data();
            }
          } else {
            a.copy(i, place.data(), n);
            if (upper) clear_below(place.data(), n, n, n);
            else clear_above(place.data(), n, n, n);
            infos[i] = all_finite(place.data(), n, n, n)
                           ? routine.run(place.data(), values.data(), memory)
                           : failed;
          }
          *info[i] = infos[i];
          for (int64_t k = 0; k < n; ++k) w[i][k * w.row_stride] = values[k];
          if (vectors)
            for (int64_t c = 0; c < n; ++c) std::copy_n(columns + c * n, n, v[i] + c * v.ld());
        }
      });
    }
    check_outcomes(call, infos);
  });
}

// ---- eigenvalues of any square matrix

// One call of LAPACK's geev: the values, and the vectors as columns of length one.
template <class C>
class GeneralEigen {
 public:
  using T = Real<C>;
  GeneralEigen(int64_t size, bool vectors)
      : n_(lapack::size("linalg.eig", size)), jobz_(vectors ? "V" : "N") {
    const Int query = -1;
    Int info = 0;
    resize(1);
    of_complex(nullptr, nullptr, nullptr, query, &info);
    const auto complex_size = static_cast<Int>(work_[0].real);
    of_real(nullptr, nullptr, query, &info);
    resize(std::max({1, complex_size, static_cast<Int>(real_work_[0])}));
  }
  GeneralEigen(const GeneralEigen&) = default;

  // `a` is overwritten; v may be null.
  Int run(C* a, C* w, C* v) {
    Int info = 0;
    of_complex(a, w, v, lwork_, &info);
    return info;
  }
  // Of a real matrix: vectors of a pair of conjugate values are a column of real and one of imaginary parts.
  Int run(T* a, C* w, C* v) {
    Int info = 0;
    std::vector<T>& parts = parts_;
    parts.resize(v ? size_t(n_) * n_ : 1);
    of_real(a, v ? parts.data() : nullptr, lwork_, &info);
    for (Int k = 0; k < n_; ++k) w[k] = {values_[k], values_[n_ + k]};
    if (!v) return info;
    for (int64_t k = 0; k < n_; ++k) {
      const T *x = parts.data() + k * n_, *y = x + n_;
      const bool is_pair = w[k].imag != 0 && k + 1 < n_;
      for (int64_t r = 0; r < n_; ++r) {
        v[k * n_ + r] = {x[r], is_pair ? y[r] : T(0)};
        if (is_pair) v[(k + 1) * n_ + r] = {x[r], -y[r]};
      }
      k += is_pair;
    }
    return info;
  }

 private:
  void resize(Int length) {
    lwork_ = length;
    work_.resize(length);
    real_work_.resize(std::max(length, 2 * n_ + 1));
    values_.resize(2 * n_ + 1);
  }
  void of_complex(C* a, C* w, C* v, Int length, Int* info) {
    const Int one = 1, lda = std::max(n_, one);
    lapack::complex_geev<C>()("N", jobz_, &n_, a, &lda, w, nullptr, &one, v, &lda, work_.data(),
                              &length, real_work_.data(), info);
  }
  void of_real(T* a, T* v, Int length, Int* info) {
    const Int one = 1, lda = std::max(n_, one);
    lapack::geev<T>()("N", jobz_, &n_, a, &lda, values_.data(), values_.data() + n_, nullptr, &one,
                      v, &lda, real_work_.data(), &length, info);
  }

  Int n_, lwork_ = 1;
  const char* jobz_;
  std::vector<C> work_;
  std::vector<T> real_work_, values_, parts_;
};

// Attributes: vectors, check. Outputs, which are complex: values, vectors (of no elements if none are wanted), outcomes.
void eig(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    using C = Complex<Real<T>>;
    const Lead lead(call, 1);
    const Items<const T> a(call.in(0), lead);
    const Items<C> w(call.out(0), lead), v(call.out(1), lead);
    const Items<Int> info(call.out(2), lead);
    const bool vectors = call.integer(0);
    const int64_t n = a.rows;
    std::vector<Int> infos(lead.count);
    if (n > 0 && lead.count > 0) {
      const GeneralEigen<C> prepared(n, vectors);
      for_items(lead.count, cube(n, n), [&](int64_t first, int64_t last) {
        GeneralEigen<C> routine = prepared;
        std::vector<T> place(n * n);
        std::vector<C> values(n), columns(vectors ? n * n : 0);
        for (int64_t i = first; i < last; ++i) {
          a.copy(i, place.data(), n);
          // As in PyTorch, this is asked for before any matrix is looked at.
          TAPEGRAD_CHECK(all_finite(place.data(), n, n, n), "torch.",
                         kLinalgCallers[static_cast<size_t>(call.integer(1))],
                         ": input tensor should not contain infs or NaNs.");
          *info[i] = infos[i] =
              routine.run(place.data(), values.data(), vectors ? columns.data() : nullptr);
          for (int64_t k = 0; k < n; ++k) w[i][k * w.row_stride] = values[k];
          for (int64_t c = 0; vectors && c < n; ++c)
            std::copy_n(columns.data() + c * n, n, v[i] + c * v.ld());
        }
      });
    }
    check_outcomes(call, infos);
  });
}

// Whether a loss depends on the phases of vectors, which are free: inputs that should be the negatives of each other are
// compared. Attribute: who asks. The output is 1 where they are not.
void phase_check(const OpCall& call) {
  constexpr double kTolerance = 1e-2;
  bool is_free = false;
  auto compare = [&]<class T>(T) {
    const Lead lead(call, 0);
    const Items<const T> a(call.in(0), lead), b(call.in(1), lead);
    const Items<Int> out(call.out(0), lead);
    for (int64_t i = 0; i < lead.count; ++i) {
      *out[i] = 0;
      for (int64_t k = 0; k < a.rows; ++k) {
        const double x = a[i][k * a.row_stride], y = b[i][k * b.row_stride];
        if (!(std::abs(x + y) <= kTolerance + kTolerance * std::abs(y))) *out[i] = 1;
      }
      is_free = is_free || *out[i];
    }
  };
  if (call.in(0).dtype() == DType::Float32) compare(float());
  else compare(double());
  const auto asking = static_cast<PhaseCheck>(call.integer(0));
  const bool of_svd = asking == PhaseCheck::Svd;
  TAPEGRAD_CHECK(!is_free,
                 of_svd                       ? "svd_backward: The singular vectors"
                 : asking == PhaseCheck::Eigh ? "linalg_eigh_backward: The eigenvectors"
                                              : "linalg_eig_backward: The eigenvectors",
                 " in the complex case are specified up to multiplication by e^{i phi}. The "
                 "specified loss function depends on this ",
                 of_svd ? "phase term, making it ill-defined." : "quantity, so it is ill-defined.");
}

// ---- singular values

template <class T>
struct Svd {
  Int m, n, lda, ldu, ldvt, lwork = 1;
  const char* jobz;

  struct Memory {
    std::vector<T> work;
    std::vector<Real<T>> real_work;
    std::vector<Int> integers;
  };

  Svd(int64_t rows, int64_t columns, bool vectors, bool full, int64_t ld_u, int64_t ld_vt)
      : m(lapack::size("linalg.svd", rows)),
        n(lapack::size("linalg.svd", columns)),
        lda(lapack::leading("linalg.svd", rows)),
        ldu(lapack::leading("linalg.svd", ld_u)),
        ldvt(lapack::leading("linalg.svd", ld_vt)),
        jobz(!vectors ? "N"
             : full   ? "A"
                      : "S") {
    Memory answer{{T(0)}, {0}, {0}};
    call(nullptr, nullptr, nullptr, nullptr, answer, -1);
    lwork = std::max<Int>(1, static_cast<Int>(real_part(answer.work[0])));
  }
  // What gesdd's documentation asks for beside its workspace.
  Memory memory() const {
    const int64_t least = std::min(m, n), most = std::max(m, n);
    const int64_t reals = !is_complex_type<T> ? 0
                          : *jobz == 'N'
                              ? 7 * least
                              : least * std::max(5 * least + 7, 2 * most + 2 * least + 1);
    return {std::vector<T>(lwork), std::vector<Real<T>>(reals), std::vector<Int>(8 * least)};
  }
  Int run(T* a, Real<T>* s, T* u, T* vt, Memory& memory) const {
    return call(a, s, u, vt, memory, lwork);
  }

 private:
  Int call(T* a, Real<T>* s, T* u, T* vt, Memory& memory, Int length) const {
    Int info = 0;
    T* work = memory.work.data();
    Int* iwork = memory.integers.data();
    if constexpr (is_complex_type<T>)
      lapack::complex_gesdd<T>()(jobz, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work, &length,
                                 memory.real_work.data(), iwork, &info);
    else
      lapack::gesdd<T>()(jobz, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work, &length, iwork, &info);
    return info;
  }
};

// Memory for one small matrix, in float64: many rotations round more than LAPACK does. `tall` has at least as many rows
// as columns.
template <class T>
struct SmallSvd {
  double tall[kSmallSvd * kSmallSvd], right[kSmallSvd * kSmallSvd], values[kSmallSvd];
  double left[kSmallSvd * kSmallSvd];

  // Returns whether it converged: else LAPACK is to try.
  bool run(int64_t rows, int64_t columns, bool vectors) {
    const double scale = scale_of(tall, rows * columns);
    for (int64_t k = 0; k < rows * columns; ++k) tall[k] /= scale;
    const double epsilon = std::numeric_limits<T>::epsilon();
    const double limit = std::is_same_v<T, float> ? epsilon / 16 : epsilon;
    const bool done = with_size(rows == columns ? rows : 0, [&](auto known) {
      return small_svd<known>(tall, rows, columns, limit, values, vectors ? right : nullptr);
    });
    if (!done) return false;
    if (vectors) normalize(rows, columns);
    for (int64_t k = 0; k < columns; ++k) values[k] *= scale;
    return true;
  }
  // The left vectors, of which the columns of `tall` are multiples; completed to a basis.
  void normalize(int64_t rows, int64_t columns) {
    // What lies below is rounding: too small for the angles between columns to be known.
    const double least = values[0] * std::numeric_limits<double>::epsilon() / 8;
    for (int64_t k = 0; k < rows; ++k) {
      if (k < columns && values[k] > least)
        for (int64_t r = 0; r < rows; ++r) left[k * rows + r] = tall[k * rows + r] / values[k];
      else complete_column(left, rows, k, rows);
    }
  }
};

// Attributes: full_matrices, vectors, check. Outputs: U, S, Vh (U and Vh of no elements if not wanted), outcomes.
template <class T>
struct SvdItems {
  SvdItems(const OpCall& call, const Lead& lead)
      : a(call.in(0), lead), u(call.out(0), lead), s(call.out(1), lead), vh(call.out(2), lead) {}
  Items<const T> a;
  Items<T> u;
  Items<Real<T>> s;
  Items<T> vh;
};

template <class T>
void svd_small(const SvdItems<T>& items, bool vectors, int64_t i, SmallSvd<T>& memory, bool* done) {
  const Items<const T>& a = items.a;
  const bool is_wide = a.rows < a.columns;
  const int64_t rows = is_wide ? a.columns : a.rows, columns = is_wide ? a.rows : a.columns;
  const int64_t down = is_wide ? a.column_stride : a.row_stride,
                across = is_wide ? a.row_stride : a.column_stride;
  const T* from = a[i];
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r) memory.tall[c * rows + r] = from[r * down + c * across];
  *done = memory.run(rows, columns, vectors);
  if (!*done) return;
  for (int64_t k = 0; k < columns; ++k)
    items.s[i][k * items.s.row_stride] = static_cast<T>(memory.values[k]);
  if (!vectors) return;
  T *u = items.u[i], *vh = items.vh[i];
  const double* left = is_wide ? memory.right : memory.left;
  const double* right = is_wide ? memory.left : memory.right;
  for (int64_t c = 0; c < items.u.columns; ++c)
    for (int64_t r = 0; r < a.rows; ++r)
      u[c * items.u.ld() + r] = static_cast<T>(left[c * a.rows + r]);
  for (int64_t c = 0; c < a.columns; ++c)
    for (int64_t r = 0; r < items.vh.rows; ++r)
      vh[c * items.vh.ld() + r] = static_cast<T>(right[r * a.columns + c]);
}

void svd(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    Lead lead(call, 2);
    const SvdItems<T> items(call, lead);
    const Items<const T>& a = items.a;
    const Items<Int> info(call.out(3), lead);
    const bool full = call.integer(0), vectors = call.integer(1);
    const int64_t m = a.rows, n = a.columns, k = std::min(m, n);
    std::vector<Int> infos(lead.count);
    if (k == 0 && vectors)
      for (int64_t i = 0; i < lead.count; ++i) {
        set_identity(items.u[i], items.u.rows, items.u.columns, items.u.ld());
        set_identity(items.vh[i], items.vh.rows, items.vh.columns, items.vh.ld());
      }
    if (k > 0 && lead.count > 0) {
      const Svd<T> routine(m, n, vectors, full, vectors ? items.u.ld() : 1,
                           vectors ? items.vh.ld() : 1);
      for_items(lead.count, cube(m, n), [&](int64_t first, int64_t last) {
        std::vector<T> place(m * n);
        std::vector<Real<T>> values(k);
        typename Svd<T>::Memory memory;
        SmallSvd<Real<T>> small;
        for (int64_t i = first; i < last; ++i) {
          a.copy(i, place.data(), m);
          infos[i] = *info[i] = -4;
          if (!all_finite(place.data(), m, n, m)) continue;
          bool done = false;
          if constexpr (!is_complex_type<T>)
            if (std::max(m, n) <= kSmallSvd) svd_small(items, vectors, i, small, &done);
          if (done) {
            infos[i] = *info[i] = 0;
            continue;
          }
          if (memory.work.empty()) memory = routine.memory();
          infos[i] = *info[i] =
              routine.run(place.data(), values.data(), vectors ? items.u[i] : nullptr,
                          vectors ? items.vh[i] : nullptr, memory);
          for (int64_t j = 0; j < k; ++j) items.s[i][j * items.s.row_stride] = values[j];
        }
      });
    } else {
      for (int64_t i = 0; i < lead.count; ++i) *info[i] = 0;
    }
    check_outcomes(call, infos);
  });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"linalg_eig", eig},
    {"linalg_eigh", eigh},
    {"linalg_phase_check", phase_check},
    {"linalg_svd", svd},
};

}  // namespace

}  // namespace tapegrad::cpu::linalg
