// Calls that were put off, because one kernel may run them together with a call that follows.
//
// Note [Held calls]
// In eager mode gelu(linear(x)) is two calls, and the first does not know of the second. A call that may be merged with
// a later one is therefore held: its outputs are allocated, but their bytes are still to come. The rules
// (cuda/merge.cpp) decide which calls are held, and what is merged with them. All others are served as if it had run:
// - Whoever asks for bytes that are to come (TensorImpl::data(), in kernels and outside) has the call run first: the
//   storage says so by the flag kHeld, which data() tests together with others. So no reader can be forgotten.
// - A call that writes what a held call reads or writes has it run first. Calls pass the interceptor, which is the
//   innermost one, and the flag is on the inputs of held calls as well.
// - Addresses that go out, to those who may read and write unseen, have it run first.
// - Whatever gives other streams, the host or a graph a place in a stream (events, waits, captures, replays), and
//   whoever counts memory, has all of them run first: run_held_calls().
// A held call runs in the lane that it was made in. Its inputs are kept alive, its outputs are not: when nobody has them any
// more the call is forgotten, and never runs. That is how the float32 result of a norm, of which only the cast to a half
// type is read, costs nothing. Products run all the same: who times them in a loop, and has no use for their results, is to
// see how long they take. A call that fails stays held, so that its outputs are never taken for computed, unless it writes
// over an input; the error names the line that made the call. Under Note [The GIL guards handles].
#pragma once

#include <memory>

#include "core/lane.h"
#include "core/op.h"
#include "core/source.h"

namespace tapegrad::cuda {

class HeldCall {
 public:
  enum class Role : uint8_t { Sum, Norm, NormBackward, Product, Derivative };
  static constexpr size_t kMostInputs = 6, kMostOutputs = 3, kMostAttributes = 6;

  HeldCall(const OpCall& call, Role role, uint64_t key);
  HeldCall(const HeldCall&) = delete;
  HeldCall& operator=(const HeldCall&) = delete;

  Role role() const { return role_; }
  uint64_t key() const { return key_; }  // what its rule knows it by
  size_t input_count() const { return input_count_; }
  // Whether a tensor shows all of what the first output will hold, in order, and this thread is in the call's lane.
  bool gives(const TensorImpl& x) const;
  // Whether everything but its first output is there: it waits for somebody who asks for that.
  bool is_put_aside() const { return is_put_aside_; }
  // Whether it writes over an input: it can be run once.
  bool is_in_place() const { return is_in_place_; }

 private:
  friend class HeldCalls;
  friend class HeldOperands;
  struct Place {
    DType dtype;
    int64_t offset;
    DimVector sizes, strides;
  };

  bool reads(const Storage& storage) const;
  bool writes(const Storage& storage) const;
  bool has_outputs() const;

  const Op& op_;
  const Role role_;
  bool is_put_aside_ = false, is_in_place_ = false;
  uint8_t passed_ = 0;  // calls of the same thread since
  const uint8_t input_count_, output_count_, attribute_count_;
  const Lane lane_;
  const void* const thread_;       // that made it
  const void* running_ = nullptr;  // the thread that runs it
  const uint64_t key_;
  const Device device_;
  Scalar attributes_[kMostAttributes];
  Place places_[kMostInputs + kMostOutputs];
  Ref<Storage> inputs_[kMostInputs];  // null where it is an output
  uint8_t outputs_of_inputs_[kMostInputs] = {};
  Storage* outputs_[kMostOutputs] = {};  // null where nobody has it any more, or it is there
  SourceLine line_;
};
using HeldRef = std::shared_ptr<HeldCall>;

// The operands of a held call as tensors, while it is run. Outputs that nobody has are memory that is thrown away.
class HeldOperands {
 public:
  explicit HeldOperands(HeldRef held);
  ~HeldOperands();
  HeldOperands(const HeldOperands&) = delete;
  HeldOperands& operator=(const HeldOperands&) = delete;

  OpCall call() const;

 private:
  const HeldRef held_;
  const LaneScope lane_;
  Ref<TensorImpl> tensors_[HeldCall::kMostInputs + HeldCall::kMostOutputs];
  TensorImpl* operands_[HeldCall::kMostInputs + HeldCall::kMostOutputs];
};

class HeldCalls {
 public:
  static bool any() { return count_ > 0; }
  static size_t count() { return count_; }
  static void hold(const OpCall& call, HeldCall::Role role, uint64_t key);
  // The one that the bytes of a storage are to come from; null where they are there.
  static HeldRef writer_of(const Storage& storage);
  // Whether one of them reads a storage.
  static bool is_read(const Storage& storage);
  // As it was made.
  static void run(const HeldRef& held);
  // Those that were put aside may stay so.
  static void run_all(bool asides = true);
  // Those that read or write what the call writes.
  static void run_before(const OpCall& call);
  // Those that have waited for too many calls of this thread.
  static void run_late();
  // It was run together with another call.
  static void finish(HeldCall& held) noexcept;
  // The same, but for its first output, which is computed if somebody asks for it.
  static void put_aside(HeldCall& held) noexcept;

  // Set by the rules: a call did not meet one that it could be merged with, or its first output was asked for although
  // it was put aside.
  static inline void (*note_single)(const HeldCall& held) = nullptr;
  // Set by them, too: runs a call together with those that it waits for itself. False where there are none.
  static inline bool (*run_with_others)(const OpCall& call, const HeldCall& held) = nullptr;

 private:
  static const bool has_listener;
  static void run_oldest();
  // Into memory that is thrown away.
  static void run_unwanted(const HeldRef& held) noexcept;
  static void leave_to_parent() noexcept;
  static void unmark(Storage& storage) noexcept;
  static void used(Storage& storage);
  static void exposed(Storage& storage);
  static void destroyed(Storage& storage) noexcept;
  static inline size_t count_ = 0;
};

inline void run_held_calls() {
  if (HeldCalls::any()) [[unlikely]]
    HeldCalls::run_all();
}
// All that is to run anyway: before the host waits.
inline void run_expected_calls() {
  if (HeldCalls::any()) [[unlikely]]
    HeldCalls::run_all(false);
}

// Whether calls are merged, and held for it. To set it forgets what was learned about a program (cuda/merge.cpp).
inline bool merges_calls = true;
void set_merges_calls(bool enabled);
// Smaller products are not held: the device would wait for them.
inline int64_t least_held_product = int64_t{1} << 20;
// How many calls were merged with one that came before.
inline int64_t merged_calls = 0;

}  // namespace tapegrad::cuda
