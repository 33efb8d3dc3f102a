// Random tensors, and the Generator they come from.
#include "ops/random.h"

#include "core/error.h"
#include "graph/record.h"
#include "intercept/capture.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "python/arguments.h"
#include "python/out.h"
#include "python/python_types.h"
#include "python/random_docs.h"
#include "python/text.h"

namespace tapegrad::python {

namespace {

// generator=, or the default one of a device.
Generator& generator_of(const ParsedArguments& a, int i, Device device) {
  if (!a.has(i)) return default_generator(device);
  Generator* generator = nullptr;
  if (!nb::try_cast(nb::handle(a.object(i)), generator)) a.fail_type(i, "torch.Generator");
  TAPEGRAD_CHECK(device.is_meta() || generator->device() == device, a.function(), ": Expected a '",
                 to_string(device), "' device for generator but found '",
                 to_string(generator->device()), "'");
  return *generator;
}
Generator& generator_of(const ParsedArguments& a, int i, const Tensor& like) {
  return generator_of(a, i, like->device());
}

// ---- rand, randn and the like

const Signature kRand{"rand", 0, true, {"size", "generator", "out", TAPEGRAD_CREATION_OPTIONS}};
const Signature kRandn{"randn", 0, true, {"size", "generator", "out", TAPEGRAD_CREATION_OPTIONS}};
const Signature kRandLike{
    "rand_like", 1, false, {"input", TAPEGRAD_CREATION_OPTIONS, "memory_format", "generator"}};
const Signature kRandnLike{
    "randn_like", 1, false, {"input", TAPEGRAD_CREATION_OPTIONS, "memory_format", "generator"}};

// Uniform on [0, 1) and normal with mean 0 and standard deviation 1 have the same parameters.
template <Distribution kDistribution>
Tensor standard(const ParsedArguments& a) {
  DimVector sizes = a.sizes();
  CreationOptions options(a, 3, default_dtype());
  Tensor out = creation_target(a, 2, sizes, options, a.has(3));
  sample_into(a.function(), out, kDistribution, 0, 1, generator_of(a, 1, out));
  return options.finish(std::move(out));
}

template <Distribution kDistribution>
Tensor standard_like(const ParsedArguments& a) {
  CreationOptions options(a, 1, a.tensor(0));
  Tensor out = creation_like(a, a.tensor(0), 6, options);
  sample_into(a.function(), out, kDistribution, 0, 1, generator_of(a, 7, out));
  return options.finish(std::move(out));
}

// ---- integers

// randint(high, size) and randint(low, high, size): told apart by where the size is.
const Signature kRandint{
    "randint", 3, false, {"low", "high", "size", "generator", "out", TAPEGRAD_CREATION_OPTIONS}};
const Signature kRandintLike{
    "randint_like",
    3,
    false,
    {"input", "low", "high", TAPEGRAD_CREATION_OPTIONS, "memory_format", "generator"}};
const Signature kRandperm{
    "randperm", 1, false, {"n", "generator", "out", TAPEGRAD_CREATION_OPTIONS}};

struct Bounds {
  int64_t low, high;
};

// With one number the first slot is `high`, unless high was named.
Bounds bounds_of(const ParsedArguments& a, int low, bool two) {
  if (two) return {a.object(low) ? a.integer(low) : 0, a.integer(low + 1)};
  return {0, a.integer(low)};
}

Tensor randint(const ParsedArguments& a) {
  bool size_second = a.object(1) && PySequence_Check(a.object(1)) && !is_tensor(a.object(1));
  Bounds bounds = bounds_of(a, 0, !size_second && a.object(1));
  DimVector sizes = a.int_tuple(size_second ? 1 : 2);
  CreationOptions options(a, 5, DType::Int64);
  Tensor out = creation_target(a, 4, sizes, options, a.has(5));
  random_into("randint", out, bounds.low, bounds.high, generator_of(a, 3, out));
  return options.finish(std::move(out));
}

Tensor randint_like(const ParsedArguments& a) {
  Bounds bounds = bounds_of(a, 1, a.object(2));
  CreationOptions options(a, 3, a.tensor(0));
  Tensor out = creation_like(a, a.tensor(0), 8, options);
  random_into("randint_like", out, bounds.low, bounds.high, generator_of(a, 9, out));
  return options.finish(std::move(out));
}

Tensor make_randperm(const ParsedArguments& a) {
  CreationOptions options(a, 3, DType::Int64);
  DType dtype = a.has(2) ? a.tensor(2).dtype() : options.dtype;
  const Device device = options.result_device(a, 2);
  Tensor result = randperm(a.integer(0), dtype, device, generator_of(a, 1, device));
  return options.finish(into_creation_out("randperm", std::move(result), a.optional_tensor(2)));
}

// ---- distributions with tensor parameters

const Signature kNormal{
    "normal", 3, false, {"mean", "std", "size", "generator", "out", TAPEGRAD_CREATION_OPTIONS}};
const Signature kBernoulli{"bernoulli", 2, false, {"input", "p", "generator", "out"}};
const Signature kBernoulliMethod{"bernoulli", 1, false, {"p", "generator"}};
const Signature kMultinomial{
    "multinomial", 3, false, {"input", "num_samples", "replacement", "generator", "out"}};
const Signature kMultinomialMethod{
    "multinomial", 2, false, {"num_samples", "replacement", "generator"}};
const Signature kPoisson{"poisson", 2, false, {"input", "generator"}};

Tensor normal_of_size(const ParsedArguments& a) {
  double mean = a.scalar(0).as_double(), std = a.real(1, 1.0);
  if (!a.object(2)) a.fail_missing(2);
  DimVector sizes = a.int_tuple(2);
  CreationOptions options(a, 5, default_dtype());
  Tensor out = creation_target(a, 4, sizes, options, a.has(5));
  sample_into("normal", out, Distribution::Normal, mean, std, generator_of(a, 3, out));
  return options.finish(std::move(out));
}

Tensor make_normal(const ParsedArguments& a) {
  bool tensor_mean = a.object(0) && is_tensor(a.object(0));
  bool tensor_std = a.object(1) && is_tensor(a.object(1));
  if (a.object(2) || (!tensor_mean && !tensor_std)) return normal_of_size(a);
  Generator& generator = generator_of(a, 3, a.tensor(tensor_mean ? 0 : 1));
  Tensor result = tensor_mean && tensor_std ? normal(a.tensor(0), a.tensor(1), generator)
                  : tensor_mean             ? normal(a.tensor(0), a.real(1, 1.0), generator)
                                            : normal(a.real(0, 0.0), a.tensor(1), generator);
  return into_castable_out("normal", std::move(result), a.optional_tensor(4));
}

// bernoulli(input) takes the probabilities from input, bernoulli(input, p) only its shape.
Tensor bernoulli_with(const Tensor& input, const ParsedArguments& a, int p, Generator& generator) {
  if (!a.has(p)) return bernoulli(input, generator);
  Tensor out = empty_like(input);
  sample_into("bernoulli", out, Distribution::Bernoulli, a.real(p, 0.5), 0, generator);
  return out;
}

Tensor make_bernoulli(const ParsedArguments& a) {
  Tensor result = bernoulli_with(a.tensor(0), a, 1, generator_of(a, 2, a.tensor(0)));
  if (a.has(3)) result = cast(result, a.tensor(3).dtype());
  return into_out("bernoulli", std::move(result), a.optional_tensor(3));
}

Tensor bernoulli_method(const ParsedArguments& a) {
  return bernoulli_with(a.self(), a, 0, generator_of(a, 1, a.self()));
}

Tensor make_multinomial(const ParsedArguments& a) {
  Generator& generator = generator_of(a, 3, a.tensor(0));
  Tensor result = multinomial(a.tensor(0), a.integer(1), a.flag(2), generator);
  return into_out("multinomial", std::move(result), a.optional_tensor(4));
}

Tensor multinomial_method(const ParsedArguments& a) {
  return multinomial(a.self(), a.integer(0), a.flag(1), generator_of(a, 2, a.self()));
}

Tensor make_poisson(const ParsedArguments& a) {
  return poisson(a.tensor(0), generator_of(a, 1, a.tensor(0)));
}

// ---- in-place methods

const Signature kUniformInplace{"uniform_", 2, false, {"from", "to", "generator"}};
const Signature kNormalInplace{"normal_", 2, false, {"mean", "std", "generator"}};
const Signature kLogNormalInplace{"log_normal_", 2, false, {"mean", "std", "generator"}};
const Signature kCauchyInplace{"cauchy_", 2, false, {"median", "sigma", "generator"}};
const Signature kExponentialInplace{"exponential_", 1, false, {"lambd", "generator"}};
const Signature kGeometricInplace{"geometric_", 1, false, {"p", "generator"}};
const Signature kBernoulliInplace{"bernoulli_", 1, false, {"p", "generator"}};
const Signature kRandomInplace{"random_", 2, false, {"from", "to", "generator"}};

struct Defaults {
  double a, b;
};

template <Distribution kDistribution, Defaults kDefaults>
Tensor sample_two(const ParsedArguments& a) {
  sample_(a.function(), a.self(), kDistribution, a.real(0, kDefaults.a), a.real(1, kDefaults.b),
          generator_of(a, 2, a.self()));
  return a.self();
}

Tensor exponential_(const ParsedArguments& a) {
  sample_(a.function(), a.self(), Distribution::Exponential, a.real(0, 1.0), 0,
          generator_of(a, 1, a.self()));
  return a.self();
}

Tensor geometric_(const ParsedArguments& a) {
  sample_(a.function(), a.self(), Distribution::Geometric, a.scalar(0).as_double(), 0,
          generator_of(a, 1, a.self()));
  return a.self();
}

Tensor bernoulli_inplace(const ParsedArguments& a) {
  Generator& generator = generator_of(a, 1, a.self());
  if (a.object(0) && is_tensor(a.object(0))) bernoulli_(a.self(), a.tensor(0), generator);
  else sample_("bernoulli_", a.self(), Distribution::Bernoulli, a.real(0, 0.5), 0, generator);
  return a.self();
}

// random_(), random_(to), random_(from, to), random_(from, None).
Tensor random_inplace(const ParsedArguments& a) {
  Generator& generator = generator_of(a, 2, a.self());
  bool only_to = a.object(0) && !a.object(1);
  auto from = only_to ? std::nullopt : a.optional_integer(0);
  random_(a.self(), from, a.optional_integer(only_to ? 0 : 1), generator);
  return a.self();
}

// ---- generators

uint64_t seed_from_object(nb::handle seed) {
  nb::object number = nb::steal(PyNumber_Long(seed.ptr()));
  if (!number) throw nb::python_error();
  int overflow = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (!overflow) return static_cast<uint64_t>(value);
  uint64_t positive = overflow > 0 ? PyLong_AsUnsignedLongLong(number.ptr()) : 0;
  if (overflow < 0 || PyErr_Occurred()) {
    PyErr_Clear();
    fail<ValueError>("manual_seed: expected a seed from -2**63 to 2**64 - 1, got ", str_of(number));
  }
  return positive;
}

constexpr int64_t kStateBytes = sizeof(RandomStream);

Tensor state_tensor(const Generator& generator) {
  Tensor state = empty("get_state", DimVector{kStateBytes}, DType::UInt8, Device{});
  *fill_on_host<RandomStream>(state) = generator.state();
  note_constant(state);
  return state;
}

void set_state(Generator& generator, const Tensor& state) {
  TAPEGRAD_CHECK_AS(TypeError, state.dtype() == DType::UInt8,
                    "set_state: expected a uint8 tensor, got ", name(state.dtype()));
  TAPEGRAD_CHECK(state.numel() == kStateBytes, "set_state: expected a state of ", kStateBytes,
                 " bytes, got ", state.numel());
  GradMode off(false);
  Tensor plain = clone(contiguous(state));
  generator.set_state(*read_on_host<RandomStream>(plain));
}

// From (state, device), or from the state alone, as it was pickled once.
void restore_generator(Generator* self, nb::object state) {
  Device device;
  if (PyTuple_Check(state.ptr()) && PyTuple_GET_SIZE(state.ptr()) == 2) {
    device = device_of(state[1]);
    state = state[0];
  }
  TAPEGRAD_CHECK_AS(TypeError, is_tensor(state.ptr()) && !device.is_meta(),
                    "Generator.__setstate__: the pickled generator is damaged");
  new (self) Generator(Generator::kDefaultSeed, device);
  set_state(*self, tensor_of(state.ptr()));
}

void check_has_offset(const char* name, const Generator& generator) {
  TAPEGRAD_CHECK(!generator.device().is_cpu(), name, ": CPU Generator does not use offset");
}

void bind_generator(Binder& b) {
  auto type = nb::class_<Generator>(b.module(), "Generator", kGeneratorDoc);
  type.def("__init__",
           [](Generator* self, nb::handle device) {
    const Device where = device.is_none() ? Device{} : device_of(device);
    TAPEGRAD_CHECK(!where.is_meta(), "Generator: expected device 'cpu' or 'cuda', got 'meta'");
    new (self) Generator(Generator::kDefaultSeed, where);
  }, "device"_a.none() = nb::none())
      .def("manual_seed",
           [](nb::handle self, nb::handle seed) {
    nb::cast<Generator&>(self).manual_seed(seed_from_object(seed));
    return nb::borrow(self);
  }, "seed"_a, nb::sig("def manual_seed(self, seed: int) -> Generator"),
           "Starts the stream of a seed from its beginning and returns the generator.")
      .def("seed", &Generator::seed, "Takes a seed from the system and returns it.")
      .def("initial_seed", &Generator::initial_seed, "The seed of the stream.")
      .def("get_state", state_tensor, "The state, as a uint8 tensor.")
      .def("set_state", set_state, "new_state"_a, "Sets the state that get_state() gave.")
      .def("clone_state",
           [](const Generator& self) {
    TAPEGRAD_CHECK(!self.is_captured(), "clone_state: not while a CUDA graph is captured");
    return Generator(self);
  }, "A generator of its own that goes on as this one.")
      .def("get_offset",
           [](const Generator& self) {
    check_has_offset("get_offset", self);
    return self.state().offset;
  }, "How far a CUDA generator is in the stream of its seed.")
      .def("set_offset",
           [](Generator& self, uint64_t offset) {
    check_has_offset("set_offset", self);
    self.set_state({self.initial_seed(), offset});
  }, "offset"_a, "Goes to a place in the stream of a CUDA generator's seed.")
      .def("__getstate__",
           [](const Generator& self) {
    return nb::make_tuple(state_tensor(self), to_string(self.device()));
  })
      .def("__setstate__", restore_generator)
      .def_prop_ro("device", [](const Generator& self) {
    return nb::handle(device_object(self.device()));
  }, "The device of the tensors that it fills.");
  b.module().attr("default_generator") = nb::cast(&default_generator(), nb::rv_policy::reference);
  b.function("manual_seed",
             [](nb::handle seed) {
    const uint64_t number = seed_from_object(seed);
    default_generator().manual_seed(number);
    seed_devices(number);
    return &default_generator();
  }, "seed"_a, nb::rv_policy::reference, nb::sig("def manual_seed(seed: int) -> Generator"),
             kManualSeedDoc);
  b.function("seed", [] {
    const uint64_t number = default_generator().seed();
    seed_devices(number);
    return number;
  }, "Seeds the default generators from the system and returns the seed.");
  b.function("initial_seed", [] { return default_generator().initial_seed(); },
             "The seed of the default generator.");
  b.function("get_rng_state", [] { return state_tensor(default_generator()); },
             "The state of the default generator, as a uint8 tensor.");
  b.function("set_rng_state", [](const Tensor& state) { set_state(default_generator(), state); },
             "new_state"_a, "Sets the state that get_rng_state() gave.");
  b.function("_cuda_generator", [](int device) {
    return &default_generator({DeviceType::CUDA, static_cast<uint8_t>(device)});
  }, "device"_a, nb::rv_policy::reference, "The default generator of a CUDA device.");
  b.function("_cuda_manual_seed_all", [](nb::handle seed) { seed_devices(seed_from_object(seed)); },
             "seed"_a, "Seeds the generators of all CUDA devices.");
}

void bind_inplace(Binder& b) {
  define_method<kUniformInplace, sample_two<Distribution::Uniform, Defaults{0, 1}>>(
      b, kUniformInplaceDoc);
  define_method<kNormalInplace, sample_two<Distribution::Normal, Defaults{0, 1}>>(
      b, kNormalInplaceDoc);
  define_method<kLogNormalInplace, sample_two<Distribution::LogNormal, Defaults{1, 2}>>(
      b, kLogNormalInplaceDoc);
  define_method<kCauchyInplace, sample_two<Distribution::Cauchy, Defaults{0, 1}>>(
      b, kCauchyInplaceDoc);
  define_method<kExponentialInplace, exponential_>(b, kExponentialInplaceDoc);
  define_method<kGeometricInplace, geometric_>(b, kGeometricInplaceDoc);
  define_method<kBernoulliInplace, bernoulli_inplace>(b, kBernoulliInplaceDoc);
  define_method<kRandomInplace, random_inplace>(b, kRandomInplaceDoc);
}

}  // namespace

void bind_random(Binder& b) {
  bind_generator(b);
  bind_inplace(b);
  define_function<kRand, standard<Distribution::Uniform>>(b, kRandDoc);
  define_function<kRandn, standard<Distribution::Normal>>(b, kRandnDoc);
  define_function<kRandLike, standard_like<Distribution::Uniform>>(b, kRandLikeDoc);
  define_function<kRandnLike, standard_like<Distribution::Normal>>(b, kRandnLikeDoc);
  define_function<kRandint, randint>(b, kRandintDoc);
  define_function<kRandintLike, randint_like>(b, kRandintLikeDoc);
  define_function<kRandperm, make_randperm>(b, kRandpermDoc);
  define_function<kNormal, make_normal>(b, kNormalDoc);
  define_function<kBernoulli, make_bernoulli>(b, kBernoulliDoc);
  define_method<kBernoulliMethod, bernoulli_method>(b, kBernoulliDoc);
  define_function<kMultinomial, make_multinomial>(b, kMultinomialDoc);
  define_method<kMultinomialMethod, multinomial_method>(b, kMultinomialDoc);
  define_function<kPoisson, make_poisson>(b, kPoissonDoc);
}

}  // namespace tapegrad::python
