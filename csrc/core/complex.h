// Complex<T>: a complex number of T, the element type of complex64 and complex128.
//
// Two numbers side by side, real part first, as C, Fortran, NumPy and BLAS have them: memory of n complex
// numbers is memory of 2n real ones (see real_alias in core/layout.h). Its alignment is that of T.
//
// Products are the textbook ones, without the C standard's care for infinities: (inf + 0i)(1 + i) has NaN in
// it, as in NumPy and PyTorch. Quotients and functions: cpu/complex_num.h. All is always inlined, so that files
// compiled for different instruction sets may use it.
#pragma once

#include <type_traits>

namespace tapegrad {

#define TAPEGRAD_INLINE [[gnu::always_inline]] constexpr

template <class T>
struct Complex {
  T real;
  T imag;

  Complex() = default;
  TAPEGRAD_INLINE Complex(T real, T imag = T(0)) : real(real), imag(imag) {}
  template <class U>
  TAPEGRAD_INLINE explicit Complex(Complex<U> z)
      : real(static_cast<T>(z.real)), imag(static_cast<T>(z.imag)) {}

  TAPEGRAD_INLINE friend Complex operator-(Complex a) { return {-a.real, -a.imag}; }
  TAPEGRAD_INLINE friend Complex operator+(Complex a, Complex b) {
    return {a.real + b.real, a.imag + b.imag};
  }
  TAPEGRAD_INLINE friend Complex operator-(Complex a, Complex b) {
    return {a.real - b.real, a.imag - b.imag};
  }
  TAPEGRAD_INLINE friend Complex operator*(Complex a, Complex b) {
    return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
  }
  TAPEGRAD_INLINE Complex& operator+=(Complex b) { return *this = *this + b; }
  TAPEGRAD_INLINE Complex& operator-=(Complex b) { return *this = *this - b; }
  TAPEGRAD_INLINE Complex& operator*=(Complex b) { return *this = *this * b; }
  TAPEGRAD_INLINE friend bool operator==(Complex a, Complex b) {
    return a.real == b.real && a.imag == b.imag;
  }
  TAPEGRAD_INLINE friend bool operator!=(Complex a, Complex b) { return !(a == b); }
};

template <class T>
TAPEGRAD_INLINE Complex<T> conjugate(Complex<T> z) {
  return {z.real, -z.imag};
}

#undef TAPEGRAD_INLINE

template <class T>
inline constexpr bool is_complex_type = false;
template <class T>
inline constexpr bool is_complex_type<Complex<T>> = true;

static_assert(std::is_trivially_copyable_v<Complex<float>> && sizeof(Complex<double>) == 16);

}  // namespace tapegrad
