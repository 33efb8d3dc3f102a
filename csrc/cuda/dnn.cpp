// See Note [Graphs of cuDNN].
#include "cuda/dnn.h"

#include <dlfcn.h>

#include <bit>
#include <limits>

#include "core/tensor.h"
#include "cuda/capturing.h"
#include "cuda/context.h"
#include "cuda/stream.h"

namespace tapegrad::cuda {

namespace {

// ---- loading

using dnn::DescriptorHandle;
using Handle = struct DnnTag*;

#define TAPEGRAD_DNN_FUNCTIONS(F)                                                                  \
  F(cudnnGetVersion, size_t, get_version, ())                                                      \
  F(cudnnGetErrorString, const char*, get_error_text, (int status))                                \
  F(cudnnGetLastErrorString, void, get_last_error, (char* text, size_t size))                      \
  F(cudnnCreate, int, create, (Handle * handle))                                                   \
  F(cudnnSetStream, int, set_stream, (Handle handle, StreamHandle stream))                         \
  F(cudnnBackendCreateDescriptor, int, create_descriptor,                                          \
    (int type, DescriptorHandle* descriptor))                                                      \
  F(cudnnBackendDestroyDescriptor, int, destroy_descriptor, (DescriptorHandle descriptor))         \
  F(cudnnBackendFinalize, int, finalize, (DescriptorHandle descriptor))                            \
  F(cudnnBackendSetAttribute, int, set,                                                            \
    (DescriptorHandle descriptor, int name, int type, int64_t count, const void* values))          \
  F(cudnnBackendGetAttribute, int, get,                                                            \
    (DescriptorHandle descriptor, int name, int type, int64_t most, int64_t* count, void* values)) \
  F(cudnnBackendExecute, int, execute,                                                             \
    (Handle handle, DescriptorHandle plan, DescriptorHandle pack))

struct Functions {
#define TAPEGRAD_DNN_MEMBER(SYMBOL, RETURN, NAME, PARAMETERS) RETURN(*NAME) PARAMETERS = nullptr;
  TAPEGRAD_DNN_FUNCTIONS(TAPEGRAD_DNN_MEMBER)
#undef TAPEGRAD_DNN_MEMBER
};

constexpr size_t kMajorVersion = 9;

class Library {
 public:
  Library() {
    if (!find_dnn) return;
    for (const std::string& path : find_dnn()) {
      reason = load(path);
      if (reason.empty()) return;
    }
  }

  bool is_there() const { return functions.execute != nullptr; }
  Functions functions;
  std::string reason;  // why it cannot be used; empty where there is none to be used

 private:
  // Returns why it cannot be used, or nothing.
  std::string load(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return dlerror();
    Functions found;
#define TAPEGRAD_DNN_LOAD(SYMBOL, RETURN, NAME, PARAMETERS)                     \
  found.NAME = reinterpret_cast<decltype(found.NAME)>(dlsym(library, #SYMBOL)); \
  if (!found.NAME) return concat(path, " has no function " #SYMBOL);
    TAPEGRAD_DNN_FUNCTIONS(TAPEGRAD_DNN_LOAD)
#undef TAPEGRAD_DNN_LOAD
    const size_t version = found.get_version();
    if (version / 10000 != kMajorVersion)
      return concat(path, " is version ", version, ", and version 9 is needed");
    functions = found;
    return {};
  }
};

// Under Note [The GIL guards handles]. Python looks for it, and other threads may come here meanwhile: they must not
// wait for this one, which a static that is initialised by a call would have them do.
const Library& library() {
  static const Library* only = nullptr;
  if (!only) [[unlikely]] {
    const auto* made = new Library;
    if (!only) only = made;
  }
  return *only;
}

std::string text_of(int status) {
  char details[512] = {};
  library().functions.get_last_error(details, sizeof details - 1);
  return concat(library().functions.get_error_text(status), details[0] ? ": " : "", details);
}

void warn_once(const std::string& reason) {
  static bool is_said = false;
  if (reason.empty() || std::exchange(is_said, true) || !warn_of_dnn) return;
  warn_of_dnn(reason);
}

// ---- handles

struct OfDevice {
  Handle handle = nullptr;
  StreamHandle stream = nullptr;
  std::string reason;  // why there is no handle
};

// With a handle, unless the library does not work with the device. The caller has a DeviceGuard.
OfDevice& of_device(int device) {
  static auto* const known = new OfDevice[kMostDevices];
  OfDevice& found = known[device];
  if (found.handle || !found.reason.empty()) [[likely]]
    return found;
  if (const int status = library().functions.create(&found.handle)) {
    found.handle = nullptr;
    found.reason = concat("cudnnCreate failed with ", text_of(status));
    warn_once(found.reason);
  }
  return found;
}

}  // namespace

bool has_dnn() { return library().is_there(); }

bool goes_to_dnn() {
  if (!dnn_settings.enabled) return false;
  if (has_dnn()) [[likely]]
    return true;
  warn_once(library().reason);
  return false;
}

size_t dnn_version() { return has_dnn() ? library().functions.get_version() : 0; }

namespace dnn {

namespace {

// ---- numbers that only plans need

enum : int {
  kEngine = 2,
  kEngineConfiguration = 3,
  kHeuristics = 4,
  kExecutionPlan = 5,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17
};
enum : int {
  kHeuristicsMode = 200,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kConfigurationEngine = 300,
  kPlanHandle = 400,
  kPlanConfiguration = 401,
  kPlanWorkspace = 402,
  kPlanText = 405,
  kGraphHandle = 800,
  kGraphNodes = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorSizes = 902,
  kTensorStrides = 903,
  kTensorUid = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kTensorRaggedOffset = 913,
  kPackUids = 1000,
  kPackAddresses = 1001,
  kPackWorkspace = 1003,
  kEngineIndex = 1301,
  kEngineNotes = 1303,
  kEngineBehavior = 1305
};
enum : int { kHeuristicFallback = 2, kHeuristicA = 3 };
constexpr int kCompilesWhenMade = 0;  // of what an engine says about its behaviour

}  // namespace

DataType data_type(DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return kFloat;
    case DType::Float64:
      return kDouble;
    case DType::Float16:
      return kHalf;
    case DType::BFloat16:
      return kBrainHalf;
    case DType::Int32:
      return kInt32;
    case DType::Int64:
      return kInt64;
    case DType::UInt8:
      return kByte;
    case DType::Bool:
      return kBoolean;
    default:
      fail<NotImplementedError>("cuda: cuDNN has no dtype ", name(dtype));
  }
}

int64_t alignment_of(const void* data) {
  return int64_t{1} << std::min(4, std::countr_zero(reinterpret_cast<uintptr_t>(data)));
}

// ---- descriptors

Descriptor::Descriptor(int type) {
  status_ = library().functions.create_descriptor(type, &handle_);
  if (status_ != kStatusSuccess) handle_ = nullptr;
}

Descriptor::~Descriptor() {
  if (handle_) library().functions.destroy_descriptor(handle_);
}

void Descriptor::set(int name, Type type, int64_t count, const void* values) {
  if (status_ == kStatusSuccess)
    status_ = library().functions.set(handle_, name, static_cast<int>(type), count, values);
}

void Descriptor::finalize() {
  if (status_ == kStatusSuccess) status_ = library().functions.finalize(handle_);
  is_final_ = status_ == kStatusSuccess;
}

int64_t Descriptor::get(int name, Type type, int64_t most, void* values) const {
  int64_t count = 0;
  const int status =
      library().functions.get(handle_, name, static_cast<int>(type), most, &count, values);
  return status == kStatusSuccess ? count : 0;
}

// ---- graphs

int64_t Graph::tensor(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                      DataType type, TensorOptions options) {
  const auto uid = static_cast<int64_t>(tensors_.size()) + 1;
  const auto rank = static_cast<int64_t>(sizes.size());
  Descriptor made(kTensor);
  made.set(kTensorType, Type::DataType, 1, &type);
  made.set(kTensorSizes, Type::Int64, rank, sizes.data());
  made.set(kTensorStrides, Type::Int64, rank, strides.data());
  made.set(kTensorUid, uid);
  made.set(kTensorAlignment, options.alignment);
  if (options.is_virtual) made.set(kTensorIsVirtual, Type::Boolean, 1, &options.is_virtual);
  if (options.by_value) made.set(kTensorIsByValue, Type::Boolean, 1, &options.by_value);
  if (options.ragged_offset)
    made.set(kTensorRaggedOffset,
             tensors_[static_cast<size_t>(options.ragged_offset - 1)].handle());
  finalize(made, "tensor ", static_cast<int>(uid));
  tensors_.push_back(std::move(made));
  if (!options.is_virtual) uids_.push_back(uid);
  has_values_ = has_values_ || (options.by_value && !options.is_constant);
  return uid;
}

void Graph::finalize(Descriptor& descriptor, const char* what, int number) {
  descriptor.finalize();
  if (!descriptor.is_good() && reason_.empty())
    reason_ = concat(what, number, ": ", text_of(descriptor.status()));
}

Descriptor Graph::describe(int type, Attributes attributes) {
  Descriptor made(type);
  for (const auto& [name, value] : attributes) {
    const std::vector<int64_t>& numbers = value.numbers();
    const auto count = static_cast<int64_t>(numbers.size());
    switch (value.type()) {
      case Type::Int64:
        made.set(name, Type::Int64, count, numbers.data());
        break;
      case Type::Float: {
        const auto narrow = static_cast<float>(value.number());
        made.set(name, Type::Float, 1, &narrow);
        break;
      }
      case Type::Double: {
        const double number = value.number();
        made.set(name, Type::Double, 1, &number);
        break;
      }
      case Type::Boolean: {
        const bool is_set = numbers[0] != 0;
        made.set(name, Type::Boolean, 1, &is_set);
        break;
      }
      case Type::Descriptor: {
        std::vector<DescriptorHandle> handles;
        for (int64_t number : numbers)
          handles.push_back(value.is_tensor() ? tensors_[static_cast<size_t>(number - 1)].handle()
                                              : inners_[static_cast<size_t>(number)].handle());
        made.set(name, Type::Descriptor, count, handles.data());
        break;
      }
      default: {  // an enumeration
        const auto number = static_cast<int32_t>(numbers[0]);
        made.set(name, value.type(), 1, &number);
      }
    }
  }
  finalize(made, "descriptor of type ", type);
  return made;
}

int64_t Graph::inner(int type, Attributes attributes) {
  inners_.push_back(describe(type, attributes));
  return static_cast<int64_t>(inners_.size()) - 1;
}

void Graph::node(int type, Attributes attributes) { nodes_.push_back(describe(type, attributes)); }

void Graph::pointwise(PointwiseMode mode, int64_t x, int64_t b, int64_t y, int64_t t) {
  const Value how =
      dnn::inner(inner(kPointwise, {{kPointwiseMode, choice(Type::PointwiseMode, mode)},
                                    {kPointwisePrecision, data_type_value(kFloat)}}));
  if (t)
    node(kPointwiseNode, {{kPointwiseNodeHow, how},
                          {kPointwiseNodeX, dnn::tensor(x)},
                          {kPointwiseNodeB, dnn::tensor(b)},
                          {kPointwiseNodeT, dnn::tensor(t)},
                          {kPointwiseNodeY, dnn::tensor(y)}});
  else if (b)
    node(kPointwiseNode, {{kPointwiseNodeHow, how},
                          {kPointwiseNodeX, dnn::tensor(x)},
                          {kPointwiseNodeB, dnn::tensor(b)},
                          {kPointwiseNodeY, dnn::tensor(y)}});
  else
    node(kPointwiseNode, {{kPointwiseNodeHow, how},
                          {kPointwiseNodeX, dnn::tensor(x)},
                          {kPointwiseNodeY, dnn::tensor(y)}});
}

// ---- plans

// The way from a graph to a plan: heuristics list configurations of engines, the best first, and the first
// is taken of which the library makes a plan.
class Search {
 public:
  Search(const Graph& graph, int device, const Choice& choice)
      : graph_(graph), device_(device), choice_(choice), handle_(of_device(device).handle) {}

  Plan find() {
    Plan best;
    best.reason_ = graph_.reason();
    if (!handle_) best.reason_ = of_device(device_).reason;
    if (!best.reason_.empty()) return best;
    describe();
    if (!operations_.is_good()) {
      best.reason_ = concat("the graph: ", text_of(operations_.status()));
      return best;
    }
    // Nothing can be timed while a graph is captured: runs would become a part of it.
    const int64_t timed = capture_underway ? 1 : choice_.timed;
    float best_time = 0;
    int64_t count = 0;
    for (const int mode : {kHeuristicA, kHeuristicFallback}) {
      for (const Descriptor& configuration : configurations(mode)) {
        Plan plan = plan_of(configuration);
        if (!plan.is_usable()) continue;
        if (timed == 1) return plan;
        const float time = time_of(plan);
        if (count++ == 0 || time < best_time) {
          best = std::move(plan);
          best_time = time;
        }
        if (count == timed) return best;
      }
    }
    if (!best.is_usable())
      best.reason_ = refusal_.empty() ? std::string("the library has no engine for it") : refusal_;
    return best;
  }

 private:
  void describe() {
    std::vector<DescriptorHandle> nodes;
    for (const Descriptor& node : graph_.nodes()) nodes.push_back(node.handle());
    operations_ = Descriptor(kOperationGraph);
    operations_.set(kGraphHandle, Type::Handle, 1, &handle_);
    operations_.set(kGraphNodes, Type::Descriptor, static_cast<int64_t>(nodes.size()),
                    nodes.data());
    operations_.finalize();
  }

  std::vector<Descriptor> configurations(int mode) {
    Descriptor heuristics(kHeuristics);
    heuristics.set(kHeuristicsGraph, operations_.handle());
    heuristics.set(kHeuristicsMode, Type::HeuristicMode, 1, &mode);
    heuristics.finalize();
    if (!heuristics.is_good()) {
      refuse("heuristics", heuristics.status());
      return {};
    }
    const int64_t most = heuristics.get(kHeuristicsResults, Type::Descriptor, 0, nullptr);
    std::vector<Descriptor> found;
    std::vector<DescriptorHandle> handles;
    for (int64_t i = 0; i < most; ++i) {
      found.emplace_back(kEngineConfiguration);
      handles.push_back(found.back().handle());
    }
    const int64_t count =
        heuristics.get(kHeuristicsResults, Type::Descriptor, most, handles.data());
    found.resize(static_cast<size_t>(std::min(most, count)));
    return found;
  }

  bool is_avoided(const Descriptor& engine) const {
    int notes[kNoteCount];
    int64_t count = engine.get(kEngineNotes, Type::NumericalNote, kNoteCount, notes);
    const bool has_note = std::any_of(notes, notes + count, [&](int note) {
      return std::ranges::find(choice_.avoided, note) != choice_.avoided.end();
    });
    if (has_note || !choice_.avoids_compiling) return has_note;
    count = engine.get(kEngineBehavior, Type::BehaviorNote, kNoteCount, notes);
    return std::find(notes, notes + count, kCompilesWhenMade) != notes + count;
  }

  Plan plan_of(const Descriptor& configuration) {
    Plan plan;
    Descriptor engine(kEngine);
    DescriptorHandle handle = engine.handle();
    configuration.get(kConfigurationEngine, Type::Descriptor, 1, &handle);
    if (is_avoided(engine)) {
      if (refusal_.empty()) refusal_ = "all engines for it do what the settings exclude";
      return plan;
    }
    engine.get(kEngineIndex, Type::Int64, 1, &plan.engine_);
    plan.plan_ = Descriptor(kExecutionPlan);
    plan.plan_.set(kPlanHandle, Type::Handle, 1, &handle_);
    plan.plan_.set(kPlanConfiguration, configuration.handle());
    plan.plan_.finalize();
    if (!plan.plan_.is_good()) {
      refuse("plan", plan.plan_.status());
      return plan;
    }
    plan.plan_.get(kPlanWorkspace, Type::Int64, 1, &plan.workspace_);
    if (plan.workspace_ > choice_.most_workspace) {
      refusal_ = concat("a plan needs a workspace of ", plan.workspace_, " bytes");
      return Plan();
    }
    plan.uids_ = graph_.uids();
    plan.has_values_ = graph_.has_values();
    return plan;
  }

  // In milliseconds; a plan that fails or finds no memory is never the fastest.
  float time_of(const Plan& plan) {
    constexpr int kRuns = 3;
    const AskedWait asked;
    const NoBlockingSection holding;
    const std::span<void* const> given = choice_.addresses;
    const std::vector<const void*> addresses(given.begin(), given.end());
    try {
      Event start(Event::kDefault), end(Event::kDefault);
      plan.run("cudnn.benchmark", device_, addresses);  // loads it
      start.record(device_, current_stream(device_));
      for (int i = 0; i < kRuns; ++i) plan.run("cudnn.benchmark", device_, addresses);
      end.record(device_, current_stream(device_));
      end.synchronize();
      return start.elapsed(end) / kRuns;
    } catch (const Error&) {
      return std::numeric_limits<float>::infinity();
    }
  }

  void refuse(const char* what, int status) { refusal_ = concat(what, ": ", text_of(status)); }

  const Graph& graph_;
  const int device_;
  const Choice& choice_;
  const Handle handle_;
  Descriptor operations_;
  std::string refusal_;
};

// Plans on disk. The library writes a plan as a text, and makes it of that in a tenth of a millisecond, without
// its heuristics. A file begins with all that the plan was made from, so that no other is taken for it.
class Shelf {
 public:
  Shelf(const Graph& graph, int device, const Choice& choice) : graph_(graph), device_(device) {
    if (!choice.family || !choice.key || !read_dnn_plan || !keep_dnn_plan) return;
    const DeviceProperties& properties = device_properties(device);
    int version = 0;
    driver().get_version(&version);
    name_ =
        concat(choice.family, " cuDNN ", dnn_version(), " driver ", version, " ", properties.name,
               " ", properties.major, ".", properties.minor, " ", properties.multiprocessors, " ",
               choice.most_workspace, " ", int(choice.avoids_compiling));
    for (int note : choice.avoided) name_ += concat(" ", note);
    name_ += " of";
    for (int64_t number : choice.key->numbers()) name_ += concat(" ", number);
    name_ += '\n';
  }

  Plan find() const {
    Plan plan;
    if (name_.empty() || !graph_.is_good()) return plan;
    const Handle handle = of_device(device_).handle;
    const std::string text = read_dnn_plan(name_);
    if (!handle || !text.starts_with(name_)) return plan;
    Descriptor made(kExecutionPlan);
    made.set(kPlanHandle, Type::Handle, 1, &handle);
    made.set(kPlanText, Type::Char, static_cast<int64_t>(text.size() - name_.size()),
             text.data() + name_.size());
    made.finalize();
    if (!made.is_good() || made.get(kPlanWorkspace, Type::Int64, 1, &plan.workspace_) != 1)
      return plan;
    plan.plan_ = std::move(made);
    plan.uids_ = graph_.uids();
    plan.has_values_ = graph_.has_values();
    return plan;
  }

  void keep(const Plan& plan) const {
    if (name_.empty() || !plan.is_usable()) return;
    const int64_t size = plan.plan_.get(kPlanText, Type::Char, 0, nullptr);
    std::string text = name_;
    text.resize(name_.size() + static_cast<size_t>(size));
    if (size > 0 && plan.plan_.get(kPlanText, Type::Char, size, text.data() + name_.size()) == size)
      keep_dnn_plan(name_, text);
  }

 private:
  const Graph& graph_;
  const int device_;
  std::string name_;
};

Plan make_plan(const Graph& graph, int device, const Choice& choice) {
  const DeviceGuard guard(device);
  const RelaxedCapture relaxed;  // the library may load kernels
  const Shelf shelf(graph, device, choice);
  Plan plan = shelf.find();
  if (plan.is_usable()) return plan;
  ++plans_made;
  plan = Search(graph, device, choice).find();
  if (!capture_underway || choice.timed == 1) shelf.keep(plan);
  return plan;
}

void Plan::run(const char* op, int device, std::span<const void* const> addresses) const {
  const Functions& functions = library().functions;
  const DeviceGuard guard(device);
  const RelaxedCapture relaxed;  // the library may load kernels
  // Freed when this returns, and handed out again behind the plan: memory is in the order of the stream.
  Tensor workspace;
  void* scratch = nullptr;
  if (workspace_) {
    workspace = empty(op, DimVector{workspace_}, DType::UInt8,
                      Device{DeviceType::CUDA, static_cast<uint8_t>(device)});
    scratch = workspace->data();
  }
  const bool is_packed = !has_values_ && packed_.size() == addresses.size() + 1 &&
                         std::equal(addresses.begin(), addresses.end(), packed_.begin()) &&
                         packed_.back() == scratch;
  if (!is_packed) {
    TAPEGRAD_CHECK(addresses.size() == uids_.size(), "internal error: ", op, " gives ",
                   addresses.size(), " addresses to a plan of ", uids_.size());
    packed_.assign(addresses.begin(), addresses.end());
    packed_.push_back(scratch);
    const auto count = static_cast<int64_t>(uids_.size());
    pack_ = Descriptor(kVariantPack);
    pack_.set(kPackUids, Type::Int64, count, uids_.data());
    pack_.set(kPackAddresses, Type::Pointer, count, packed_.data());
    pack_.set(kPackWorkspace, Type::Pointer, 1, &scratch);
    pack_.finalize();
  }
  OfDevice& here = of_device(device);
  const StreamHandle stream = current_stream(device);
  int status = pack_.status();
  if (status == kStatusSuccess && here.stream != stream) {
    status = functions.set_stream(here.handle, stream);
    here.stream = stream;
  }
  if (status == kStatusSuccess)
    status = functions.execute(here.handle, plan_.handle(), pack_.handle());
  if (status != kStatusSuccess) {
    packed_.clear();
    fail(op, ": cuDNN failed with status ", status, ", ", text_of(status));
  }
}

}  // namespace dnn

}  // namespace tapegrad::cuda
