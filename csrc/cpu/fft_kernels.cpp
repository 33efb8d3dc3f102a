// Compiled once per instruction set.
#include "cpu/fft_kernels.h"

#include <type_traits>

#include "cpu/fft_butterflies.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

// ---- complex numbers that lie side by side

// Lanes 0, 2, 4, ... of two vectors, or lanes 1, 3, 5, ...
template <class T, bool kOdd>
inline typename Shape<T>::Vector every_other(typename Shape<T>::Vector a,
                                             typename Shape<T>::Vector b) {
  constexpr int kWidth = Shape<T>::kWidth;
#if defined(__clang__)
  return [&]<int... kLane>(std::integer_sequence<int, kLane...>) {
    return __builtin_shufflevector(a, b, (2 * kLane + kOdd)...);
  }(std::make_integer_sequence<int, kWidth>{});
#else
  typename Shape<T>::Lanes lanes;
  for (int i = 0; i < kWidth; ++i) lanes[i] = 2 * i + kOdd;
  return __builtin_shuffle(a, b, lanes);
#endif
}

template <class T>
inline typename Shape<T>::Vector reversed(typename Shape<T>::Vector a) {
  constexpr int kWidth = Shape<T>::kWidth;
#if defined(__clang__)
  return [&]<int... kLane>(std::integer_sequence<int, kLane...>) {
    return __builtin_shufflevector(a, a, (kWidth - 1 - kLane)...);
  }(std::make_integer_sequence<int, kWidth>{});
#else
  typename Shape<T>::Lanes lanes;
  for (int i = 0; i < kWidth; ++i) lanes[i] = kWidth - 1 - i;
  return __builtin_shuffle(a, lanes);
#endif
}
template <class T>
inline ComplexVector<T> reversed(ComplexVector<T> a) {
  return {reversed<T>(a.re), reversed<T>(a.im)};
}

template <class T>
inline ComplexVector<T> load_pairs(const T* x) {
  const auto a = load(x), b = load(x + Shape<T>::kWidth);
  return {every_other<T, false>(a, b), every_other<T, true>(a, b)};
}
template <class T>
inline void store_pairs(T* x, ComplexVector<T> value) {
  store(x, interleave<T, false>(value.re, value.im));
  store(x + Shape<T>::kWidth, interleave<T, true>(value.re, value.im));
}

// The first `count` of them: the others are zero, and are not written.
template <class T>
inline ComplexVector<T> load_pairs(const T* x, int64_t count) {
  if (count >= Shape<T>::kWidth) return load_pairs(x);
  ComplexVector<T> result{};
  for (int64_t i = 0; i < count; ++i) {
    result.re[i] = x[2 * i];
    result.im[i] = x[2 * i + 1];
  }
  return result;
}
template <class T>
inline void store_pairs(T* x, ComplexVector<T> value, int64_t count) {
  if (count >= Shape<T>::kWidth) return store_pairs(x, value);
  for (int64_t i = 0; i < count; ++i) {
    x[2 * i] = value.re[i];
    x[2 * i + 1] = value.im[i];
  }
}

// The product with a factor that may be negative: zeros have no sign.
template <class T>
inline T signed_product(T x, T factor) {
  return x * factor + T(0);
}
template <class T>
inline typename Shape<T>::Vector signed_product(typename Shape<T>::Vector x, T factor) {
  const typename Shape<T>::Vector zero{};
  return x * factor + zero;
}
template <class T>
inline ComplexVector<T> scaled(ComplexVector<T> z, T real, T imag) {
  return {signed_product<T>(z.re, real), signed_product<T>(z.im, imag)};
}

// ---- transforms of records

// One pass over `count` records.
template <class T, int kRadix, bool kFirst>
void run_pass(const FftPass<T>& pass, T* records, int64_t count) {
  constexpr int kWidth = Shape<T>::kWidth;
  const int64_t radix = kRadix ? kRadix : pass.radix, before = kFirst ? 1 : pass.before;
  const int64_t apart = before * 2 * kWidth, whole = radix * apart;
  ComplexVector<T> x[kRadix ? kRadix : kLargestRadix];
  for (T* end = records + count * 2 * kWidth; records < end; records += whole) {
    const T* twiddles = pass.twiddles;
    for (T *at = records, *last = records + apart; at < last; at += 2 * kWidth) {
      TAPEGRAD_UNROLL
      for (int64_t j = 0; j < radix; ++j) x[j] = load_record(at + j * apart);
      if constexpr (!kFirst) {
        TAPEGRAD_UNROLL
        for (int64_t j = 1; j < radix; ++j)
          x[j] = times(x[j], twiddles[2 * j - 2], twiddles[2 * j - 1]);
        twiddles += 2 * (radix - 1);
      }
      butterfly<T, kRadix>(x, pass);
      TAPEGRAD_UNROLL
      for (int64_t j = 0; j < radix; ++j) store_record(at + j * apart, x[j]);
    }
  }
}

template <class T, bool kFirst>
void run_any_pass(const FftPass<T>& pass, T* records, int64_t count) {
  switch (pass.radix) {
    case 2:
      return run_pass<T, 2, kFirst>(pass, records, count);
    case 3:
      return run_pass<T, 3, kFirst>(pass, records, count);
    case 4:
      return run_pass<T, 4, kFirst>(pass, records, count);
    case 5:
      return run_pass<T, 5, kFirst>(pass, records, count);
    case 7:
      return run_pass<T, 7, kFirst>(pass, records, count);
    case 8:
      return run_pass<T, 8, kFirst>(pass, records, count);
    default:
      return run_pass<T, 0, kFirst>(pass, records, count);
  }
}

template <class T>
void run_chain(const FftChain<T>& chain, T* records) {
  constexpr int kWidth = Shape<T>::kWidth;
  for (int64_t begin = 0; begin < chain.length; begin += chain.block) {
    T* block = records + begin * 2 * kWidth;
    if (chain.passes) run_any_pass<T, true>(chain.pass[0], block, chain.block);
    for (int64_t p = 1; p < chain.block_passes; ++p)
      run_any_pass<T, false>(chain.pass[p], block, chain.block);
  }
  for (int64_t p = chain.block_passes; p < chain.passes; ++p)
    run_any_pass<T, false>(chain.pass[p], records, chain.length);
}

// ---- lanes

template <class T>
inline bool are_apart(const FftLanes<T>& lanes, int64_t distance) {
  for (int64_t l = 1; l < lanes.count; ++l)
    if (lanes.offsets[l] - lanes.offsets[l - 1] != distance) return false;
  return lanes.count == Shape<T>::kWidth;
}

template <class T>
inline T* record_at(T* records, int64_t number) {
  return records + number * 2 * Shape<std::remove_const_t<T>>::kWidth;
}

// Squares of contiguous lines; returns how far.
template <class T>
int64_t load_squares(const FftLanes<const T>& lanes, int64_t length, const int32_t* place, T sign,
                     T* records) {
  constexpr int kWidth = Shape<T>::kWidth;
  const T* lines[kWidth];
  for (int l = 0; l < kWidth; ++l)  // those that are not there are the last one again
    lines[l] = lanes.base + lanes.offsets[l < lanes.count ? l : lanes.count - 1];
  int64_t j = 0;
  for (; j + kWidth <= length; j += kWidth) {
    typename Shape<T>::Vector re[kWidth], im[kWidth];
    for (int l = 0; l < kWidth; ++l) {
      const ComplexVector<T> z = load_pairs(lines[l] + 2 * j);
      re[l] = z.re;
      im[l] = z.im;
    }
    transpose_square<T>(re);
    transpose_square<T>(im);
    for (int l = 0; l < kWidth; ++l)
      store_record(record_at(records, place ? place[j + l] : j + l), {re[l], im[l] * sign});
  }
  return j;
}

template <class T>
void load_lanes(const FftLanes<const T>& lanes, int64_t length, const int32_t* place, T sign,
                T* records) {
  constexpr int kWidth = Shape<T>::kWidth;
  const T* base = lanes.base + lanes.offsets[0];
  auto target = [&](int64_t j) { return record_at(records, place ? place[j] : j); };
  int64_t j = 0;
  if (lanes.has_imag && lanes.imag == 1 && are_apart<const T>(lanes, 2)) {
    for (; j < length; ++j) {
      const ComplexVector<T> z = load_pairs(base + j * lanes.step);
      store_record(target(j), {z.re, z.im * sign});
    }
    return;
  }
  if (are_apart<const T>(lanes, 1)) {
    for (; j < length; ++j) {
      const T* x = base + j * lanes.step;
      typename Shape<T>::Vector im{};
      if (lanes.has_imag) im = load(x + lanes.imag) * sign;
      store_record(target(j), {load(x), im});
    }
    return;
  }
  if (lanes.has_imag && lanes.imag == 1 && lanes.step == 2)
    j = load_squares(lanes, length, place, sign, records);
  for (; j < length; ++j) {
    T* record = target(j);
    for (int l = 0; l < kWidth; ++l) {
      const T* x = lanes.base + lanes.offsets[l < lanes.count ? l : 0] + j * lanes.step;
      record[l] = *x;
      record[kWidth + l] = lanes.has_imag ? x[lanes.imag] * sign : T(0);
    }
  }
}

template <class T>
int64_t store_squares(const T* records, int64_t length, T real, T imag, const FftLanes<T>& lanes) {
  constexpr int kWidth = Shape<T>::kWidth;
  int64_t j = 0;
  for (; j + kWidth <= length; j += kWidth) {
    typename Shape<T>::Vector re[kWidth], im[kWidth];
    for (int l = 0; l < kWidth; ++l) {
      const ComplexVector<T> z = load_record(record_at(records, j + l));
      re[l] = signed_product<T>(z.re, real);
      im[l] = signed_product<T>(z.im, imag);
    }
    transpose_square<T>(re);
    transpose_square<T>(im);
    for (int64_t l = 0; l < lanes.count; ++l)
      store_pairs(lanes.base + lanes.offsets[l] + 2 * j, {re[l], im[l]});
  }
  return j;
}

template <class T>
void store_lanes(const T* records, int64_t length, T real, T imag, const FftLanes<T>& lanes) {
  constexpr int kWidth = Shape<T>::kWidth;
  T* base = lanes.base + lanes.offsets[0];
  int64_t j = 0;
  if (lanes.has_imag && lanes.imag == 1 && are_apart(lanes, 2)) {
    for (; j < length; ++j) {
      const ComplexVector<T> z = load_record(record_at(records, j));
      store_pairs(base + j * lanes.step, scaled(z, real, imag));
    }
    return;
  }
  if (are_apart(lanes, 1)) {
    for (; j < length; ++j) {
      const ComplexVector<T> z = load_record(record_at(records, j));
      store(base + j * lanes.step, signed_product<T>(z.re, real));
      if (lanes.has_imag) store(base + j * lanes.step + lanes.imag, signed_product<T>(z.im, imag));
    }
    return;
  }
  if (lanes.has_imag && lanes.imag == 1 && lanes.step == 2)
    j = store_squares(records, length, real, imag, lanes);
  for (; j < length; ++j) {
    const T* record = record_at(records, j);
    for (int64_t l = 0; l < lanes.count; ++l) {
      T* x = lanes.base + lanes.offsets[l] + j * lanes.step;
      *x = signed_product(record[l], real);
      if (lanes.has_imag) x[lanes.imag] = signed_product(record[kWidth + l], imag);
    }
  }
}

// ---- one line as a grid

template <class T>
void grid_columns(const FftGrid<T>& grid, const T* line, T sign, T* scratch, int64_t begin,
                  int64_t end) {
  constexpr int kWidth = Shape<T>::kWidth;
  const int64_t rows = grid.down.length, columns = grid.across.length;
  for (int64_t group = begin; group < end; ++group) {
    T* records = record_at(scratch, group * rows);
    const T* first = line + 2 * group * kWidth;
    const int64_t count = columns - group * kWidth;
    for (int64_t i = 0; i < rows; ++i) {
      const ComplexVector<T> z = load_pairs(first + 2 * grid.down.order[i] * columns, count);
      store_record(record_at(records, i), {z.re, z.im * sign});
    }
    run_chain(grid.down, records);
  }
}

// The root to the power row * column, for a group of columns.
template <class T>
inline ComplexVector<T> factor_at(const FftGrid<T>& grid, int64_t group, int64_t row) {
  constexpr int kWidth = Shape<T>::kWidth;
  const int64_t rows = grid.down.length, length = rows * grid.across.length;
  if (grid.is_whole) return load_record(record_at(grid.factors, group * rows + row));
  const int64_t exponent = group * kWidth * row % length;
  const double* fine = grid.fine + 2 * (exponent % grid.fine_count);
  const double* coarse = grid.coarse + 2 * (exponent / grid.fine_count);
  const T re = static_cast<T>(fine[0] * coarse[0] - fine[1] * coarse[1]);
  const T im = static_cast<T>(fine[0] * coarse[1] + fine[1] * coarse[0]);
  return times(load_record(record_at(grid.factors, row)), re, im);
}

template <class T>
void grid_rows(const FftGrid<T>& grid, const T* scratch, T* records, const FftScale<T>& scale,
               T* line, int64_t begin, int64_t end) {
  constexpr int kWidth = Shape<T>::kWidth;
  const int64_t rows = grid.down.length, columns = grid.across.length;
  for (int64_t group = begin; group < end; ++group) {
    const int64_t count = minimum(rows - group * kWidth, kWidth);
    for (int64_t c = 0; c * kWidth < columns; ++c) {
      typename Shape<T>::Vector re[kWidth], im[kWidth];
      for (int64_t i = 0; i < kWidth; ++i) {
        const int64_t row = group * kWidth + (i < count ? i : 0);
        const ComplexVector<T> z =
            times(load_record(record_at(scratch, c * rows + row)), factor_at(grid, c, row));
        re[i] = z.re;
        im[i] = z.im;
      }
      transpose_square<T>(re);
      transpose_square<T>(im);
      const int64_t there = minimum(columns - c * kWidth, kWidth);
      const int32_t* place = grid.across.place + c * kWidth;
      for (int64_t i = 0; i < there; ++i)
        store_record(record_at(records, place[i]), {re[i], im[i]});
    }
    run_chain(grid.across, records);
    T* to = line + 2 * group * kWidth;
    for (int64_t j = 0; j < columns; ++j) {
      const ComplexVector<T> z = load_record(record_at(records, j));
      store_pairs(to + 2 * j * rows, scaled(z, scale.real, scale.imag), count);
    }
  }
}

// ---- real numbers as half as many complex ones
//
// Of z[j] = x[2j] + i x[2j + 1] with transform Z, the even elements have the transform E = (Z[k] + conj Z[m - k]) / 2
// and the odd ones O = (Z[k] - conj Z[m - k]) / 2i. X[k] = E + w O, and X[m - k] = conj(E - w O).

template <class T>
struct Halves {
  ComplexVector<T> low, high;
};

template <class T>
inline Halves<T> join_halves(ComplexVector<T> a, ComplexVector<T> b, ComplexVector<T> root,
                             T inner) {
  const T half = inner / 2;
  const ComplexVector<T> even = {(a.re + b.re) * half, (a.im - b.im) * half};
  const ComplexVector<T> odd = {(a.im + b.im) * half, (b.re - a.re) * half};
  const ComplexVector<T> turned = times(odd, root);
  return {even + turned, {even.re - turned.re, turned.im - even.im}};
}

// Twice as much, and conjugates.
template <class T>
inline Halves<T> part_halves(ComplexVector<T> a, ComplexVector<T> b, ComplexVector<T> root,
                             T inner) {
  const ComplexVector<T> even = {(a.re + b.re) * inner, (a.im - b.im) * inner};
  const ComplexVector<T> turned = {(a.re - b.re) * inner, (a.im + b.im) * inner};
  const ComplexVector<T> odd = times(turned, {root.re, -root.im});
  return {{even.re - odd.im, -even.im - odd.re}, {even.re + odd.im, even.im - odd.re}};
}

template <class T>
inline ComplexVector<T> filled(T re, T im) {
  const typename Shape<T>::Vector zero{};
  return {zero + re, zero + im};
}

template <class T>
void to_half_records(T* records, int64_t m, const T* roots, T inner) {
  const ComplexVector<T> z = load_record(records);
  store_record(records, ComplexVector<T>{z.re + z.im, {}});
  store_record(record_at(records, m), ComplexVector<T>{z.re - z.im, {}});
  const T* imag_roots = roots + m / 2 + 1;
  for (int64_t k = 1; k <= m - k; ++k) {
    T *low = record_at(records, k), *high = record_at(records, m - k);
    const Halves<T> x =
        join_halves(load_record(low), load_record(high), filled(roots[k], imag_roots[k]), inner);
    store_record(high, x.high);
    store_record(low, x.low);
  }
}

template <class T>
void from_half_records(const T* records, int64_t m, const T* roots, T inner, const int32_t* place,
                       T* to) {
  const auto first = load(records), last = load(record_at(records, m));
  auto target = [&](int64_t k) { return record_at(to, place ? place[k] : k); };
  store_record(target(0), ComplexVector<T>{first + last, last - first});
  const T* imag_roots = roots + m / 2 + 1;
  for (int64_t k = 1; k <= m - k; ++k) {
    const Halves<T> z =
        part_halves(load_record(record_at(records, k)), load_record(record_at(records, m - k)),
                    filled(roots[k], imag_roots[k]), inner);
    store_record(target(m - k), z.high);
    store_record(target(k), z.low);
  }
}

// Calls with_vectors(k) for k, k + 1, ..., and with_numbers(k) for single ones, so that each pair k, m - k is met once.
template <int kWidth, class WithVectors, class WithNumbers>
inline void for_pairs(int64_t m, WithVectors&& with_vectors, WithNumbers&& with_numbers) {
  int64_t k = 1;
  for (; k + kWidth - 1 < m - (k + kWidth - 1); k += kWidth) with_vectors(k);
  for (; k <= m - k; ++k) with_numbers(k);
}

template <class T>
void to_half_line(T* line, int64_t m, const T* roots, T inner, T sign) {
  constexpr int kWidth = Shape<T>::kWidth;
  const T* imag_roots = roots + m / 2 + 1;
  const T re = line[0], im = line[1];
  line[0] = re + im;
  line[2 * m] = re - im;
  line[1] = line[2 * m + 1] = 0;
  for_pairs<kWidth>(m, [&](int64_t k) {
    T *low = line + 2 * k, *high = line + 2 * (m - k - kWidth + 1);
    Halves<T> x = join_halves(load_pairs(low), reversed(load_pairs(high)),
                              {load(roots + k), load(imag_roots + k)}, inner);
    store_pairs(low, scaled(x.low, T(1), sign));
    store_pairs(high, reversed(scaled(x.high, T(1), sign)));
  }, [&](int64_t k) {
    T *low = line + 2 * k, *high = line + 2 * (m - k);
    Halves<T> x = join_halves(filled(low[0], low[1]), filled(high[0], high[1]),
                              filled(roots[k], imag_roots[k]), inner);
    high[0] = x.high.re[0], high[1] = signed_product(x.high.im[0], sign);
    low[0] = x.low.re[0], low[1] = signed_product(x.low.im[0], sign);
  });
}

template <class T>
void from_half_line(const T* line, int64_t m, const T* roots, T inner, T sign, T* to) {
  constexpr int kWidth = Shape<T>::kWidth;
  const T* imag_roots = roots + m / 2 + 1;
  const T first = line[0], last = line[2 * m];
  to[0] = first + last;
  to[1] = last - first;
  auto with_sign = [&](ComplexVector<T> z) { return ComplexVector<T>{z.re, z.im * sign}; };
  for_pairs<kWidth>(m, [&](int64_t k) {
    const int64_t mirrored = m - k - kWidth + 1;
    Halves<T> z = part_halves(with_sign(load_pairs(line + 2 * k)),
                              with_sign(reversed(load_pairs(line + 2 * mirrored))),
                              {load(roots + k), load(imag_roots + k)}, inner);
    store_pairs(to + 2 * k, z.low);
    store_pairs(to + 2 * mirrored, reversed(z.high));
  }, [&](int64_t k) {
    const T *low = line + 2 * k, *high = line + 2 * (m - k);
    Halves<T> z = part_halves(filled(low[0], low[1] * sign), filled(high[0], high[1] * sign),
                              filled(roots[k], imag_roots[k]), inner);
    to[2 * (m - k)] = z.high.re[0], to[2 * (m - k) + 1] = z.high.im[0];
    to[2 * k] = z.low.re[0], to[2 * k + 1] = z.low.im[0];
  });
}

// ---- products

template <class T>
void multiply_line(const T* from, const T* factors, int64_t n, T sign, T real, T imag, T* to) {
  constexpr int kWidth = Shape<T>::kWidth;
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    ComplexVector<T> z = load_pairs(from + 2 * i);
    z.im = z.im * sign;
    z = times(z, ComplexVector<T>{load(factors + i), load(factors + n + i)});
    store_pairs(to + 2 * i, scaled(z, real, imag));
  }
  for (; i < n; ++i) {
    const T re = from[2 * i], im = from[2 * i + 1] * sign, c = factors[i], s = factors[n + i];
    to[2 * i] = signed_product(re * c - im * s, real);
    to[2 * i + 1] = signed_product(re * s + im * c, imag);
  }
}

template <class T>
void multiply_records(const T* from, const T* factors, int64_t n, T sign, T imag,
                      const int32_t* place, T* to) {
  for (int64_t i = 0; i < n; ++i) {
    ComplexVector<T> z = load_record(record_at(from, i));
    z.im = z.im * sign;
    z = times(z, factors[i], factors[n + i]);
    store_record(record_at(to, place ? place[i] : i), {z.re, z.im * imag});
  }
}

// ---- conjugates

template <class T>
void conjugate_all(const T* from, int64_t from_step, int64_t n, T* to, int64_t to_step) {
  constexpr int kWidth = Shape<T>::kWidth;
  int64_t i = 0;
  if (to_step == 2 && (from_step == 2 || from_step == -2)) {
    for (; i + kWidth <= n; i += kWidth) {
      const ComplexVector<T> z = from_step == 2 ? load_pairs(from + 2 * i)
                                                : reversed(load_pairs(from - 2 * (i + kWidth - 1)));
      store_pairs(to + 2 * i, scaled(z, T(1), T(-1)));
    }
  }
  for (; i < n; ++i) {
    to[i * to_step] = from[i * from_step];
    to[i * to_step + 1] = signed_product(from[i * from_step + 1], T(-1));
  }
}

template <class T>
constexpr FftKernels<T> make_kernels() {
  return {Shape<T>::kWidth, run_chain<T>,      load_lanes<T>,      store_lanes<T>,
          grid_columns<T>,  grid_rows<T>,      to_half_records<T>, from_half_records<T>,
          to_half_line<T>,  from_half_line<T>, multiply_line<T>,   multiply_records<T>,
          conjugate_all<T>};
}

}  // namespace

extern const FftTable fft_table;
constinit const FftTable fft_table = {make_kernels<float>(), make_kernels<double>()};

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
