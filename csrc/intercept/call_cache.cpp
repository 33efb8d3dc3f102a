#include "intercept/call_cache.h"

#include "core/error.h"
#include "core/layout.h"
#include "core/random.h"

namespace tapegrad {

namespace {

// Whether the call writes all of a storage that nobody has written before and no other tensor shows:
// one would not see other memory in its place.
bool makes(const OpCall& call, const TensorImpl& output) {
  const Storage& storage = output.storage();
  if (storage.use_count() != 1) return false;
  if (output.offset() != 0 || storage.version() != 0) return false;
  if (static_cast<size_t>(output.numel()) * itemsize(output.dtype()) != storage.nbytes())
    return false;
  if (!is_dense(output)) return false;
  for (const TensorImpl* input : call.inputs)
    if (&input->storage() == &storage) return false;
  return true;
}

bool makes_outputs(const OpCall& call) {
  for (const TensorImpl* output : call.outputs)
    if (!makes(call, *output)) return false;
  return true;
}

uint64_t drawn_since(RandomStream before, const Generator& generator) {
  const RandomStream now = generator.state();
  return before.seed == now.seed && now.offset > before.offset ? now.offset - before.offset : 0;
}

[[maybe_unused]] const bool installed =
    install(Interceptor::Reuse, [](const OpCall& call, const Next& next) {
  if (reusing->begin(call)) return;
  next(call);
  reusing->end(call);
});

}  // namespace

CallCache::Run CallCache::start(Mode mode) {
  if (mode == Mode::Record) clear();
  return std::exchange(run_, Run{mode, {}});
}

void CallCache::clear() {
  for (auto& [op, calls] : calls_) {
    calls.results.clear();
    calls.kept = 0;
  }
  makers_.clear();
  kept_ = 0;
}

CallCache::Calls& CallCache::calls_of(const Op& op) {
  auto found = calls_.find(&op);
  if (found != calls_.end()) return found->second;
  bool are_wanted = chooser_.wants(chooser_.state, op.name);
  return calls_.try_emplace(&op, Calls{are_wanted, 0, {}}).first->second;
}

// A call writes to the result of an earlier one. If the program did it, the version will tell.
void CallCache::note_writes(const OpCall& call) {
  for (const TensorImpl* output : call.outputs) {
    auto maker = makers_.find(&output->storage());
    if (maker == makers_.end()) continue;
    auto [op, number] = maker->second;
    calls_.find(op)->second.results[number].is_overwritten = true;
    makers_.erase(maker);
  }
}

bool CallCache::decide(const OpCall& call, Result& result) {
  if (!chooser_.decides) return true;
  const Generator &host = default_generator(), &device = default_generator(call.out().device());
  const RandomStream before = host.state(), beside = device.state();
  bool is_kept = chooser_.decides(chooser_.state, call);
  result.drawn = drawn_since(before, host);
  if (&device != &host) result.drawn_beside = drawn_since(beside, device);
  return is_kept;
}

bool CallCache::begin(const OpCall& call) {
  if (run_.mode == Mode::Off) return false;
  Calls& calls = calls_of(call.op);
  if (!calls.are_wanted) return false;
  if (run_.mode == Mode::Record) {
    calls.results.emplace_back();  // here already, so that a call that fails is counted
    return false;
  }
  size_t number = run_.begun[&call.op]++;
  if (number >= calls.results.size()) {
    // Where nothing was kept there is nothing to mix up.
    TAPEGRAD_CHECK(calls.kept == 0, "checkpoint: call ", number, " of ", call.op.name,
                   " (counting from 0) is new in the second run: the first run made ",
                   calls.results.size(), " and kept the results of ", calls.kept,
                   "; the function must do the same each time");
    return false;
  }
  const Result& result = calls.results[number];
  // What the function draws next must be what it drew the first time.
  if (result.drawn) default_generator().reserve(result.drawn);
  if (result.drawn_beside) default_generator(call.out().device()).reserve(result.drawn_beside);
  return take(call, number, result);
}

void CallCache::end(const OpCall& call) {
  if (run_.mode != Mode::Record) return;
  if (!makers_.empty()) note_writes(call);
  if (!calls_of(call.op).are_wanted || !makes_outputs(call)) return;
  Result result;
  bool is_kept = decide(call, result);
  Calls& calls = calls_of(call.op);
  if (calls.results.empty()) return;  // the decision let go of everything
  if (is_kept) {
    result.call = Call(call);
    for (const TensorImpl* output : call.outputs) {
      result.outputs.emplace_back(output->bare_alias());
      result.versions.push_back(output->storage().version());
      makers_[&output->storage()] = {&call.op, calls.results.size() - 1};
    }
    ++calls.kept;
    ++kept_;
  }
  calls.results.back() = std::move(result);
}

bool CallCache::take(const OpCall& call, size_t number, const Result& result) {
  if (result.outputs.empty() || !makes_outputs(call)) return false;
  // See Note [Memory that is written unseen]. Who writes there, writes again.
  for (const Output& output : result.outputs)
    if (output->storage().has(Storage::kWasOut)) return false;
  const Call& kept = result.call;
  bool fits = kept.outputs().size() == call.outputs.size();
  for (size_t i = 0; fits && i < call.outputs.size(); ++i)
    fits = kept.placement(kept.outputs()[i]) == placement_of(call.out(i));
  TAPEGRAD_CHECK(fits, "checkpoint: call ", number, " of ", call.op.name,
                 " (counting from 0) gives shape ", to_string(call.out().sizes()),
                 " in the second run, but its result kept from the first run has shape ",
                 to_string(kept.placement(kept.outputs()[0]).sizes),
                 "; the function must do the same each time");
  bool is_written = false;
  for (size_t i = 0; i < call.outputs.size(); ++i)
    is_written |= result.outputs[i]->storage().version() != result.versions[i];
  TAPEGRAD_CHECK(allow_mutation_ || !is_written, "checkpoint: the kept result of ", call.op.name,
                 " has been written in place since; use an out-of-place op there, leave the op "
                 "out of the policy, or pass allow_cache_entry_mutation=True");
  if (result.is_overwritten && !is_written) return false;
  for (size_t i = 0; i < call.outputs.size(); ++i)
    call.outputs[i]->set_storage(result.outputs[i]->storage_ref(), result.outputs[i]->dtype());
  return true;
}

}  // namespace tapegrad
