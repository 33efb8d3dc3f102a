// Random ops on CUDA. A seed gives the numbers that it gives on the CPU: see core/random.h,
// Note [Random streams], and tapegrad/cuda/kernels/random.cu. Outputs are contiguous.
#include "spec/random.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/parallel.h"
#include "core/registry.h"
#include "cuda/allocator.h"
#include "cuda/capturing.h"
#include "cuda/kernel_errors.h"
#include "cuda/launch.h"
#include "cuda/move.h"
#include "cuda/random_source.h"
#include "cuda/stream.h"

namespace tapegrad::cuda {

namespace {

constexpr int kThreads = 256;

int64_t blocks_for(int64_t count, int64_t per_block) { return (count + per_block - 1) / per_block; }

// ---- distributions

// As tapegrad/cuda/kernels/random.cu declares it.
struct SampleArguments {
  int64_t count;
  void* out;
  RandomSource source;
  double a, b;
  double limit;                // of a uniform variable: the largest value below its open end
  int64_t first;               // of a range of integers
  uint64_t length, threshold;  // of that range; of the words of a Bernoulli variable
  const void* probabilities;
  ErrorPlace errors;
};

SampleArguments arguments_of(const OpCall& call) {
  SampleArguments arguments{};
  arguments.count = call.out().numel();
  arguments.out = call.out().data();
  arguments.source = random_source(call);
  return arguments;
}

// A distribution by its name in the text, and how many elements it draws from a counter.
struct Sampler {
  const char* name;
  int per_counter;
};
constexpr Sampler kSamplers[] = {
    {"Uniform<float>", 4},
    {"Uniform<double>", 2},
    {"Normal<float>", 4},
    {"Normal<double>", 2},
    {"LogNormal<float>", 4},
    {"LogNormal<double>", 2},
    {"Exponential<float>", 4},
    {"Exponential<double>", 2},
    {"Cauchy<float>", 4},
    {"Cauchy<double>", 2},
    {"Geometric", 2},
    {"Integers<false>", 4},
    {"Integers<true>", 2},
    {"Bernoulli<false>", 4},
    {"Bernoulli<true>", 2},
    {"BernoulliEach<float>", 4},
    {"BernoulliEach<double>", 2},
};
// The places of the above; of a pair the first.
enum SamplerPlace {
  kUniform = 0,
  kNormal = 2,
  kLogNormal = 4,
  kExponential = 6,
  kCauchy = 8,
  kGeometric = 10,
  kIntegers = 11,
  kBernoulli = 13,
  kBernoulliEach = 15,
};

void sample(const OpCall& call, int place, const SampleArguments& arguments) {
  if (arguments.count == 0) return;
  static auto& cache = *new KernelCache;
  const Sampler& sampler = kSamplers[place];
  const TensorImpl& out = call.out();
  const int device = out.device().index;
  const uint64_t key = static_cast<uint64_t>(place) << 8 | static_cast<uint64_t>(out.dtype());
  const FunctionHandle kernel = cache.find(device, key, [&] {
    return concat("file random.cu\nSampleArguments\nsample<", sampler.name, ", ",
                  kernel_type(out.dtype()), ">");
  });
  launch_with(kernel, device, blocks_for(arguments.count, kThreads * sampler.per_counter), kThreads,
              arguments);
}

// Draws in float, or in double for float64.
template <int kPlace>
void sample_real(const OpCall& call) {
  SampleArguments arguments = arguments_of(call);
  arguments.a = call.real(2);
  arguments.b = call.real(3);
  // An interval too narrow for the dtype has its lower end only.
  if (kPlace == kUniform)
    arguments.limit = std::max(largest_below(arguments.b, call.out().dtype()), arguments.a);
  sample(call, kPlace + (call.out().dtype() == DType::Float64), arguments);
}

// Attributes: seed, offset, probability.
void random_geometric(const OpCall& call) {
  SampleArguments arguments = arguments_of(call);
  arguments.a = std::log1p(-call.real(2));
  sample(call, kGeometric, arguments);
}

// Attributes: seed, offset, first integer, how many (as bits of a uint64; 0 means 2^64).
void random_integers(const OpCall& call) {
  SampleArguments arguments = arguments_of(call);
  arguments.first = call.integer(2);
  arguments.length = static_cast<uint64_t>(call.integer(3));
  const bool wide = arguments.length == 0 || arguments.length > kNarrowRange;
  sample(call, kIntegers + wide, arguments);
}

// Attributes: seed, offset, probability of a one.
void random_bernoulli(const OpCall& call) {
  SampleArguments arguments = arguments_of(call);
  const BernoulliThreshold threshold(call.real(2));
  arguments.threshold = threshold.value;
  sample(call, kBernoulli + threshold.is_wide, arguments);
}

// Input: float32 or float64 probabilities, contiguous, as many as outputs.
void random_bernoulli_each(const OpCall& call) {
  SampleArguments arguments = arguments_of(call);
  arguments.probabilities = call.in(0).data();
  arguments.errors =
      error_place(call.out().device().index, {call.op.name, 0, 0, [](const KernelError&, int64_t) {
    fail("bernoulli: Expected p_in >= 0 && p_in <= 1 to be true for all probabilities");
  }});
  sample(call, kBernoulliEach + (call.in(0).dtype() == DType::Float64), arguments);
}

// ---- one number after the other

// Input: rates, contiguous, of the output's floating dtype. Attributes: seed, offset.
void random_poisson(const OpCall& call) {
  struct PoissonArguments {
    int64_t count;
    const void* rates;
    void* out;
    RandomSource source;
    ErrorPlace errors;
  };
  const TensorImpl& out = call.out();
  if (out.numel() == 0) return;
  static auto& cache = *new KernelCache;
  const int device = out.device().index;
  const FunctionHandle kernel = cache.find(device, static_cast<uint64_t>(out.dtype()), [&] {
    return concat("file random.cu\nPoissonArguments\npoisson<", kernel_type(out.dtype()), ">");
  });
  launch_with(
      kernel, device, blocks_for(out.numel(), kThreads), kThreads,
      PoissonArguments{out.numel(), call.in(0).data(), out.data(), random_source(call),
                       error_place(device, {call.op.name, 0, 0, [](const KernelError&, int64_t) {
    fail("poisson: invalid Poisson rate, expected rate to be non-negative, and finite");
  }})});
}

// Page-locked memory that a copy may still be reading when it is given back.
class PinnedBytes {
 public:
  PinnedBytes(size_t nbytes, int device) : device_(device), data_(allocate_pinned(nbytes)) {}
  ~PinnedBytes() { free_pinned(data_); }
  PinnedBytes(const PinnedBytes&) = delete;
  PinnedBytes& operator=(const PinnedBytes&) = delete;

  void* data() const { return data_; }
  void copy_to(void* to, size_t nbytes) const {
    copy_bytes(to, data_, nbytes, device_);
    record_pinned(data_, device_, current_stream(device_));
  }

 private:
  const int device_;
  void* const data_;
};

// Numbers that are not larger take the places of those before them.
void narrow(int64_t* numbers, int64_t n, DType dtype) {
  visit_dtype("randperm", dtype, [&](auto type) {
    using T = decltype(type);
    if (dtype == DType::Int64) return;
    auto* place = reinterpret_cast<char*>(numbers);
    for (int64_t i = 0; i < n; ++i, place += sizeof(T)) {
      const T value = scalar_of(numbers[i]).as<T>();
      std::memcpy(place, &value, sizeof(T));
    }
  });
}

// Every swap depends on those before it: the host makes the permutation, and the device fetches it.
// Attributes: seed, offset.
void random_permutation(const OpCall& call) {
  constexpr int64_t kGrain = 16384;
  const TensorImpl& out = call.out();
  const int64_t n = out.numel();
  if (n == 0) return;
  if (is_capturing(out.device().index)) [[unlikely]]
    fail_in_capture("randperm",
                    "the host makes the permutation, which would be the same in every replay,",
                    "make it before, and copy it into a tensor that the graph reads");
  const PinnedBytes pinned(static_cast<size_t>(n) * sizeof(int64_t), out.device().index);
  auto* order = static_cast<int64_t*>(pinned.data());
  auto draw = [&] {
    shuffle(order, n, static_cast<uint64_t>(call.integer(0)),
            static_cast<uint64_t>(call.integer(1)));
    narrow(order, n, out.dtype());
  };
  if (n <= kGrain) {
    draw();
  } else {
    const BlockingSection blocking;
    draw();
  }
  pinned.copy_to(out.data(), static_cast<size_t>(n) * itemsize(out.dtype()));
}

// ---- multinomial

// As tapegrad/cuda/kernels/multinomial.cu declares them.
struct MultinomialArguments {
  const double* p;
  int64_t* drawn;
  double* room;
  int64_t rows, n, count;
  RandomSource source;
  uint64_t counters_per_row;
  ErrorPlace errors;
};
struct RaceArguments {
  MultinomialArguments of;
  uint64_t* times;
  int64_t* categories;
  int64_t length;
};
struct SortArguments {
  uint64_t* times;
  int64_t* categories;
  int64_t length, pairs;
  int64_t size, last_size;
  int64_t stride;
  int tile;
};

enum class Part : uint64_t {
  Accumulate,
  Draw,
  DrawFew,
  StartRace,
  FinishRace,
  MergeFar,
  MergeNear
};

template <class Arguments>
void launch_part(Part part, int device, int64_t blocks, const Arguments& arguments) {
  constexpr const char* kDescriptions[] = {
      "MultinomialArguments\naccumulate", "MultinomialArguments\ndraw_with_replacement",
      "MultinomialArguments\ndraw_few",   "RaceArguments\nstart_race",
      "RaceArguments\nfinish_race",       "SortArguments\nmerge_far",
      "SortArguments\nmerge_near",
  };
  static auto& cache = *new KernelCache;
  const auto key = static_cast<uint64_t>(part);
  const FunctionHandle kernel =
      cache.find(device, key, [&] { return concat("file multinomial.cu\n", kDescriptions[key]); });
  launch_with(kernel, device, blocks, kThreads, arguments);
}

// Sorts rows of `length` arrivals each, a power of two.
void sort_arrivals(SortArguments sort, int64_t count, int device) {
  constexpr int64_t kTile = 1024;  // kSortTile in the text
  sort.tile = static_cast<int>(std::min(kTile, sort.length));
  sort.pairs = count / 2;
  sort.size = 2;
  sort.last_size = sort.tile;
  launch_part(Part::MergeNear, device, count / sort.tile, sort);
  for (int64_t size = 2 * kTile; size <= sort.length; size *= 2) {
    sort.size = sort.last_size = size;
    for (sort.stride = size / 2; sort.stride >= kTile; sort.stride /= 2)
      launch_part(Part::MergeFar, device, blocks_for(sort.pairs, kThreads), sort);
    launch_part(Part::MergeNear, device, count / sort.tile, sort);
  }
}

Ref<TensorImpl> temporary(DType dtype, int64_t count, Device device) {
  const int64_t sizes[] = {count};
  return TensorImpl::empty(dtype, sizes, count, device);
}

void draw_many(const MultinomialArguments& arguments, Device where) {
  const auto length = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(arguments.n)));
  const int64_t total = arguments.rows * length;
  const Ref<TensorImpl> times = temporary(DType::Int64, total, where);
  const Ref<TensorImpl> categories = temporary(DType::Int64, total, where);
  const RaceArguments race{arguments, static_cast<uint64_t*>(times->data()),
                           static_cast<int64_t*>(categories->data()), length};
  const int device = where.index;
  launch_part(Part::StartRace, device, blocks_for(total, kThreads), race);
  if (length > 1)
    sort_arrivals({race.times, race.categories, length, 0, 0, 0, 0, 0}, total, device);
  launch_part(Part::FinishRace, device, blocks_for(arguments.rows * arguments.count, kThreads),
              race);
}

[[noreturn]] void fail_distribution(const KernelError&, int64_t problem) {
  constexpr int64_t kBadValue = 0;
  TAPEGRAD_CHECK(problem != kBadValue,
                 "multinomial: probability tensor contains either `inf`, `nan` or element < 0");
  fail("multinomial: invalid multinomial distribution (sum of probabilities <= 0)");
}

// Input: rows of float64 probabilities, contiguous. The second output is room for as many numbers.
// Attributes: seed, offset, replacement.
void random_multinomial(const OpCall& call) {
  constexpr int64_t kFew = 16;
  const TensorImpl &p = call.in(0), &out = call.out();
  const int64_t n = p.size(p.dim() - 1), count = out.size(out.dim() - 1), rows = p.numel() / n;
  const bool replacement = call.attributes[2].as_bool();
  const MultinomialArguments arguments{
      p.data_as<double>(),
      out.data_as<int64_t>(),
      call.out(1).data_as<double>(),
      rows,
      n,
      count,
      random_source(call),
      static_cast<uint64_t>((replacement ? count : n) + 1) / 2,
      error_place(out.device().index, {call.op.name, 0, 0, fail_distribution}),
  };
  const Device device = out.device();
  launch_part(Part::Accumulate, device.index, rows, arguments);  // which checks the rows, too
  if (replacement) {
    launch_part(Part::Draw, device.index, blocks_for(rows * count, kThreads), arguments);
  } else if (count <= kFew) {
    launch_part(Part::DrawFew, device.index, rows, arguments);
  } else {
    draw_many(arguments, device);
  }
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"random_uniform", sample_real<kUniform>},
    {"random_normal", sample_real<kNormal>},
    {"random_log_normal", sample_real<kLogNormal>},
    {"random_exponential", sample_real<kExponential>},
    {"random_cauchy", sample_real<kCauchy>},
    {"random_geometric", random_geometric},
    {"random_integers", random_integers},
    {"random_bernoulli", random_bernoulli},
    {"random_bernoulli_each", random_bernoulli_each},
    {"random_permutation", random_permutation},
    {"random_multinomial", random_multinomial},
    {"random_poisson", random_poisson},
};

}  // namespace

}  // namespace tapegrad::cuda
