// Orthogonal polynomials by their recurrences, in double. Read by CUDA kernels and by
// csrc/cpu/special.cpp: Note [Functions written once].
//
// The degree is a number that is truncated; the polynomial of a negative degree, and of one that is
// no number or too large for an integer, is zero. What would take more than kMostSteps steps is NaN.

constexpr double kMostSteps = 4194304;

// The degree, or a negative number.
TAPEGRAD_HELPER double degree_of(double n) { return n > -1 && n < 0x1p63 ? trunc(n) : -1; }
TAPEGRAD_HELPER bool is_odd(double degree) { return fmod(degree, 2.0) == 1; }
TAPEGRAD_HELPER bool is_finite(double x) { return x - x == 0; }

// What a recurrence that has left the range of numbers stands for, where |x| lies beyond all zeros.
TAPEGRAD_HELPER double beyond_range(double x, double degree, bool outside) {
  if (!outside) return not_a_number();
  return x < 0 && is_odd(degree) ? -infinity() : infinity();
}

// From this degree on, sines and cosines are faster than the recurrence between -1 and 1.
constexpr double kTrigonometricDegree = 64;

// Chebyshev's four kinds have one recurrence, from 1 and `second`.
TAPEGRAD_HELPER double chebyshev(double x, double degree, double second) {
  double before = 1, now = second;
  for (double k = 2; k <= degree; k += 1) {
    if (k > kMostSteps) return not_a_number();
    const double next = 2 * x * now - before;
    if (!is_finite(next)) return beyond_range(x, degree, fabs(x) > 1);
    before = now;
    now = next;
  }
  return degree == 0 ? before : now;
}

TAPEGRAD_FUNCTION double chebyshev_polynomial_t(double x, double n) {
  const double degree = degree_of(n);
  if (degree < 0) return 0;
  if (fabs(x) == 1) return x < 0 && is_odd(degree) ? -1 : 1;
  if (fabs(x) < 1 && degree > kTrigonometricDegree) return cos(degree * acos(x));
  return chebyshev(x, degree, x);
}

TAPEGRAD_HELPER double chebyshev_polynomial_u(double x, double degree) {
  if (fabs(x) == 1) return x < 0 && is_odd(degree) ? -(degree + 1) : degree + 1;
  if (fabs(x) < 1 && degree > kTrigonometricDegree)
    return sin((degree + 1) * acos(x)) / sqrt((1 - x) * (1 + x));
  return chebyshev(x, degree, 2 * x);
}

TAPEGRAD_FUNCTION double chebyshev_polynomial_v(double x, double n) {
  const double degree = degree_of(n);
  if (degree < 0) return 0;
  if (x == 1) return 1;
  if (x == -1) return is_odd(degree) ? -(2 * degree + 1) : 2 * degree + 1;
  if (fabs(x) < 1 && degree > kTrigonometricDegree)
    return cos((degree + 0.5) * acos(x)) / sqrt(0.5 * (1 + x));
  return chebyshev(x, degree, 2 * x - 1);
}

TAPEGRAD_FUNCTION double chebyshev_polynomial_w(double x, double n) {
  const double degree = degree_of(n);
  if (degree < 0) return 0;
  if (x == 1) return 2 * degree + 1;
  if (x == -1) return is_odd(degree) ? -1 : 1;
  if (fabs(x) < 1 && degree > kTrigonometricDegree)
    return sin((degree + 0.5) * acos(x)) / sqrt(0.5 * (1 - x));
  return chebyshev(x, degree, 2 * x + 1);
}

// Gegenbauer's polynomials: Legendre's are those of order 1/2, Chebyshev's second kind those of
// order 1, and their derivatives are multiples of those of the next orders.
TAPEGRAD_FUNCTION double gegenbauer(double x, double n, double order) {
  const double degree = degree_of(n);
  if (degree < 0) return 0;
  if (order == 1) return chebyshev_polynomial_u(x, degree);
  if (order == 0.5 && fabs(x) == 1) return x < 0 && is_odd(degree) ? -1 : 1;
  double before = 1, now = 2 * order * x;
  for (double k = 2; k <= degree; k += 1) {
    if (k > kMostSteps) return not_a_number();
    const double next = (2 * (k + order - 1) * x * now - (k + 2 * order - 2) * before) / k;
    if (!is_finite(next)) return beyond_range(x, degree, fabs(x) > 1);
    before = now;
    now = next;
  }
  return degree == 0 ? before : now;
}

TAPEGRAD_FUNCTION double hermite_polynomial_h(double x, double n) {
  const double degree = degree_of(n);
  if (degree < 0) return 0;
  double before = 1, now = 2 * x;
  for (double k = 2; k <= degree; k += 1) {
    if (k > kMostSteps) return not_a_number();
    const double next = 2 * (x * now - (k - 1) * before);
    if (!is_finite(next)) return beyond_range(x, degree, x * x > 2 * degree + 1);
    before = now;
    now = next;
  }
  return degree == 0 ? before : now;
}

TAPEGRAD_FUNCTION double hermite_polynomial_he(double x, double n) {
  const double degree = degree_of(n);
  if (degree < 0) return 0;
  double before = 1, now = x;
  for (double k = 2; k <= degree; k += 1) {
    if (k > kMostSteps) return not_a_number();
    const double next = x * now - (k - 1) * before;
    if (!is_finite(next)) return beyond_range(x, degree, x * x > 4 * degree + 2);
    before = now;
    now = next;
  }
  return degree == 0 ? before : now;
}

// Laguerre's polynomials, and the associated ones that are their derivatives.
TAPEGRAD_FUNCTION double laguerre(double x, double n, double order) {
  const double degree = degree_of(n);
  if (degree < 0) return 0;
  double before = 1, now = 1 + order - x;
  for (double k = 2; k <= degree; k += 1) {
    if (k > kMostSteps) return not_a_number();
    const double next = ((2 * k - 1 + order - x) * now - (k - 1 + order) * before) / k;
    if (!is_finite(next))
      return beyond_range(-x, degree, x < 0 || x > 4 * degree + 2 * order + 2);
    before = now;
    now = next;
  }
  return degree == 0 ? before : now;
}
