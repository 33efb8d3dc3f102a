// cuDNN, NVIDIA's library of convolutions and attention, loaded at run time: no header of it is needed to build.
//
// Note [Graphs of cuDNN]
// Of the library only the graph interface is used: a Graph lists tensors (sizes, strides, dtype: no addresses) and
// nodes, which are operations between them; make_plan() asks the library for engines that compute the whole
// graph at once, and takes the first that works. A Plan is run with addresses. What a plan is made of
// takes milliseconds to find, so callers keep plans by everything that they were made from (PlanCache).
//
// The library knows descriptors, which have attributes, and nothing else; so does this file. A new
// kind of node needs its numbers (cudnn_graph.h of the library has them), and no new function.
//
//   Graph graph;
//   const int64_t x = graph.tensor({n, c, h, w}, strides, data_type(dtype)), ...;
//   graph.node(kConvolutionForward, {{kForwardX, tensor(x)}, {kForwardAlpha, real(1)}, ...});
//   const Plan plan = make_plan(graph, device, {});
//   if (plan.is_usable()) plan.run("conv", device, {x_address, w_address, y_address});
//
// A graph or plan that the library refuses is not an error: it is not usable, and says why. A plan that fails when
// it is run is one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/error.h"
#include "cuda/driver.h"

namespace tapegrad::cuda {

// Set by the binding layer: where the library may lie, the best place first (empty where there is none), and how to
// say, once, that what was found cannot be used.
inline std::vector<std::string> (*find_dnn)() = nullptr;
inline void (*warn_of_dnn)(const std::string& reason) = nullptr;
// Likewise: what was kept on disk by a name, empty where nothing was, and how to keep it.
inline std::string (*read_dnn_plan)(const std::string& name) = nullptr;
inline void (*keep_dnn_plan)(const std::string& name, const std::string& text) = nullptr;

// torch.backends.cudnn
struct DnnSettings {
  bool enabled = true;
  bool benchmark = false;
  int64_t benchmark_limit = 10;  // zero: all
  bool deterministic = false;
  bool allow_tf32 = true;
};
inline DnnSettings dnn_settings;

// Whether the library could be loaded; where it could not, nothing is computed by it.
bool has_dnn();
// Whether calls should go there: it is enabled, and could be loaded. Says so, once, where it was to be there and could
// not.
bool goes_to_dnn();
// Its version, such as 91900; zero where there is none.
size_t dnn_version();

namespace dnn {

// ---- numbers of the interface, as cudnn_graph.h has them

enum Status : int { kStatusSuccess = 0 };

enum DataType : int {
  kFloat = 0,
  kDouble = 1,
  kHalf = 2,
  kInt32 = 4,
  kByte = 6,
  kBrainHalf = 9,
  kInt64 = 10,
  kBoolean = 11
};
DataType data_type(DType dtype);

// What the values of an attribute are.
enum class Type : int {
  Handle = 0,
  DataType = 1,
  Boolean = 2,
  Int64 = 3,
  Float = 4,
  Double = 5,
  Pointer = 6,
  ConvolutionMode = 7,
  HeuristicMode = 8,
  KnobType = 9,
  NumericalNote = 11,
  PointwiseMode = 14,
  Descriptor = 15,
  ReductionOperator = 18,
  BehaviorNote = 19,
  Int32 = 23,
  Char = 24,
  RandomDistribution = 29
};

// Descriptors that are no tensors.
enum DescriptorType : int {
  kPointwise = 0,
  kConvolution = 1,
  kConvolutionForward = 10,
  kConvolutionGradWeight = 11,
  kConvolutionGradInput = 12,
  kPointwiseNode = 13,
  kMatmul = 18,
  kMatmulNode = 19,
  kReduction = 21,
  kReductionNode = 22,
  kReshapeNode = 31,
  kRandom = 32,
  kRandomNode = 33
};

enum AttributeName : int {
  kPointwiseMode = 0,
  kPointwisePrecision = 1,
  kReluLowerClip = 3,
  kReluUpperClip = 4,
  kReluLowerSlope = 5,
  kPointwiseAxis = 9,
  kConvolutionPrecision = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPaddingAfter = 104,
  kConvolutionPaddingBefore = 105,
  kConvolutionRank = 106,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kGradInputAlpha = 706,
  kGradInputBeta = 707,
  kGradInputConvolution = 708,
  kGradInputW = 709,
  kGradInputX = 710,
  kGradInputY = 711,
  kGradWeightAlpha = 712,
  kGradWeightBeta = 713,
  kGradWeightConvolution = 714,
  kGradWeightW = 715,
  kGradWeightX = 716,
  kGradWeightY = 717,
  kPointwiseNodeHow = 750,
  kPointwiseNodeX = 751,
  kPointwiseNodeB = 752,
  kPointwiseNodeY = 753,
  kPointwiseNodeGradX = 756,
  kPointwiseNodeGradY = 757,
  kPointwiseNodeT = 758,
  kMatmulPrecision = 1500,
  kMatmulPaddingValue = 1503,
  kMatmulNodeA = 1520,
  kMatmulNodeB = 1521,
  kMatmulNodeC = 1522,
  kMatmulNodeHow = 1523,
  kReductionOperator = 1600,
  kReductionPrecision = 1601,
  kReductionNodeX = 1610,
  kReductionNodeY = 1611,
  kReductionNodeHow = 1612
};

enum PointwiseMode : int {
  kAdd = 0,
  kMul = 1,
  kMin = 2,
  kMax = 3,
  kDiv = 6,
  kSub = 9,
  kExp = 13,
  kLog = 15,
  kIdentity = 21,
  kRelu = 100,
  kCompareGreaterEqual = 303,
  kCompareLess = 304,
  kCompareLessEqual = 305,
  kLogicalAnd = 400,
  kLogicalOr = 401,
  kIndexOf = 501,
  kSelect = 601
};
enum ReductionOperator : int { kReduceAdd = 0, kReduceMax = 3 };
constexpr int kCrossCorrelation = 1;

enum NumericalNote : int {
  kUsesTensorCores = 0,
  kConvertsInputsDown = 1,
  kReducesInLessPrecision = 2,
  kNondeterministic = 4,
  kNoteCount = 32  // more than there are
};

// ---- what is set to an attribute

using DescriptorHandle = void*;

class Value {
 public:
  Type type() const { return type_; }
  bool is_tensor() const { return is_tensor_; }
  bool is_inner() const { return type_ == Type::Descriptor && !is_tensor_; }
  const std::vector<int64_t>& numbers() const { return numbers_; }
  double number() const { return real_; }

  friend Value tensors(std::vector<int64_t> uids) {
    return {Type::Descriptor, std::move(uids), 0, true};
  }
  friend Value inner(int64_t index) { return {Type::Descriptor, {index}, 0, false}; }
  friend Value integers(std::vector<int64_t> values) { return {Type::Int64, std::move(values)}; }
  friend Value choice(Type type, int value) { return {type, {value}}; }
  friend Value real(double value, Type type) { return {type, {}, value}; }

 private:
  Value(Type type, std::vector<int64_t> numbers, double number = 0, bool is_tensor = false)
      : type_(type), numbers_(std::move(numbers)), real_(number), is_tensor_(is_tensor) {}

  Type type_;
  std::vector<int64_t> numbers_;
  double real_;
  bool is_tensor_;
};

Value tensors(std::vector<int64_t> uids);  // by the numbers that Graph::tensor() gave
Value inner(int64_t index);                // by the number that Graph::inner() gave
Value integers(std::vector<int64_t> values);
Value choice(Type type, int value);  // of an enumeration: Type::PointwiseMode, Type::DataType, ...
Value real(double value, Type type = Type::Float);  // or Type::Double
inline Value tensor(int64_t uid) { return tensors({uid}); }
inline Value integer(int64_t value) { return integers({value}); }
inline Value truth(bool value) { return choice(Type::Boolean, value); }
inline Value data_type_value(DataType type) { return choice(Type::DataType, type); }

struct Attribute {
  int name;
  Value value;
};
using Attributes = std::initializer_list<Attribute>;

// ---- descriptors

// One of the library's. The first call that fails is remembered, and those after it do nothing.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)),
        status_(other.status_),
        is_final_(other.is_final_) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(status_, other.status_);
    std::swap(is_final_, other.is_final_);
    return *this;
  }

  void set(int name, Type type, int64_t count, const void* values);
  void set(int name, int64_t value) { set(name, Type::Int64, 1, &value); }
  void set(int name, DescriptorHandle value) { set(name, Type::Descriptor, 1, &value); }
  void finalize();
  // How many there are; at most `most` are written to `values`.
  int64_t get(int name, Type type, int64_t most, void* values) const;

  DescriptorHandle handle() const { return handle_; }
  int status() const { return status_; }
  bool is_good() const { return status_ == kStatusSuccess && is_final_; }

 private:
  DescriptorHandle handle_ = nullptr;
  int status_ = kStatusSuccess;
  bool is_final_ = false;
};

// ---- graphs

struct TensorOptions {
  bool is_virtual = false;    // between nodes, without memory
  bool by_value = false;      // one number, at an address of the host
  bool is_constant = false;   // and what is there never changes
  int64_t alignment = 16;     // of the address, in bytes
  int64_t ragged_offset = 0;  // the tensor of where the items of a batch begin
};

class Graph {
 public:
  // Returns the tensor's number, from one on.
  int64_t tensor(std::span<const int64_t> sizes, std::span<const int64_t> strides, DataType type,
                 TensorOptions options = {});
  int64_t tensor(std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides,
                 DataType type, TensorOptions options = {}) {
    return tensor(std::span(sizes.begin(), sizes.size()),
                  std::span(strides.begin(), strides.size()), type, options);
  }
  // What a node is told by a descriptor of its own: kPointwise, kConvolution, kMatmul, ... Returns its number.
  int64_t inner(int type, Attributes attributes);
  void node(int type, Attributes attributes);
  // y = mode(x), or mode(x, b) where b is not zero; t is the condition of kSelect. Computed in float32.
  void pointwise(PointwiseMode mode, int64_t x, int64_t b, int64_t y, int64_t t = 0);

  bool is_good() const { return reason_.empty(); }
  const std::string& reason() const { return reason_; }  // why the library refuses it
  // Of the tensors that have an address, in the order of their making.
  const std::vector<int64_t>& uids() const { return uids_; }
  bool has_values() const { return has_values_; }
  std::span<const Descriptor> nodes() const { return nodes_; }

 private:
  Descriptor describe(int type, Attributes attributes);
  void finalize(Descriptor& descriptor, const char* what, int type);

  std::vector<Descriptor> tensors_, inners_, nodes_;
  std::vector<int64_t> uids_;
  bool has_values_ = false;
  std::string reason_;
};

// ---- plans

// Everything that a plan is made from, as numbers.
class Key {
 public:
  void put(int64_t number) {
    TAPEGRAD_CHECK(count_ < kMost, "internal error: the key of a plan is too long");
    numbers_[count_++] = number;
  }
  void put(std::span<const int64_t> numbers) {
    put(static_cast<int64_t>(numbers.size()));
    for (int64_t number : numbers) put(number);
  }
  std::span<const int64_t> numbers() const { return {numbers_, count_}; }
  bool operator==(const Key& other) const { return std::ranges::equal(numbers(), other.numbers()); }
  uint64_t hash() const {
    uint64_t hash = 0x9e3779b97f4a7c15;
    for (int64_t number : numbers()) {
      hash = (hash ^ static_cast<uint64_t>(number)) * 0xff51afd7ed558ccd;
      hash ^= hash >> 32;
    }
    return hash;
  }

 private:
  static constexpr size_t kMost = 64;
  int64_t numbers_[kMost];
  size_t count_ = 0;
};

struct Choice {
  std::vector<int> avoided;                   // engines with one of these NumericalNotes
  bool avoids_compiling = false;              // engines that are compiled when a plan is made
  int64_t most_workspace = int64_t{1} << 30;  // in bytes
  int64_t timed = 1;                          // how many are timed for the fastest; zero: all
  std::vector<void*> addresses;               // for timing, as Plan::run() has them
  // Where both are given the plan is kept on disk: the key must tell apart all graphs of the family, and settings
  // that are not in the choice.
  const char* family = nullptr;
  const Key* key = nullptr;
};

class Plan {
 public:
  Plan() = default;
  bool is_usable() const { return plan_.is_good(); }
  const std::string& reason() const { return reason_; }  // why it is not usable
  int64_t workspace() const { return workspace_; }
  int64_t engine() const { return engine_; }  // the library's number of it
  // On the current stream of the device. Addresses are those of Graph::uids().
  void run(const char* op, int device, std::initializer_list<const void*> addresses) const {
    run(op, device, std::span(addresses.begin(), addresses.size()));
  }
  void run(const char* op, int device, std::span<const void* const> addresses) const;

 private:
  friend class Search;
  friend class Shelf;
  Descriptor plan_;
  int64_t workspace_ = 0, engine_ = -1;
  std::vector<int64_t> uids_;
  bool has_values_ = false;
  std::string reason_;
  // The last variant pack and what is in it: addresses are mostly the same from step to step.
  mutable Descriptor pack_;
  mutable std::vector<const void*> packed_;
};

// How many were looked for so far: those that were kept do not count.
inline int64_t plans_made = 0;

// Not usable where the library is not there, or has no engine for the graph.
Plan make_plan(const Graph& graph, int device, const Choice& choice);

// Of an address, as far as it makes a difference to engines: a power of two up to 16.
int64_t alignment_of(const void* data);

// The plans of a family. Lives as long as the process.
class PlanCache {
 public:
  PlanCache() { all().push_back(this); }
  PlanCache(const PlanCache&) = delete;
  PlanCache& operator=(const PlanCache&) = delete;

  // Those of all families: for tests of what is kept on disk.
  static void forget() {
    for (PlanCache* cache : all())
      for (auto& plans : cache->plans_) plans.clear();
  }

  // make() is called where there is no plan yet.
  template <class Make>
  const Plan& find(int device, const Key& key, Make&& make) {
    auto& plans = plans_[device];
    auto found = plans.find(key);
    if (found != plans.end()) [[likely]]
      return found->second;
    return plans.emplace(key, make()).first->second;
  }

 private:
  static std::vector<PlanCache*>& all() {
    static auto& list = *new std::vector<PlanCache*>;
    return list;
  }
  struct Hash {
    size_t operator()(const Key& key) const { return key.hash(); }
  };
  std::unordered_map<Key, Plan, Hash> plans_[kMostDevices];
};

}  // namespace dnn

}  // namespace tapegrad::cuda
