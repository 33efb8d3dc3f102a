#include "intercept/program.h"

#include <algorithm>
#include <mutex>

#include "core/error.h"
#include "intercept/batch.h"
#include "intercept/host_bytes.h"

namespace tapegrad {

namespace {

std::mutex listening_lock;
// Never freed: a thread may still run when static objects are destroyed.
auto& listening = *new std::vector<Program*>();

// Made by a program that listens, before it looks which of that nobody else holds any more.
constexpr size_t kMadeBetweenDrops = size_t{1} << 20;

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

// Whether nobody but the program holds the memory.
bool is_unseen(Storage& storage) {
  return storage.use_count() == 1 && Batches::owner(storage).use_count() == 1;
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
    if (value.storage) Batches::owner(*value.storage).clear_made();
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
  Storage& owner = Batches::owner(x.storage());
  const auto known = numbers_.find(&owner);
  if (known != numbers_.end()) return known->second;
  const uint32_t number = add_storage(owner, is_made_here(owner));
  const Value& value = values_[number];
  if (value.is_made && !is_output && !value.device.is_meta()) append_constant_of(number);
  return number;
}

uint32_t Program::add_storage(Storage& owner, bool is_made) {
  const auto number = static_cast<uint32_t>(values_.size());
  Ref<Storage> plain = Batches::plain(owner);
  const size_t nbytes = plain->nbytes();
  values_.push_back({std::move(plain), nbytes, owner.device(), is_made});
  numbers_[&owner] = number;
  if (is_made) {
    held_.push_back(number);
    made_bytes_ += nbytes;
  }
  return number;
}

// Where the storage of a tensor begins in that of its owner, in elements.
int64_t Program::shift_of(const TensorImpl& x) {
  const Storage& owner = Batches::owner(x.storage());
  if (&owner == &x.storage()) return 0;
  const auto item = static_cast<int64_t>(itemsize(x.dtype()));
  const int64_t bytes =
      static_cast<const char*>(x.storage().data()) - static_cast<const char*>(owner.data());
  if (bytes % item != 0) refuse("a vmap reads elements that lie across those of their memory");
  return bytes / item;
}

Call::Named Program::name(const TensorImpl& x, bool is_output) {
  Call::Named named{number_of(x, is_output), placement_of(x)};
  named.placement.offset += shift_of(x);
  return named;
}

void Program::append_move(Storage& storage, const Placement& before, const Placement& after) {
  const auto known = numbers_.find(&storage);
  if (known == numbers_.end()) return;  // nothing that a step wrote
  const uint32_t former = known->second;
  if (!values_[former].is_made)
    refuse("a tensor from outside the block became a batch of a vmap in it");
  values_[former].storage = nullptr;  // nobody can see it any more
  const Call::Named from[] = {{former, before}}, to[] = {{add_storage(storage, true), after}};
  push({Call(&registered_copy(), from, {}, to)});
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
  if (line_ && step.line.empty()) step.line = line_();
  steps_.push_back(std::move(step));
}

void Program::drop_temporaries() {
  std::erase_if(held_, [&](uint32_t number) {
    Ref<Storage>& storage = values_[number].storage;
    if (storage && !is_unseen(*storage)) return false;
    if (storage) numbers_.erase(&Batches::owner(*storage));
    storage = nullptr;
    return true;
  });
  made_bytes_ = 0;
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
    const bool is_output =
        std::any_of(call.outputs.begin(), call.outputs.end(), [&](const TensorImpl* output) {
      return &Batches::owner(output->storage()) == &Batches::owner(call.in(i).storage());
    });
    operand.memory = number_of(call.in(i), is_output);
    operand.offset += shift_of(call.in(i));
    note_tensor(call.inputs[i], operand.memory);
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    noted.outputs()[i].memory = number_of(call.out(i), true);
    noted.outputs()[i].offset += shift_of(call.out(i));
  }
  push({std::move(noted)});
  if (made_bytes_ >= kMadeBetweenDrops) drop_temporaries();
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
    if (found != shared_.end() && found->second.is_seen) append_read(Tensor(input), Tensor(input));
  }
}

void Program::append_read(const Tensor& x, const Tensor& host) {
  const Call::Named named[] = {name(*x.impl(), false)};
  note_tensor(x.impl(), named[0].memory);
  push({Call(nullptr, named, {}, {}), bytes_of(host)});
}

void Program::append_constant(const Tensor& x) {
  const Call::Named named[] = {name(*x.impl(), true)};
  push({Call(nullptr, {}, {}, named), bytes_of(x)});
}

// All of the memory of a value.
void Program::append_constant_of(uint32_t number) {
  append_constant(whole_storage(values_[number].storage));
}

void Program::append_shared(const Tensor& x, bool is_seen) {
  if (is_seen) append_read(x, x);
  Shared& shared =
      shared_.try_emplace(&x->storage(), Shared{alias_of(x.impl()), is_seen}).first->second;
  shared.is_seen |= is_seen;
}

void Program::place_guards(size_t first, const std::string& line) {
  for (size_t i = first; i < steps_.size(); ++i)
    if (steps_[i].is_guard() && steps_[i].line.empty()) steps_[i].line = line;
}

void Program::add_foreign(TensorImpl* operand, bool is_written) {
  const Storage& storage = Batches::owner(operand->storage());
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

void capture_read(const Tensor& x, const Tensor& host) {
  if (capturing) capturing->append_read(x, host);
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
