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
#include "graph/recipe_parts.h"
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

// As Note [Freeing a long chain]: values that wait to be freed.
std::vector<Value*> doomed;
bool draining = false;

}  // namespace

uint64_t visit_number = 0;

// ---- what is needed

void hold(Value& value, uint32_t ours) {
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

// ---- values and their storages

void attach(Value& value, Storage& storage) {
  value.storage = &storage;
  value.retain();
  storage.set_tracker(&value);
}

void copy_bytes(const Tensor& to, const Tensor& from) {
  const NoBlockingSection keep_lock;  // nobody else may see values half-way
  copy_unseen(from, to);
}

void copy_bytes(const Ref<Storage>& to, const Ref<Storage>& from) {
  const auto nbytes = static_cast<int64_t>(from->nbytes());
  copy_bytes(part_of_storage(to, 0, nbytes), whole_storage(from));
}

namespace {

// A value that can no longer be computed forgets how it was: so chains that nobody can follow do not
// stay in memory.
void drop_if_lost(Value& value) noexcept {
  if (!value.recipe || value.is_wanted()) return;
  for (const Recipe::Read& read : value.recipe->read())
    if (read.value->is_lost()) return value.forget_recipe();
}

// The value of a storage; a new source if the storage was not known.
Value& value_of(Storage& storage) {
  if (Value* known = Recipes::find(storage)) return *known;
  auto source = Ref<Value>::adopt(new Value(storage.nbytes(), storage.device()));
  attach(*source, storage);
  return *source;
}

// Memory that is about to get a content.
Ref<Storage> allocate_like(const Storage& storage, size_t nbytes) {
  Ref<Storage> memory = Storage::allocate(nbytes, storage.device());
  memory->clear_fresh();
  return memory;
}

// Puts a copy of the bytes in place of the storage, which may be overwritten.
void keep_copy(Value& value, Storage& storage) {
  Budget::make_room(storage.nbytes(), storage.device(), false);
  Ref<Storage> copy = allocate_like(storage, storage.nbytes());
  copy_bytes(copy, Ref<Storage>(&storage));
  attach(value, *copy);
  value.lane = current_lane;
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

// Whether a snapshot is one of these bytes: found by looking, which changes nothing that is computed. Looking at
// those of another device would mean to wait for it: there every call has a snapshot of its own.
bool shows(const Value& snapshot, const Extent& extent) {
  if (!snapshot.device.is_cpu() || !extent.bytes->device().is_cpu()) return false;
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

// A source that shows what the bytes show now; null where that is not worth them. Those that other calls cannot share
// must be worth twice as much.
Ref<Value> snapshot_of(const Extent& extent, size_t worth) {
  if (!extent.bytes->device().is_cpu()) worth /= 2;
  if (!Budget::is_limited() || extent.nbytes() > std::max(worth, kTiny)) return {};
  drop_idle_snapshots();
  for (const Ref<Value>& each : snapshots)
    if (shows(*each, extent)) return each;
  const size_t skipped = extent.misalignment();
  const Device device = extent.bytes->device();
  auto value = Ref<Value>::adopt(new Value(skipped + extent.nbytes(), device));
  value->lane = current_lane;
  Budget::make_room(value->nbytes, device, false);
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
  const char* doubt = nullptr;  // why it is not recording, if it might
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
void note_doubt(const OpCall& call, const char* doubt) {
  for (const TensorImpl* output : call.outputs)
    if (has_value(output->storage())) value_of(output->storage()).doubt = doubt;
}

// Whether the call would round differently if it were made again.
bool is_in_any_order(const OpCall& call) {
  return (call.op.traits & kAnyOrder) && !call.out().device().is_cpu();
}

void note_call(const OpCall& call, const Frame& frame, int64_t cost) {
  for (const auto& [value, offset] : frame.inputs)
    if (value && !value->recipe && value->nbytes <= kTiny && value->is_present() &&
        !value->storage->has(Storage::kLeaf) && !value->is_pinned) {
      Budget::make_room(value->nbytes, value->device);
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
      auto made = Ref<Value>::adopt(new Value(storage.nbytes(), storage.device()));
      value = made.get();
      value->recipe = recipe;
      value->lane = recipe->lane();
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
    frame.doubt =
        "it was computed from memory that is written unseen: NumPy's, or whose address is out";
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
  frame.doubt = nullptr;
  const size_t worth = bytes_to_note(call);
  frame.is_recording = is_recording() && worth > 0;
  if (frame.is_recording && is_in_any_order(call)) {
    frame.is_recording = false;
    frame.doubt = "its elements are added in any order, and would round differently again";
  }
  try {
    for (const TensorImpl* input : call.inputs) open_input(frame, *input, worth);
    for (const TensorImpl* output : call.outputs) {
      Storage& storage = output->storage();
      if (!storage.has(Storage::kLeaf) || find(storage)) lock_operand(frame, storage);
      storage.clear_fresh();
    }
    for (size_t i = 0; i < frame.locked.size(); ++i)
      if (!frame.locked[i]->is_present()) bring_back(*frame.locked[i]);
    for (const Ref<Value>& value : frame.locked)
      if (value->is_remade) await(*value, current_lane);
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
  if (frame.doubt) note_doubt(call, frame.doubt);
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

void Recipes::note_read(const Storage& storage) {
  const Value& value = *find(storage);
  if (value.is_remade && value.is_present()) await(value, current_lane);
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

}  // namespace tapegrad
