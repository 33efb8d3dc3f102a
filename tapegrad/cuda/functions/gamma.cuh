// The incomplete gamma functions, in double. Read by CUDA kernels and by csrc/cpu/special.cpp: Note
// [Functions written once].
//
// P is the power series where x is below a, or small; Q is the continued fraction where x is above
// both; each is one minus the other where it is the larger. For large a of about x the uniform
// expansion of both (DLMF 8.12) takes a few terms whatever their size.

// lgamma(1 + a) / a from 0 to 1
TAPEGRAD_TABLE kLogGamma[] = {
    -0x1.eeb95b094c191p-3, 0x1.1cba4e3820cdap-2, -0x1.6b58de447aadap-5, 0x1.41ce0cb1ce17bp-7,
    -0x1.4547b11192d08p-9, 0x1.606b19d7b3cfap-11, -0x1.8e17f3a2e1f31p-13, 0x1.ce313acfb7459p-15,
    -0x1.118441a1033adp-16, 0x1.485a017e1fc78p-18, -0x1.8e80cfcc0212bp-20, 0x1.e7db5dd4ba4e3p-22,
    -0x1.2cca08298a7e3p-23, 0x1.75135182636aep-25, -0x1.cfc86e448247fp-27, 0x1.221582de42d02p-28,
    -0x1.789eb2928408bp-30, 0x1.ddc8497a52a44p-32, -0x1.cc4c7f23aa6e3p-34, 0x1.19871496aadb6p-35,
    -0x1.a5592e76185ebp-36, 0x1.143dbec7af4b2p-37,
};
// The uniform expansion: the coefficient of eta^n / a^k.
TAPEGRAD_TABLE kUniform0[] = {
    -0x1.5555555555555p-2, 0x1.5555555555555p-4, -0x1.e573ac901e574p-7, 0x1.2f684bda12f68p-10,
    0x1.71de3a556c734p-12, -0x1.76e06fec7273bp-13, 0x1.48c5892f7cd83p-15, -0x1.255370652afc1p-19,
    -0x1.f1b22f594c6b5p-20, 0x1.bd6d21e4b4109p-21, -0x1.7b5f9a2d0465cp-23, 0x1.ccf5ceb7f0d9fp-28,
    0x1.6097d55c37c1cp-27, -0x1.2d2197c7a2faap-28, 0x1.f6e66d24d5c8ap-31,
};
TAPEGRAD_TABLE kUniform1[] = {
    -0x1.e573ac901e574p-10, -0x1.c71c71c71c71cp-9, 0x1.5ac056b015acp-9, -0x1.0394f6f09e723p-10,
    0x1.af83440e53dbcp-13, -0x1.af83440e53dbcp-22, -0x1.2fa4ae89e5afp-16, 0x1.00a9cabd6b83ep-17,
    -0x1.b0bdfcc629cbap-20, 0x1.3f59230a8357cp-28, 0x1.280f2cde3f847p-23, -0x1.ee23d0cba8aeep-25,
    0x1.9aa7a30de114cp-27,
};
TAPEGRAD_TABLE kUniform2[] = {
    0x1.0ee643b990ee6p-8, -0x1.5f7268edab4c8p-9, 0x1.948b0fcd6e9ep-11, 0x1.0db20a88f4696p-19,
    -0x1.c253efaa1a932p-14, 0x1.bbf43daf4fe53p-15, -0x1.ac2d05890f2c3p-17, 0x1.26154ae39151dp-25,
    0x1.7058929663937p-20, -0x1.522cb05171911p-21, 0x1.32ac81c15d3d7p-23,
};
TAPEGRAD_TABLE kUniform3[] = {
    0x1.547d93b34e2b6p-11, 0x1.e13ce465fa859p-13, -0x1.ebfb188b7cap-12, 0x1.18b9b5bf2d984p-12,
    -0x1.3d2a3a29b5d9dp-14, -0x1.0152a1871f27ap-22, 0x1.73df462204ef4p-17, -0x1.7cd6f27b3f02p-18,
    0x1.7e0201539310ep-20,
};
TAPEGRAD_TABLE kUniform4[] = {
    -0x1.c3e0b02da7bf9p-11, 0x1.9b0ff6874f2c4p-11, -0x1.3999a85a4237ap-12, -0x1.88f2ae1def9dp-20,
    0x1.16908b48ce058p-14, -0x1.4ce3fd902bcadp-15, 0x1.7db4c02846e81p-17,
};
TAPEGRAD_TABLE kUniform5[] = {
    -0x1.6128ac5a4fa71p-12, -0x1.247604839c038p-14, 0x1.22be87360ef1fp-12, -0x1.a2042c5148e27p-13,
    0x1.1d1e9cb24760bp-14,
};
TAPEGRAD_TABLE kUniform6[] = {
    0x1.168ef1b0931c8p-11, -0x1.36773bdb97b48p-11, 0x1.1c0950d3ecb9dp-12,
};
TAPEGRAD_TABLE kUniform7[] = {
    0x1.691879c01efb4p-12,
};
TAPEGRAD_TABLE kUniform8[] = {
    -0x1.5629b3187b744p-11,
};
constexpr double kUniformStart = 100;   // the least a for the expansion
constexpr double kUniformRange = 0.3;   // the largest |x - a| / a
constexpr double kRootTwoPi = 0x1.40d931ff62705p1;

// gamma(1 + a) for 0 <= a < 10
TAPEGRAD_HELPER double gamma_of_next(double a) {
  double product = 1;
  for (; a > 1; a -= 1) product *= a;
  return product * exp(a * horner(kLogGamma, 2 * a - 1));
}

// log(1 + t) - t for |t| < 1/2: with s = t / (2 + t), log(1 + t) is 2 (s + s^3 / 3 + s^5 / 5 + ...).
TAPEGRAD_HELPER double logarithm_gap(double t) {
  constexpr int kTerms = 17;
  const double s = t / (2 + t), z = s * s;
  double sum = 0;
  for (int k = kTerms; k >= 0; --k) sum = sum * z + 1.0 / (2 * k + 3);
  return 2 * s * z * sum - t * s;
}

// log(gamma(a)) minus Stirling's formula, for a >= 10
TAPEGRAD_HELPER double stirling_rest(double a) {
  const double w = 1 / a, z = w * w;
  return w * (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z * (1.0 / 1188 -
         z * (691.0 / 360360 - z * (1.0 / 156 - z * (3617.0 / 122400))))))));
}

// (x - a) / a = t, and log(x / a) - t with what rounding takes from t
struct GammaDistance {
  double t, gap;
};
TAPEGRAD_HELPER GammaDistance gamma_distance(double a, double x) {
  const double d = x - a, part = d - x, d_rest = (x - (d - part)) - (a + part);
  const double t = d / a, t_rest = (fma(-t, a, d) + d_rest) / a;
  if (t < -0.5) return {t, log(x / a) - t};
  const double gap = t < 0.5 ? logarithm_gap(t) : log1p(t) - t;
  return {t, gap - t / (1 + t) * t_rest};
}

// x^a exp(-x) / gamma(a + 1) for finite a > 0, x > 0
TAPEGRAD_HELPER double gamma_term(double a, double x) {
  if (a < 10) {
    if (x > 1100) return 0;
    const double half = exp(-0.5 * x);  // twice, as exp(-x) may vanish before the product does
    return pow(x, a) * half / gamma_of_next(a) * half;
  }
  return exp(a * gamma_distance(a, x).gap - stirling_rest(a)) / (kRootTwoPi * sqrt(a));
}

// The power series of P: the term above times 1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ...
TAPEGRAD_HELPER double gamma_series(double a, double x) {
  double sum = 1, term = 1;
  for (double n = a + 1; term > sum * 0x1p-56; n += 1) {
    term *= x / n;
    sum += term;
  }
  return gamma_term(a, x) * sum;
}

// Q by Legendre's continued fraction: forwards, as Lentz does, to see how many terms there are, then
// backwards, where roundings die away.
TAPEGRAD_HELPER double gamma_fraction(double a, double x) {
  constexpr int kMost = 2000;
  const double first = x + 1 - a;
  double b = first, c = 1e300, d = 1 / b;
  int terms = 1;
  for (; terms < kMost; ++terms) {
    const double coefficient = terms * (a - terms);
    b += 2;
    d = 1 / (coefficient * d + b);
    c = b + coefficient / c;
    if (fabs(c * d - 1) < 0x1p-53) break;
  }
  double denominator = first + 2 * terms;
  for (int k = terms; k > 0; --k)
    denominator = first + 2 * (k - 1) + k * (a - k) / denominator;
  return gamma_term(a, x) * a / denominator;
}

// Q for 0 < a <= 1 and small x, where P is near one: with no difference of numbers near one.
TAPEGRAD_HELPER double gamma_small_tail(double a, double x) {
  double sum = 0, term = 1;
  for (int n = 1; n < 40; ++n) {
    term *= -x / n;
    sum += term / (a + n);
  }
  const double exponent = a * (log(x) - horner(kLogGamma, 2 * a - 1));
  return -expm1(exponent) - exp(exponent) * a * sum;
}

// P, or Q if `upper`, for large a of about x.
TAPEGRAD_HELPER double gamma_uniform(double a, double x, bool upper) {
  const GammaDistance distance = gamma_distance(a, x);
  const double t = distance.t, half_square = distance.gap < 0 ? -distance.gap : 0;
  const double eta = t < 0 ? -sqrt(2 * half_square) : sqrt(2 * half_square), w = 1 / a;
  double sum = kUniform8[0];
  sum = sum * w + kUniform7[0];
  sum = sum * w + horner(kUniform6, eta);
  sum = sum * w + horner(kUniform5, eta);
  sum = sum * w + horner(kUniform4, eta);
  sum = sum * w + horner(kUniform3, eta);
  sum = sum * w + horner(kUniform2, eta);
  sum = sum * w + horner(kUniform1, eta);
  sum = sum * w + horner(kUniform0, eta);
  const double rest = sum / (kRootTwoPi * sqrt(a));
  // Of the two functions one is a tail: Q where x is above a.
  const double exponent = a * half_square, bell = exp(-exponent);
  const double tail = bell * (0.5 * erfcx(sqrt(exponent)) + (t > 0 ? rest : -rest));
  return (t > 0) == upper ? tail : 1 - tail;
}

// What P and Q have in common: the limits. Returns whether `*p` is P.
TAPEGRAD_HELPER bool gamma_limit(double a, double x, double* p) {
  const bool defined = a >= 0 && x >= 0 && (a > 0 || x > 0) && !(a == infinity() && x == a);
  if (!defined) *p = not_a_number();
  else if (x == 0 || a == infinity()) *p = 0;
  else if (a == 0 || x == infinity()) *p = 1;
  else return false;
  return true;
}

TAPEGRAD_HELPER bool is_uniform(double a, double x) {
  return a >= kUniformStart && fabs(x - a) < kUniformRange * a;
}

TAPEGRAD_FUNCTION double igamma(double a, double x) {
  double limit;
  if (gamma_limit(a, x, &limit)) return limit;
  if (is_uniform(a, x)) return gamma_uniform(a, x, false);
  return x > 1.1 && x > a ? 1 - gamma_fraction(a, x) : gamma_series(a, x);
}

TAPEGRAD_FUNCTION double igammac(double a, double x) {
  double limit;
  if (gamma_limit(a, x, &limit)) return 1 - limit;
  if (is_uniform(a, x)) return gamma_uniform(a, x, true);
  if (x > 1.1 && x > a) return gamma_fraction(a, x);
  const bool is_small = a <= 1 && (x <= 0.5 ? a * log(x) > -0.4 : a < 1.1 * x);
  return is_small ? gamma_small_tail(a, x) : 1 - gamma_series(a, x);
}

// The derivative of P by x, x^(a - 1) exp(-x) / gamma(a)
TAPEGRAD_FUNCTION double gamma_density(double a, double x) {
  if (!(a >= 0 && x >= 0)) return not_a_number();
  if (x == 0) return a > 1 ? 0 : a == 1 ? 1 : infinity();
  if (a == 0 || x == infinity() || a == infinity()) return 0;
  return gamma_term(a, x) * (a / x);
}
