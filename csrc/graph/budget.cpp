#include "graph/budget.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "core/error.h"
#include "core/lane.h"
#include "graph/node.h"
#include "graph/write_log.h"
#include "intercept/call_cache.h"
#include "intercept/host_bytes.h"

namespace tapegrad {

namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
// From here on a limit only measures: nothing is evicted for it.
constexpr int64_t kMeasuring = int64_t{1} << 62;
// Smaller storages lie in one block with their header.
constexpr size_t kSmallest = 1024;

// How often the calls of a block may be made again before its limit is raised, by their cost.
// See Note [A budget that cannot be kept].
constexpr int64_t kMostAgain = 8;
constexpr int64_t kMoreAgain = 2;

int64_t time_spent = 0;  // estimated costs of all calls
int64_t time_again = 0;  // of those that were made again

// A limit as it is on one device.
struct Account {
  int64_t raised = kNoLimit;  // what is allowed
  int64_t before = 0;         // what was saved when the limit was set
  int64_t peak = 0;
  int64_t shortfall = 0;  // when `obstacles` were noted
  std::string obstacles{};
  int64_t set_at = time_spent - time_again;
  int64_t again_at = time_again;
  int64_t may_again = kMostAgain;

  // Whether too much was computed again since the limit was set or raised.
  bool is_worn() const {
    return time_again - again_at > may_again * (time_spent - time_again - set_at);
  }
  void ease() {
    raised += raised / 4;
    again_at = time_again;
    may_again = kMoreAgain;
  }
  void set_anew(int64_t bytes) {
    raised = bytes;
    set_at = time_spent - time_again;
    again_at = time_again;
    may_again = kMostAgain;
  }
};

struct Limit {
  int64_t bytes = kNoLimit;
  bool strict = false;
  int64_t number = 0;
  std::vector<Account> accounts{};  // by device; none where there is no limit

  Account& on(Device device) { return accounts[static_cast<size_t>(place_of(device))]; }
};
std::vector<Account> open_accounts(int64_t bytes) {
  std::vector<Account> accounts;
  for (const SavedBytes& saved : saved_bytes) accounts.push_back({bytes, saved.live});
  return accounts;
}
std::vector<Limit> limits;  // of the budgets that are active, on any thread
Limit lingering;            // of one that ended, under which something is still evicted
int64_t last_number = 0;

// The one in force.
Limit& limit() { return limits.empty() ? lingering : limits.back(); }
int64_t peaks_before[kDevicePlaces] = {};  // of saved bytes, before the last budget began
uint32_t evicted = 0;
Reasons may_evict{Interceptor::Budget};

// Restarts the peak at what is live now, after recording it for every active budget.
void restart_peak(Device device) {
  SavedBytes& saved = saved_bytes_on(device);
  for (Limit& active : limits) {
    Account& account = active.on(device);
    account.peak = std::max(account.peak, saved.peak);
  }
  int64_t& before = peaks_before[place_of(device)];
  before = std::max(before, saved.peak);
  saved.peak = saved.live;
}
void restart_peaks() {
  for (int place = 0; place < kDevicePlaces; ++place) restart_peak(device_at(place));
}

// Calls on all threads are watched while something may be evicted from under them.
void update_watch() { may_evict.set(evicted + static_cast<uint32_t>(limits.size())); }
Budget::Stats statistics;
std::vector<Value*> candidates;
std::vector<Value*> uncounted_values;

// Whether the program has let go of a value that is held uncounted: only saved values share it.
bool is_newly_sole(const Value& value) {
  return value.storage->use_count() == value.storage->savers() + 1;
}

// The bytes that are to be counted because of that.
int64_t newly_sole(Device device) {
  int64_t nbytes = 0;
  for (const Value* value : uncounted_values)
    if (value->device == device && is_newly_sole(*value) && value->storage->savers() == 0)
      nbytes += static_cast<int64_t>(value->nbytes);
  return nbytes;
}

void count_newly_sole() {
  for (size_t i = uncounted_values.size(); i-- > 0;) {
    Value& value = *uncounted_values[i];
    if (!is_newly_sole(value)) continue;
    Budget::end_uncounted(value);
    add_saver(*value.storage);
  }
}

// ---- components of evicted values: a forest whose roots know the cost of all in them

struct Component {
  int32_t parent;
  double cost;
};
std::vector<Component> components;
uint32_t generation = 0;  // components of an earlier one are no more

int32_t root_of(int32_t component) {
  while (components[static_cast<size_t>(component)].parent != component) {
    int32_t& parent = components[static_cast<size_t>(component)].parent;
    parent = components[static_cast<size_t>(parent)].parent;
    component = parent;
  }
  return component;
}

int32_t component_of(const Value& value) {
  bool has_one = value.component >= 0 && value.generation == generation;
  return has_one ? root_of(value.component) : -1;
}

void put_into(Value& value, int32_t component) {
  value.component = component;
  value.generation = generation;
}

void join(int32_t a, int32_t b) {
  a = root_of(a);
  b = root_of(b);
  if (a == b) return;
  components[static_cast<size_t>(b)].parent = a;
  components[static_cast<size_t>(a)].cost += components[static_cast<size_t>(b)].cost;
}

// Calls visit(value) for each absent value next to this one.
template <class Visit>
void each_neighbour(const Value& value, const Survey& survey, Visit&& visit) {
  for (Value* input : survey.neighbours) visit(*input);
  for (const Value::Dependent& dependent : value.dependents)
    for (Value* written : dependent.recipe->written())
      if (written && !written->is_present()) visit(*written);
}

// ---- what to evict

// Why the storage cannot be evicted whatever it was computed from.
const char* plain_obstacle(const Storage& storage) {
  if (Budget::is_too_small(storage.nbytes())) return "it is not larger than 1 KiB";
  if (storage.is_borrowed()) return "its memory is not the library's";
  if (storage.is_unguarded()) return "its address is known outside: numpy(), DLPack or data_ptr()";
  if (storage.is_batched()) return "it is a batch of vmap";
  // Who uses what is computed again would not be known any more.
  if (lane_calls.is_shared && lane_calls.is_shared(storage)) return "it is used on several streams";
  if (storage.use_count() != storage.savers()) return "the program still holds it";
  return nullptr;
}

struct Choice {
  double score;
  Value* value;
};

// The smaller the better; negative if the value must stay.
double score_of(Value& value, Survey& survey) {
  const Storage& storage = *value.storage;
  if (value.locks > 0 || storage.savers() == 0 || storage.has(Storage::kLeaf) ||
      plain_obstacle(storage))
    return -1;
  Recipes::survey(value, survey);
  if (!survey.possible) return -1;
  double cost = static_cast<double>(survey.cost);
  constexpr size_t kMany = 8;
  int32_t seen[kMany];
  size_t count = 0;
  each_neighbour(value, survey, [&](const Value& neighbour) {
    int32_t component = component_of(neighbour);
    if (component < 0 || std::find(seen, seen + count, component) != seen + count) return;
    if (count < kMany) seen[count++] = component;
    cost += components[static_cast<size_t>(component)].cost;
  });
  auto staleness = static_cast<double>(time_spent - value.last_use + 1);
  return (cost + 1) / (static_cast<double>(value.nbytes) * staleness);
}

void evict(Value& value, const Survey& survey) {
  auto component = static_cast<int32_t>(components.size());
  components.push_back({component, static_cast<double>(survey.cost)});
  put_into(value, component);
  for (Value* gone : survey.gone) put_into(*gone, component);
  each_neighbour(value, survey, [&](const Value& neighbour) {
    int32_t other = component_of(neighbour);
    if (other >= 0) join(component, other);
  });
  Recipes::evict(value);
  ++statistics.evictions;
}

// One look at all candidates of a device, from the best on, until the tape keeps at most `target` bytes there. A
// value whose neighbour was evicted just now may have become dear: it waits for the next look.
bool evict_some(Device device, int64_t target) {
  static std::vector<Choice> choices;
  Survey survey;
  choices.clear();
  for (Value* value : candidates) {
    if (value->device != device) continue;
    if (double score = score_of(*value, survey); score >= 0) choices.push_back({score, value});
  }
  std::sort(choices.begin(), choices.end(),
            [](const Choice& a, const Choice& b) { return a.score < b.score; });
  constexpr double kPatience = 2;
  bool any = false;
  for (const Choice& choice : choices) {
    if (saved_bytes_on(device).live <= target) break;
    // An eviction may end the life of what was only held for others.
    if (choice.value->place < 0) continue;
    double score = score_of(*choice.value, survey);
    if (score < 0 || (any && score > kPatience * choice.score)) continue;
    evict(*choice.value, survey);
    any = true;
  }
  return any;
}

// Brings evicted operands back before a call, keeps them during it, and notes how the outputs were computed.
void run_in_budget(const OpCall& call, const Next& next) {
  Recipes::before(call);
  try {
    next(call);
    Recipes::after(call);
  } catch (...) {
    Recipes::abandon(call);
    throw;
  }
}

[[maybe_unused]] const bool installed = [] {
  install(Interceptor::Budget, run_in_budget);
  add_storage_listener({Storage::kTracked, Recipes::forget, Recipes::settle, Recipes::expose});
  before_unseen_read = Recipes::note_read;
  keep_hooks = {[](TensorImpl& result) {
    Budget::admit(result.storage());
    add_saver(result);
  }, [](TensorImpl& result) noexcept { remove_saver(result); }};
  return true;
}();

}  // namespace

int64_t Budget::start(int64_t bytes, bool strict) {
  restart_peaks();
  limits.push_back({bytes, strict, ++last_number, open_accounts(bytes)});
  update_watch();
  is_active = true;
  join();
  for (int place = 0; place < kDevicePlaces; ++place)
    if (saved_bytes[place].live > 0) make_room(0, device_at(place), false);
  return last_number;
}

Budget::Outcome Budget::stop(int64_t number) {
  auto found = std::find_if(limits.begin(), limits.end(),
                            [=](const Limit& active) { return active.number == number; });
  TAPEGRAD_CHECK(found != limits.end(), "budget: it is not active");
  restart_peaks();
  Outcome outcome;
  for (int place = 0; place < kDevicePlaces; ++place) {
    const Account& account = found->accounts[static_cast<size_t>(place)];
    if (account.peak <= outcome.peak) continue;
    outcome = {account.peak, std::max(int64_t{0}, account.peak - found->bytes), account.obstacles,
               device_at(place)};
  }
  Limit ended = std::move(*found);
  limits.erase(found);
  update_watch();
  // What was evicted comes back later under the limit that it was evicted for.
  if (limits.empty()) lingering = evicted > 0 ? std::move(ended) : Limit();
  if (limits.empty()) Recipes::end_snapshots();
  is_active = !limits.empty();
  join();
  return outcome;
}

void Budget::change_joined() {
  has_joined = is_active;
  intercept_here(Interceptor::Budget, is_active);
  if (is_active) storage_context.flags |= Storage::kFresh;
  else storage_context.flags &= ~uint32_t{Storage::kFresh};
}

int64_t Budget::peak(Device device) {
  return std::max(peaks_before[place_of(device)], saved_bytes_on(device).peak);
}

void Budget::reset_peak(Device device) {
  restart_peak(device);
  peaks_before[place_of(device)] = 0;
}

uint32_t Budget::evicted_count() { return evicted; }

const Budget::Stats& Budget::stats() { return statistics; }

bool Budget::is_limited() { return limit().bytes < kMeasuring; }

bool Budget::try_room(size_t nbytes, Device device) {
  const Limit& set = limit();
  if (set.bytes >= kMeasuring) return true;
  Account& here = limit().on(device);
  const SavedBytes& saved = saved_bytes_on(device);
  // A step is over, or has not begun.
  if (evicted == 0 && saved.live <= std::max(here.before, set.bytes / 4)) here.set_anew(set.bytes);
  const int64_t needed = saved.live + static_cast<int64_t>(nbytes);
  if (needed > here.raised && here.is_worn() && !set.strict) {
    here.ease();
    if (here.obstacles.empty())
      here.obstacles = concat("\n  computing again had cost ", kMostAgain,
                              " times as much as the calls themselves");
  }
  int64_t allowed = here.raised - static_cast<int64_t>(nbytes) - newly_sole(device);
  // A little more than asked, so that the next value does not have to look again.
  int64_t target = allowed - here.raised / 32;
  while (saved.live > allowed)
    if (!evict_some(device, target)) break;
  count_newly_sole();
  return saved.live <= here.raised - static_cast<int64_t>(nbytes);
}

void Budget::make_room(size_t nbytes, Device device, bool may_fail) {
  if (try_room(nbytes, device)) return;
  const Limit& set = limit();
  Account& here = limit().on(device);
  const int64_t needed = saved_bytes_on(device).live + static_cast<int64_t>(nbytes);
  const int64_t shortfall = needed - set.bytes;
  // What is in the way is noted while it is there, but not for every byte more.
  if (shortfall > here.shortfall + here.shortfall / 8) {
    here.shortfall = shortfall;
    here.obstacles = irreducible(device);
  }
  if (set.strict && may_fail)
    fail<OutOfMemoryError>("budget: the tape needs ", needed, " bytes",
                           device.is_cpu() ? "" : concat(" on ", to_string(device)), ", which is ",
                           shortfall, " more than the budget of ", set.bytes,
                           "; the rest cannot be evicted:", irreducible(device));
  if (!set.strict) here.raised = std::max(here.raised, needed);
}

const char* Budget::obstacle(const Storage& storage) {
  if (const char* reason = plain_obstacle(storage)) return reason;
  Value* value = Recipes::find(storage);
  if (!value) return "it was not computed under the budget";
  if (value->locks > 0) return "it is in use";
  Survey survey;
  Recipes::survey(*value, survey);
  if (!value->recipe && value->doubt) return value->doubt;
  if (!value->recipe) return "it was not computed under the budget, or written by other means";
  if (!survey.possible) return "what it was computed from is gone";
  return nullptr;
}

std::string Budget::irreducible(Device device) {
  struct Row {
    size_t nbytes;
    const Node* node;
    const char* reason;
  };
  std::vector<Row> rows;
  std::unordered_set<const Storage*> seen;
  int64_t elsewhere = saved_bytes_on(device).live;
  for (const Node* node : live_nodes())
    for (const SavedValue& value : node->saved_values())
      value.with_stored([&](const Tensor& x) {
        const Storage& storage = x->storage();
        if (storage.device() != device || storage.has(Storage::kLeaf | Storage::kEvicted) ||
            !seen.insert(&storage).second)
          return;
        elsewhere -= static_cast<int64_t>(storage.nbytes());
        if (const char* reason = obstacle(storage))
          rows.push_back({storage.nbytes(), node, reason});
      });
  std::sort(rows.begin(), rows.end(),
            [](const Row& a, const Row& b) { return a.nbytes > b.nbytes; });
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(rows.size(), kShown); ++i)
    text += concat("\n  ", rows[i].nbytes, " bytes saved by ", rows[i].node->name(), " at ",
                   rows[i].node->line(), ": ", rows[i].reason);
  if (rows.size() > kShown) text += concat("\n  and ", rows.size() - kShown, " more");
  if (elsewhere > 0)
    text += concat("\n  ", elsewhere, " bytes that others are computed from at that moment");
  return text;
}

void Budget::add_candidate(Value& value) {
  if (value.place >= 0 || !value.recipe || value.nbytes <= kSmallest) return;
  value.place = static_cast<int32_t>(candidates.size());
  candidates.push_back(&value);
}

void Budget::drop_candidate(Value& value) noexcept {
  if (value.place < 0) return;
  Value* last = candidates.back();
  candidates[static_cast<size_t>(value.place)] = last;
  last->place = value.place;
  candidates.pop_back();
  value.place = -1;
}

void Budget::leave_component(Value& value) noexcept {
  int32_t component = component_of(value);
  value.component = -1;
  if (component < 0) return;
  double& cost = components[static_cast<size_t>(component)].cost;
  cost = std::max(0.0, cost - static_cast<double>(value.recipe->cost()));
}

int64_t Budget::clock() { return time_spent; }
void Budget::advance(int64_t cost) { time_spent += cost; }

void Budget::count_recomputed(int64_t cost, int64_t time) {
  time_again += cost;
  ++statistics.recomputed;
  statistics.recompute_time += time;
}

void Budget::count_evicted(int change) noexcept {
  evicted = static_cast<uint32_t>(static_cast<int>(evicted) + change);
  update_watch();
  if (evicted > 0) return;
  components.clear();
  ++generation;
  lingering = {};
}

bool Budget::is_too_small(size_t nbytes) { return nbytes <= kSmallest; }

void Budget::hold_uncounted(Value& value) {
  value.uncounted = static_cast<int32_t>(uncounted_values.size());
  uncounted_values.push_back(&value);
}

void Budget::end_uncounted(Value& value) noexcept {
  Value* last = uncounted_values.back();
  uncounted_values[static_cast<size_t>(value.uncounted)] = last;
  last->uncounted = value.uncounted;
  uncounted_values.pop_back();
  value.uncounted = -1;
}

Ref<Storage> Budget::empty_storage(size_t nbytes, Device device) {
  auto* storage = new (pool_allocate(sizeof(Storage))) Storage(nullptr, nbytes, nullptr);
  if (!device.is_cpu()) storage->settle_on(device);
  storage->context_.flags =
      (storage->context_.flags & ~uint32_t{Storage::kFresh}) | Storage::kEvicted;
  count_evicted(1);
  return Ref<Storage>::adopt(storage);
}

void Budget::take_bytes(Storage& storage) noexcept {
  if (is_charged(storage)) saved_bytes_on(storage.device()).remove(storage.nbytes());
  Storage::free_bytes(storage.device(), storage.data_, storage.nbytes());
  storage.data_ = nullptr;
  storage.context_.flags |= Storage::kEvicted;
  count_evicted(1);
}

void Budget::move_bytes(Storage& from, Storage& to) noexcept {
  if (is_charged(from)) saved_bytes_on(from.device()).remove(from.nbytes());
  to.data_ = std::exchange(from.data_, nullptr);
  from.context_.flags |= Storage::kEvicted;
  to.context_.flags &= ~uint32_t{Storage::kEvicted};
  if (is_charged(to)) saved_bytes_on(to.device()).add(to.nbytes());
}

void Budget::give_bytes(Storage& storage) {
  storage.data_ = Storage::allocate_bytes(storage.device(), storage.nbytes());
  storage.context_.flags &= ~uint32_t{Storage::kEvicted};
  // Not where a leaf has come to show them meanwhile, as the argument of a checkpoint that runs again does.
  if (is_charged(storage)) saved_bytes_on(storage.device()).add(storage.nbytes());
  count_evicted(-1);
}

}  // namespace tapegrad
