#include "intercept/program.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "core/error.h"

namespace tapegrad {

namespace {

std::mutex listening_lock;
// Never freed: a thread may still run when static objects are destroyed.
auto& listening = *new std::vector<Program*>();

// Calls visit(address) for each element in order, whatever the strides.
template <class Visit>
void each_element(const TensorImpl& x, Visit&& visit) {
  if (x.numel() == 0) return;
  auto item = static_cast<int64_t>(itemsize(x.dtype()));
  auto* data = static_cast<char*>(x.data());
  DimVector index(static_cast<size_t>(x.dim()), 0);
  for (int64_t count = x.numel(); count > 0; --count) {
    int64_t place = 0;
    for (size_t d = 0; d < index.size(); ++d) place += index[d] * x.stride(d);
    visit(data + place * item);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < x.size(d)) break;
      index[d] = 0;
    }
  }
}

std::vector<char> bytes_of(const TensorImpl& x) {
  size_t item = itemsize(x.dtype());
  std::vector<char> bytes;
  bytes.reserve(static_cast<size_t>(x.numel()) * item);
  each_element(x, [&](const char* element) { bytes.insert(bytes.end(), element, element + item); });
  return bytes;
}

void put_bytes(const TensorImpl& x, const std::vector<char>& bytes) {
  size_t item = itemsize(x.dtype());
  const char* from = bytes.data();
  each_element(x, [&](char* element) {
    std::memcpy(element, from, item);
    from += item;
  });
}

Tensor alias_of(const TensorImpl* x) { return Tensor(x->bare_alias()); }

}  // namespace

void Program::start() {
  std::lock_guard lock(listening_lock);
  thread_ = &capturing;
  listening.push_back(this);
  listens_ = true;
  ++captures;
}

void Program::stop() noexcept {
  if (!listens_) return;
  std::lock_guard lock(listening_lock);
  std::erase(listening, this);
  listens_ = false;
  --captures;
}

void Program::append(const OpCall& call) {
  TAPEGRAD_CHECK(call.op.takes(call.attributes.size()), call.op.name,
                 ": internal error: ", call.attributes.size(),
                 " attributes do not fit the names of its record");
  if (!shared_.empty()) check_shared(call);
  Step step{&call.op, {}, {call.attributes.begin(), call.attributes.end()}, {}, {}, {}};
  for (TensorImpl* input : call.inputs) {
    step.inputs.push_back(alias_of(input));
    step.tensors.emplace_back(input);
  }
  for (TensorImpl* output : call.outputs) {
    // An in-place call's output is its input.
    auto same = std::find(call.inputs.begin(), call.inputs.end(), output);
    auto place = static_cast<size_t>(same - call.inputs.begin());
    step.outputs.push_back(same == call.inputs.end() ? alias_of(output) : step.inputs[place]);
  }
  steps_.push_back(std::move(step));
}

// The call has run: what it read is still there, unless it wrote there.
void Program::check_shared(const OpCall& call) {
  for (const TensorImpl* output : call.outputs)
    if (shared_.contains(&output->storage()))
      refuse(
          std::string(call.op.name) +
          " wrote to memory that something outside the library shares since the block began, such "
          "as a NumPy array");
  for (TensorImpl* input : call.inputs) {
    auto found = shared_.find(&input->storage());
    if (found != shared_.end() && found->second.is_seen) append_read(Tensor(input));
  }
}

void Program::append_read(const Tensor& x) {
  steps_.push_back({nullptr, {alias_of(x.impl())}, {}, {}, bytes_of(*x.impl()), {x}});
}

void Program::append_constant(const Tensor& x) {
  steps_.push_back({nullptr, {}, {}, {alias_of(x.impl())}, bytes_of(*x.impl()), {}});
}

void Program::append_shared(const Tensor& x, bool is_seen) {
  if (is_seen) append_read(x);
  Shared& shared =
      shared_.try_emplace(&x->storage(), Shared{alias_of(x.impl()), is_seen}).first->second;
  shared.is_seen |= is_seen;
}

void Program::replay() const {
  CaptureScope off(nullptr);
  for (const Step& step : steps_) {
    if (step.op) dispatch(*step.op, step.inputs, step.attributes, step.outputs);
    else if (step.inputs.empty()) put_bytes(*step.outputs[0].impl(), step.bytes);
    else
      TAPEGRAD_CHECK(bytes_of(*step.inputs[0].impl()) == step.bytes,
                     "replay: a guard does not hold: the program looked at a tensor of shape ",
                     to_string(step.inputs[0].sizes()),
                     " and went on from there, but its values are different now; record the "
                     "program again with these inputs");
  }
}

void Program::add_foreign(TensorImpl* operand, bool is_written) {
  const Storage& storage = operand->storage();
  // Parameters are read by whoever likes.
  if (!is_written && storage.has(Storage::kLeaf)) return;
  Foreign& foreign =
      foreign_.try_emplace(&storage, Foreign{alias_of(operand), is_written}).first->second;
  foreign.is_written |= is_written;
}

void Program::note_elsewhere(std::span<TensorImpl* const> inputs,
                             std::span<TensorImpl* const> outputs) {
  std::lock_guard lock(listening_lock);
  for (Program* program : listening) {
    if (program->thread_ == &capturing) continue;
    for (TensorImpl* input : inputs) program->add_foreign(input, false);
    for (TensorImpl* output : outputs) program->add_foreign(output, true);
  }
}

// ---- what the rest of the library tells (intercept/capture.h)

void capture_read(const Tensor& x) {
  if (capturing) capturing->append_read(x);
  TensorImpl* const looked_at[] = {x.impl()};
  Program::note_elsewhere(looked_at, {});
}

void capture_constant(const Tensor& x) {
  if (capturing) capturing->append_constant(x);
  TensorImpl* const made[] = {x.impl()};
  Program::note_elsewhere({}, made);
}

void capture_shared(const Tensor& x, bool is_seen) {
  if (capturing) capturing->append_shared(x, is_seen);
  TensorImpl* const shown[] = {x.impl()};
  Program::note_elsewhere(shown, {});
}

// ---- every call

namespace {

[[maybe_unused]] const bool installed =
    install(Interceptor::Capture, [](const OpCall& call, const Next& next) {
  next(call);
  if (capturing) capturing->append(call);
  Program::note_elsewhere(call.inputs, call.outputs);
});

}  // namespace

}  // namespace tapegrad
