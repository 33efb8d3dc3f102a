// The one dispatch point. Every computation, forward or backward, in-place or not, is an op that
// passes here, below autograd: the op's record, input tensors, attributes and output tensors are
// known, the back end is chosen by device, and interceptors may stand in between.
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

#include "core/interceptor.h"
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

// What is asked of an op by interceptors (csrc/intercept), by captures, and by the tape
// (graph/entry_kind.h).
enum OpTrait : uint16_t {
  kAnyRank = 1,     // works element by element: further leading dimensions change nothing
  kRandom = 2,      // draws random numbers, from its attributes "seed" and "offset"
  kOverwrites = 4,  // may write its first output over its first input, if they are laid out alike
  kContracts = 8,   // sums products of its first two inputs: more work than its bytes tell
  // What it gives is looked at on the host at once: it is the size of a result, or a check.
  kHostRead = 16,
  // Adds what meets in one place. The CPU always does so in one order; a back end that does not
  // rounds differently from run to run.
  kAnyOrder = 32,
  // What it gives depends on nothing smoothly: places, counts, tests, constants.
  kNoDerivative = 64,
  // A step of a derivative, of an optimizer or of a coding, which is never recorded: where its own
  // derivative is wanted, recorded ops run in its place.
  kUnrecorded = 128,
  // Moves bytes from one device to another: the kernel is that of the one that is not the CPU.
  kMoves = 256,
  // Numbers that it writes, outputs of no dimensions, may be on the CPU, whatever device the others are on.
  kHostNumbers = 512,
  // Works matrix by matrix: dimensions in front of those of every operand are a batch, over which an
  // input of size one is repeated.
  kLeadingDims = 1024,
  // Takes complex numbers. All other ops refuse them.
  kComplex = 2048,
  // The same of an op that is a complex function whose derivative, as its entry computes it, is that of a
  // real one: see Note [Gradients of complex functions] in ops/complex.h.
  kHolomorphic = 4096 | kComplex,
  // Takes bare dtypes (core/dtype.h). All other ops refuse them.
  kBare = 8192,
};

// The record of an op: what the system may ask of it below autograd.
struct Op {
  // To be filled in, and then enlisted.
  Op() = default;
  Op(const char* name, std::initializer_list<const char*> attributes = {}, uint16_t traits = 0)
      : Op(name, name, attributes, traits) {}
  // One of several ops that run the same kernel.
  Op(const char* name, const char* kernel_name, std::vector<const char*> attributes,
     uint16_t traits)
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
  uint16_t traits = 0;
  mutable Kernel kernels[kDeviceTypes] = {};  // see Note [Ops and kernels find each other by name]
};

// The last op of this thread that a kernel was looked up for, other than a move: for messages about what
// happens around calls on a device.
inline thread_local const Op* last_op = nullptr;

// The rest of a call's way, as an interceptor sees it.
class Next {
 public:
  void operator()(const OpCall& call) const;
  // The same way without one of those that are still to come.
  Next without(Interceptor which) const { return {kernel_, passed_ | bit(which)}; }

 private:
  friend void dispatch_intercepted(const OpCall& call);
  friend void run_without_interceptors(const OpCall& call);
  Next(Kernel kernel, uint32_t passed) : kernel_(kernel), passed_(passed) {}

  Kernel kernel_;
  uint32_t passed_;  // by bit
};
using Intercept = void (*)(const OpCall& call, const Next& next);
// Called once for each, while the library is loaded.
bool install(Interceptor which, Intercept intercept);

void dispatch_intercepted(const OpCall& call);

// The device whose kernel a call runs, by those of its first input and its first output.
inline Device kernel_device(const Op& op, Device input, Device output) {
  return (op.traits & kMoves) && output.is_cpu() ? input : output;
}

inline void run_kernel(Kernel kernel, const OpCall& call) {
  const KernelScope scope;
  kernel(call);
}
// The kernel of the operands' device alone: for what is no call of the program, such as computing evicted
// bytes again.
void run_without_interceptors(const OpCall& call);

inline void dispatch(const Op& op, std::span<TensorImpl* const> inputs,
                     std::span<const Scalar> attributes, std::span<TensorImpl* const> outputs) {
  OpCall call{op, inputs, attributes, outputs};
  if (intercepted_here | intercepted_everywhere) [[unlikely]]
    return dispatch_intercepted(call);
  run_kernel(op.kernels[static_cast<int>(DeviceType::CPU)], call);
}

// The same for calls off the hottest path: handles in braces.
void dispatch(const Op& op, std::initializer_list<Tensor> inputs,
              std::initializer_list<Scalar> attributes, std::initializer_list<Tensor> outputs);
void dispatch(const Op& op, std::span<const Tensor> inputs, std::span<const Scalar> attributes,
              std::span<const Tensor> outputs);

}  // namespace tapegrad
