#include "cuda/held_calls.h"

#include <pthread.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"

namespace tapegrad::cuda {

namespace {

constexpr uint8_t kMostPassed = 16;  // calls that a held one lets pass
constexpr size_t kMostHeld = 16;

// In the order in which they were made. Never destroyed: storages may outlive static objects.
auto& held_calls = *new std::vector<HeldRef>();

// Whose address is the thread.
thread_local char this_thread;

}  // namespace

// ---- one call

HeldCall::HeldCall(const OpCall& call, Role role, uint64_t key)
    : op_(call.op),
      role_(role),
      input_count_(static_cast<uint8_t>(call.inputs.size())),
      output_count_(static_cast<uint8_t>(call.outputs.size())),
      attribute_count_(static_cast<uint8_t>(call.attributes.size())),
      lane_(current_lane),
      thread_(&this_thread),
      key_(key),
      device_(call.out().device()),
      line_(SourceLine::here()) {
  std::copy(call.attributes.begin(), call.attributes.end(), attributes_);
  Place* place = places_;
  const auto put = [&](const TensorImpl& x) {
    place->dtype = x.dtype();
    place->offset = x.offset();
    place->sizes.resize(x.sizes().size());
    place->strides.resize(x.sizes().size());
    std::copy(x.sizes().begin(), x.sizes().end(), place->sizes.begin());
    std::copy(x.strides().begin(), x.strides().end(), place->strides.begin());
    ++place;
  };
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    put(call.in(i));
    inputs_[i] = call.in(i).storage_ref();
    for (size_t k = 0; k < call.outputs.size(); ++k)
      if (&call.out(k).storage() == inputs_[i].get()) {
        inputs_[i] = nullptr;  // nobody keeps an output
        is_in_place_ = true;
        outputs_of_inputs_[i] = static_cast<uint8_t>(k);
        break;
      }
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    put(call.out(i));
    outputs_[i] = &call.out(i).storage();
  }
}

bool HeldCall::gives(const TensorImpl& x) const {
  const Place& place = places_[input_count_];
  int64_t numel = 1;
  for (int64_t size : place.sizes) numel *= size;
  return outputs_[0] == &x.storage() && lane_ == current_lane && x.is_contiguous() &&
         x.dtype() == place.dtype && x.offset() == place.offset && x.numel() == numel;
}

bool HeldCall::reads(const Storage& storage) const {
  return std::any_of(inputs_, inputs_ + input_count_,
                     [&](const Ref<Storage>& input) { return input.get() == &storage; });
}
bool HeldCall::writes(const Storage& storage) const {
  return std::find(outputs_, outputs_ + output_count_, &storage) != outputs_ + output_count_;
}
bool HeldCall::has_outputs() const {
  return std::any_of(outputs_, outputs_ + output_count_,
                     [](const Storage* storage) { return storage != nullptr; });
}

HeldOperands::HeldOperands(HeldRef held) : held_(std::move(held)), lane_(held_->lane_) {
  const size_t inputs = held_->input_count_, outputs = held_->output_count_;
  for (size_t i = 0; i < inputs + outputs; ++i) {
    const HeldCall::Place& place = held_->places_[i];
    const size_t output = i < inputs ? held_->outputs_of_inputs_[i] : i - inputs;
    Storage* const there =
        i < inputs && held_->inputs_[i] ? held_->inputs_[i].get() : held_->outputs_[output];
    if (there) {
      tensors_[i] = TensorImpl::create(Ref<Storage>(there), place.dtype, place.sizes, place.strides,
                                       place.offset);
    } else {
      const Tensor unused = empty(held_->op_.name, place.sizes, place.dtype, held_->device_);
      tensors_[i] = Ref<TensorImpl>(unused.impl());
    }
    operands_[i] = tensors_[i].get();
  }
  held_->running_ = &this_thread;
}

HeldOperands::~HeldOperands() {
  for (Ref<TensorImpl>& tensor : tensors_)
    tensor = nullptr;  // the last of an output may be among them
  held_->running_ = nullptr;
}

OpCall HeldOperands::call() const {
  const size_t inputs = held_->input_count_, outputs = held_->output_count_;
  return {held_->op_,
          {operands_, inputs},
          {held_->attributes_, held_->attribute_count_},
          {operands_ + inputs, outputs}};
}

// ---- all of them

// A process that was forked has no device: nothing can be run there, and CPU calls are not to try.
void HeldCalls::leave_to_parent() noexcept {
  static auto& left = *new std::vector<HeldRef>();
  left.swap(held_calls);
  count_ = 0;
}

const bool HeldCalls::has_listener =
    pthread_atfork(nullptr, nullptr, leave_to_parent) == 0 &&
    add_storage_listener({Storage::kHeld, destroyed, used, exposed});

void HeldCalls::run_oldest() {
  const HeldRef oldest = held_calls.front();
  if (oldest->is_put_aside_ && note_single) note_single(*oldest);
  run(oldest);
}

void HeldCalls::hold(const OpCall& call, HeldCall::Role role, uint64_t key) {
  if (held_calls.size() >= kMostHeld) run_oldest();
  held_calls.push_back(std::make_shared<HeldCall>(call, role, key));
  count_ = held_calls.size();
  for (TensorImpl* input : call.inputs) input->storage().set_held();
  for (TensorImpl* output : call.outputs) output->storage().set_held();
}

HeldRef HeldCalls::writer_of(const Storage& storage) {
  if (!storage.has(Storage::kHeld)) return nullptr;
  for (const HeldRef& held : held_calls)
    if (held->writes(storage) && held->running_ != &this_thread) return held;
  return nullptr;
}

bool HeldCalls::is_read(const Storage& storage) {
  return std::any_of(held_calls.begin(), held_calls.end(),
                     [&](const HeldRef& held) { return held->reads(storage); });
}

void HeldCalls::run(const HeldRef& held) {
  if (held->has_outputs()) {
    try {
      const HeldOperands operands(held);
      const OpCall call = operands.call();
      const KernelScope scope;
      if (!run_with_others || !run_with_others(call, *held))
        call.op.kernels[static_cast<int>(DeviceType::CUDA)](call);
    } catch (Error& error) {
      if (held->is_in_place_) finish(*held);
      error.text = concat(error.text, " (in ", held->op_.name, ", which was called at ",
                          held->line_.text(), " and waited for a call to be merged with)");
      throw;
    }
  }
  if (!held->is_put_aside_ && note_single) note_single(*held);
  finish(*held);
  // Whoever had it run may rely on its having run long ago, on a stream that the host has waited for since.
  if (held->lane_ != current_lane) lane_calls.order(held->lane_, current_lane);
}

void HeldCalls::run_all(bool asides) {
  // Each may have others run.
  for (size_t i = 0; i < held_calls.size();) {
    const HeldRef held = held_calls[i];
    if (held->running_ == &this_thread || (held->is_put_aside_ && !asides)) ++i;
    else run(held);
  }
}

void HeldCalls::run_before(const OpCall& call) {
  for (const TensorImpl* output : call.outputs)
    if (output->storage().has(Storage::kHeld)) exposed(output->storage());
}

void HeldCalls::run_late() {
  for (size_t i = 0; i < held_calls.size();) {
    HeldCall& held = *held_calls[i];
    const bool is_late = !held.is_put_aside_ && held.thread_ == &this_thread &&
                         held.running_ != &this_thread && ++held.passed_ > kMostPassed;
    if (is_late) run(HeldRef(held_calls[i]));
    else ++i;
  }
}

void HeldCalls::finish(HeldCall& finished) noexcept {
  const auto found = std::find_if(held_calls.begin(), held_calls.end(),
                                  [&](const HeldRef& held) { return held.get() == &finished; });
  if (found == held_calls.end()) return;
  const HeldRef held = std::move(*found);
  held_calls.erase(found);
  count_ = held_calls.size();
  for (const Ref<Storage>& input : held->inputs_)
    if (input) unmark(*input);
  for (Storage*& output : held->outputs_)
    if (Storage* const there = std::exchange(output, nullptr)) unmark(*there);
}

void HeldCalls::put_aside(HeldCall& held) noexcept {
  held.is_put_aside_ = true;
  for (size_t i = 1; i < held.output_count_; ++i)
    if (Storage* const there = std::exchange(held.outputs_[i], nullptr)) unmark(*there);
  if (!held.outputs_[0]) finish(held);
}

void HeldCalls::unmark(Storage& storage) noexcept {
  for (const HeldRef& held : held_calls)
    if (held->reads(storage) || held->writes(storage)) return;
  storage.clear_held();
}

void HeldCalls::used(Storage& storage) {
  const HeldRef held = writer_of(storage);
  if (!held) return;
  if (held->is_put_aside_ && note_single) note_single(*held);
  run(held);
}

void HeldCalls::exposed(Storage& storage) {
  for (size_t i = 0; i < held_calls.size();) {
    const HeldRef held = held_calls[i];
    const bool is_meant =
        held->running_ != &this_thread && (held->reads(storage) || held->writes(storage));
    if (is_meant) {
      run(held);
      i = 0;  // it may have had others run
    } else ++i;
  }
}

void HeldCalls::run_unwanted(const HeldRef& held) noexcept {
  try {
    const HeldOperands operands(held);
    const OpCall call = operands.call();
    const KernelScope scope;
    call.op.kernels[static_cast<int>(DeviceType::CUDA)](call);
  } catch (...) {
    // There is no memory to throw away, or no kernel: nobody misses it.
  }
}

void HeldCalls::destroyed(Storage& storage) noexcept {
  for (size_t i = 0; i < held_calls.size(); ++i) {
    const HeldRef held = held_calls[i];
    if (!held->writes(storage)) continue;
    for (Storage*& output : held->outputs_)
      if (output == &storage) output = nullptr;
    if (held->has_outputs() || held->running_) return;
    if (held->role_ == HeldCall::Role::Product && !held->is_put_aside_) run_unwanted(held);
    finish(*held);
    return;
  }
}

}  // namespace tapegrad::cuda
