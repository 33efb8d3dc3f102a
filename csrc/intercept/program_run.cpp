// Programs from their parts, and running them.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "intercept/host_bytes.h"
#include "intercept/program.h"

namespace tapegrad {

// ---- from parts

namespace {

constexpr size_t kLargest = size_t{1} << 62;

int64_t checked_bytes(const char* op, const Placement& placement) {
  const int64_t numel = checked_numel(op, placement.sizes);
  int64_t nbytes;
  TAPEGRAD_CHECK_AS(ValueError,
                    !__builtin_mul_overflow(numel, int64_t(itemsize(placement.dtype)), &nbytes), op,
                    ": an operand of shape ", to_string(placement.sizes), " is too large");
  return nbytes;
}

void check_operand(const char* op, const std::vector<Program::Value>& values, const Call& call,
                   const Call::Operand& operand) {
  if (operand.is_literal()) {
    const bool is_known = operand.dtype == DType::Float64 || operand.dtype == DType::Int64 ||
                          operand.dtype == DType::Bool;
    TAPEGRAD_CHECK_AS(ValueError, is_known, op, ": expected a literal of float64, int64 or bool");
    return;
  }
  TAPEGRAD_CHECK_AS(ValueError, operand.memory < values.size(), op, ": expected one of ",
                    values.size(), " values, got value ", operand.memory);
  const Program::Value& value = values[operand.memory];
  const Placement placement = call.placement(operand);
  TAPEGRAD_CHECK_AS(ValueError, placement.device == value.device, op, ": value ", operand.memory,
                    " is on ", to_string(value.device), ", its operand on ",
                    to_string(placement.device));
  checked_bytes(op, placement);
  TAPEGRAD_CHECK_AS(ValueError, lies_within(placement, value.nbytes), op, ": an operand of shape ",
                    to_string(placement.sizes), ", strides ", to_string(placement.strides),
                    " and offset ", placement.offset, " does not lie within the ", value.nbytes,
                    " bytes of value ", operand.memory);
}

// Whether the elements lie in one piece from the first on: then they can be moved as bytes.
bool is_one_piece(const char* op, const Placement& placement) {
  const ByteRange range = byte_range(placement);
  const auto item = static_cast<int64_t>(itemsize(placement.dtype));
  return range.is_empty() || (range.begin == placement.offset * item &&
                              range.end - range.begin == checked_bytes(op, placement));
}

void check_move(const Call& call) {
  const char* op = call.op()->name;
  TAPEGRAD_CHECK_AS(ValueError, call.inputs().size() == 1 && !call.inputs()[0].is_literal(), op,
                    ": expected one tensor, got ", call.inputs().size(), " operands");
  const Placement from = call.placement(call.inputs()[0]), to = call.placement(call.outputs()[0]);
  const bool fits = from.dtype == to.dtype && same_sizes(from.sizes, to.sizes) &&
                    is_one_piece(op, from) && is_one_piece(op, to);
  TAPEGRAD_CHECK_AS(ValueError, fits, op, ": an operand of shape ", to_string(from.sizes),
                    " does not fit a result of shape ", to_string(to.sizes));
}

Device kernel_device_of(const Call& call) {
  const Device output = call.outputs()[0].device;
  const Device input = call.inputs().empty() ? output : call.inputs()[0].device;
  return kernel_device(*call.op(), input, output);
}

// What can be told of a call without knowing what its op does.
void check_call(const Call& call) {
  const Op& op = *call.op();
  TAPEGRAD_CHECK_AS(ValueError, op.takes(call.attributes().size()), op.name, ": ",
                    call.attributes().size(), " attributes do not fit those of the op");
  if (op.traits & kMoves) check_move(call);
  const Device device = kernel_device_of(call);
  TAPEGRAD_CHECK_AS(ValueError, device.is_meta() || op.kernels[static_cast<int>(device.type)],
                    op.name, ": no kernel for device '", to_string(device), "'");
  if (!(op.traits & kAnyRank) || (op.traits & kContracts)) return;
  const Sizes sizes = call.placement(call.outputs()[0]).sizes;
  for (const Call::Operand& operand : call.all())
    TAPEGRAD_CHECK_AS(ValueError, can_expand(call.placement(operand).sizes, sizes), op.name,
                      ": an operand of shape ", to_string(call.placement(operand).sizes),
                      " does not fit a result of shape ", to_string(sizes));
}

}  // namespace

uint32_t Program::add_value(size_t nbytes, Device device, bool is_made) {
  TAPEGRAD_CHECK_AS(ValueError, nbytes <= kLargest && values_.size() < Call::Operand::kLiteral - 1,
                    "program: a value of ", nbytes, " bytes is larger than can be addressed");
  values_.push_back({nullptr, nbytes, device, is_made});
  return static_cast<uint32_t>(values_.size() - 1);
}

void Program::add_step(Step step) {
  const char* name = step.name();
  const Call& call = step.call;
  for (const Call::Operand& operand : call.all()) check_operand(name, values_, call, operand);
  for (const Call::Operand& output : call.outputs())
    TAPEGRAD_CHECK_AS(ValueError, !output.is_literal(), name, ": a literal cannot be written");
  if (call.op()) {
    TAPEGRAD_CHECK_AS(ValueError, !call.outputs().empty(), name, ": expected an output, got none");
    check_call(call);
  } else {
    TAPEGRAD_CHECK_AS(ValueError, call.all().size() == 1 && !call.all()[0].is_literal(), name,
                      ": expected one operand, got ", call.all().size());
    const int64_t expected = checked_bytes(name, call.placement(call.all()[0]));
    TAPEGRAD_CHECK_AS(ValueError, step.bytes.size() == static_cast<size_t>(expected), name,
                      ": expected ", expected, " bytes, got ", step.bytes.size());
    TAPEGRAD_CHECK_AS(ValueError, !call.all()[0].device.is_meta(), name,
                      ": there are no bytes on the meta device");
  }
  push(std::move(step));
}

bool operator==(const Program& a, const Program& b) {
  auto same_value = [](const Program::Value& x, const Program::Value& y) {
    return x.nbytes == y.nbytes && x.device == y.device && x.is_made == y.is_made;
  };
  auto same_step = [](const Program::Step& x, const Program::Step& y) {
    return x.call == y.call && x.bytes == y.bytes;
  };
  return std::ranges::equal(a.values_, b.values_, same_value) &&
         std::ranges::equal(a.steps_, b.steps_, same_step);
}

// ---- running

namespace {

class Run {
 public:
  Run(const Program& program, const char* who, std::vector<Program::Bound>& memory,
      std::span<const uint32_t> kept)
      : program_(program), who_(who), memory_(memory), is_ours_(memory.size()) {
    for (size_t i = 0; i < memory_.size(); ++i) is_ours_[i] = !memory_[i].storage;
    is_kept_.resize(memory.size());
    for (uint32_t each : kept) is_kept_[each] = true;
  }

  void execute() {
    save();
    try {
      for (size_t i = 0; i < program_.steps().size(); ++i) {
        step(program_.steps()[i]);
        drop_used(i);
      }
    } catch (...) {
      restore();
      throw;
    }
  }

 private:
  struct Saved {
    Tensor place, content;
  };

  // What is written before the last guard may have to be put back.
  void save() {
    size_t last_guard = 0;
    for (size_t i = 0; i < program_.steps().size(); ++i)
      if (program_.steps()[i].is_guard()) last_guard = i;
    for (size_t i = 0; i < memory_.size(); ++i) {
      const Program::Value& value = program_.values()[i];
      if (is_ours_[i] || !value.is_written || value.first_write >= last_guard) continue;
      if (value.used.is_empty() || value.device.is_meta()) continue;
      const auto& [storage, shift] = memory_[i];
      Tensor place = part_of_storage(storage, value.used.begin + shift, value.used.end + shift);
      const Tensor content = empty_like(place);
      copy_unseen(place, content);
      saved_.push_back({place, content});
    }
  }
  void restore() {
    for (const Saved& each : saved_) copy_unseen(each.content, each.place);
  }

  void step(const Program::Step& step) {
    const Call& call = step.call;
    tensors_.clear();
    operands_.clear();
    for (const Call::Operand& operand : call.inputs()) add(call, operand);
    for (const Call::Operand& operand : call.outputs()) {
      // An in-place call's output is its input.
      auto same = std::ranges::find_if(call.inputs(), [&](const Call::Operand& input) {
        return input.memory == operand.memory && call.placement(input) == call.placement(operand);
      });
      if (same == call.inputs().end()) add(call, operand);
      else operands_.push_back(operands_[static_cast<size_t>(same - call.inputs().begin())]);
    }
    std::span<TensorImpl* const> all(operands_);
    const size_t inputs = call.inputs().size();
    if (call.op())
      return dispatch(*call.op(), all.first(inputs), call.attributes(), all.subspan(inputs));
    const Tensor operand(operands_[0]);
    if (step.is_guard()) return check(step, operand);
    put_bytes(operand, step.bytes);
    note_constant(operand);
  }

  void add(const Call& call, const Call::Operand& operand) {
    if (operand.is_literal()) {
      tensors_.push_back(call.tensor(operand, nullptr));
    } else {
      auto& [storage, shift] = memory_[operand.memory];
      const Program::Value& value = program_.values()[operand.memory];
      if (!storage) storage = Storage::allocate(value.nbytes, value.device);
      const auto item = static_cast<int64_t>(itemsize(operand.dtype));
      TAPEGRAD_CHECK_AS(ValueError, shift % item == 0, who_, ": the tensor given for value ",
                        operand.memory, " begins in the middle of an element of ",
                        tapegrad::name(operand.dtype), "; pass a clone");
      tensors_.push_back(call.tensor(operand, storage, shift / item));
    }
    operands_.push_back(tensors_.back().get());
  }

  void check(const Program::Step& step, const Tensor& x) {
    const Tensor host = x->device().is_cpu() ? x : copy_to_host(x);
    if (captures) capture_read(x, host);
    TAPEGRAD_CHECK(bytes_of(host) == step.bytes, who_,
                   ": a guard does not hold: ", step.line.empty() ? "" : "at ", step.line,
                   step.line.empty() ? "" : ", ", "the program looked at a tensor of shape ",
                   to_string(x.sizes()),
                   " and went on from there, but its values are different now; record the "
                   "program again with these inputs");
  }

  // Memory that no later step uses.
  void drop_used(size_t step) {
    tensors_.clear();
    for (const Call::Operand& operand : program_.steps()[step].call.all()) {
      if (operand.is_literal() || !is_ours_[operand.memory] || is_kept_[operand.memory]) continue;
      if (program_.values()[operand.memory].last_use == step)
        memory_[operand.memory].storage = nullptr;
    }
  }

  const Program& program_;
  const char* who_;
  std::vector<Program::Bound>& memory_;
  std::vector<bool> is_ours_, is_kept_;
  std::vector<Saved> saved_;
  std::vector<Ref<TensorImpl>> tensors_;
  std::vector<TensorImpl*> operands_;
};

}  // namespace

std::vector<Program::Bound> Program::run(const char* who, std::vector<Bound> memory,
                                         std::span<const uint32_t> kept) const {
  TAPEGRAD_CHECK(refusal_.empty(), who, ": ", refusal_, ", so that the ops cannot run again");
  Run(*this, who, memory, kept).execute();
  return memory;
}

void Program::replay() const {
  CaptureScope off(nullptr);
  std::vector<Bound> memory;
  for (const Value& value : values_) memory.push_back({value.storage});
  Run(*this, "replay", memory, {}).execute();
}

}  // namespace tapegrad
