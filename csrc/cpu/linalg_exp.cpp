// The exponential of matrices: scaling, a Pade approximant, squaring.
//
// The approximant of degree 7 is exact to rounding in float32 for norms up to 3.9, that of degree 13 in float64 up to
// 5.4 (N. J. Higham, The scaling and squaring method for the matrix exponential revisited, 2005).
#include "core/registry.h"
#include "cpu/gemm.h"
#include "cpu/linalg.h"
#include "cpu/linalg_small.h"

namespace tapegrad::cpu::linalg {

namespace {

template <class T>
struct Pade;
template <>
struct Pade<float> {
  static constexpr int kDegree = 7;
  static constexpr double kNorm = 3.925724783138660;
  static constexpr double kFactors[] = {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1};
};
template <>
struct Pade<double> {
  static constexpr int kDegree = 13;
  static constexpr double kNorm = 5.371920351148152;
  static constexpr double kFactors[] = {64764752532480000,
                                        32382376266240000,
                                        7771770303897600,
                                        1187353796428800,
                                        129060195264000,
                                        10559470521600,
                                        670442572800,
                                        33522128640,
                                        1323241920,
                                        40840800,
                                        960960,
                                        16380,
                                        182,
                                        1};
};

// Square matrices by rows, contiguous.
template <class T>
class Exponential {
 public:
  explicit Exponential(int64_t n) : n_(n), count_(n * n) {
    for (auto* place : {&square_, &power_, &even_, &odd_, &product_}) place->resize(count_);
    pivots_.resize(n);
  }
  // In place.
  void operator()(T* a) {
    const double norm = largest_row_sum(a);
    if (!std::isfinite(norm)) {
      std::fill_n(a, count_, T(std::numeric_limits<Real<T>>::quiet_NaN()));
      return;
    }
    const int squarings = norm > Pade<Real<T>>::kNorm
                              ? static_cast<int>(std::ceil(std::log2(norm / Pade<Real<T>>::kNorm)))
                              : 0;
    const Real<T> scale = std::ldexp(Real<T>(1), -squarings);
    for (int64_t i = 0; i < count_; ++i) a[i] = a[i] * scale;
    divide(a);
    for (int i = 0; i < squarings; ++i) {
      multiply(a, a, product_.data());
      std::copy(product_.begin(), product_.end(), a);
    }
  }

 private:
  double largest_row_sum(const T* a) const {
    double largest = 0;
    for (int64_t r = 0; r < n_; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < n_; ++c) sum += magnitude(a[r * n_ + c]);
      largest = sum <= largest ? largest : sum;  // NaN stays
    }
    return largest;
  }
  void multiply(const T* a, const T* b, T* c) const {
    if constexpr (is_complex_type<T>) {
      const T one = 1, none = 0;
      const auto n = static_cast<Int>(n_);  // columns there: c^T = b^T a^T
      lapack::gemm<T>()("N", "N", &n, &n, &n, &one, b, &n, a, &n, &none, c, &n);
    } else {
      gemm<T>(false, false, n_, n_, n_, 1, a, n_, b, n_, 0, c, n_);
    }
  }
  // a becomes (V - U)^-1 (V + U), the sums of its even and of its odd powers.
  void divide(T* a) {
    constexpr auto& factors = Pade<Real<T>>::kFactors;
    multiply(a, a, square_.data());
    std::fill(power_.begin(), power_.end(), T(0));
    for (int64_t i = 0; i < n_; ++i) power_[i * n_ + i] = 1;
    std::fill(even_.begin(), even_.end(), T(0));
    std::fill(odd_.begin(), odd_.end(), T(0));
    for (int k = 0; k <= Pade<Real<T>>::kDegree; k += 2) {
      for (int64_t i = 0; i < count_; ++i) {
        even_[i] += static_cast<Real<T>>(factors[k]) * power_[i];
        odd_[i] += static_cast<Real<T>>(factors[k + 1]) * power_[i];
      }
      if (k + 2 > Pade<Real<T>>::kDegree) break;
      multiply(power_.data(), square_.data(), product_.data());
      std::swap(power_, product_);
    }
    multiply(a, odd_.data(), product_.data());  // U
    // All are functions of one matrix, so that the transposes that columns make of rows do not matter.
    for (int64_t i = 0; i < count_; ++i) {
      a[i] = even_[i] + product_[i];
      even_[i] -= product_[i];
    }
    if (n_ <= 16) {
      small_lu(even_.data(), n_, n_, n_, pivots_.data());
      swap_rows(a, n_, n_, pivots_.data(), n_, false);
      small_triangular(even_.data(), n_, false, true, false, n_, a, n_, n_);
      small_triangular(even_.data(), n_, true, false, false, n_, a, n_, n_);
      return;
    }
    const auto n = static_cast<Int>(n_);
    Int info = 0;
    lapack::getrf<T>()(&n, &n, even_.data(), &n, pivots_.data(), &info);
    lapack::getrs<T>()("N", &n, &n, even_.data(), &n, pivots_.data(), a, &n, &info);
  }

  int64_t n_, count_;
  std::vector<T> square_, power_, even_, odd_, product_;
  std::vector<Int> pivots_;
};

void matrix_exp(const OpCall& call) {
  with_type(call, [&](auto zero) {
    using T = decltype(zero);
    const Lead lead(call, 2);
    const Items<const T> a(call.in(0), lead);
    const Items<T> out(call.out(0), lead);
    const int64_t n = a.rows;
    lapack::size("linalg.matrix_exp", n);
    if (n == 0) return;
    for_items(lead.count,
              15 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n),
              [&](int64_t first, int64_t last) {
      Exponential<T> exponential(n);
      std::vector<T> place(n * n);
      for (int64_t i = first; i < last; ++i) {
        a.copy(i, place.data(),
               n);  // columns, which are read as rows: the exponential of the transpose
        exponential(place.data());
        for (int64_t c = 0; c < n; ++c)
          for (int64_t r = 0; r < n; ++r)
            out[i][r * out.row_stride + c * out.column_stride] = place[c * n + r];
      }
    });
  });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"linalg_matrix_exp", matrix_exp},
};

}  // namespace

}  // namespace tapegrad::cpu::linalg
