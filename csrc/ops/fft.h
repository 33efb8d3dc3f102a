// Fourier transforms: of complex numbers, of real ones to half a spectrum, and back.
#pragma once

#include <optional>
#include <string>

#include "core/tensor.h"
#include "graph/autocast.h"

namespace tapegrad {

// ---- the ops
//
// `dims` are wrapped and differ. The result is multiplied with `scale`. A forward transform is a sum over
// exp(-2 pi i j k / n) x[j], a backward one over exp(2 pi i j k / n) x[j].

// Of complex numbers, or of real ones.
Tensor fft_c2c(const Tensor& x, Sizes dims, double scale, bool forward);
// Of real x, the elements 0 .. n / 2 along the last of the dimensions: the others are their conjugates. With `twice`,
// those that stand for two are multiplied with two.
Tensor fft_r2c(const Tensor& x, Sizes dims, double scale, bool forward, bool twice = false);
// The real numbers of which x is half the spectrum, `length` of them along the last of the dimensions. Without
// `twice`, elements that stand for two count once.
Tensor fft_c2r(const Tensor& x, Sizes dims, int64_t length, double scale, bool forward,
               bool twice = true);

// ---- the functions of torch.fft

enum class Spectrum {
  Full,      // complex to complex
  ToHalf,    // real to half a spectrum
  FromHalf,  // half a spectrum to real
};

struct FftFunction {
  FftFunction(const char* name, Spectrum spectrum, bool forward, Cast cpu);
  const char* name;
  Spectrum spectrum;
  bool forward;
  std::string full_name;  // of the native function, and without the underscore as autocast knows it
  CastRule cast_rule;
};

using Norm = std::optional<std::string>;

// Along one dimension, of which `n` elements are taken: of fewer, the rest are zeros.
Tensor fft_along(const FftFunction& function, const Tensor& x, std::optional<int64_t> n,
                 int64_t dim, const Norm& norm);
// Along several: without `dims` the last ones, as many as sizes are given, or all.
Tensor fft_over(const FftFunction& function, const Tensor& x, std::optional<Sizes> sizes,
                std::optional<Sizes> dims, const Norm& norm);

}  // namespace tapegrad
