// Sampling from distributions. Every function takes its stream from a generator, see core/random.h,
// Note [Random streams].
#pragma once

#include <optional>

#include "core/random.h"
#include "core/tensor.h"

namespace tapegrad {

// A distribution that fills a tensor of any layout, parameters checked.
enum class Distribution {
  Uniform,      // from, to
  Normal,       // mean, std
  LogNormal,    // mean and std of the logarithm
  Exponential,  // rate
  Cauchy,       // median, sigma
  Geometric,    // probability
  Bernoulli,    // probability
};

// Fills a fresh tensor. Neither bumped nor recorded. Errors name `op`.
void sample_into(const char* op, const Tensor& out, Distribution distribution, double a, double b,
                 Generator& generator);
// The public in-place form, recorded: what the tensor held before gets a zero gradient.
void sample_(const char* op, const Tensor& self, Distribution distribution, double a, double b,
             Generator& generator);

// Integers from [from, to). Without `to`, up to the largest that the dtype counts without gaps.
void random_into(const char* op, const Tensor& out, int64_t from, std::optional<int64_t> to,
                 Generator& generator);
void random_(const Tensor& self, std::optional<int64_t> from, std::optional<int64_t> to,
             Generator& generator);

// One probability per element.
Tensor bernoulli(const Tensor& p, Generator& generator);
void bernoulli_(const Tensor& self, const Tensor& p, Generator& generator);

// Normal variables with one mean or one standard deviation, or both, per element.
Tensor normal(const Tensor& mean, const Tensor& std, Generator& generator);
Tensor normal(const Tensor& mean, double std, Generator& generator);
Tensor normal(double mean, const Tensor& std, Generator& generator);

Tensor poisson(const Tensor& rates, Generator& generator);
Tensor randperm(int64_t n, DType dtype, Device device, Generator& generator);
Tensor multinomial(const Tensor& p, int64_t num_samples, bool replacement, Generator& generator);

}  // namespace tapegrad
