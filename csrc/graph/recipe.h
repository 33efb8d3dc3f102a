// How bytes were computed: what a budget (budget.h) computes them again by.
//
// Data structure. A Value is the content of a storage between two writes. A Recipe is a call that
// passed the dispatch point (core/op.h): by Note [What a call means], its outputs are a function of
// the bytes that it read and of its attributes, random numbers included. So Values and Recipes form
// a graph of their own, below that of the gradients: a Value refers to the Recipe that wrote it, a
// Recipe to the Values that it read. A call that writes memory which had a content before starts a
// new Value; the one before it counts among what the call read, its `base`.
//
// A Value is *present* while its bytes can be read in some storage, and *absent* otherwise: evicted,
// overwritten, or freed because nobody held it. A Value without a recipe is a *source*: it was there
// before the budget, or was written by a way that calls do not take. A source that is absent is lost,
// and so is what can only be computed from it. Memory that is written unseen (core/storage.h) has no
// Value: a call that reads it reads, for its recipe, a *snapshot*, a source that is a copy of the bytes
// that were read. Where the copy would be larger than what it makes computable, the call is not noted.
//
// Invariant. A Value is *wanted* if an evicted storage waits for it, or if it is needed to compute
// one that is wanted and absent. Every Value that a wanted, absent one was computed from counts it in
// `needed`; one that is needed and present is held, so that its bytes cannot go away unnoticed.
// Hence whatever is evicted can always be computed again.
//
// Start reading at Recipes::before() for how a call is noted, at Recipes::bring_back() (remake.cpp) for how
// it is used. All of it runs under Note [The GIL guards handles].
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/call.h"
#include "core/lane.h"

namespace tapegrad {

class Recipe;

class Value {
 public:
  Value(size_t nbytes, Device device) : nbytes(nbytes), device(device) {}
  ~Value();
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  bool is_present() const { return storage && !storage->has(Storage::kEvicted); }
  bool is_lost() const { return !recipe && !is_present(); }
  // Whether only the tape holds the bytes.
  bool is_sole() const { return storage->use_count() == storage->savers(); }
  // Whether its inputs are counted as needed.
  bool is_wanted() const { return needed > 0 || storage; }

  // It is a source from now on.
  void forget_recipe() noexcept;

  void retain() { ++count_; }
  void release() noexcept;
  uint32_t count() const { return count_; }

  size_t nbytes;
  Device device;
  Lane lane = 0;               // in which the bytes were computed, as far as that is known
  Storage* storage = nullptr;  // that has the bytes, or has had them and waits for them
  Ref<Recipe> recipe;
  uint32_t needed = 0;      // by how many wanted, absent values
  uint32_t locks = 0;       // calls that use it right now
  bool is_held = false;     // by this object, because it is needed
  bool is_pinned = false;   // held for good: too small to be worth evicting
  bool is_remade = false;   // the bytes were computed again
  int32_t uncounted = -1;   // its place among those held that the program holds, too
  int32_t place = -1;       // among the candidates for eviction
  int32_t component = -1;   // of neighbouring evicted values, see budget.cpp
  uint32_t generation = 0;  // of components
  int64_t last_use = 0;
  uint64_t visited = 0;
  const char* doubt = nullptr;  // why a source, though a call wrote it, is one
  struct Dependent {
    Recipe* recipe;
    uint32_t read;  // which of those of the recipe
  };
  std::vector<Dependent> dependents;  // recipes that read it

 private:
  friend class Recipes;
  uint32_t count_ = 1;
};

// A call that can be made again. The memory of an input is the place of its value among those read, that
// of an output its own place. What was read and what was written lie behind the object.
class Recipe {
 public:
  struct Read {
    Value* value = nullptr;  // counted
    uint32_t link = 0;       // its place among the value's dependents
    uint32_t output = 0;     // of a base: which output showed it
  };

  // What an input showed, and where; no value for a literal.
  struct Input {
    Ref<Value> value;
    int64_t offset;
  };
  // What an output showed before the call.
  struct Base {
    Ref<Value> value;
    size_t output;
  };
  static Ref<Recipe> create(const OpCall& call, std::span<const Input> inputs,
                            std::span<const Base> bases, int64_t cost);

  const Call& call() const { return call_; }
  const Op& op() const { return *call_.op(); }
  int64_t cost() const { return cost_; }
  Lane lane() const { return lane_; }
  // What the call read: its inputs that are no literals, and then what its outputs showed before.
  std::span<Read> read() const { return {reads(), read_count_}; }
  std::span<Read> bases() const { return read().subspan(input_count_); }
  Value& value(const Call::Operand& input) const { return *reads()[input.memory].value; }
  // What it wrote: the values of its outputs, null where nobody knows of them any more.
  std::span<Value*> written() const {
    return {reinterpret_cast<Value**>(reads() + read_count_), call_.outputs().size()};
  }

  void retain() { ++count_; }
  void release() noexcept {
    if (--count_ == 0) destroy();
  }

 private:
  explicit Recipe(const OpCall& call) : call_(call) {}
  ~Recipe() = default;
  Read* reads() const { return reinterpret_cast<Read*>(const_cast<Recipe*>(this) + 1); }
  void link(uint32_t number, Value& value);
  void destroy() noexcept;

  Call call_;
  int64_t cost_ = 0;
  uint32_t count_ = 1;
  uint32_t bytes_ = 0;
  uint32_t input_count_ = 0, read_count_ = 0;
  Lane lane_ = current_lane;
};

// What it would take to compute a value again.
struct Survey {
  bool possible = true;
  int64_t cost = 0;                // of its call, and of those whose results are gone
  std::vector<Value*> gone;        // those results
  std::vector<Value*> neighbours;  // evicted values that it is computed from
};

// The graph of values and recipes: noting calls, and making them again.
class Recipes {
 public:
  // Before and after every call while there is a budget or something evicted: BudgetHooks.
  static void before(const OpCall& call);
  static void after(const OpCall& call);
  static void abandon(const OpCall& call) noexcept;

  static Value* find(const Storage& storage) {
    return storage.has(Storage::kTracked) ? static_cast<Value*>(storage.tracker()) : nullptr;
  }
  // Fills in what it would take to compute the value again.
  static void survey(Value& value, Survey& survey);
  // Takes the bytes away. To be called only if survey() says that it is possible.
  static void evict(Value& value);
  // Computes evicted bytes again, and before them what they are computed from.
  static void bring_back(Value& target);
  // The bytes are used outside of calls: they are there, and stay.
  static void settle(Storage& storage);
  // The bytes are read outside of calls.
  static void note_read(const Storage& storage);
  // Somebody may write the storage unseen from now on.
  static void expose(Storage& storage);
  // No more calls will be noted for now.
  static void end_snapshots() noexcept;
  // The storage is being destroyed.
  static void forget(Storage& storage) noexcept;
};

}  // namespace tapegrad
