#include "graph/recipe.h"

#include <cstring>
#include <deque>
#include <memory>

#include "core/error.h"
#include "core/parallel.h"
#include "graph/budget.h"
#include "graph/cost.h"
#include "graph/grad_mode.h"
#include "graph/node.h"
#include "graph/write_log.h"
#include "intercept/host_bytes.h"
#include "intercept/profile.h"

namespace tapegrad {

namespace {

// Sources up to this size are held for good as soon as something was computed from them: numbers that
// took part in an op are such.
constexpr size_t kTiny = 1024;
// A value up to this size is copied when it is overwritten and would be expensive to compute again:
// running statistics are such. Larger ones, such as activations that an in-place op overwrites, are
// copied only if they are needed.
constexpr size_t kSmall = size_t{8} << 10;
constexpr int64_t kExpensive = 100'000;  // see graph/cost.h
// An overwritten value that takes so many calls is given up, or the history of a buffer that a loop
// adds to would grow with the loop.
constexpr size_t kFar = 64;

// As Note [Freeing a long chain]: values that wait to be freed.
std::vector<Value*> doomed;
bool draining = false;
uint64_t visit_number = 0;

// ---- what is needed

// Bytes that the program holds as well cost nothing until it lets go of them. `ours` references are
// those of the caller.
void hold(Value& value, uint32_t ours = 0) {
  if (value.is_held) return;
  value.is_held = true;
  Storage& storage = *value.storage;
  if (storage.use_count() == storage.savers() + ours) add_saver(storage);
  else Budget::hold_uncounted(value);
  storage.retain();
}

void let_go(Value& value) noexcept {
  if (!value.is_held || value.is_pinned) return;
  value.is_held = false;
  Storage* storage = value.storage;
  if (value.uncounted >= 0) Budget::end_uncounted(value);
  else remove_saver(*storage);
  if (storage->savers() == 0) forget_writes(*storage);  // before the address is used again
  storage->release();
}

// The inputs of a value are needed from now on: it is wanted, and absent.
void need_inputs(Value& first) {
  std::vector<Value*> waiting{&first};
  while (!waiting.empty()) {
    Value& value = *waiting.back();
    waiting.pop_back();
    for (const Recipe::Read& read : value.recipe->read()) {
      Value& input = *read.value;
      bool was_wanted = input.is_wanted();
      if (input.needed++ > 0) continue;
      if (input.is_present()) hold(input);
      else if (!was_wanted) waiting.push_back(&input);
    }
  }
}

// They are no longer: it is present again, or nobody wants it.
void release_inputs(Value& first) noexcept {
  std::vector<Value*> waiting{&first};
  while (!waiting.empty()) {
    Value& value = *waiting.back();
    waiting.pop_back();
    for (const Recipe::Read& read : value.recipe->read()) {
      Value& input = *read.value;
      if (--input.needed > 0) continue;
      if (input.is_present()) let_go(input);
      else if (!input.is_wanted() && input.recipe) waiting.push_back(&input);
    }
  }
}

// A value that can no longer be computed forgets how it was: so chains that nobody can follow do not
// stay in memory.
void drop_if_lost(Value& value) noexcept {
  if (!value.recipe || value.is_wanted()) return;
  for (const Recipe::Read& read : value.recipe->read())
    if (read.value->is_lost()) return value.forget_recipe();
}

// ---- values and their storages

void attach(Value& value, Storage& storage) {
  value.storage = &storage;
  value.retain();
  storage.set_tracker(&value);
}

// The value of a storage; a new source if the storage was not known.
Value& value_of(Storage& storage) {
  if (Value* known = Recipes::find(storage)) return *known;
  auto source = Ref<Value>::adopt(new Value(storage.nbytes()));
  attach(*source, storage);
  return *source;
}

void copy_bytes(const Tensor& to, const Tensor& from) {
  const NoBlockingSection keep_lock;  // nobody else may see values half-way
  copy_unseen(from, to);
}

void copy_bytes(const Ref<Storage>& to, const Ref<Storage>& from) {
  const auto nbytes = static_cast<int64_t>(from->nbytes());
  copy_bytes(part_of_storage(to, 0, nbytes), whole_storage(from));
}

// Memory that is about to get a content.
Ref<Storage> allocate_like(const Storage& storage, size_t nbytes) {
  Ref<Storage> memory = Storage::allocate(nbytes, storage.device());
  memory->clear_fresh();
  return memory;
}

// Puts a copy of the bytes in place of the storage, which may be overwritten.
void keep_copy(Value& value, Storage& storage) {
  Budget::make_room(storage.nbytes(), false);
  Ref<Storage> copy = allocate_like(storage, storage.nbytes());
  copy_bytes(copy, Ref<Storage>(&storage));
  attach(value, *copy);
  hold(value, 1);
}

// The storage may be overwritten from now on: its value is absent, unless it must be kept. The call that
// overwrites it counts among its readers if `is_read`. Up to `worth` bytes are copied where the value
// could hardly be computed again.
void detach_for_write(Value& value, bool is_read, size_t worth) {
  Storage& storage = *value.storage;
  Ref<Value> keep(&value);
  Budget::drop_candidate(value);
  value.is_pinned = false;
  let_go(value);
  value.storage = nullptr;
  storage.clear_tracker();
  value.release();
  Survey survey;
  Recipes::survey(value, survey);
  bool is_far = !survey.possible || survey.gone.size() > kFar;
  if (value.needed > 0) {
    if (survey.possible) return need_inputs(value);
    keep_copy(value, storage);
  } else if (value.nbytes <= (is_far                     ? worth
                              : survey.cost > kExpensive ? kSmall
                                                         : 0) &&
             (is_read || !value.dependents.empty())) {
    keep_copy(value, storage);
    value.is_pinned = true;
    is_far = true;
  }
  if (is_far) value.forget_recipe();
}

// ---- snapshots of memory that is written unseen

// The last that were made, for other calls that read the same: found by their content.
std::vector<Ref<Value>> snapshots;
constexpr size_t kMostSnapshots = 64;
constexpr size_t kLine = 64;  // kernels see the alignment that they saw

// The bytes that a tensor's elements lie in, as a tensor, and the place of the first element among them.
struct Extent {
  Tensor bytes;
  int64_t first = 0;  // in elements

  const char* address() const { return static_cast<const char*>(bytes->address()); }
  size_t nbytes() const { return static_cast<size_t>(bytes.numel()); }
  // How far they lie behind the beginning of a line.
  size_t misalignment() const { return reinterpret_cast<uintptr_t>(address()) % kLine; }
};
Extent extent_of(const TensorImpl& x) {
  const ByteRange range = byte_range(placement_of(x));
  if (range.is_empty()) return {part_of_storage(x.storage_ref(), 0, 0), 0};
  const int64_t begin = range.begin / static_cast<int64_t>(itemsize(x.dtype()));
  return {part_of_storage(x.storage_ref(), range.begin, range.end), x.offset() - begin};
}

// Whether a snapshot is one of these bytes: found by looking, which changes nothing that is computed.
bool shows(const Value& snapshot, const Extent& extent) {
  const size_t skipped = extent.misalignment();
  return snapshot.nbytes == skipped + extent.nbytes() &&
         std::memcmp(static_cast<const char*>(snapshot.storage->data()) + skipped, extent.address(),
                     extent.nbytes()) == 0;
}

// Forgets those that no recipe reads any more.
void drop_idle_snapshots() {
  constexpr uint32_t kOurs = 2;  // this list and the storage
  std::erase_if(snapshots, [](const Ref<Value>& each) { return each->count() <= kOurs; });
}

// A source that shows what the bytes show now; null where that is not worth them.
Ref<Value> snapshot_of(const Extent& extent, size_t worth) {
  if (!Budget::is_limited() || extent.nbytes() > std::max(worth, kTiny)) return {};
  drop_idle_snapshots();
  for (const Ref<Value>& each : snapshots)
    if (shows(*each, extent)) return each;
  const size_t skipped = extent.misalignment();
  auto value = Ref<Value>::adopt(new Value(skipped + extent.nbytes()));
  Budget::make_room(value->nbytes, false);
  Ref<Storage> copy = allocate_like(extent.bytes->storage(), value->nbytes);
  copy_bytes(part_of_storage(copy, skipped, value->nbytes), extent.bytes);
  attach(*value, *copy);
  hold(*value, 1);
  value->is_pinned = true;
  if (snapshots.size() == kMostSnapshots) snapshots.erase(snapshots.begin());
  snapshots.push_back(value);
  return value;
}

// ---- a call as it runs

struct Frame {
  bool is_recording = false;
  bool reads_unguarded = false;  // and that is why it is not recording
  std::vector<Recipe::Input> inputs;
  std::vector<Recipe::Base> bases;
  std::vector<Ref<Value>> locked;  // present until the call has ended
};
// Calls may nest; frames keep their memory from call to call. Freed only with the thread, hence by
// hand.
struct Frames {
  std::deque<Frame> all;
  size_t depth = 0;

  Frame& push() {
    if (depth == all.size()) all.emplace_back();
    return all[depth++];
  }
  Frame& top() { return all[depth - 1]; }
  void pop() noexcept {
    Frame& frame = top();
    for (Ref<Value>& value : frame.locked) --value->locks;
    frame.inputs.clear();
    frame.bases.clear();
    frame.locked.clear();
    --depth;
  }
};
thread_local Frames* frames = nullptr;

bool is_recording() {
  return is_intercepted_here(Interceptor::Budget) && (grad_enabled || sweeps_running == 0);
}

void lock(Frame& frame, Value& value) {
  ++value.locks;
  value.last_use = Budget::clock();
  frame.locked.emplace_back(&value);
}

// Whether the outputs of the call can be computed again from what it read.
bool can_record(const OpCall& call, const Frame& frame) {
  for (const TensorImpl* output : call.outputs)
    if (output->storage().is_batched()) return false;
  for (const Recipe::Input& input : frame.inputs)
    if (input.value && input.value->is_lost()) return false;
  for (const Recipe::Base& base : frame.bases)
    if (base.value->is_lost()) return false;
  return true;
}

// Whether what is written there can be noted.
bool has_value(const Storage& storage) {
  return storage.nbytes() > 0 && !storage.has(Storage::kLeaf) && !storage.is_unguarded();
}

// How many bytes could be computed again if the call were noted.
size_t bytes_to_note(const OpCall& call) {
  size_t nbytes = 0;
  for (const TensorImpl* output : call.outputs)
    if (has_value(output->storage())) nbytes += output->storage().nbytes();
  return nbytes;
}

// The results are sources, for a reason that a warning can name.
void note_unsure(const OpCall& call) {
  for (const TensorImpl* output : call.outputs)
    if (has_value(output->storage())) value_of(output->storage()).is_unsure = true;
}

void note_call(const OpCall& call, const Frame& frame, int64_t cost) {
  for (const auto& [value, offset] : frame.inputs)
    if (value && !value->recipe && value->nbytes <= kTiny && value->is_present() &&
        !value->storage->has(Storage::kLeaf) && !value->is_pinned) {
      Budget::make_room(value->nbytes);
      hold(*value);
      value->is_pinned = true;
    }
  Ref<Recipe> recipe = Recipe::create(call, frame.inputs, frame.bases, cost);
  std::span<Value*> written = recipe->written();
  for (size_t i = 0; i < written.size(); ++i) {
    Storage& storage = call.outputs[i]->storage();
    if (!has_value(storage)) continue;
    Value* value = Recipes::find(storage);  // two outputs may lie in one storage
    if (!value) {
      auto made = Ref<Value>::adopt(new Value(storage.nbytes()));
      value = made.get();
      value->recipe = recipe;
      value->last_use = Budget::clock();
      attach(*value, storage);
      Budget::add_candidate(*value);
    }
    // A result that was taken from a cache has a value already, which another call wrote.
    if (value->recipe == recipe) written[i] = value;
  }
}

}  // namespace

// ---- Value

Value::~Value() { forget_recipe(); }

void Value::forget_recipe() noexcept {
  if (!recipe) return;
  // Other outputs of the call may keep the recipe.
  for (Value*& written : recipe->written())
    if (written == this) written = nullptr;
  recipe = nullptr;
}

void Value::release() noexcept {
  if (--count_ > 0) {
    // A storage counts its value: one that is held for good goes when nobody else does.
    if (count_ == 1 && is_pinned && storage) {
      is_pinned = false;
      let_go(*this);
    }
    return;
  }
  doomed.push_back(this);
  if (draining) return;
  draining = true;
  while (!doomed.empty()) {
    Value* next = doomed.back();
    doomed.pop_back();
    delete next;
  }
  draining = false;
}

// ---- Recipe

void Recipe::link(uint32_t number, Value& value) {
  Read& read = reads()[number];
  read.value = &value;
  value.retain();
  read.link = static_cast<uint32_t>(value.dependents.size());
  value.dependents.push_back({this, number});
}

Ref<Recipe> Recipe::create(const OpCall& call, std::span<const Input> inputs,
                           std::span<const Base> bases, int64_t cost) {
  const size_t most = inputs.size() + bases.size();  // literals are not read
  const size_t bytes = sizeof(Recipe) + most * sizeof(Read) + call.outputs.size() * sizeof(Value*);
  auto recipe = Ref<Recipe>::adopt(new (pool_allocate(bytes)) Recipe(call));
  recipe->cost_ = cost;
  recipe->bytes_ = static_cast<uint32_t>(bytes);
  for (size_t i = 0; i < inputs.size(); ++i) recipe->input_count_ += bool(inputs[i].value);
  recipe->read_count_ = recipe->input_count_ + static_cast<uint32_t>(bases.size());
  std::ranges::uninitialized_default_construct(recipe->read());
  std::ranges::fill(recipe->written(), nullptr);
  uint32_t number = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].value) continue;
    Call::Operand& operand = recipe->call_.inputs()[i];
    operand.memory = number;
    operand.offset = inputs[i].offset;
    recipe->link(number++, *inputs[i].value);
  }
  for (const Base& base : bases) {
    recipe->reads()[number].output = static_cast<uint32_t>(base.output);
    recipe->link(number++, *base.value);
  }
  return recipe;
}

void Recipe::destroy() noexcept {
  for (const Read& read : this->read()) {
    std::vector<Value::Dependent>& links = read.value->dependents;
    links[read.link] = links.back();
    links.pop_back();
    if (read.link < links.size()) {
      const Value::Dependent& moved = links[read.link];
      moved.recipe->reads()[moved.read].link = read.link;
    }
    read.value->release();
  }
  size_t bytes = bytes_;
  this->~Recipe();
  pool_free(this, bytes);
}

// ---- noting calls

namespace {

// The value of an operand, locked; null if nothing is known of it and nothing is to be.
Value* lock_operand(Frame& frame, Storage& storage) {
  if (storage.is_unguarded()) return nullptr;
  bool known = frame.is_recording && !storage.has(Storage::kFresh) && storage.nbytes() > 0;
  Value* value = known ? &value_of(storage) : Recipes::find(storage);
  if (value) lock(frame, *value);
  return value;
}

// Locks what the call reads there; gives up recording if it could not be found again.
void open_input(Frame& frame, const TensorImpl& input, size_t worth) {
  Storage& storage = input.storage();
  if (is_literal(input)) {
    frame.inputs.push_back({});
    return;
  }
  Value* value = lock_operand(frame, storage);
  if (storage.is_batched()) frame.is_recording = false;
  if (!frame.is_recording) return;
  if (!storage.is_unguarded()) {
    // Memory that nobody has written is as good as a source.
    frame.inputs.push_back({Ref<Value>(value ? value : &value_of(storage)), input.offset()});
    return;
  }
  const Extent extent = extent_of(input);
  Ref<Value> snapshot = snapshot_of(extent, worth);
  if (!snapshot) {
    frame.is_recording = false;
    frame.reads_unguarded = true;
    return;
  }
  const auto skipped = extent.misalignment() / itemsize(input.dtype());
  frame.inputs.push_back({std::move(snapshot), static_cast<int64_t>(skipped) + extent.first});
}

// Outputs that had a content before the call get a new one.
void open_outputs(const OpCall& call, Frame& frame) {
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    Value* value = Recipes::find(call.outputs[i]->storage());
    if (!value) continue;
    Ref<Value> before(value);
    // What is written to a leaf cannot be evicted: nobody will ask what was there before.
    bool is_base = frame.is_recording && !call.outputs[i]->storage().has(Storage::kLeaf);
    detach_for_write(*value, is_base, kSmall);
    if (is_base) frame.bases.push_back({std::move(before), i});
  }
}

}  // namespace

void Recipes::before(const OpCall& call) {
  Budget::join();
  if (!frames) frames = new Frames();
  Frame& frame = frames->push();
  frame.reads_unguarded = false;
  const size_t worth = bytes_to_note(call);
  frame.is_recording = is_recording() && worth > 0;
  try {
    for (const TensorImpl* input : call.inputs) open_input(frame, *input, worth);
    for (const TensorImpl* output : call.outputs) {
      Storage& storage = output->storage();
      if (!storage.has(Storage::kLeaf) || find(storage)) lock_operand(frame, storage);
      storage.clear_fresh();
    }
    for (size_t i = 0; i < frame.locked.size(); ++i)
      if (!frame.locked[i]->is_present()) bring_back(*frame.locked[i]);
    open_outputs(call, frame);
  } catch (...) {
    frames->pop();
    throw;
  }
}

void Recipes::after(const OpCall& call) {
  const int64_t cost = estimated_cost(call);
  Budget::advance(cost);
  const Frame& frame = frames->top();
  if (frame.is_recording && can_record(call, frame)) note_call(call, frame, cost);
  if (frame.reads_unguarded) note_unsure(call);
  frames->pop();
}

void Recipes::abandon(const OpCall&) noexcept { frames->pop(); }

// ---- eviction

void Recipes::survey(Value& value, Survey& survey) {
  survey.possible = static_cast<bool>(value.recipe);
  survey.cost = 0;
  survey.gone.clear();
  survey.neighbours.clear();
  if (!survey.possible) return;
  ++visit_number;
  survey.gone.push_back(&value);
  for (size_t at = 0; at < survey.gone.size(); ++at) {
    const Recipe& recipe = *survey.gone[at]->recipe;
    survey.cost += recipe.cost();
    for (const Recipe::Read& read : recipe.read()) {
      Value& input = *read.value;
      if (input.visited == visit_number) continue;
      input.visited = visit_number;
      if (input.is_present()) continue;
      if (input.is_wanted()) {
        survey.neighbours.push_back(&input);
      } else if (input.recipe) {
        survey.gone.push_back(&input);
      } else {
        survey.possible = false;
        return;
      }
    }
  }
  survey.gone.erase(survey.gone.begin());
}

void Recipes::evict(Value& value) {
  Budget::drop_candidate(value);
  Budget::take_bytes(*value.storage);
  need_inputs(value);
  let_go(value);
}

void Recipes::settle(Storage& storage) {
  Value& value = *find(storage);
  if (storage.has(Storage::kEvicted)) bring_back(value);
  Budget::drop_candidate(value);
  value.forget_recipe();
}

void Recipes::expose(Storage& storage) {
  Value& value = *find(storage);
  if (storage.has(Storage::kEvicted)) bring_back(value);
  size_t worth = kSmall;
  for (const Value::Dependent& dependent : value.dependents)
    for (const Value* written : dependent.recipe->written())
      if (written) worth += written->nbytes;
  detach_for_write(value, false, worth);
}

void Recipes::end_snapshots() noexcept {
  std::vector<Ref<Value>> gone = std::exchange(snapshots, {});
}

void Recipes::forget(Storage& storage) noexcept {
  Value& value = *find(storage);
  Budget::drop_candidate(value);
  if (storage.has(Storage::kEvicted)) {
    Budget::count_evicted(-1);
    value.storage = nullptr;
    if (value.needed == 0) release_inputs(value);
  }
  value.storage = nullptr;
  drop_if_lost(value);
  value.release();
}

// ---- making calls again

namespace {

// Whether a call that is made again is to fill in a value.
bool is_awaited(const Value* value) { return value && !value->is_present() && value->is_wanted(); }

// The storage in which an awaited value will lie, without bytes yet.
Ref<Storage> place_for(Value& value) {
  if (value.storage) return Ref<Storage>(value.storage);
  Ref<Storage> storage = Budget::empty_storage(value.nbytes);
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
               donor.nbytes == output->nbytes && !donor.storage->has(Storage::kLeaf) &&
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
    bool may_overwrite = storages.empty() && !Budget::try_room(value.nbytes);
    if (may_overwrite) donor = find_donor(recipe);
    if (!donor) Budget::make_room(value.nbytes);
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
      if (steps.size() == before) Remade(*recipe).run();
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
