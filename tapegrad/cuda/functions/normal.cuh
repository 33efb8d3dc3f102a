// The normal distribution, its logarithm and its quantiles, in double. Read by CUDA kernels and by
// csrc/cpu/special.cpp: Note [Functions written once].

// ndtri(1/2 + q) / q to nine digits, in q^2 from 0 to 9/64
TAPEGRAD_TABLE kQuantileCentre[] = {
    0x1.5d035b65b283ep1, 0x1.0eb631ac315ffp-2, 0x1.c840f71b050cp-5, 0x1.df72292566a8cp-7,
    0x1.17d1664201f82p-8, 0x1.5b54ba3fab876p-10, 0x1.c3028a6867548p-12, 0x1.2c9844196f388p-13,
    0x1.77e51a01ee078p-15, 0x1.fb29bd327ed9fp-17, 0x1.2453661c5b518p-17, 0x1.ae3bddaa8a48cp-19,
};
// -ndtri(exp(-r^2 / 2)) to nine digits, in r from 1.375 to 4.375
TAPEGRAD_TABLE kTailNear[] = {
    0x1.125d354c833f6p1, 0x1.b971c195c1cc2p0, -0x1.4e02f8d4086b7p-4, 0x1.0494259214ca2p-5,
    -0x1.a86c8428abc63p-7, 0x1.64f2497d40f28p-8, -0x1.34124986344c2p-9, 0x1.0c8290da27a7ap-10,
    -0x1.def0e6568604ap-12, 0x1.f29a6452b6109p-13, -0x1.e23dcad2bcd38p-14, 0x1.03b320d324445p-16,
    -0x1.edcd30ab155c4p-19, 0x1.c9e752511e6bbp-16, -0x1.d9e2ee3b0fce3p-17,
};
// -ndtri(exp(-r^2 / 2)) / r times 4, likewise, in 4 / r from 1/16 to 1
TAPEGRAD_TABLE kTailFar[] = {
    0x1.e514358c376ep1, -0x1.3fae3aba66daep-2, -0x1.655f4675ba876p-4, 0x1.bc1fc8f884d73p-7,
    -0x1.c8fa7829ca2aep-9, 0x1.4a292548488d2p-10, -0x1.3399183aee49bp-11, 0x1.589428f1518f6p-12,
    -0x1.6dba8cb653d0fp-16, -0x1.0904adeb501fep-13, -0x1.0e438e9b2808ap-11, 0x1.66b80f8720cdap-11,
    0x1.d61051192a459p-11, -0x1.2e154c49afa6p-10, -0x1.201bd81b578ecp-10, 0x1.4db386591d5c3p-10,
    0x1.6f5b2249ca8d2p-11, -0x1.8d439f7fdac7cp-11, -0x1.a7baeec485718p-13, 0x1.a895ba41307efp-13,
};

TAPEGRAD_FUNCTION double ndtr(double x) {
  constexpr double kRootHalfRest = -0x1.bdd3413b26456p-55, kTwoOverRootPi = 0x1.20dd750429b6dp0;
  if (!(x < -1)) return 0.5 * erfc(-kRootHalf * x);
  if (x < -40) return 0;
  // exp(-x^2 / 2) erfcx(-x / sqrt(2)) / 2 with what rounding takes from both arguments
  const double square = x * x, square_rest = fma(x, x, -square);
  const double t = -kRootHalf * x, t_rest = fma(-kRootHalf, x, -t) - kRootHalfRest * x;
  const double scaled = erfcx(t), slope = 2 * t * scaled - kTwoOverRootPi;
  const double rest = t_rest * slope - 0.5 * square_rest * scaled;
  return 0.5 * exp(-0.5 * square) * (scaled + rest);
}

TAPEGRAD_FUNCTION double log_ndtr(double x) {
  if (x < -1) return log(0.5 * erfcx(-kRootHalf * x)) - 0.5 * x * x;
  return log1p(-ndtr(-x));
}

// ndtri to nine digits, which is all that a float32 has.
TAPEGRAD_FUNCTION double ndtri_estimate(double p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -infinity() : p == 1 ? infinity() : not_a_number();
  const double q = p - 0.5;
  if (fabs(q) <= 0.375) return q * horner(kQuantileCentre, q * q * (2 / 0.140625) - 1);
  const double r = sqrt(-2 * log(p < 0.5 ? p : 1 - p));
  const double x = r < 4.375 ? horner(kTailNear, (r - 2.875) * (1 / 1.5))
                             : 0.25 * r * horner(kTailFar, (4 / r - 0.53125) * (1 / 0.46875));
  return p < 0.5 ? -x : x;
}

// A step of Newton's method from there: on erf in the middle, on the logarithm in a tail.
TAPEGRAD_FUNCTION double ndtri(double p) {
  constexpr double kRootTwoOverPi = 0x1.9884533d43651p-1, kPeak = 0x1.9884533d43651p-2;
  const double x = ndtri_estimate(p), q = p - 0.5;
  if (!(p > 0 && p < 1)) return x;
  if (fabs(q) <= 0.375)
    return x - (0.5 * erf(kRootHalf * x) - q) / (kPeak * exp(-0.5 * x * x));
  const double y = -fabs(x), wanted = log(p < 0.5 ? p : 1 - p);
  const double z = y - (log_ndtr(y) - wanted) * erfcx(-kRootHalf * y) / kRootTwoOverPi;
  return p < 0.5 ? z : -z;
}
