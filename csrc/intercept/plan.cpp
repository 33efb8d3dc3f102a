#include "intercept/plan.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "intercept/host_bytes.h"

namespace tapegrad {

namespace {

bool is_outside(Plan::Home::Kind kind) {
  return kind == Plan::Home::Kind::Fixed || kind == Plan::Home::Kind::Given;
}

}  // namespace

Plan::Plan(const Program& program, std::vector<Home> homes, size_t arena_bytes)
    : TracePlan(program),
      nowhere_(Storage::allocate(0)),
      memory_(program.values().size()),
      shifts_(program.values().size()),
      shown_(program.values().size()) {
  TAPEGRAD_CHECK_AS(ValueError, homes.size() == program.values().size(), "plan: expected ",
                    program.values().size(), " homes, got ", homes.size());
  TAPEGRAD_CHECK_AS(ValueError, program.refusal().empty(), "plan: ", program.refusal());
  for (const Program::Value& value : program.values())
    TAPEGRAD_CHECK_AS(ValueError, value.device.is_cpu(), "plan: expected values on the CPU, got ",
                      to_string(value.device));
  settle_homes(std::move(homes), arena_bytes);
  for (const Program::Step& step : program.steps()) add_step(step);
  note_written();
}

void Plan::settle_homes(std::vector<Home> homes, size_t arena_bytes) {
  if (arena_bytes) arena_ = Storage::allocate(arena_bytes);
  for (size_t i = 0; i < homes.size(); ++i) {
    const auto& [kind, offset, storage] = homes[i];
    const size_t nbytes = program_.values()[i].nbytes;
    kinds_.push_back(kind);
    if (kind == Home::Kind::Arena) {
      TAPEGRAD_CHECK_AS(ValueError,
                        offset >= 0 && static_cast<size_t>(offset) + nbytes <= arena_bytes,
                        "plan: value ", i, " does not lie within the arena");
      char* data = arena_ ? static_cast<char*>(arena_->data()) + offset : nullptr;
      memory_[i] = Storage::borrow(data, nbytes, nullptr, [](void*) {});
    } else if (kind == Home::Kind::Tile) {
      memory_[i] = nowhere_;
    } else if (kind == Home::Kind::Constant) {
      memory_[i] = Storage::allocate(nbytes);
    } else if (kind == Home::Kind::Fixed) {
      TAPEGRAD_CHECK_AS(ValueError, storage && storage->nbytes() == nbytes, "plan: value ", i,
                        " is given other memory than the program saw");
      memory_[i] = storage;
    } else {
      memory_[i] = nowhere_;
      (kind == Home::Kind::Given ? given_ : fresh_).push_back(static_cast<uint32_t>(i));
    }
  }
}

TensorImpl* Plan::operand(const Call& call, const Call::Operand& operand) {
  if (operand.is_literal()) return literals_.emplace_back(call.tensor(operand, nullptr)).get();
  const Placement placement = call.placement(operand);
  std::vector<Shown>& shown = shown_[operand.memory];
  for (const Shown& each : shown)
    if (each.offset == placement.offset && each.tensor->dtype() == placement.dtype &&
        same_sizes(each.tensor->sizes(), placement.sizes) &&
        same_sizes(each.tensor->strides(), placement.strides))
      return each.tensor.get();
  return shown.emplace_back(call.tensor(operand, memory_[operand.memory]), placement.offset)
      .tensor.get();
}

void Plan::add_step(const Program::Step& step) {
  const Call& call = step.call;
  const auto index = instructions_.size();
  Instruction instruction{nullptr,
                          &step,
                          static_cast<uint32_t>(operands_.size()),
                          static_cast<uint32_t>(call.inputs().size()),
                          static_cast<uint32_t>(call.outputs().size()),
                          static_cast<uint32_t>(attributes_.size()),
                          static_cast<uint32_t>(call.attributes().size())};
  for (const Call::Operand& each : call.all()) operands_.push_back(operand(call, each));
  attributes_.insert(attributes_.end(), call.attributes().begin(), call.attributes().end());
  if (call.op()) {
    instruction.kernel = call.op()->kernels[static_cast<int>(DeviceType::CPU)];
    TAPEGRAD_CHECK(instruction.kernel, call.op()->name, ": no kernel for device 'cpu'");
  } else if (step.is_guard()) {
    last_guard_ = index;
  }
  for (const Call::Operand& output : call.outputs())
    if (is_outside(kinds_[output.memory]))
      first_outside_write_ = std::min(first_outside_write_, index);
  if (step.is_constant() && kinds_[call.outputs()[0].memory] == Home::Kind::Constant) {
    put_bytes(Tensor(operands_.back()), step.bytes);
    instruction.step = nullptr;
  }
  for (const Call::Operand& output : call.outputs())
    TAPEGRAD_CHECK_AS(ValueError,
                      kinds_[output.memory] != Home::Kind::Constant || step.is_constant(),
                      "plan: ", step.name(), " writes value ", output.memory, ", a constant");
  instructions_.push_back(instruction);
}

void Plan::note_written() {
  for (const Instruction& instruction : instructions_) {
    if (!instruction.step) continue;
    const auto outputs = instruction.step->call.outputs();
    for (uint32_t i = 0; i < instruction.outputs; ++i) {
      TensorImpl* written = operands_[instruction.operands + instruction.inputs + i];
      if (is_outside(kinds_[outputs[i].memory]) &&
          std::ranges::find(written_, written) == written_.end())
        written_.push_back(written);
    }
  }
}

void Plan::undo_errors(size_t step) {
  last_guard_ = last_guard_ == kNone ? step : std::max(last_guard_, step);
}

std::span<Scalar> Plan::attributes(size_t step) {
  const Instruction& instruction = instructions_.at(step);
  return {attributes_.data() + instruction.attributes, instruction.attribute_count};
}

// ---- running

void Plan::put(uint32_t value, const Ref<Storage>& storage) {
  memory_[value] = storage;
  for (const Shown& each : shown_[value]) each.tensor->set_storage(storage, each.tensor->dtype());
}

bool Plan::give(uint32_t value, const Ref<Storage>& storage, int64_t shift) {
  const ByteRange used = program_.values()[value].used;
  if (used.begin + shift < 0 || used.end + shift > static_cast<int64_t>(storage->nbytes()))
    return false;
  if (shift != shifts_[value]) {
    for (const Shown& each : shown_[value])
      if (shift % static_cast<int64_t>(itemsize(each.tensor->dtype())) != 0) return false;
    for (const Shown& each : shown_[value])
      each.tensor->set_geometry(
          each.tensor->sizes(), each.tensor->strides(),
          each.offset + shift / static_cast<int64_t>(itemsize(each.tensor->dtype())));
    shifts_[value] = shift;
  }
  put(value, storage);
  return true;
}

bool Plan::offer(uint32_t value, const Ref<Storage>& storage) {
  const Program::Value& known = program_.values()[value];
  const bool is_late = last_guard_ == kNone || known.first_write > last_guard_;
  if (kinds_[value] != Home::Kind::Fresh || storage->nbytes() != known.nbytes || !is_late)
    return false;
  first_offered_write_ = std::min(first_offered_write_, size_t{known.first_write});
  put(value, storage);
  return true;
}

void Plan::execute(const Instruction& instruction) const {
  TensorImpl* const* operands = operands_.data() + instruction.operands;
  const OpCall call{*instruction.step->call.op(),
                    {operands, instruction.inputs},
                    {attributes_.data() + instruction.attributes, instruction.attribute_count},
                    {operands + instruction.inputs, instruction.outputs}};
  run_kernel(instruction.kernel, call);
}

bool Plan::holds(const Instruction& instruction, std::vector<char>& found) const {
  TensorImpl* x = operands_[instruction.operands];
  const std::vector<char>& expected = instruction.step->bytes;
  if (x->is_contiguous()) {
    if (std::memcmp(x->address(), expected.data(), expected.size()) == 0) return true;
    found = bytes_of(Tensor(x));
    return false;
  }
  found = bytes_of(Tensor(x));
  return found == expected;
}

// What is written before the last guard may have to be put back.
std::vector<Plan::Saved> Plan::save() const {
  std::vector<Saved> saved;
  if (last_guard_ == kNone || first_outside_write_ > last_guard_) return saved;
  for (TensorImpl* written : written_) {
    Saved each{Tensor(written), empty_like(Tensor(written))};
    copy_unseen(each.place, each.content);
    saved.push_back(std::move(each));
  }
  return saved;
}

size_t Plan::run(std::vector<char>& found) {
  failed_early_ = false;
  for (uint32_t value : fresh_)
    if (memory_[value] == nowhere_) put(value, Storage::allocate(program_.values()[value].nbytes));
  const std::vector<Saved> saved = save();
  auto restore = [&] {
    for (const Saved& each : saved) copy_unseen(each.content, each.place);
  };
  size_t at = 0;
  try {
    for (; at < instructions_.size(); ++at) {
      const Instruction& instruction = instructions_[at];
      if (!group_at_.empty() && group_at_[at]) {
        Group& group = groups_[group_at_[at] - 1];
        at = group.rows.end - 1;  // if it fails, any of its steps may have written
        run_group(group);
      } else if (instruction.kernel) {
        execute(instruction);
      } else if (instruction.step && instruction.step->is_constant()) {
        put_bytes(Tensor(operands_[instruction.operands]), instruction.step->bytes);
      } else if (instruction.step && !holds(instruction, found)) {
        restore();
        return at;
      }
    }
  } catch (...) {
    failed_at_ = at;
    failed_early_ = at < first_outside_write_ && at < first_offered_write_;
    if (!failed_early_ && at <= last_guard_ && last_guard_ != kNone && at < first_offered_write_) {
      restore();
      failed_early_ = true;
    }
    throw;
  }
  return kNone;
}

bool Plan::was_made(uint32_t value) const {
  for (size_t at = failed_at_; at < instructions_.size(); ++at)
    if (const Program::Step* step = instructions_[at].step)
      for (const Call::Operand& output : step->call.outputs())
        if (output.memory == value) return false;
  return true;
}

void Plan::end() noexcept {
  first_offered_write_ = kNone;
  for (uint32_t value : given_) put(value, nowhere_);
  for (uint32_t value : fresh_) put(value, nowhere_);
}

}  // namespace tapegrad
