#include "core/call_cache.h"

#include "core/error.h"

namespace tapegrad {

namespace {

// Whether the elements fill a run of memory, in whatever order.
bool is_dense(const TensorImpl& x) {
  int64_t reach = 1;
  for (int64_t d = 0; d < x.dim(); ++d) {
    auto i = static_cast<size_t>(d);
    if (x.size(i) > 1) reach += (x.size(i) - 1) * x.stride(i);
  }
  return reach == x.numel();
}

// Whether the call writes all of a storage that nobody has written before.
bool makes(const OpCall& call, const TensorImpl& output) {
  const Storage& storage = output.storage();
  if (output.offset() != 0 || storage.version() != 0) return false;
  if (static_cast<size_t>(output.numel()) * itemsize(output.dtype()) != storage.nbytes())
    return false;
  if (!output.is_contiguous() && !is_dense(output)) return false;
  for (const TensorImpl* input : call.inputs)
    if (&input->storage() == &storage) return false;
  return true;
}

}  // namespace

CallCache::State CallCache::start(Mode mode) {
  if (mode == Mode::Record) kept_.clear();
  return std::exchange(state_of_run_, State{mode, 0});
}

bool CallCache::is_chosen(const OpCall& call) {
  auto [found, is_new] = chosen_.try_emplace(&call.op, false);
  if (is_new) found->second = wants_(state_, call.op.name);
  if (!found->second) return false;
  for (const TensorImpl* output : call.outputs)
    if (!makes(call, *output)) return false;
  return true;
}

void CallCache::keep(const OpCall& call) {
  if (state_of_run_.mode != Mode::Record || !is_chosen(call)) return;
  Kept kept{&call.op, {}, {}};
  for (const TensorImpl* output : call.outputs) {
    kept.outputs.emplace_back(output->bare_alias());
    kept.versions.push_back(output->storage().version());
  }
  kept_.push_back(std::move(kept));
}

bool CallCache::take(const OpCall& call) {
  if (state_of_run_.mode != Mode::Replay || !is_chosen(call)) return false;
  TAPEGRAD_CHECK(state_of_run_.next < kept_.size(), "checkpoint: the function called ",
                 call.op.name, " more often when it ran again: ", kept_.size(),
                 " results were kept");
  const Kept& kept = kept_[state_of_run_.next];
  bool fits = kept.op == &call.op && kept.outputs.size() == call.outputs.size();
  for (size_t i = 0; fits && i < call.outputs.size(); ++i)
    fits = kept.outputs[i].dtype() == call.out(i).dtype() &&
           same_sizes(kept.outputs[i].sizes(), call.out(i).sizes()) &&
           same_sizes(kept.outputs[i].strides(), call.out(i).strides());
  TAPEGRAD_CHECK(fits, "checkpoint: when the function ran again, its call number ",
                 state_of_run_.next, " whose result was kept was ", call.op.name, " of shape ",
                 to_string(call.out().sizes()), ", the first time it was ", kept.op->name,
                 " of shape ", to_string(kept.outputs[0].sizes()));
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    TAPEGRAD_CHECK(allow_mutation_ || kept.outputs[i]->storage().version() == kept.versions[i],
                   "checkpoint: the kept result of ", call.op.name,
                   " has been written in place since; use an out-of-place op there, leave the op "
                   "out of the policy, or pass allow_cache_entry_mutation=True");
    call.outputs[i]->set_storage(kept.outputs[i]->storage_ref(), kept.outputs[i].dtype());
  }
  ++state_of_run_.next;
  return true;
}

}  // namespace tapegrad
