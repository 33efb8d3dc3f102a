#include "ops/random.h"

#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/op.h"
#include "core/torch_names.h"
#include "graph/record.h"
#include "graph/view.h"
#include "graph/write_log.h"
#include "ops/complex.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/pointwise.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const Op integers_op("random_integers", {"seed", "offset", "first", "count"}, kRandom);
const Op bernoulli_each_op("random_bernoulli_each", {"seed", "offset"}, kRandom);
const Op permutation_op("random_permutation", {"seed", "offset"}, kRandom | kNoDerivative);
const Op multinomial_op("random_multinomial", {"seed", "offset", "replacement"},
                        kRandom | kNoDerivative);
const Op poisson_op("random_poisson", {"seed", "offset"}, kRandom);

// A sample in place and one of given parameters are different functions to PyTorch, and numbered.
const EntryKind random_from_entry("random", integers_op);
const EntryKind random_to_entry("random", integers_op, {}, 1);
const EntryKind random_entry("random", integers_op, {}, 2);
const EntryKind bernoulli_of_entry("bernoulli", bernoulli_each_op);
const EntryKind bernoulli_each_entry("bernoulli", bernoulli_each_op, {}, 1);
const EntryKind poisson_entry("poisson", poisson_op);

struct DistributionRecord {
  DistributionRecord(const char* function, const char* op_name,
                     std::initializer_list<const char*> attributes, int overload = 0)
      : op(op_name, attributes, kRandom), kind(function, op, {}, overload) {}
  Op op;
  EntryKind kind;
};
// In the order of Distribution.
const DistributionRecord kDistributions[] = {
    {"uniform", "random_uniform", {"seed", "offset", "from", "to"}},
    {"normal", "random_normal", {"seed", "offset", "mean", "std"}},
    {"log_normal", "random_log_normal", {"seed", "offset", "mean", "std"}},
    {"exponential", "random_exponential", {"seed", "offset", "rate", "unused"}},
    {"cauchy", "random_cauchy", {"seed", "offset", "median", "sigma"}},
    {"geometric", "random_geometric", {"seed", "offset", "probability", "unused"}},
    {"bernoulli", "random_bernoulli", {"seed", "offset", "probability", "unused"}, 2},
};
const DistributionRecord& record_of(Distribution distribution) {
  return kDistributions[static_cast<int>(distribution)];
}

const Op& normal_op() { return record_of(Distribution::Normal).op; }
const EntryKind normal_of_means_entry("normal", normal_op(), {}, 1);
const EntryKind normal_of_stds_entry("normal", normal_op(), {}, 2);
const EntryKind normal_of_both_entry("normal", normal_op(), {}, 3);

// A sample does not depend on anything in a differentiable way.
struct SampleBackward final : VariantEntry {
  explicit SampleBackward(const EntryKind& kind) : VariantEntry(kind) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    for (size_t i = 0; i < grad_inputs.size(); ++i)
      if (needs(i)) grad_inputs[i] = zeros_like(grads[0]);
  }
};

// No kernel uses more than a tile of 16 counters for 32 elements, or one for one.
uint64_t counters_for(int64_t numel) { return (static_cast<uint64_t>(numel) + 31) / 32 * 16; }

// Runs a random op. Kernels write contiguous memory.
void dispatch_sample(const Op& op, std::span<const Tensor> inputs, RandomStream stream,
                     std::initializer_list<Scalar> params, const Tensor& out) {
  Tensor target =
      out.is_contiguous() ? out : empty(op.name, out.sizes(), out.dtype(), out->device());
  Scalar attributes[4] = {stream.seed, stream.offset};
  std::copy(params.begin(), params.end(), attributes + 2);
  dispatch(op, inputs, std::span(attributes, 2 + params.size()),
           std::span<const Tensor>(&target, 1));
  if (!target.is_same(out)) copy_into(out, target);
}

// The frame of all in-place forms: sample(self) writes.
template <class Sample>
void overwrite(const char* op, const EntryKind& kind, const Tensor& self, Sample&& sample) {
  bool recording = should_record(self);
  check_inplace(op, self, recording);
  sample();
  note_write(op, self);
  if (!recording) return;
  Ref<SampleBackward> node =
      Node::create<SampleBackward>(1, 0, std::span<const Tensor>(&self, 1), kind);
  node->edges()[0] = gradient_edge(self);
  node->stamp();
  rebase_history(self, std::move(node));
}

void check_continuous(const char* op, DType dtype) {
  TAPEGRAD_CHECK(is_floating(dtype), op, ": a continuous distribution needs a floating dtype, got ",
                 name(dtype));
}

double largest(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return 65504;
    case DType::Float64:
      return std::numeric_limits<double>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

void check_uniform(const char* op, DType dtype, double from, double to) {
  double bound = largest(dtype);
  TAPEGRAD_CHECK(std::abs(from) <= bound, op, ": from is out of bounds for ", name(dtype));
  TAPEGRAD_CHECK(std::abs(to) <= bound, op, ": to is out of bounds for ", name(dtype));
  TAPEGRAD_CHECK(from <= to, op, " expects to return a [from, to) range, but found from=", from,
                 " > to=", to);
  TAPEGRAD_CHECK(to - from <= bound, op, " expects to-from <= the largest ", name(dtype),
                 ", but found to=", to, " and from=", from);
}

void check_parameters(const char* op, Distribution distribution, DType dtype, double a, double b) {
  switch (distribution) {
    case Distribution::Uniform:
      if (!is_floating(dtype)) fail_unsupported_dtype(op, dtype);
      return check_uniform(op, dtype, a, b);
    case Distribution::Normal:
      TAPEGRAD_CHECK(b >= 0, op, " expects std >= 0.0, but found std ", b);
      if (!is_floating(dtype)) fail_unsupported_dtype(op, dtype);
      return;
    case Distribution::LogNormal:
      TAPEGRAD_CHECK(b > 0, op, " expects std > 0.0, but found std=", b);
      if (!is_floating(dtype)) fail_unsupported_dtype(op, dtype);
      return;
    case Distribution::Exponential:
      TAPEGRAD_CHECK(a > 0, op, " expects lambda > 0.0, but found lambda=", a);
      return check_continuous(op, dtype);
    case Distribution::Cauchy:
      TAPEGRAD_CHECK(b > 0, op, " expects sigma > 0.0, but found sigma=", b);
      return check_continuous(op, dtype);
    case Distribution::Geometric:
      TAPEGRAD_CHECK(a > 0 && a < 1, op, " expects p to be in (0, 1), but got p=", a);
      if (dtype == DType::Bool) fail_unsupported_dtype(op, dtype);
      return;
    case Distribution::Bernoulli:
      TAPEGRAD_CHECK(a >= 0 && a <= 1, op, " expects p to be in [0, 1], but got p=", a);
      return;
  }
}

// The integers that a dtype holds without gaps.
struct IntegerRange {
  int64_t smallest, largest;
};
IntegerRange integer_range(DType dtype) {
  constexpr auto mantissa = [](int bits) -> IntegerRange {
    return {-(int64_t{1} << bits), int64_t{1} << bits};
  };
  switch (dtype) {
    case DType::Float16:
      return mantissa(11);
    case DType::BFloat16:
      return mantissa(8);
    case DType::Float32:
      return mantissa(24);
    case DType::Float64:
      return mantissa(53);
    case DType::Bool:
      return {0, 1};
    case DType::UInt8:
      return {0, 255};
    case DType::UInt16:
      return {0, UINT16_MAX};
    case DType::UInt32:
      return {0, UINT32_MAX};
    case DType::UInt64:
      return {0, INT64_MAX};  // as far as arguments go
    default: {
      auto bits = static_cast<int>(itemsize(dtype) * 8 - 1);
      auto most = static_cast<int64_t>((uint64_t{1} << bits) - 1);
      return {-most - 1, most};
    }
  }
}

void check_integers(const char* op, DType dtype, int64_t from, int64_t to) {
  TAPEGRAD_CHECK(from < to, op,
                 ": random_ expects 'from' to be less than 'to', but got from=", from,
                 " >= to=", to);
  if (is_floating(dtype)) {
    check_uniform(op, dtype, static_cast<double>(from), static_cast<double>(to - 1));
    return;
  }
  IntegerRange range = integer_range(dtype);
  TAPEGRAD_CHECK(from >= range.smallest && from <= range.largest, op,
                 ": from is out of bounds for ", name(dtype));
  TAPEGRAD_CHECK(to - 1 <= range.largest, op, ": to - 1 is out of bounds for ", name(dtype));
}

// Float32 or float64, contiguous, outside the tape.
Tensor plain_operand(const Tensor& x, DType dtype) {
  GradMode off(false);
  return contiguous(cast(x, dtype));
}

void bernoulli_each_into(const Tensor& out, const Tensor& p, Generator& generator) {
  Tensor wide = plain_operand(p, p.dtype() == DType::Float64 ? DType::Float64 : DType::Float32);
  dispatch_sample(bernoulli_each_op, std::span<const Tensor>(&wide, 1),
                  generator.reserve(counters_for(out.numel())), {}, out);
}

Tensor normal_of(const Tensor& mean, const Tensor& std, Sizes sizes, DType dtype,
                 Generator& generator) {
  GradMode off(false);
  Tensor out =
      empty("normal", sizes, dtype, mean->device().is_cpu() ? std->device() : mean->device());
  sample_into("normal", out, Distribution::Normal, 0, 1, generator);
  const Tensor* scale[] = {&out, &std};
  const Tensor* shift[] = {&out, &mean};
  pointwise_inplace(PointwiseId::mul, scale, {});
  pointwise_inplace(PointwiseId::add, shift, {});
  return out;
}

void check_stds(const Tensor& std) {
  GradMode off(false);
  TAPEGRAD_CHECK(!has_zero(ge(std, 0.0)), "normal expects all elements of std >= 0.0");
}

}  // namespace

static bool is_complex_distribution(Distribution distribution) {
  return distribution == Distribution::Normal || distribution == Distribution::Uniform;
}

void sample_into(const char* op, const Tensor& out, Distribution distribution, double a, double b,
                 Generator& generator) {
  if (is_complex(out.dtype()) && is_complex_distribution(distribution)) {
    // Both parts alike; those of a normal number have half of its variance each.
    const bool normal = distribution == Distribution::Normal;
    TAPEGRAD_CHECK(!normal || a == 0, op, ": complex numbers are drawn around 0, got mean ", a);
    return sample_into(op, real_alias(out), distribution, a, normal ? b * std::sqrt(0.5) : b,
                       generator);
  }
  check_parameters(op, distribution, out.dtype(), a, b);
  dispatch_sample(record_of(distribution).op, {}, generator.reserve(counters_for(out.numel())),
                  {a, b}, out);
}

void sample_(const char* op, const Tensor& self, Distribution distribution, double a, double b,
             Generator& generator) {
  overwrite(op, record_of(distribution).kind, self,
            [&] { sample_into(op, self, distribution, a, b, generator); });
}

void random_into(const char* op, const Tensor& out, int64_t from, std::optional<int64_t> to,
                 Generator& generator) {
  if (to) check_integers(op, out.dtype(), from, *to);
  if (is_bare(out.dtype())) {
    if (!is_wide_unsigned(out.dtype()) || !to) fail_unsupported_dtype(op, out.dtype());
    const Tensor wide = empty_like(out, out.sizes(), DType::Int64);
    random_into(op, wide, from, to, generator);
    return copy_into(out, wide);
  }
  int64_t last = to ? *to - 1 : integer_range(out.dtype()).largest;
  TAPEGRAD_CHECK(from <= last, op, ": from=", from, " is beyond the largest ", name(out.dtype()),
                 ", ", last);
  // Wraps to zero when all 2^64 integers are asked for, which is what the kernel expects.
  uint64_t count = static_cast<uint64_t>(last) - static_cast<uint64_t>(from) + 1;
  dispatch_sample(integers_op, {}, generator.reserve(counters_for(out.numel())), {from, count},
                  out);
}

void random_(const Tensor& self, std::optional<int64_t> from, std::optional<int64_t> to,
             Generator& generator) {
  // PyTorch numbers its overloads.
  const EntryKind& kind = from ? random_from_entry : to ? random_to_entry : random_entry;
  overwrite("random_", kind, self,
            [&] { random_into("random_", self, from.value_or(0), to, generator); });
}

Tensor bernoulli(const Tensor& p, Generator& generator) {
  if (!is_floating(p.dtype())) fail_unsupported_dtype("bernoulli", p.dtype());
  Tensor out = empty("bernoulli", p.sizes(), p.dtype(), p->device());
  bernoulli_each_into(out, p, generator);
  if (should_record(p)) record<SampleBackward>({&p}, out, 0, bernoulli_of_entry);
  return out;
}

void bernoulli_(const Tensor& self, const Tensor& p, Generator& generator) {
  if (!is_floating(p.dtype())) fail_unsupported_dtype("bernoulli_", p.dtype());
  TAPEGRAD_CHECK(can_expand(p.sizes(), self.sizes()), "bernoulli_: p of shape ",
                 to_string(p.sizes()), " cannot be broadcast to shape ", to_string(self.sizes()));
  overwrite("bernoulli_", bernoulli_each_entry, self, [&] {
    GradMode off(false);
    bernoulli_each_into(self, expand(p, self.sizes()), generator);
  });
}

Tensor normal(const Tensor& mean, const Tensor& std, Generator& generator) {
  check_stds(std);
  DimVector sizes = broadcast_sizes("normal", mean.sizes(), std.sizes());
  Tensor out = normal_of(mean, std, sizes, mean.dtype(), generator);
  if (should_record(mean, std)) record<SampleBackward>({&mean, &std}, out, 0, normal_of_both_entry);
  return out;
}

Tensor normal(const Tensor& mean, double std, Generator& generator) {
  TAPEGRAD_CHECK(std >= 0, "normal expects std >= 0.0, but found std ", std);
  Tensor out = normal_of(mean, wrapped_number(std), mean.sizes(), mean.dtype(), generator);
  if (should_record(mean)) record<SampleBackward>({&mean}, out, 0, normal_of_means_entry);
  return out;
}

Tensor normal(double mean, const Tensor& std, Generator& generator) {
  check_stds(std);
  Tensor out = normal_of(wrapped_number(mean), std, std.sizes(), std.dtype(), generator);
  if (should_record(std)) record<SampleBackward>({&std}, out, 0, normal_of_stds_entry);
  return out;
}

Tensor poisson(const Tensor& rates, Generator& generator) {
  if (!is_floating(rates.dtype())) fail_unsupported_dtype("poisson", rates.dtype());
  Tensor plain = plain_operand(rates, rates.dtype());
  Tensor out = empty("poisson", rates.sizes(), rates.dtype(), rates->device());
  RandomStream stream = generator.reserve(static_cast<uint64_t>(rates.numel()));
  dispatch_sample(poisson_op, std::span<const Tensor>(&plain, 1), stream, {}, out);
  if (should_record(rates)) record<SampleBackward>({&rates}, out, 0, poisson_entry);
  return out;
}

Tensor randperm(int64_t n, DType dtype, Device device, Generator& generator) {
  if (dtype == DType::Bool) fail_unsupported_dtype("randperm", dtype);
  TAPEGRAD_CHECK(n >= 0, "randperm: n must be non-negative, got ", n);
  TAPEGRAD_CHECK(n - 1 <= integer_range(dtype).largest, "randperm: the numbers up to n = ", n,
                 " do not all fit into ", name(dtype), "; use a wider dtype");
  Tensor out = empty("randperm", DimVector{n}, dtype, device);
  RandomStream stream = generator.reserve(static_cast<uint64_t>(n) / 2 + 1);
  dispatch_sample(permutation_op, {}, stream, {}, out);
  return out;
}

Tensor multinomial(const Tensor& p, int64_t num_samples, bool replacement, Generator& generator) {
  TAPEGRAD_CHECK(
      is_floating(p.dtype()),
      "multinomial only supports floating-point dtypes for input, got: ", type_name(p.dtype()));
  TAPEGRAD_CHECK(p.dim() == 1 || p.dim() == 2, "multinomial: prob_dist must be 1 or 2 dim, got ",
                 p.dim());
  TAPEGRAD_CHECK(num_samples > 0, "multinomial: cannot sample n_sample <= 0 samples, got ",
                 num_samples);
  int64_t categories = p.size(p.dim() - 1);
  TAPEGRAD_CHECK(categories > 0 && (replacement || num_samples <= categories),
                 "multinomial: cannot sample n_sample > prob_dist.size(-1) samples without "
                 "replacement, got ",
                 num_samples, " > ", categories);
  Tensor plain = plain_operand(p, DType::Float64);
  DimVector sizes(p.sizes());
  sizes.back() = num_samples;
  Tensor out = empty("multinomial", sizes, DType::Int64, p->device());
  if (out.numel() == 0) return out;
  int64_t rows = p.numel() / categories;
  auto per_row = static_cast<uint64_t>((replacement ? num_samples : categories) + 1) / 2;
  RandomStream stream = generator.reserve(static_cast<uint64_t>(rows) * per_row);
  Tensor room = empty_like(p, p.sizes(), DType::Float64);
  dispatch(multinomial_op, {plain}, {stream.seed, stream.offset, replacement}, {out, room});
  return out;
}

}  // namespace tapegrad
