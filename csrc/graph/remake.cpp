// Making calls again: how values that are wanted and absent come back.
//
// Note [Calls are made again in their lane]
// A call is made again in the lane that it ran in (Note [Lanes]), so that the memory of its results belongs there as
// it did. What ordered lanes when the program ran is past: the lane waits for the one that asks and for those
// that its operands were computed in, and the one that asks waits for it. Whoever reads the value later in yet
// another lane waits as well.
#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "graph/budget.h"
#include "graph/recipe_parts.h"
#include "intercept/profile.h"

namespace tapegrad {

namespace {

// Whether a call that is made again is to fill in a value.
bool is_awaited(const Value* value) { return value && !value->is_present() && value->is_wanted(); }

// The storage in which an awaited value will lie, without bytes yet.
Ref<Storage> place_for(Value& value) {
  if (value.storage) return Ref<Storage>(value.storage);
  Ref<Storage> storage = Budget::empty_storage(value.nbytes, value.device);
  attach(value, *storage);
  return storage;
}

// The first input of the call, if the first output may be written over it: nobody else needs it now.
Value* find_donor(const Recipe& recipe) {
  const Call& call = recipe.call();
  if (!(recipe.op().traits & kOverwrites) || call.inputs().empty() ||
      call.inputs()[0].is_literal() || !recipe.bases().empty())
    return nullptr;
  const Value* output = recipe.written()[0];
  Value& donor = recipe.value(call.inputs()[0]);
  bool suits = donor.recipe && donor.locks == 1 && donor.is_sole() && output &&
               donor.nbytes == output->nbytes && donor.lane == recipe.lane() &&
               !donor.storage->has(Storage::kLeaf) &&
               call.placement(call.inputs()[0]) == call.placement(call.outputs()[0]) &&
               !Budget::is_too_small(donor.nbytes);
  if (!suits) return nullptr;
  Survey survey;
  Recipes::survey(donor, survey);
  return survey.possible ? &donor : nullptr;
}

// A call as it is made again: the storages of its outputs. Awaited values get their bytes, other
// results go nowhere.
struct Remade {
  explicit Remade(const Recipe& recipe) : recipe(recipe) {
    try {
      for (size_t i = 0; i < recipe.written().size(); ++i) add(i);
      for (const Recipe::Read& base : recipe.bases()) {
        copy_bytes(storages[base.output], Ref<Storage>(base.value->storage));
      }
    } catch (...) {
      undo();
      throw;
    }
  }

  // Where an input is read: memory that the call overwrites is read there, as it was the first time.
  Ref<Storage> storage_of(const Call::Operand& input) const {
    if (input.is_literal()) return nullptr;
    const Value& value = recipe.value(input);
    if (&value == donor) return storages[0];
    for (const Recipe::Read& base : recipe.bases())
      if (base.value == &value) return storages[base.output];
    return Ref<Storage>(value.storage);
  }

  void run() {
    const Call& made = recipe.call();
    std::vector<Ref<TensorImpl>> tensors;
    std::vector<TensorImpl*> operands;
    for (const Call::Operand& input : made.inputs())
      tensors.push_back(made.tensor(input, storage_of(input)));
    for (size_t i = 0; i < storages.size(); ++i)
      tensors.push_back(made.tensor(made.outputs()[i], storages[i]));
    for (const Ref<TensorImpl>& tensor : tensors) operands.push_back(tensor.get());
    std::span<TensorImpl* const> all(operands);
    OpCall call{recipe.op(), all.first(made.inputs().size()), made.attributes(),
                all.subspan(made.inputs().size())};
    int64_t start = clock_ticks();
    try {
      run_without_interceptors(call);
    } catch (...) {
      undo();
      throw;
    }
    Budget::advance(recipe.cost());
    Budget::count_recomputed(recipe.cost(), clock_ticks() - start);
    for (Value* value : filled) {
      value->last_use = Budget::clock();
      value->lane = recipe.lane();
      value->is_remade = true;
      Budget::leave_component(*value);
      Budget::add_candidate(*value);
      release_inputs(*value);
    }
  }

  const Recipe& recipe;
  std::vector<Ref<Storage>> storages;
  std::vector<Value*> filled;
  Value* donor = nullptr;  // whose bytes became those of the first output

 private:
  void add(size_t output) {
    Value* value = recipe.written()[output];
    for (size_t k = 0; value && k < storages.size(); ++k)
      if (recipe.written()[k] == value) return storages.push_back(storages[k]);
    if (is_awaited(value)) return fill(*value);
    const Call& call = recipe.call();
    // One whose value is gone needs the bytes that it reaches over.
    size_t nbytes =
        value ? value->nbytes
              : static_cast<size_t>(byte_range(call.placement(call.outputs()[output])).end);
    for (const Recipe::Read& base : recipe.bases())
      if (base.output == output) nbytes = base.value->nbytes;
    storages.push_back(Storage::allocate(nbytes, call.outputs()[output].device));
    storages.back()->clear_fresh();
  }
  void fill(Value& value) {
    bool may_overwrite = storages.empty() && !Budget::try_room(value.nbytes, value.device);
    if (may_overwrite) donor = find_donor(recipe);
    if (!donor) Budget::make_room(value.nbytes, value.device);
    Ref<Storage> place = place_for(value);
    if (donor && may_overwrite) give_away(*place);
    else Budget::give_bytes(*place);
    if (value.needed > 0) hold(value, 1);
    filled.push_back(&value);
    storages.push_back(std::move(place));
  }
  // The donor is absent from now on, as if evicted.
  void give_away(Storage& to) {
    Ref<Storage> from(donor->storage);
    Budget::drop_candidate(*donor);
    Budget::move_bytes(*from, to);
    need_inputs(*donor);
    let_go(*donor);
  }
  void undo() noexcept {
    for (Value* value : filled) {
      Budget::take_bytes(*value->storage);
      let_go(*value);
    }
    filled.clear();
  }
};

void remake(const Recipe& recipe) {
  const Lane asking = current_lane, own = recipe.lane();
  if (own != asking) lane_calls.order(asking, own);
  for (const Recipe::Read& read : recipe.read()) await(*read.value, own);
  std::vector<Value*> filled;
  {
    const LaneScope scope(own);
    Remade made(recipe);
    made.run();
    filled = std::move(made.filled);
  }
  for (const Value* value : filled) await(*value, asking);
}

// A value on the way to be computed. What it is computed from stays until it is there.
struct Step {
  Ref<Value> value;
  Ref<Recipe> opened;
};

// How many calls it takes to compute a value, as far as they are counted.
size_t distance(Value& value) {
  std::vector<Value*> absent{&value};
  value.visited = ++visit_number;
  for (size_t at = 0; at < absent.size() && absent.size() < kFar; ++at) {
    if (!absent[at]->recipe) continue;
    for (const Recipe::Read& read : absent[at]->recipe->read()) {
      Value& input = *read.value;
      if (input.is_present() || input.visited == visit_number) continue;
      input.visited = visit_number;
      absent.push_back(&input);
    }
  }
  return absent.size();
}

// Adds the absent values that a call reads, to be computed from the last on: the farthest first, which
// takes most memory on its way. A near one that came before it would wait in memory all that time, and
// so would one for every call on the way.
void add_absent(std::vector<Step>& steps, const Recipe& recipe) {
  struct Absent {
    size_t distance;
    Value* value;
  };
  std::vector<Absent> absent;
  for (const Recipe::Read& read : recipe.read())
    if (!read.value->is_present()) absent.push_back({distance(*read.value), read.value});
  std::stable_sort(absent.begin(), absent.end(),
                   [](const Absent& a, const Absent& b) { return a.distance < b.distance; });
  for (const Absent& each : absent) steps.push_back({Ref<Value>(each.value), {}});
}

void open(Step& step) {
  step.opened = step.value->recipe;
  TAPEGRAD_CHECK(step.opened, "budget: an evicted value of ", step.value->nbytes,
                 " bytes cannot be computed again: its history was lost");
  for (const Recipe::Read& read : step.opened->read()) ++read.value->locks;
}

void close(Step& step) noexcept {
  if (!step.opened) return;
  for (const Recipe::Read& read : step.opened->read()) --read.value->locks;
  step.opened = nullptr;
}

}  // namespace

void Recipes::bring_back(Value& target) {
  NoBlockingSection keep_lock;  // nobody else may see values half-way
  std::vector<Step> steps;
  steps.push_back({Ref<Value>(&target), {}});
  try {
    while (!steps.empty()) {
      if (steps.back().value->is_present()) {
        close(steps.back());
        steps.pop_back();
        continue;
      }
      if (!steps.back().opened) open(steps.back());
      Ref<Recipe> recipe = steps.back().opened;
      size_t before = steps.size();
      add_absent(steps, *recipe);
      if (steps.size() == before) remake(*recipe);
    }
  } catch (...) {
    while (!steps.empty()) {
      close(steps.back());
      steps.pop_back();
    }
    throw;
  }
}

}  // namespace tapegrad
