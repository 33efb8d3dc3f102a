// Butterflies: transforms of 2 to some 30 vectors of complex numbers. For kernel files only.
#pragma once

#include "cpu/fft_kernels.h"
#include "cpu/register_tile.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {
namespace {

constexpr int64_t kLargestRadix = 31;

template <class T>
struct ComplexVector {
  typename Shape<T>::Vector re, im;

  friend ComplexVector operator+(ComplexVector a, ComplexVector b) {
    return {a.re + b.re, a.im + b.im};
  }
  friend ComplexVector operator-(ComplexVector a, ComplexVector b) {
    return {a.re - b.re, a.im - b.im};
  }
};

// a - ib and a + ib
template <class T>
inline ComplexVector<T> minus_turned(ComplexVector<T> a, ComplexVector<T> b) {
  return {a.re + b.im, a.im - b.re};
}
template <class T>
inline ComplexVector<T> plus_turned(ComplexVector<T> a, ComplexVector<T> b) {
  return {a.re - b.im, a.im + b.re};
}

// The product with a number.
template <class T>
inline ComplexVector<T> times(ComplexVector<T> a, T re, T im) {
  return {a.re * re - a.im * im, a.re * im + a.im * re};
}
template <class T>
inline ComplexVector<T> times(ComplexVector<T> a, ComplexVector<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

template <class T>
inline ComplexVector<T> load_record(const T* record) {
  return {load(record), load(record + Shape<T>::kWidth)};
}
template <class T>
inline void store_record(T* record, ComplexVector<T> value) {
  store(record, value.re);
  store(record + Shape<T>::kWidth, value.im);
}

template <class T>
inline void butterfly_2(ComplexVector<T>* x) {
  const ComplexVector<T> a = x[0], b = x[1];
  x[0] = a + b;
  x[1] = a - b;
}

template <class T>
inline void butterfly_4(ComplexVector<T>* x) {
  const ComplexVector<T> even = x[0] + x[2], even_apart = x[0] - x[2];
  const ComplexVector<T> odd = x[1] + x[3], odd_apart = x[1] - x[3];
  x[0] = even + odd;
  x[1] = minus_turned(even_apart, odd_apart);
  x[2] = even - odd;
  x[3] = plus_turned(even_apart, odd_apart);
}

template <class T>
inline void butterfly_8(ComplexVector<T>* x) {
  constexpr T kHalfRoot = static_cast<T>(0.70710678118654752440);
  ComplexVector<T> even[4] = {x[0], x[2], x[4], x[6]}, odd[4] = {x[1], x[3], x[5], x[7]};
  butterfly_4(even);
  butterfly_4(odd);
  // Times the eighths of the circle: (1 - i) / sqrt 2 and -(1 + i) / sqrt 2.
  const ComplexVector<T> one = {(odd[1].re + odd[1].im) * kHalfRoot,
                                (odd[1].im - odd[1].re) * kHalfRoot};
  const ComplexVector<T> three = {(odd[3].im - odd[3].re) * kHalfRoot,
                                  (odd[3].re + odd[3].im) * kHalfRoot};
  x[0] = even[0] + odd[0];
  x[4] = even[0] - odd[0];
  x[1] = even[1] + one;
  x[5] = even[1] - one;
  x[2] = minus_turned(even[2], odd[2]);
  x[6] = plus_turned(even[2], odd[2]);
  x[3] = {even[3].re + three.re, even[3].im - three.im};
  x[7] = {even[3].re - three.re, even[3].im + three.im};
}

// Elements j and radix - j stand at mirrored places of the circle, so their sum meets cosines alone and their
// difference sines alone. kRadix is 0 where it is known at run time only.
template <class T, int kRadix>
inline void butterfly_odd(ComplexVector<T>* x, int64_t run_time_radix, const T* circle) {
  const int64_t radix = kRadix ? kRadix : run_time_radix, half = radix / 2;
  ComplexVector<T> sums[kRadix ? kRadix / 2 : kLargestRadix / 2],
      apart[kRadix ? kRadix / 2 : kLargestRadix / 2];
  const ComplexVector<T> first = x[0];
  ComplexVector<T> total = first;
  for (int64_t j = 0; j < half; ++j) {
    sums[j] = x[j + 1] + x[radix - 1 - j];
    apart[j] = x[j + 1] - x[radix - 1 - j];
    total = total + sums[j];
  }
  x[0] = total;
  for (int64_t k = 1; k <= half; ++k) {
    ComplexVector<T> c = first, s{};
    int64_t turn = 0;
    for (int64_t j = 0; j < half; ++j) {
      turn += k;
      if (turn >= radix) turn -= radix;
      const T cosine = circle[turn], sine = circle[radix + turn];
      c = {c.re + sums[j].re * cosine, c.im + sums[j].im * cosine};
      s = {s.re + apart[j].re * sine, s.im + apart[j].im * sine};
    }
    x[k] = minus_turned(c, s);
    x[radix - k] = plus_turned(c, s);
  }
}

template <class T, int kRadix>
inline void butterfly(ComplexVector<T>* x, const FftPass<T>& pass) {
  if constexpr (kRadix == 2) butterfly_2(x);
  else if constexpr (kRadix == 4) butterfly_4(x);
  else if constexpr (kRadix == 8) butterfly_8(x);
  else butterfly_odd<T, kRadix>(x, pass.radix, pass.circle);
}

}  // namespace
}  // namespace tapegrad::cpu::TAPEGRAD_ISA
