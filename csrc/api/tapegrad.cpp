// What tapegrad/tapegrad.h declares. Handles of the core are counted without locks (core/pool.h, Note [The GIL guards
// handles]); here one lock stands in for the GIL.
#include "api/tapegrad/tapegrad.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "api/files.h"
#include "api/json.h"
#include "api/program_file.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "intercept/host_bytes.h"

namespace tapegrad::api {

namespace {

// Never freed: tensors may go after static objects have. A function that fails lets go of tensors under it.
std::recursive_mutex& lock() {
  static auto& mutex = *new std::recursive_mutex();
  return mutex;
}

// Runs a function under the lock; all that it throws becomes an Error that says who failed.
template <class Function>
auto guarded(const std::string& who, Function function) {
  const std::scoped_lock held(lock());
  static const bool linked = (link_kernels(), true);
  static_cast<void>(linked);
  try {
    return function();
  } catch (const std::exception& error) {
    throw Error(who + ": " + error.what());
  }
}

// The two enumerations begin alike.
tapegrad::DType inner(DType dtype) { return static_cast<tapegrad::DType>(dtype); }
DType outer(tapegrad::DType dtype) { return static_cast<DType>(dtype); }
static_assert(static_cast<int>(DType::Float64) == static_cast<int>(tapegrad::DType::Float64) &&
              static_cast<int>(DType::Bool) == static_cast<int>(tapegrad::DType::Bool));

}  // namespace

struct Tensor::Impl {
  Impl(tapegrad::Tensor tensor, std::vector<int64_t> shape)
      : tensor(std::move(tensor)), shape(std::move(shape)) {}
  ~Impl() {
    const std::scoped_lock held(lock());
    tensor = {};
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  tapegrad::Tensor tensor;  // contiguous
  std::vector<int64_t> shape;
};

// What the parts of this file may do with a tensor.
struct Access {
  static const tapegrad::Tensor& inside(const Tensor& x) { return x.impl_->tensor; }
  static std::shared_ptr<Tensor::Impl>& impl(Tensor& x) { return x.impl_; }
};

namespace {

// Under the lock.
tapegrad::Tensor empty(tapegrad::DType dtype, Sizes sizes) {
  checked_numel("tensor", sizes);
  return tapegrad::empty("tensor", sizes, dtype, {});
}

Tensor wrapped(tapegrad::Tensor tensor) {
  Tensor result;
  const Sizes sizes = tensor.sizes();
  std::vector<int64_t> shape(sizes.begin(), sizes.end());
  Access::impl(result) = std::make_shared<Tensor::Impl>(std::move(tensor), std::move(shape));
  return result;
}

size_t bytes_of_all(const tapegrad::Tensor& x) {
  return static_cast<size_t>(x.numel()) * tapegrad::itemsize(x.dtype());
}

}  // namespace

const char* name(DType dtype) { return tapegrad::name(inner(dtype)); }
size_t itemsize(DType dtype) { return tapegrad::itemsize(inner(dtype)); }
void set_num_threads(int count) {
  guarded("set_num_threads", [&] {
    TAPEGRAD_CHECK(count > 0, "expected at least 1, got ", count);
    tapegrad::set_num_threads(count);
  });
}

// ---- tensors

Tensor::Tensor(DType dtype, const std::vector<int64_t>& shape) {
  *this = guarded("Tensor", [&] {
    tapegrad::Tensor x = empty(inner(dtype), shape);
    if (const size_t count = bytes_of_all(x)) std::memset(x->storage().data(), 0, count);
    return wrapped(std::move(x));
  });
}

DType Tensor::dtype() const {
  if (!impl_) throw Error("Tensor: expected a tensor, got one that is not defined");
  return outer(impl_->tensor.dtype());
}
const std::vector<int64_t>& Tensor::shape() const {
  dtype();
  return impl_->shape;
}
size_t Tensor::numel() const {
  dtype();
  return static_cast<size_t>(impl_->tensor.numel());
}
void* Tensor::data() const {
  dtype();
  return impl_->tensor->storage().data();
}
void Tensor::check(DType wanted) const {
  if (dtype() != wanted)
    throw Error(std::string("Tensor: expected elements of ") + name(dtype()) + ", asked for " +
                name(wanted));
}
void Tensor::check_count(size_t count) const {
  if (count != numel())
    throw Error("Tensor: expected " + std::to_string(numel()) + " elements, got " +
                std::to_string(count));
}

namespace {

tapegrad::DType stored_dtype(const std::string& text) {
  constexpr std::pair<const char*, DType> kNames[] = {
      {"BOOL", DType::Bool},   {"U8", DType::UInt8},      {"I8", DType::Int8},
      {"I16", DType::Int16},   {"I32", DType::Int32},     {"I64", DType::Int64},
      {"F16", DType::Float16}, {"BF16", DType::BFloat16}, {"F32", DType::Float32},
      {"F64", DType::Float64},
  };
  for (const auto& [known, dtype] : kNames)
    if (text == known) return inner(dtype);
  fail("there is no dtype '", text, "'");
}

Tensor stored_tensor(const std::string& name, const Json& entry, std::string_view data) {
  DimVector sizes;
  for (const Json& size : entry.at("shape").list()) sizes.push_back(size.integer());
  tapegrad::Tensor x = empty(stored_dtype(entry.at("dtype").string()), sizes);
  const int64_t begin = entry.at("data_offsets").at(0).integer();
  const int64_t end = entry.at("data_offsets").at(1).integer();
  TAPEGRAD_CHECK(0 <= begin && begin <= end && end <= static_cast<int64_t>(data.size()) &&
                     static_cast<size_t>(end - begin) == bytes_of_all(x),
                 "'", name, "' of shape ", to_string(sizes), " has bytes ", begin, " to ", end,
                 " of ", data.size());
  if (end > begin)
    std::memcpy(x->storage().data(), data.data() + begin, static_cast<size_t>(end - begin));
  return wrapped(std::move(x));
}

}  // namespace

Tensors load_tensors(const std::string& path) {
  return guarded("load_tensors: '" + path + "'", [&] {
    const std::string content = read_file(path);
    const std::string_view all = content;
    const uint64_t length = length_in_front(all);
    TAPEGRAD_CHECK(all.size() >= 8 && length <= all.size() - 8,
                   "expected a file of safetensors, got one that is cut short or another one");
    Tensors tensors;
    const Json header = Json::parse(all.substr(8, length));
    for (const auto& [name, entry] : header.object())
      if (name != "__metadata__")
        tensors[name] = stored_tensor(name, entry, all.substr(8 + length));
    return tensors;
  });
}

// ---- programs

struct Program::Impl {
  ~Impl() {
    const std::scoped_lock held(lock());
    file.program.reset();
  }
  ProgramFile file;
  std::vector<Argument> inputs, outputs;
  Tensors bound;
};

namespace {

std::vector<Argument> listed(const std::vector<NamedPlace>& places) {
  std::vector<Argument> arguments;
  for (const NamedPlace& each : places)
    arguments.push_back({each.name,
                         outer(each.dtype),
                         {each.sizes.begin(), each.sizes.end()},
                         each.is_read,
                         each.is_written});
  return arguments;
}

void check_fits(const NamedPlace& place, const Tensor& tensor) {
  TAPEGRAD_CHECK(tensor.defined(), "input '", place.name, "' is not defined");
  const tapegrad::Tensor& x = Access::inside(tensor);
  TAPEGRAD_CHECK(x.dtype() == place.dtype && same_sizes(x.sizes(), place.sizes), "expected input '",
                 place.name, "' of ", tapegrad::name(place.dtype), " ", to_string(place.sizes),
                 ", got ", tapegrad::name(x.dtype()), " ", to_string(x.sizes()));
}

// The memory of one run.
class Binding {
 public:
  Binding(const ProgramFile& file, const Tensors& bound, const Tensors& given)
      : file_(file), memory_(file.program->values().size()) {
    std::map<uint32_t, std::vector<Given>> by_value;
    for (const NamedPlace& place : file.inputs) {
      const Tensor* tensor = find(given, place.name);
      if (!tensor) tensor = find(bound, place.name);
      TAPEGRAD_CHECK(tensor || !place.is_read, "expected input '", place.name, "', got none");
      if (!tensor) continue;
      check_fits(place, *tensor);
      by_value[place.value].push_back({&place, tensor});
    }
    for (const auto& [value, tensors] : by_value) bind(value, tensors);
    check_apart();
  }

  Tensors run() {
    std::vector<uint32_t> kept;
    for (const NamedPlace& each : file_.outputs) kept.push_back(each.value);
    memory_ = file_.program->run("run", std::move(memory_), kept);
    for (const auto& [part, tensor] : written_back_) copy_unseen(part, tensor);
    Tensors results;
    for (const NamedPlace& each : file_.outputs) {
      tapegrad::Tensor copy = empty(each.dtype, each.sizes);
      copy_unseen(shown(each, memory_[each.value].storage, memory_[each.value].shift), copy);
      results[each.name] = wrapped(std::move(copy));
    }
    return results;
  }

 private:
  struct Given {
    const NamedPlace* place;
    const Tensor* tensor;
  };

  static const Tensor* find(const Tensors& tensors, const std::string& name) {
    const auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : &found->second;
  }
  static tapegrad::Tensor shown(const NamedPlace& place, const Ref<Storage>& storage,
                                int64_t shift = 0) {
    TAPEGRAD_CHECK(storage, "'", place.name, "' is an output that is neither computed nor given");
    const auto item = static_cast<int64_t>(tapegrad::itemsize(place.dtype));
    return tapegrad::Tensor(TensorImpl::create(storage, place.dtype, place.sizes, place.strides,
                                               place.offset + shift / item));
  }

  void bind(uint32_t value, const std::vector<Given>& tensors) {
    const tapegrad::Program::Value& known = file_.program->values()[value];
    ByteRange covered{};
    for (const Given& each : tensors) covered = covered.with(byte_range(each.place->placement()));
    TAPEGRAD_CHECK(known.used.is_empty() ||
                       (covered.begin <= known.used.begin && known.used.end <= covered.end),
                   "the program uses more memory around input '", tensors[0].place->name,
                   "' than the input shows; record it with a tensor of its own");
    const NamedPlace& first = *tensors[0].place;
    if (tensors.size() == 1 && same_sizes(first.strides, Sizes(contiguous_strides(first.sizes)))) {
      const auto item = static_cast<int64_t>(tapegrad::itemsize(first.dtype));
      memory_[value] = {Access::inside(*tensors[0].tensor)->storage_ref(), -first.offset * item};
      return;
    }
    memory_[value] = {Storage::allocate(known.nbytes)};
    for (const Given& each : tensors) {
      const tapegrad::Tensor part = shown(*each.place, memory_[value].storage);
      copy_unseen(Access::inside(*each.tensor), part);
      if (known.is_written) written_back_.emplace_back(part, Access::inside(*each.tensor));
    }
    for (const Given& each : tensors)
      TAPEGRAD_CHECK(bytes_of(shown(*each.place, memory_[value].storage)) ==
                         bytes_of(Access::inside(*each.tensor)),
                     "input '", each.place->name, "' shared memory with '", first.name,
                     "' when it was recorded, and the tensors differ there");
  }

  // What is written must be nobody else's.
  void check_apart() const {
    for (size_t i = 0; i < memory_.size(); ++i)
      for (size_t j = 0; j < memory_.size(); ++j)
        TAPEGRAD_CHECK(i == j || !memory_[i].storage || memory_[i].storage != memory_[j].storage ||
                           !file_.program->values()[i].is_written,
                       "one tensor is given for two inputs, and the program writes to it");
  }

  const ProgramFile& file_;
  std::vector<tapegrad::Program::Bound> memory_;
  std::vector<std::pair<tapegrad::Tensor, tapegrad::Tensor>> written_back_;
};

}  // namespace

Program Program::load(const std::string& path) {
  return guarded("Program::load: '" + path + "'", [&] {
    Program program;
    program.impl_ = std::make_shared<Impl>();
    program.impl_->file = parse_program(read_file(path));
    program.impl_->inputs = listed(program.impl_->file.inputs);
    program.impl_->outputs = listed(program.impl_->file.outputs);
    return program;
  });
}

const std::vector<Argument>& Program::inputs() const { return impl_->inputs; }
const std::vector<Argument>& Program::outputs() const { return impl_->outputs; }

void Program::bind(const Tensors& tensors) {
  guarded("Program::bind", [&] {
    for (const NamedPlace& place : impl_->file.inputs) {
      const auto found = tensors.find(place.name);
      if (found == tensors.end()) continue;
      check_fits(place, found->second);
      impl_->bound[place.name] = found->second;
    }
  });
}

Tensors Program::run(const Tensors& inputs) const {
  return guarded("Program::run", [&] {
    for (const auto& [name, tensor] : inputs)
      TAPEGRAD_CHECK(std::ranges::any_of(impl_->inputs,
                                         [&](const Argument& each) { return each.name == name; }),
                     "the program has no input '", name, "'");
    return Binding(impl_->file, impl_->bound, inputs).run();
  });
}

}  // namespace tapegrad::api
