#include "intercept/program.h"

#include <algorithm>
#include <mutex>

#include "core/error.h"
#include "intercept/host_bytes.h"

namespace tapegrad {

namespace {

std::mutex listening_lock;
// Never freed: a thread may still run when static objects are destroyed.
auto& listening = *new std::vector<Program*>();

Tensor alias_of(const TensorImpl* x) { return Tensor(x->bare_alias()); }

// What storages made on this thread are marked with while a program listens.
void mark_made(bool on) {
  uint16_t& flags = storage_context.flags;
  flags = static_cast<uint16_t>(on ? flags | Storage::kMade : flags & ~Storage::kMade);
}

// Whether the storage is as it was made while the program listened: nothing but a call that has just
// been captured can have written it.
bool is_made_here(const Storage& storage) {
  return storage.has(Storage::kMade) && storage.version() == 0 &&
         !storage.has(Storage::kBorrowed | Storage::kWasOut);
}

}  // namespace

void Program::start() {
  TAPEGRAD_CHECK(!capturing, "capture: another capture is active on this thread");
  capturing = this;
  mark_made(true);
  std::lock_guard lock(listening_lock);
  thread_ = &capturing;
  listening.push_back(this);
  listens_ = true;
  ++captures;
}

void Program::stop() noexcept {
  if (!listens_) return;
  for (Value& value : values_)
    if (value.storage) value.storage->clear_made();
  if (capturing == this) {
    capturing = nullptr;
    mark_made(false);
  }
  std::lock_guard lock(listening_lock);
  std::erase(listening, this);
  listens_ = false;
  --captures;
}

// ---- values

uint32_t Program::number_of(const TensorImpl& x, bool is_output) {
  Storage& storage = x.storage();
  const auto [found, is_new] =
      numbers_.try_emplace(&storage, static_cast<uint32_t>(values_.size()));
  const uint32_t number = found->second;
  if (!is_new) return number;
  const bool is_made = is_made_here(storage);
  values_.push_back({x.storage_ref(), storage.nbytes(), storage.device(), is_made});
  if (is_made && !is_output && !storage.device().is_meta()) append_constant_of(x);
  return number;
}

Call::Named Program::name(const TensorImpl& x, bool is_output) {
  return {number_of(x, is_output), placement_of(x)};
}

void Program::note_use(const Call& call, const Call::Operand& operand, bool is_output) {
  if (operand.is_literal()) return;
  Value& value = values_[operand.memory];
  const Placement placement = call.placement(operand);
  const ByteRange range = byte_range(placement);
  const auto step = static_cast<uint32_t>(steps_.size());
  value.used = value.used.with(range);
  value.last_use = step;
  if (!is_output) {
    value.is_read |= !value.is_made && !value.is_whole;
    return;
  }
  value.is_written = true;
  value.first_write = std::min(value.first_write, step);
  int64_t numel = 1;
  for (int64_t size : placement.sizes) numel = wrapping_product(numel, size);
  value.is_whole |= static_cast<size_t>(numel) * itemsize(placement.dtype) >= value.nbytes;
}

void Program::push(Step step) {
  for (const Call::Operand& input : step.call.inputs()) note_use(step.call, input, false);
  for (const Call::Operand& output : step.call.outputs()) note_use(step.call, output, true);
  steps_.push_back(std::move(step));
}

void Program::drop_temporaries() {
  for (Value& value : values_)
    if (value.is_made && value.storage && value.storage->use_count() == 1) {
      numbers_.erase(value.storage.get());
      value.storage = nullptr;
    }
}

// ---- capturing

void Program::append(const OpCall& call) {
  TAPEGRAD_CHECK(call.op.takes(call.attributes.size()), call.op.name,
                 ": internal error: ", call.attributes.size(),
                 " attributes do not fit the names of its record");
  if (!shared_.empty()) check_shared(call);
  Call noted(call);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    Call::Operand& operand = noted.inputs()[i];
    if (operand.is_literal()) continue;
    // What a call has overwritten is no longer there to be kept.
    const bool is_output = std::any_of(
        call.outputs.begin(), call.outputs.end(),
        [&](const TensorImpl* output) { return &output->storage() == &call.in(i).storage(); });
    operand.memory = number_of(call.in(i), is_output);
    note_tensor(call.inputs[i], operand.memory);
  }
  for (size_t i = 0; i < call.outputs.size(); ++i)
    noted.outputs()[i].memory = number_of(call.out(i), true);
  push({std::move(noted)});
}

// A tensor from outside is read.
void Program::note_tensor(TensorImpl* x, uint32_t number) {
  const Value& value = values_[number];
  if (value.is_made || value.is_whole || !used_tensors_.insert(x).second) return;
  used_.push_back({Tensor(x), alias_of(x)});
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
  const Call::Named named[] = {name(*x.impl(), false)};
  note_tensor(x.impl(), named[0].memory);
  push({Call(nullptr, named, {}, {}), bytes_of(*x.impl())});
}

void Program::append_constant(const Tensor& x) {
  const Call::Named named[] = {name(*x.impl(), true)};
  push({Call(nullptr, {}, {}, named), bytes_of(*x.impl())});
}

// All of the memory that a tensor shows.
void Program::append_constant_of(const TensorImpl& x) {
  append_constant(whole_storage(x.storage_ref()));
}

void Program::append_shared(const Tensor& x, bool is_seen) {
  if (is_seen) append_read(x);
  Shared& shared =
      shared_.try_emplace(&x->storage(), Shared{alias_of(x.impl()), is_seen}).first->second;
  shared.is_seen |= is_seen;
}

void Program::place_guards(size_t first, const std::string& line) {
  for (size_t i = first; i < steps_.size(); ++i)
    if (steps_[i].is_guard() && steps_[i].line.empty()) steps_[i].line = line;
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

CaptureScope::CaptureScope(Program* program) : outer_(std::exchange(capturing, program)) {
  mark_made(program != nullptr);
}

CaptureScope::~CaptureScope() {
  capturing = outer_;
  mark_made(outer_ != nullptr);
}

}  // namespace tapegrad
