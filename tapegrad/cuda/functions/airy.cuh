// The Airy function Ai and its derivative, in double. Read by CUDA kernels and by
// csrc/cpu/special.cpp: Note [Functions written once].
//
// Between -8 and 2 Taylor's series about the nearest k + 1/2, whose terms follow from the value and
// the slope there by Ai'' = x Ai. To the right exp(-zeta), zeta = 2/3 x^(3/2), times a polynomial; to
// the left the sine and cosine of zeta times polynomials. There the error is small against
// |x|^(-1/4), or |x|^(1/4) for the derivative, not against the result.

// Ai and Ai' at k + 1/2 for k from -8
TAPEGRAD_TABLE kAiryAtCentre[] = {
    0x1.497f92ca01e61p-2, 0x1.4675ffd3b25d9p-2, -0x1.e7773026e4abdp-3, -0x1.59935f836551ap-1,
    0x1.2355309057e0ap-6, 0x1.ba780ec73ea42p-1, 0x1.2b2a1940487e5p-2, -0x1.0bf62c807eea1p-1,
    -0x1.808bf043b852cp-2, -0x1.5fafa2aad827cp-2, -0x1.cc155ec43247dp-4, 0x1.5b9295e8ef584p-1,
    0x1.db661389897f8p-2, 0x1.3c9b8221ef635p-2, 0x1.e72543cd05e5dp-2, -0x1.a1f5921e923fp-3,
    0x1.da822d743844p-3, -0x1.cc9de4b290e91p-3, 0x1.25e2ccf277dc1p-4, -0x1.8ee0710605791p-4,
};
// x^(1/4) exp(zeta) Ai(x) from 2 to 4
TAPEGRAD_TABLE kAiryNear[] = {
    0x1.1bc78ba92e8d4p-2, 0x1.212df9176672bp-9, -0x1.a6989ac790ea3p-11, 0x1.1e01c79542848p-12,
    -0x1.73e0f451a65b9p-14, 0x1.d8449e4986f7p-16, -0x1.2799262b99d7ep-17, 0x1.6ed3bde06a2d3p-19,
    -0x1.c4f30a7449414p-21, 0x1.16f39174f92fcp-22, -0x1.575489fdc8a5p-24, 0x1.a6ca6103437e9p-26,
    -0x1.04a29cadaaa57p-27, 0x1.4152774957ca9p-29, -0x1.8d7d8c576c168p-31, 0x1.f94f18774c33bp-33,
    -0x1.3bbc782af106cp-34, 0x1.3c557032fc00cp-36, -0x1.7fceccf482c6fp-38, 0x1.019a081880946p-38,
    -0x1.4cb88aeecbce6p-40,
};
// from 4 to 8
TAPEGRAD_TABLE kAiryMiddle[] = {
    0x1.1eeb554b45781p-2, 0x1.da657b74294f1p-11, -0x1.759ab67b1d9bcp-12, 0x1.110989582f2f9p-13,
    -0x1.7f2892186769bp-15, 0x1.06031d3ad3a6ep-16, -0x1.600e529c0882p-18, 0x1.d30a6f0473235p-20,
    -0x1.32dbacd1dap-21, 0x1.9053ff2154d8ap-23, -0x1.03b2439996411p-24, 0x1.4f8bf2001e6a8p-26,
    -0x1.b01d773dbdcb8p-28, 0x1.14e9ead1d6b6cp-29, -0x1.62d73358074ap-31, 0x1.d35facca94bebp-33,
    -0x1.2c7e84812f565p-34, 0x1.2daef81e91a09p-36, -0x1.76094e60a7004p-38, 0x1.0a35f3923bcbp-38,
    -0x1.5d9c150ffddd6p-40,
};
// from 8 on, in zeta(8) / zeta
TAPEGRAD_TABLE kAiryFar[] = {
    0x1.2036293cff6e1p-2, -0x1.48f06e1a7e48cp-11, 0x1.5e6e063103f6ep-17, -0x1.5ad41a3e5e628p-22,
    0x1.eeee4534595a7p-27, -0x1.c82c67d6974d1p-31, 0x1.fedbcfca2fa3bp-35, -0x1.4e28c7a74d227p-38,
    0x1.f1684e414e1fep-42, -0x1.ae1bb736830a1p-45, 0x1.8d10ad8253491p-48,
};
// -x^(-1/4) exp(zeta) Ai'(x) from 2 to 4
TAPEGRAD_TABLE kAiryPrimeNear[] = {
    0x1.2820e2eadaadep-2, -0x1.a4e6f1293d227p-9, 0x1.3a6108ef1da12p-10, -0x1.b40b061a5655bp-12,
    0x1.230af752b3f2cp-13, -0x1.7c0b0f681e4a1p-15, 0x1.e9bab9eb62418p-17, -0x1.390b3f9b6d251p-18,
    0x1.8e65583a0cdc4p-20, -0x1.f9da273e82d23p-22, 0x1.40e29b01e8886p-23, -0x1.9738d70126165p-25,
    0x1.0296d9c9f762bp-26, -0x1.480b1217aa298p-28, 0x1.a1708866df9c9p-30, -0x1.120b2f448a8ecp-31,
    0x1.600e1ac894ad8p-33, -0x1.5ef2296989636p-35, 0x1.b30d7bd9f6c9ap-37, -0x1.3c9c3197fad1fp-37,
    0x1.a2e7fbacdeb02p-39,
};
// from 4 to 8
TAPEGRAD_TABLE kAiryPrimeMiddle[] = {
    0x1.239c590c9a852p-2, -0x1.5148632bd5bc7p-10, 0x1.0c097fcbf800dp-11, -0x1.8bc8a5bb67a9dp-13,
    0x1.18d1ee8952d04p-14, -0x1.84b215b5e6259p-16, 0x1.087b9f6b82a7fp-17, -0x1.6396a480e35adp-19,
    0x1.d9d12ba8acd5dp-21, -0x1.398f18deb9afp-22, 0x1.9ce4d0a972535p-24, -0x1.0ed42a5ee3039p-25,
    0x1.6235151e62ee9p-27, -0x1.ccfc052840cp-29, 0x1.2c0b2373a8018p-30, -0x1.92ecea29f33cbp-32,
    0x1.076647df49687p-33, -0x1.06a2d8a906026p-35, 0x1.49d44c37c13e2p-37, -0x1.f128e9137b766p-38,
    0x1.4beee667859d1p-39,
};
// from 8 on, in zeta(8) / zeta
TAPEGRAD_TABLE kAiryPrimeFar[] = {
    0x1.21c84d66803afp-2, 0x1.cefc7bf017e5fp-11, -0x1.a0558b566c255p-17, 0x1.85a71387f60bp-22,
    -0x1.0e5e08db8fb72p-26, 0x1.ea1bc98ba4e6dp-31, -0x1.0f60e2050be64p-34, 0x1.60327582d89fcp-38,
    -0x1.048ed47c26897p-41, 0x1.c0604f9ad6194p-45, -0x1.9c5ed9bf258e4p-48,
};
// P of Ai(-x) = x^(-1/4) (P cos(phase) + Q / zeta sin(phase)), in (zeta(8) / zeta)^2
TAPEGRAD_TABLE kAiryP[] = {
    0x1.20d7719a34c0fp-1, -0x1.7f90844f390dep-15, 0x1.467775070eedap-23, -0x1.b72498119b5adp-30,
    0x1.28454d5e017c6p-35, -0x1.45ec07c43a437p-40, 0x1.0638f5a10fe81p-44, -0x1.193d4ac459002p-48,
};
// and Q; the phase is zeta - pi / 4
TAPEGRAD_TABLE kAiryQ[] = {
    0x1.4093f13073359p-5, -0x1.85eaa8e18b984p-15, 0x1.439bbe124eb58p-22, -0x1.4135783f5977p-28,
    0x1.1c21f80acc00ap-33, -0x1.7f9fbab696fc3p-38, 0x1.6706ecc4b5262p-42, -0x1.bf42b47d574abp-46,
    0x1.555822b601f7fp-49,
};
// P of Ai'(-x) = x^(1/4) (P sin(phase) - Q / zeta cos(phase))
TAPEGRAD_TABLE kAiryPrimeP[] = {
    0x1.20e490d0f945bp-1, 0x1.c58c5311fd1c4p-15, -0x1.632b325c3abacp-23, 0x1.d0cc0c091d142p-30,
    -0x1.3557b9d7c8a45p-35, 0x1.519187c676708p-40, -0x1.0e221917fd453p-44, 0x1.20a1d79634a7bp-48,
};
// and Q
TAPEGRAD_TABLE kAiryPrimeQ[] = {
    -0x1.c0eacad347305p-5, 0x1.b409ed4b5f1adp-15, -0x1.5a3cef7cb89b1p-22, 0x1.514939e1042eap-28,
    -0x1.274c04d35fafp-33, 0x1.8c1ff3a32b6b6p-38, -0x1.7116d1ae22fb6p-42, 0x1.ca45ed476975ap-46,
    -0x1.5ce47fb5cfb35p-49,
};
constexpr double kAiryTurn = 0x1.e2b7dddfefa66p3;  // zeta(8)

// 2/3 x^(3/2) as an unevaluated sum: the phase keeps its precision far out.
struct AiryArgument {
  double zeta, rest, root;
};
TAPEGRAD_HELPER AiryArgument airy_argument(double x) {
  constexpr double kTwoThirds = 0x1.5555555555555p-1, kRest = 0x1.5555555555555p-55;
  const double root = sqrt(x), root_rest = fma(-root, root, x) / (2 * root);
  const double product = x * root, product_rest = fma(x, root, -product) + x * root_rest;
  const double zeta = product * kTwoThirds;
  const double rest = fma(product, kTwoThirds, -zeta) + product * kRest + product_rest * kTwoThirds;
  return {zeta, rest, sqrt(root)};
}

// Of zeta and the rest, which is no longer small where zeta has no digits behind the point.
struct AiryPhase {
  double sine, cosine;
};
TAPEGRAD_HELPER AiryPhase airy_phase(const AiryArgument& at) {
  const double s = sin(at.zeta), c = cos(at.zeta), sine = sin(at.rest), cosine = cos(at.rest);
  return {s * cosine + c * sine, c * cosine - s * sine};
}

struct AiryPair {
  double value, slope;
};
TAPEGRAD_HELPER AiryPair airy_series(double x) {
  constexpr int kTerms = 22;
  const double whole = floor(x), centre = whole + 0.5, h = x - centre;
  const int k = static_cast<int>(whole) + 8;
  double before = 0, c = kAiryAtCentre[2 * k], next = kAiryAtCentre[2 * k + 1];
  double value = c, slope = 0, power = 1;  // power is h^(n - 1)
  for (int n = 1; n <= kTerms; ++n) {
    slope += n * next * power;
    power *= h;
    value += next * power;
    const double after = (centre * c + before) / (n * (n + 1));
    before = c;
    c = next;
    next = after;
  }
  return {value, slope};
}

TAPEGRAD_FUNCTION double airy_ai(double x) {
  if (!(fabs(x) < infinity())) return not_a_number();
  if (x > 110) return 0;
  if (x >= -8 && x < 2) return airy_series(x).value;
  const AiryArgument at = airy_argument(fabs(x));
  const double u = 2 * kAiryTurn / at.zeta - 1;
  if (x > 0) {
    const double factor = x <= 4   ? horner(kAiryNear, x - 3)
                          : x <= 8 ? horner(kAiryMiddle, 0.5 * x - 3)
                                   : horner(kAiryFar, u);
    return exp(-at.zeta) * ((factor - factor * at.rest) / at.root);
  }
  const double v = kAiryTurn / at.zeta, w = 2 * v * v - 1;
  const double p = horner(kAiryP, w), q = horner(kAiryQ, w) / at.zeta;
  const AiryPhase phase = airy_phase(at);
  return kRootHalf * (p * (phase.cosine + phase.sine) + q * (phase.sine - phase.cosine)) / at.root;
}

TAPEGRAD_FUNCTION double airy_ai_prime(double x) {
  if (!(fabs(x) < infinity())) return not_a_number();
  if (x > 110) return 0;
  if (x >= -8 && x < 2) return airy_series(x).slope;
  const AiryArgument at = airy_argument(fabs(x));
  const double u = 2 * kAiryTurn / at.zeta - 1;
  if (x > 0) {
    const double factor = x <= 4   ? horner(kAiryPrimeNear, x - 3)
                          : x <= 8 ? horner(kAiryPrimeMiddle, 0.5 * x - 3)
                                   : horner(kAiryPrimeFar, u);
    return -exp(-at.zeta) * ((factor - factor * at.rest) * at.root);
  }
  const double v = kAiryTurn / at.zeta, w = 2 * v * v - 1;
  const double p = horner(kAiryPrimeP, w), q = horner(kAiryPrimeQ, w) / at.zeta;
  const AiryPhase phase = airy_phase(at);
  return kRootHalf * (p * (phase.sine - phase.cosine) - q * (phase.cosine + phase.sine)) * at.root;
}
