#include "python/graph_plan.h"

#include <algorithm>

#include "core/device.h"
#include "core/error.h"
#include "core/lane.h"
#include "core/random.h"
#include "cuda/context.h"
#include "cuda/held_calls.h"
#include "cuda/stream.h"
#include "intercept/host_bytes.h"

namespace tapegrad::python {

namespace {

constexpr int64_t kAlignment = 256;  // of addresses, as far as kernels and libraries look at it

Device cuda_device(int index) { return {DeviceType::CUDA, static_cast<uint8_t>(index)}; }

cuda::StreamHandle capture_stream(int device) {
  static cuda::StreamHandle streams[kMostDevices] = {};
  if (!streams[device]) streams[device] = cuda::create_stream(device);
  return streams[device];
}

}  // namespace

GraphPlan::GraphPlan(const Program& program, std::vector<Plan::Home> homes, int device)
    : TracePlan(program),
      device_(device),
      homes_(std::move(homes)),
      is_live_(program.steps().size()),
      memory_(program.values().size()),
      is_held_(program.values().size()),
      places_(program.values().size()),
      given_(program.values().size()),
      fresh_(program.values().size()),
      is_offered_(program.values().size()) {
  TAPEGRAD_CHECK_AS(ValueError, homes_.size() == program.values().size(), "plan: expected ",
                    program.values().size(), " homes, got ", homes_.size());
  for (size_t i = 0; i < program.steps().size(); ++i) {
    const Program::Step& step = program.steps()[i];
    attributes_.emplace_back(step.call.attributes().begin(), step.call.attributes().end());
    is_live_[i] = !step.call.op();
    for (const Call::Operand& each : step.call.all())
      if (!each.is_literal() && each.device.is_cpu()) is_live_[i] = true;
  }
}

void GraphPlan::set_random(uint64_t seed, uint64_t begin, uint64_t end) {
  TAPEGRAD_CHECK_AS(ValueError, begin <= end, "the generator of the device was seeded");
  for (size_t i = 0; i < attributes_.size(); ++i) {
    const Op* op = program_.steps()[i].call.op();
    if (!op || program_.steps()[i].call.outputs()[0].device.is_cpu()) continue;
    auto place_of = [&](std::string_view name) {
      return std::ranges::find_if(op->attributes,
                                  [&](std::string_view each) { return each == name; });
    };
    if (place_of("seed") == op->attributes.end() || place_of("offset") == op->attributes.end())
      continue;
    if (place_of("dropout") != op->attributes.end() &&
        attributes_[i][op->attribute("dropout")].as_double() == 0)
      continue;
    Scalar& used = attributes_[i][op->attribute("seed")];
    Scalar& offset = attributes_[i][op->attribute("offset")];
    const auto from = static_cast<uint64_t>(offset.as_int());
    TAPEGRAD_CHECK_AS(ValueError,
                      static_cast<uint64_t>(used.as_int()) == seed && begin <= from && from <= end,
                      op->name, " draws from a generator of its own");
    TAPEGRAD_CHECK_AS(ValueError, !is_live_[i], op->name, " draws for a tensor of the CPU");
    used = default_generator(cuda_device(device_)).initial_seed();
    offset = Generator::kMark + (from - begin);
  }
  counters_ = end - begin;
}

// ---- capturing

void GraphPlan::find_parts() {
  parts_.clear();
  for (size_t i = 0; i < is_live_.size(); ++i) {
    if (is_live_[i]) {
      parts_.push_back({i, i + 1, nullptr});
    } else if (parts_.empty() || !parts_.back().graph) {
      parts_.push_back({i, i + 1, std::make_unique<cuda::Graph>()});
    } else {
      parts_.back().end = i + 1;
    }
  }
}

void GraphPlan::check_guards() const {
  TAPEGRAD_CHECK_AS(ValueError, last_guard_ == kNone || first_outside_write_ > last_guard_,
                    "it looks at a value of a CUDA tensor after it has written memory that existed "
                    "before");
}

// Memory that is there before anything runs, and stays.
void GraphPlan::find_memory() {
  const Device device = cuda_device(device_);
  for (size_t i = 0; i < is_live_.size(); ++i) {
    const Program::Step& step = program_.steps()[i];
    if (step.is_guard()) last_guard_ = i;
    for (const Call::Operand& each : step.call.outputs())
      if (is_fixed(each.memory)) first_outside_write_ = std::min(first_outside_write_, i);
    if (!is_live_[i]) continue;
    for (const Call::Operand& each : step.call.all())
      if (!each.is_literal()) is_held_[each.memory] = true;
  }
  for (uint32_t i = 0; i < memory_.size(); ++i) {
    const Program::Value& value = program_.values()[i];
    const Plan::Home& home = homes_[i];
    if (home.kind == Kind::Fixed) {
      TAPEGRAD_CHECK_AS(ValueError, home.storage && home.storage->nbytes() == value.nbytes,
                        "plan: value ", i, " is given other memory than the program saw");
      memory_[i] = home.storage;
    } else if (home.kind == Kind::Given && is_on_device(i)) {
      // As far from a boundary as it was: kernels are chosen by that.
      places_[i] = -(value.used.begin - value.used.begin % kAlignment);
      memory_[i] = Storage::allocate(static_cast<size_t>(value.used.end + places_[i]), device);
    } else if (home.kind == Kind::Fresh || home.kind == Kind::Kept) {
      is_held_[i] = true;
    }
  }
  // What is first written between graphs.
  for (size_t i = 0; i < is_live_.size(); ++i) {
    if (!is_live_[i]) continue;
    for (const Call::Operand& each : program_.steps()[i].call.outputs())
      if (!memory_[each.memory] && homes_[each.memory].kind != Kind::Given &&
          program_.values()[each.memory].first_write == i)
        memory_[each.memory] = Storage::allocate(program_.values()[each.memory].nbytes,
                                                 program_.values()[each.memory].device);
  }
}

void GraphPlan::capture() {
  TAPEGRAD_CHECK_AS(ValueError, !cuda::capture_underway, "another CUDA graph is being captured");
  find_parts();
  find_memory();
  check_guards();
  pool_ = cuda::new_pool_id();
  cuda::synchronize(device_);
  const cuda::DeviceGuard guard(device_);
  try {
    for (Part& part : parts_) {
      if (part.graph) capture_part(part);
      else drop_used(part.begin);
    }
  } catch (const Error& error) {
    parts_.clear();
    throw ValueError(concat("it cannot be captured in a CUDA graph: ", error.text));
  }
  is_captured_ = true;
}

void GraphPlan::capture_part(Part& part) {
  const LaneScope back(current_lane);  // whatever is entered below
  cuda::set_current_stream(device_, capture_stream(device_));
  part.graph->begin_capture(pool_, cuda::CaptureMode::ThreadLocal);
  try {
    for (size_t i = part.begin; i < part.end; ++i) {
      call_step(i);
      drop_used(i);
    }
    part.graph->end_capture();
  } catch (...) {
    part.graph->abort_capture();
    throw;
  }
}

void GraphPlan::drop_used(size_t step) {
  for (const Call::Operand& each : program_.steps()[step].call.all()) {
    if (each.is_literal() || is_held_[each.memory]) continue;
    const Kind kind = homes_[each.memory].kind;
    if (kind != Kind::Fixed && kind != Kind::Given &&
        program_.values()[each.memory].last_use == step)
      memory_[each.memory] = nullptr;
  }
}

Ref<TensorImpl> GraphPlan::operand(const Call& call, const Call::Operand& operand) {
  if (operand.is_literal()) return call.tensor(operand, nullptr);
  const auto item = static_cast<int64_t>(itemsize(operand.dtype));
  const uint32_t value = operand.memory;
  if (homes_[value].kind == Kind::Given && !is_on_device(value))
    return call.tensor(operand, given_[value].storage, given_[value].shift / item);
  Ref<Storage>& storage = memory_[value];
  if (!storage)
    storage = Storage::allocate(program_.values()[value].nbytes, program_.values()[value].device);
  TAPEGRAD_CHECK_AS(ValueError, places_[value] % item == 0,
                    "an argument begins in the middle of an element");
  return call.tensor(operand, storage, places_[value] / item);
}

void GraphPlan::call_step(size_t step) {
  const Call& call = program_.steps()[step].call;
  std::vector<Ref<TensorImpl>> tensors;
  std::vector<TensorImpl*> operands;
  const auto inputs = call.inputs();
  for (const Call::Operand& each : call.all()) {
    // An in-place call's output is its input.
    auto same = inputs.end();
    if (operands.size() >= inputs.size())
      same = std::ranges::find_if(inputs, [&](const Call::Operand& input) {
        return input.memory == each.memory && call.placement(input) == call.placement(each);
      });
    if (same == inputs.end()) tensors.push_back(operand(call, each));
    operands.push_back(same == inputs.end() ? tensors.back().get()
                                            : operands[static_cast<size_t>(same - inputs.begin())]);
  }
  const std::span<TensorImpl* const> all(operands);
  dispatch(*call.op(), all.first(inputs.size()), attributes_[step], all.subspan(inputs.size()));
}

// ---- running

bool GraphPlan::give(uint32_t value, const Ref<Storage>& storage, int64_t shift) {
  const ByteRange used = program_.values()[value].used;
  if (used.begin + shift < 0 || used.end + shift > static_cast<int64_t>(storage->nbytes()))
    return false;
  if (is_on_device(value)) {
    const auto base = static_cast<int64_t>(reinterpret_cast<uintptr_t>(storage->data()));
    if ((base + shift) % kAlignment != 0) return false;
  } else if (shift % 16 != 0) {
    return false;
  }
  given_[value] = {storage, shift};
  return true;
}

bool GraphPlan::offer(uint32_t value, const Ref<Storage>& storage) {
  if (memory_[value] != storage) return false;
  is_offered_[value] = true;
  return true;
}

bool GraphPlan::is_ready() {
  if (!is_captured_ || cuda::current_device() != device_) return false;
  for (uint32_t i = 0; i < memory_.size(); ++i)
    if (homes_[i].kind == Kind::Kept && memory_[i] &&
        memory_[i]->use_count() != 1u + is_offered_[i])
      return false;
  return true;
}

void GraphPlan::copy_given(bool back) {
  for (uint32_t i = 0; i < given_.size(); ++i) {
    const Program::Value& value = program_.values()[i];
    if (!given_[i].storage || !is_on_device(i) || value.used.is_empty()) continue;
    if (back && !value.is_written) continue;
    const auto [storage, shift] = given_[i];
    const Tensor outside =
        part_of_storage(storage, value.used.begin + shift, value.used.end + shift);
    const Tensor inside =
        part_of_storage(memory_[i], value.used.begin + places_[i], value.used.end + places_[i]);
    copy_unseen(back ? inside : outside, back ? outside : inside);
  }
}

void GraphPlan::make_fresh() {
  for (uint32_t i = 0; i < homes_.size(); ++i) {
    if (homes_[i].kind == Kind::Kept && memory_[i]) memory_[i]->bump_version();
    if (homes_[i].kind != Kind::Fresh) continue;
    fresh_[i] = Storage::allocate(program_.values()[i].nbytes, program_.values()[i].device);
    if (memory_[i] && fresh_[i]->nbytes())
      copy_unseen(whole_storage(memory_[i]), whole_storage(fresh_[i]));
  }
}

bool GraphPlan::run_step(size_t number, std::vector<char>& found) {
  const Program::Step& step = program_.steps()[number];
  if (step.call.op()) {
    call_step(number);
    return true;
  }
  const Tensor shown(operand(step.call, step.call.all()[0]));
  if (step.is_constant()) {
    put_bytes(shown, step.bytes);
    return true;
  }
  found = bytes_of(shown);
  return found == step.bytes;
}

size_t GraphPlan::run(std::vector<char>& found) {
  failed_early_ = true;
  cuda::run_held_calls();
  const cuda::StreamHandle stream = cuda::current_stream(device_);
  if (has_run_ && last_stream_ != stream) cuda::order_streams(device_, last_stream_, stream);
  last_stream_ = stream;
  has_run_ = true;
  copy_given(false);
  for (Part& part : parts_) {
    failed_early_ = failed_early_ && part.end <= first_outside_write_;
    if (part.graph) part.graph->replay();
    else if (!run_step(part.begin, found)) return part.begin;
  }
  failed_early_ = false;
  copy_given(true);
  make_fresh();
  if (counters_) default_generator(cuda_device(device_)).reserve(counters_);
  note_written();
  return kNone;
}

void GraphPlan::note_written() {
  written_tensors_.clear();
  written_.clear();
  std::vector<bool> seen(homes_.size());
  for (const Program::Step& step : program_.steps())
    for (const Call::Operand& each : step.call.outputs()) {
      const Kind kind = homes_[each.memory].kind;
      if (seen[each.memory] || (kind != Kind::Fixed && kind != Kind::Given)) continue;
      seen[each.memory] = true;
      const auto& [storage, shift] = given_[each.memory];
      const auto item = static_cast<int64_t>(itemsize(each.dtype));
      written_tensors_.push_back(kind == Kind::Fixed
                                     ? step.call.tensor(each, memory_[each.memory])
                                     : step.call.tensor(each, storage, shift / item));
      written_.push_back(written_tensors_.back().get());
    }
}

const Ref<Storage>& GraphPlan::memory(uint32_t value) const {
  return homes_[value].kind == Kind::Fresh ? fresh_[value] : memory_[value];
}

void GraphPlan::end() noexcept {
  for (Given& each : given_) each = {};
  for (Ref<Storage>& each : fresh_) each = nullptr;
  std::fill(is_offered_.begin(), is_offered_.end(), false);
  written_tensors_.clear();
  written_.clear();
}

}  // namespace tapegrad::python
