// The one dispatch point. Every computation, forward or backward, in-place or not, is an op that
// passes here, below autograd: the op's record, input tensors, attributes and output tensors are
// known, the back end is chosen by device, and a capture may listen.
//
// Note [What a call means]
// A call is a function of the *bytes* its operands name (storage, offset, sizes, strides, dtype)
// and of its attributes; it writes its outputs and nothing else. Views are therefore no calls: a
// view is just another name for bytes, and every operand carries its own geometry. An in-place op is
// a call whose output is also an input. A captured list of calls can be executed again in order.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/scalar.h"
#include "core/tensor.h"

namespace tapegrad {

struct Op;

struct OpCall {
  const Op& op;
  std::span<TensorImpl* const> inputs;
  std::span<const Scalar> attributes;
  std::span<TensorImpl* const> outputs;

  const TensorImpl& in(size_t i) const { return *inputs[i]; }
  const TensorImpl& out(size_t i = 0) const { return *outputs[i]; }
  int64_t integer(size_t i) const { return attributes[i].as_int(); }
  double real(size_t i) const { return attributes[i].as_double(); }
};

using Kernel = void (*)(const OpCall&);

// What dispatch must know of an op when it runs over a batch (core/batch.h) or may run again
// (graph/budget.h).
enum OpTrait : uint8_t {
  kAnyRank = 1,     // works element by element: further leading dimensions change nothing
  kRandom = 2,      // draws random numbers, from its attributes "seed" and "offset"
  kOverwrites = 4,  // may write its first output over its first input, if they are laid out alike
  kContracts = 8,   // sums products of its first two inputs: more work than its bytes tell
};

// The record of an op: what the system may ask of it below autograd.
struct Op {
  // To be filled in, and then enlisted.
  Op() = default;
  Op(const char* name, std::initializer_list<const char*> attributes = {}, uint8_t traits = 0)
      : Op(name, name, attributes, traits) {}
  // One of several ops that run the same kernel.
  Op(const char* name, const char* kernel_name, std::vector<const char*> attributes, uint8_t traits)
      : name(name), kernel_name(kernel_name), attributes(std::move(attributes)), traits(traits) {
    enlist();
  }
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;

  // Puts it on the list of all ops (core/registry.h).
  void enlist() const;
  // Where the attribute of this name stands; there must be one, and no starred one before it.
  size_t attribute(std::string_view name) const;
  // Whether a call with so many attributes gives a number to each name.
  bool takes(size_t attribute_count) const;

  const char* name = nullptr;         // unique, and stable: saved programs name it
  const char* kernel_name = nullptr;  // what back ends list their kernels under
  // The names of the attributes. Those with a star stand for as many numbers as any other with one: the
  // stride of every dimension. "unused" is a place that kernels do not read.
  std::vector<const char*> attributes;
  uint8_t traits = 0;
  mutable Kernel kernels[kDeviceTypes] = {};  // see Note [Ops and kernels find each other by name]
};

// The kernel of the device that the operands of a call are on. They must agree; only 0-d tensors on the
// CPU may meet those of another device.
Kernel kernel_for(const OpCall& call);

// Who wants to know of calls on this thread. One test on the way of every op.
enum DispatchWatch : uint8_t {
  kWatchCapture = 1,  // `capturing` listens
  kWatchPending = 2,  // tangents wait to be computed before anything is overwritten
  kWatchBatch = 4,    // a vmap is running
  kWatchProfile = 8,  // a profile notes times and memory (core/profile.h)
  kWatchReuse = 16,   // results are kept, or taken from those kept (core/call_cache.h)
  kWatchBudget = 32,  // how values were computed is noted (graph/budget.h)
};
inline thread_local uint8_t dispatch_watch = 0;
// How many storages are batches, on any thread.
inline uint32_t batched_storages = 0;
// How many storages have had their bytes evicted, and budgets may evict more, on any thread.
inline uint32_t evicted_storages = 0;
// How many programs listen, on any thread: they must know what other threads do meanwhile.
inline uint32_t captures = 0;

inline void watch(DispatchWatch what, bool on) {
  dispatch_watch = static_cast<uint8_t>(on ? dispatch_watch | what : dispatch_watch & ~what);
}

class Program;  // core/program.h
// The program that listens on this thread, or null.
inline thread_local Program* capturing = nullptr;
// Makes a program listen, or none, for a while.
class CaptureScope {
 public:
  explicit CaptureScope(Program* program);
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  Program* outer_;
};

void capture_call(const OpCall& call);
void capture_read(const Tensor& x);
void capture_constant(const Tensor& x);
void capture_shared(const Tensor& x, bool is_seen);

// What happens besides calls: Note [What a captured program must see] in core/program.h.
// Elements are looked at: by Python, or for a shape.
inline void note_read(const Tensor& x) {
  if (captures) [[unlikely]]
    capture_read(x);
}
// Fresh memory was filled with what came from the host.
inline void note_constant(const Tensor& x) {
  if (captures) [[unlikely]]
    capture_constant(x);
}
// The address of the bytes becomes known outside.
inline void note_shared(const Tensor& x) {
  if (captures) [[unlikely]]
    capture_shared(x, true);
}
// The bytes are somebody else's, as those of an array.
inline void note_borrowed(const Tensor& x) {
  if (captures) [[unlikely]]
    capture_shared(x, false);
}

// Set by the graph layer: computes the tangents that wait.
inline void (*resolve_pending)() = nullptr;
// Set by the graph layer: brings evicted operands back before a call, and keeps them during it; notes
// afterwards how the outputs were computed.
struct BudgetHooks {
  void (*before)(const OpCall& call) = nullptr;
  void (*after)(const OpCall& call) = nullptr;
  void (*abandon)(const OpCall& call) noexcept = nullptr;  // the call failed
};
inline BudgetHooks budget_hooks;

void dispatch_watched(const OpCall& call, Kernel kernel);

inline void dispatch(const Op& op, std::span<TensorImpl* const> inputs,
                     std::span<const Scalar> attributes, std::span<TensorImpl* const> outputs) {
  OpCall call{op, inputs, attributes, outputs};
  if (dispatch_watch | batched_storages | evicted_storages | captures | device_storages)
      [[unlikely]]
    return dispatch_watched(call, kernel_for(call));
  op.kernels[static_cast<int>(DeviceType::CPU)](call);
}

// The same for calls off the hottest path: handles in braces.
void dispatch(const Op& op, std::initializer_list<Tensor> inputs,
              std::initializer_list<Scalar> attributes, std::initializer_list<Tensor> outputs);
void dispatch(const Op& op, std::span<const Tensor> inputs, std::span<const Scalar> attributes,
              std::span<const Tensor> outputs);

}  // namespace tapegrad
