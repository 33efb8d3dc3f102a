// Random kernels. The attributes of all begin with seed and offset, see core/random.h, Note [Random
// streams]. Outputs are contiguous.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/convert.h"
#include "cpu/random_kernels.h"
#include "cpu/tile.h"
#include "spec/random.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 16384;

SampleParams params_of(const OpCall& call) {
  SampleParams params{};
  params.seed = static_cast<uint64_t>(call.integer(0));
  params.a = call.attributes.size() > 2 ? call.real(2) : 0;
  params.b = call.attributes.size() > 3 ? call.real(3) : 0;
  return params;
}

// Fills the output: whole tiles in place when the sampler writes the output's dtype, else, and at
// the end, through a buffer.
void sample(const OpCall& call, const Sampler& sampler, const SampleParams& params) {
  constexpr int64_t kBufferTiles = 8;
  const TensorImpl& out = call.out();
  const int64_t numel = out.numel(), per_tile = sampler.per_tile;
  const uint64_t offset = static_cast<uint64_t>(call.integer(1)) +
                          static_cast<uint64_t>(first_of_tile(call) / per_tile * kTileCounters);
  const auto item = static_cast<int64_t>(itemsize(out.dtype()));
  const auto probability_size = static_cast<int64_t>(per_tile == kTileWords ? 4 : 8);
  const bool direct = sampler.dtype == out.dtype();
  const Convert convert = converter(sampler.dtype, out.dtype());
  auto* data = static_cast<char*>(out.data());
  auto range = [&](int64_t begin, int64_t end) {
    alignas(64) char buffer[kBufferTiles * kTileWords * 8];
    SampleParams local = params;
    for (int64_t tile = begin; tile < end;) {
      const int64_t first = tile * per_tile, left = numel - first;
      const bool in_place = direct && left >= per_tile;
      const int64_t tiles = std::min(end - tile, in_place ? left / per_tile : kBufferTiles);
      if (params.probabilities)
        local.probabilities =
            static_cast<const char*>(params.probabilities) + first * probability_size;
      sampler.fill(in_place ? data + first * item : buffer, tiles,
                   offset + static_cast<uint64_t>(tile * kTileCounters), local);
      if (!in_place) convert(buffer, 1, data + first * item, 1, std::min(left, tiles * per_tile));
      tile += tiles;
    }
  };
  const int64_t tiles = (numel + per_tile - 1) / per_tile;
  if (numel <= kGrain) return range(0, tiles);
  BlockingSection blocking;
  parallel_for(0, tiles, kGrain / per_tile, range);
}

// Float32 samples serve the half precisions too.
const Sampler& by_dtype(const Sampler (&samplers)[2], DType dtype) {
  return samplers[dtype == DType::Float64];
}

double unit_interval(uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }
double open_interval(uint64_t word) { return (static_cast<double>(word >> 12) + 0.5) * 0x1p-52; }

// Attributes: seed, offset, from, to.
void random_uniform(const OpCall& call) {
  SampleParams params = params_of(call);
  DType dtype = call.out().dtype();
  // An interval too narrow for the dtype has its lower end only.
  params.limit = std::max(largest_below(params.b, dtype), params.a);
  sample(call, by_dtype(best_random_table().uniform, dtype), params);
}

// Attributes: seed, offset, mean, std.
void random_normal(const OpCall& call) {
  sample(call, by_dtype(best_random_table().normal, call.out().dtype()), params_of(call));
}

// Attributes: seed, offset, mean, std of the logarithm.
void random_log_normal(const OpCall& call) {
  sample(call, by_dtype(best_random_table().log_normal, call.out().dtype()), params_of(call));
}

// Attributes: seed, offset, rate.
void random_exponential(const OpCall& call) {
  sample(call, by_dtype(best_random_table().exponential, call.out().dtype()), params_of(call));
}

// Attributes: seed, offset, median, sigma.
void random_cauchy(const OpCall& call) {
  sample(call, by_dtype(best_random_table().cauchy, call.out().dtype()), params_of(call));
}

// Attributes: seed, offset, probability.
void random_geometric(const OpCall& call) {
  SampleParams params = params_of(call);
  params.a = std::log1p(-params.a);
  sample(call, best_random_table().geometric, params);
}

// Attributes: seed, offset, first integer, how many (as bits of a uint64; 0 means 2^64).
void random_integers(const OpCall& call) {
  SampleParams params = params_of(call);
  params.first = call.integer(2);
  params.length = static_cast<uint64_t>(call.integer(3));
  bool wide = params.length == 0 || params.length > kNarrowRange;
  sample(call, best_random_table().integers[wide], params);
}

// Attributes: seed, offset, probability of a one.
void random_bernoulli(const OpCall& call) {
  SampleParams params = params_of(call);
  const BernoulliThreshold threshold(params.a);
  params.threshold = threshold.value;
  sample(call, best_random_table().bernoulli[threshold.is_wide], params);
}

// Input: float32 or float64 probabilities, contiguous, as many as outputs.
void random_bernoulli_each(const OpCall& call) {
  const TensorImpl& p = call.in(0);
  int64_t numel = p.numel();
  std::atomic<bool> valid = true;
  bool is_double = p.dtype() == DType::Float64;
  auto check = [&](auto type) {
    auto* values = p.data_as<decltype(type)>();
    parallel_for(0, numel, kGrain, [&](int64_t begin, int64_t end) {
      bool all = true;
      for (int64_t i = begin; i < end; ++i) all &= values[i] >= 0 && values[i] <= 1;
      if (!all) valid = false;
    });
  };
  if (is_double) check(double{});
  else check(float{});
  TAPEGRAD_CHECK(valid,
                 "bernoulli: Expected p_in >= 0 && p_in <= 1 to be true for all probabilities");
  const Sampler& sampler = best_random_table().bernoulli_each[is_double];
  SampleParams params = params_of(call);
  params.probabilities = p.data();
  if (numel % sampler.per_tile == 0) return sample(call, sampler, params);
  // Samplers read whole tiles.
  auto size = static_cast<int64_t>(itemsize(p.dtype()));
  std::vector<char> padded((numel / sampler.per_tile + 1) * sampler.per_tile * size);
  std::memcpy(padded.data(), p.data(), numel * size);
  params.probabilities = padded.data();
  sample(call, sampler, params);
}

// Attributes: seed, offset.
void random_permutation(const OpCall& call) {
  const TensorImpl& out = call.out();
  int64_t n = out.numel();
  if (n == 0) return;
  bool direct = out.dtype() == DType::Int64;
  std::vector<int64_t> buffer(direct ? 0 : n);
  int64_t* order = direct ? out.data_as<int64_t>() : buffer.data();
  auto draw = [&] {
    shuffle(order, n, static_cast<uint64_t>(call.integer(0)),
            static_cast<uint64_t>(call.integer(1)));
    if (!direct) converter(DType::Int64, out.dtype())(order, 1, out.data(), 1, n);
  };
  if (n <= kGrain) return draw();
  BlockingSection blocking;
  draw();
}

enum class RowProblem : int { None, BadValue, ZeroSum };

RowProblem accumulate(const double* p, int64_t n, double* cumulative) {
  double sum = 0;
  bool valid = true;
  for (int64_t i = 0; i < n; ++i) {
    valid &= p[i] >= 0 && p[i] <= std::numeric_limits<double>::max();
    cumulative[i] = sum += p[i];
  }
  if (!valid) return RowProblem::BadValue;
  return sum > 0 ? RowProblem::None : RowProblem::ZeroSum;
}

// Inverse of the cumulative distribution.
void draw_with_replacement(const double* p, int64_t n, int64_t* out, int64_t count,
                           WordStream words, double* cumulative) {
  // The last category with a chance: rounding must not lead beyond it.
  int64_t last = n - 1;
  while (p[last] == 0) --last;
  for (int64_t i = 0; i < count; ++i) {
    double u = unit_interval(words.next()) * cumulative[n - 1];
    const double* found = std::upper_bound(cumulative, cumulative + n, u);
    out[i] = std::min<int64_t>(found - cumulative, last);
  }
}

// A race of exponential clocks with rates p: the order of arrival is the order of drawing.
void draw_without_replacement(const double* p, int64_t n, int64_t* out, int64_t count,
                              WordStream words, double* arrival) {
  for (int64_t i = 0; i < n; ++i) arrival[i] = -std::log(open_interval(words.next())) / p[i];
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](int64_t a, int64_t b) { return arrival[a] < arrival[b]; });
  std::copy_n(order.begin(), count, out);
}

// Input: rows of float64 probabilities, contiguous. The second output is room for as many numbers.
// Attributes: seed, offset, replacement.
void random_multinomial(const OpCall& call) {
  const TensorImpl& p = call.in(0);
  const TensorImpl& out = call.out();
  int64_t n = p.size(p.dim() - 1), count = out.size(out.dim() - 1);
  int64_t rows = p.numel() / n;
  auto seed = static_cast<uint64_t>(call.integer(0));
  auto offset = static_cast<uint64_t>(call.integer(1));
  bool replacement = call.attributes[2].as_bool();
  auto counters_per_row = static_cast<uint64_t>((replacement ? count : n) + 1) / 2;
  auto* probabilities = p.data_as<double>();
  auto* drawn = out.data_as<int64_t>();
  auto* room = call.out(1).data_as<double>();
  std::atomic<int> problem = 0;
  auto range = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const double* row_p = probabilities + row * n;
      RowProblem found = accumulate(row_p, n, room + row * n);
      if (found != RowProblem::None) {
        problem = static_cast<int>(found);
        return;
      }
      WordStream words(seed, offset + static_cast<uint64_t>(row) * counters_per_row);
      auto draw = replacement ? draw_with_replacement : draw_without_replacement;
      draw(row_p, n, drawn + row * count, count, words, room + row * n);
    }
  };
  {
    BlockingSection blocking;
    parallel_for(0, rows, std::max<int64_t>(1, kGrain / (n + count)), range);
  }
  auto found = static_cast<RowProblem>(problem.load());
  TAPEGRAD_CHECK(found != RowProblem::BadValue,
                 "multinomial: probability tensor contains either `inf`, `nan` or element < 0");
  TAPEGRAD_CHECK(found != RowProblem::ZeroSum,
                 "multinomial: invalid multinomial distribution (sum of probabilities <= 0)");
}

// The draws of one element, in the upper half of the counter.
class ElementStream {
 public:
  ElementStream(uint64_t seed, uint64_t element) : seed_(seed), element_(element) {}
  PhiloxBlock next() { return philox(seed_, element_, ++draw_); }

 private:
  uint64_t seed_, element_, draw_ = 0;
};

// Walks up the cumulative distribution to a uniform variable: for small rates.
double poisson_by_inversion(double rate, ElementStream draws) {
  // Beyond it probabilities are below 2^-53 for every rate this is used with.
  constexpr double kLargest = 100;
  double u = open_interval(draws.next().wide(0)), probability = std::exp(-rate), count = 0;
  while (u > probability && count < kLargest) {
    u -= probability;
    probability *= rate / ++count;
  }
  return count;
}

// Hoermann's transformed rejection with squeeze (PTRS, 1993): for rates of ten and more.
double poisson_by_rejection(double rate, ElementStream draws) {
  const double log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * std::sqrt(rate);
  const double a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double squeeze = 0.9277 - 3.6224 / (b - 2);
  while (true) {
    PhiloxBlock block = draws.next();
    double u = open_interval(block.wide(0)) - 0.5, v = open_interval(block.wide(1));
    double us = 0.5 - std::fabs(u);
    double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= squeeze) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    int sign;
    double bound = k * log_rate - rate - ::lgamma_r(k + 1, &sign);
    if (std::log(v * inverse_alpha / (a / (us * us) + b)) <= bound) return k;
  }
}

// Input: rates, contiguous, of the output's floating dtype. Attributes: seed, offset.
void random_poisson(const OpCall& call) {
  const TensorImpl& out = call.out();
  auto seed = static_cast<uint64_t>(call.integer(0));
  const auto offset = static_cast<uint64_t>(call.integer(1) + first_of_tile(call));
  std::atomic<bool> valid = true;
  visit_dtype("poisson", out.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* rates = call.in(0).data_as<T>();
    T* counts = out.data_as<T>();
    auto range = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        auto rate = static_cast<double>(rates[i]);
        if (!(rate >= 0) || std::isinf(rate)) {
          valid = false;
          return;
        }
        ElementStream draws(seed, offset + static_cast<uint64_t>(i));
        auto draw = rate < 10 ? poisson_by_inversion : poisson_by_rejection;
        counts[i] = Scalar(draw(rate, draws)).as<T>();
      }
    };
    if (out.numel() <= kGrain / 8) return range(0, out.numel());
    BlockingSection blocking;
    parallel_for(0, out.numel(), kGrain / 8, range);
  });
  TAPEGRAD_CHECK(valid,
                 "poisson: invalid Poisson rate, expected rate to be non-negative, and finite");
}

const KernelList<DeviceType::CPU> kKernels = {
    {"random_uniform", random_uniform},
    {"random_normal", random_normal},
    {"random_log_normal", random_log_normal},
    {"random_exponential", random_exponential},
    {"random_cauchy", random_cauchy},
    {"random_geometric", random_geometric},
    {"random_integers", random_integers},
    {"random_bernoulli", random_bernoulli},
    {"random_bernoulli_each", random_bernoulli_each},
    {"random_permutation", random_permutation},
    {"random_multinomial", random_multinomial},
    {"random_poisson", random_poisson},
};

}  // namespace

}  // namespace tapegrad::cpu
