// Trace: one way that a compiled function went, ready to go again without its Python.
//
// Note [What a trace holds for]
// A trace is a plan (intercept/plan.h) and the conditions under which running it does what the function would do.
// They are asked in this order: nobody observes single ops (is_observed()), the modes of the thread are those of the
// capture, the arguments have its structure and forms, the tensors that the function finds by itself are where they
// were, and what else it reads of Python is unchanged (Note [What a watch compares]). Values that Python looked at
// are guards of the plan. Where one condition fails another trace may hold; if none does, the function runs itself.
//
// What is given for a run may share memory in other ways than it did: memory that the plan writes must be nobody
// else's, unless it was at the capture.
//
// What a run leaves behind is what the function leaves: results, gradients of leaves, elements of tensors that existed
// before with their versions, and the state of the generator. Where a result was swept in the function, its history
// is a SpentEntry, which refuses to be swept again as the function's own would.
#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <unordered_set>

#include "core/error.h"
#include "core/random.h"
#include "core/registry.h"
#include "engine/sweep.h"
#include "graph/accumulate.h"
#include "graph/view.h"
#include "graph/write_log.h"
#include "intercept/plan.h"
#include "python/binding.h"
#include "python/form.h"
#include "python/graph_plan.h"
#include "python/optimizer.h"
#include "python/watch.h"
#include "spec/row_sums.h"

namespace tapegrad::python {

namespace {

// ---- what is expected and given back, as Python describes it

// A tree of arguments or results in preorder.
struct Part {
  enum class Kind : uint8_t { Tensor, Argument, Value, Tuple, List, Dict, Made };
  Kind kind;
  uint32_t number = 0;  // of the tensor, or how many parts it has
  nb::object object{};  // the value, the keys of a dict, or what makes an object of its parts
};

std::vector<Part> read_parts(nb::handle described) {
  std::vector<Part> parts;
  for (nb::handle item : described) {
    const auto [kind, number, object] = nb::cast<std::tuple<uint32_t, uint32_t, nb::object>>(item);
    parts.push_back({static_cast<Part::Kind>(kind), number, object});
  }
  return parts;
}

// A tensor among the arguments.
struct Argument {
  Form form;
  int32_t same_as;  // an earlier argument that is the same tensor, or -1
  int32_t lasting;  // the lasting tensor that it is, or -1
};
// A tensor that the function finds by itself, the same one each time.
struct Lasting {
  Tensor tensor;
  Form form;
};
// Whose memory a value is: that of an argument or lasting tensor, or of its gradient.
struct Source {
  uint32_t value;
  bool is_argument;
  bool is_grad;
  uint32_t number;
  int64_t offset;  // of that tensor in bytes, at the capture
};
// A tensor that a run makes and leaves behind.
struct Made {
  enum class History : uint8_t { None, Leaf, Spent };
  uint32_t value;
  Placement placement;
  DimVector sizes, strides;
  History history;
  int32_t base;  // the made tensor that it is a view of, or -1
};
// What becomes of the gradient of an argument or lasting tensor.
struct GradExit {
  bool is_argument;
  uint32_t number;
  int32_t made;  // or -1: None
};
struct Lift {
  size_t step;
  size_t optimizer;
  nb::object group;
};
constexpr size_t kFewContainers = 16;  // among arguments: more are found by bisection

struct RandomStep {
  size_t step;
  size_t seed, offset;  // which attributes
  uint64_t counter;     // from where the run begins
};

const EntryKind spent_entry("compiled", nullptr, EntryKind::Role::Graph, {}, "CompiledBackward");

class SpentEntry final : public Entry<spent_entry> {
 public:
  void vjp(Gradients, Gradients) override {
    fail(
        "backward: Trying to backward through the graph a second time: a compiled function computed this "
        "tensor, went backward from it, and has freed what it saved; specify retain_graph=True in the "
        "function, which then runs eagerly");
  }
};

struct Range {
  uintptr_t begin, end;
  bool is_written;
  uintptr_t reach = 0;  // of those before it in a sorted list and its own: the largest end
  bool meets(const Range& other) const {
    return begin < other.end && other.begin < end && (is_written || other.is_written);
  }
};

Range range_of(const Storage& storage, bool is_written) {
  const auto begin = reinterpret_cast<uintptr_t>(storage.data());
  return {begin, begin + storage.nbytes(), is_written};
}

// ---- the trace

class Trace {
 public:
  enum class Outcome : uint8_t { Done, OtherEnvironment, OtherArguments, OtherState, Guard, Busy };

  // With a device: on that CUDA device, by graphs (python/graph_plan.h).
  Trace(nb::object program,
        const std::vector<std::tuple<int, int64_t, std::optional<Tensor>>>& homes,
        size_t arena_bytes, nb::object watch, const Environment& environment, int device);

  Outcome run(PyObject* args, PyObject* kwargs, nb::object& result);

  // Set once by Python.
  std::vector<Part> arguments_form, results;
  std::vector<Argument> arguments;
  std::vector<Lasting> lasting;
  std::vector<Source> sources;
  std::vector<Made> made;
  std::vector<GradExit> grads;
  std::vector<Lift> lifts;
  std::vector<RandomStep> randoms;
  uint64_t counters = 0;  // that a run takes from the generator
  void settle();
  bool is_anywhere = false;   // whatever the modes are
  bool sees_grads = true;     // whether a tensor has a gradient makes a difference
  bool sees_offsets = false;  // so does where in its storage an argument begins
  bool sees_which = false;    // so does which tensor is another's gradient

  TracePlan& plan() { return *plan_; }
  Plan& cpu_plan() { return dynamic_cast<Plan&>(*plan_); }
  GraphPlan& graph_plan() { return dynamic_cast<GraphPlan&>(*plan_); }
  int traverse(visitproc visit, void* arg);
  void clear();

 private:
  bool match(PyObject* object, size_t& at);
  bool is_another(PyObject* container);
  bool is_lasting(const TensorImpl* tensor) const {
    return std::ranges::binary_search(lasting_tensors_, tensor);
  }
  bool match_dict(PyObject* object, size_t& at);
  bool match_arguments(PyObject* args, PyObject* kwargs);
  bool match_lasting() const;
  bool gives_gradients() const;
  bool bind();
  bool is_apart() const;
  bool read_options();
  void set_random(RandomStream state);
  void offer_grads();
  void set_grads(const std::vector<Tensor>& tensors, std::vector<Tensor>& former, bool is_cut_off);
  void leave_midway(RandomStream state);
  Outcome execute(nb::object& result);
  std::vector<Tensor> make_tensors();
  nb::object build(size_t& at, const std::vector<Tensor>& tensors) const;
  const Tensor& owner(bool is_argument, uint32_t number) const {
    return is_argument ? given_[number] : lasting[number].tensor;
  }

  nb::object program_, watch_;
  Watch& watched_;
  Environment environment_;
  std::unique_ptr<TracePlan> plan_;
  std::vector<Range> fixed_;  // sorted
  std::vector<Tensor> given_;
  std::vector<const TensorImpl*> lasting_tensors_;  // sorted
  std::vector<PyObject*> watched_containers_;       // sorted
  std::vector<PyObject*> containers_;               // among the arguments of a run
  std::vector<std::pair<const Storage*, Range>> bound_;
};

std::vector<Plan::Home> read_homes(
    const std::vector<std::tuple<int, int64_t, std::optional<Tensor>>>& homes) {
  std::vector<Plan::Home> read;
  for (const auto& [kind, offset, tensor] : homes)
    read.push_back({static_cast<Plan::Home::Kind>(kind), offset,
                    tensor ? (*tensor)->storage_ref() : Ref<Storage>()});
  return read;
}

Trace::Trace(nb::object program,
             const std::vector<std::tuple<int, int64_t, std::optional<Tensor>>>& homes,
             size_t arena_bytes, nb::object watch, const Environment& environment, int device)
    : program_(std::move(program)),
      watch_(std::move(watch)),
      watched_(nb::cast<Watch&>(watch_)),
      environment_(environment) {
  std::vector<Plan::Home> read = read_homes(homes);
  const Program& captured = nb::cast<const Program&>(program_);
  for (size_t i = 0; i < read.size(); ++i)
    if (read[i].kind == Plan::Home::Kind::Fixed)
      fixed_.push_back(range_of(*read[i].storage, captured.values().at(i).is_written));
  std::ranges::sort(fixed_, {}, &Range::begin);
  uintptr_t reach = 0;
  for (Range& range : fixed_) range.reach = reach = std::max(reach, range.end);
  if (device < 0) plan_ = std::make_unique<Plan>(captured, std::move(read), arena_bytes);
  else plan_ = std::make_unique<GraphPlan>(captured, std::move(read), device);
}

void Trace::settle() {
  given_.resize(arguments.size());
  for (const Lasting& each : lasting) lasting_tensors_.push_back(each.tensor.impl());
  std::ranges::sort(lasting_tensors_);
  watched_containers_ = watched_.containers();
}

// ---- arguments

// Whether a list, dict or tuple is neither given twice nor one that the function finds by itself, as at the capture.
bool Trace::is_another(PyObject* container) {
  if (std::ranges::binary_search(watched_containers_, container)) return false;
  if (containers_.size() >= kFewContainers) {
    // Of that many, sorted by address.
    const auto place = std::ranges::lower_bound(containers_, container);
    if (place != containers_.end() && *place == container) return false;
    containers_.insert(place, container);
    return true;
  }
  if (std::ranges::find(containers_, container) != containers_.end()) return false;
  containers_.push_back(container);
  if (containers_.size() == kFewContainers) std::ranges::sort(containers_);
  return true;
}

bool Trace::match_dict(PyObject* object, size_t& at) {
  const Part& part = arguments_form[at++];
  if (!PyDict_CheckExact(object) || PyDict_GET_SIZE(object) != static_cast<Py_ssize_t>(part.number))
    return false;
  PyObject *key = nullptr, *value = nullptr;
  PyObject* const* expected = PySequence_Fast_ITEMS(part.object.ptr());  // a tuple
  for (Py_ssize_t place = 0; PyDict_Next(object, &place, &key, &value); ++expected)
    if (!is_same_value(key, *expected) || !match(value, at)) return false;
  return true;
}

bool Trace::match(PyObject* object, size_t& at) {
  const Part& part = arguments_form[at];
  switch (part.kind) {
    case Part::Kind::Tensor: {
      ++at;
      if (!is_tensor(object)) return false;
      const Argument& argument = arguments[part.number];
      TensorImpl* impl = impl_of(object);
      if (part.object.ptr() != reinterpret_cast<PyObject*>(Py_TYPE(object))) return false;
      if (!argument.form.fits(*impl, false, sees_grads)) return false;
      if (sees_offsets && !argument.form.begins_like(*impl)) return false;
      if (argument.lasting < 0
              ? is_lasting(impl)
              : impl != lasting[static_cast<size_t>(argument.lasting)].tensor.impl())
        return false;
      for (uint32_t i = 0; i < part.number; ++i)
        if ((given_[i].impl() == impl) !=
            (argument.same_as == static_cast<int32_t>(i) ||
             (argument.same_as >= 0 && arguments[i].same_as == argument.same_as)))
          return false;
      given_[part.number] = tensor_of(object);
      return true;
    }
    case Part::Kind::Tuple:
    case Part::Kind::List: {
      const bool is_tuple = part.kind == Part::Kind::Tuple;
      ++at;
      if (is_tuple ? !PyTuple_CheckExact(object) : !PyList_CheckExact(object)) return false;
      if (PySequence_Fast_GET_SIZE(object) != static_cast<Py_ssize_t>(part.number)) return false;
      const bool is_shared = is_tuple && part.number == 0;  // there is one empty tuple
      if (at > 1 && !is_shared && !is_another(object)) return false;
      for (uint32_t i = 0; i < part.number; ++i)
        if (!match(PySequence_Fast_GET_ITEM(object, i), at)) return false;
      return true;
    }
    case Part::Kind::Dict:
      return is_another(object) && match_dict(object, at);
    default:
      ++at;
      return is_same_value(object, part.object.ptr());
  }
}

bool Trace::match_arguments(PyObject* args, PyObject* kwargs) {
  size_t at = 0;
  containers_.clear();
  return match(args, at) && match_dict(kwargs, at);
}

bool Trace::match_lasting() const {
  for (const auto& [tensor, form] : lasting)
    if (!form.fits(*tensor.impl(), true, sees_grads)) return false;
  return true;
}

// Whether the gradient of a tensor is an argument, or a tensor that the function finds by itself.
bool Trace::gives_gradients() const {
  auto is_known = [&](const Tensor& owner) {
    const TensorImpl* grad = owner->meta() ? owner->meta()->grad.impl() : nullptr;
    return grad && (is_lasting(grad) || std::ranges::any_of(given_, [&](const Tensor& each) {
      return each.impl() == grad;
    }));
  };
  return std::ranges::any_of(given_, is_known) ||
         std::ranges::any_of(lasting, is_known, &Lasting::tensor);
}

// ---- memory

bool Trace::is_apart() const {
  for (size_t i = 0; i < bound_.size(); ++i) {
    const Range& range = bound_[i].second;
    for (size_t j = 0; j < i; ++j)
      if (range.meets(bound_[j].second)) return false;
    // Those that begin before this one's end, from the last on.
    auto place = std::ranges::lower_bound(fixed_, range.end, {}, &Range::begin);
    while (place != fixed_.begin() && (--place)->reach > range.begin)
      if (range.meets(*place)) return false;
  }
  return true;
}

bool Trace::bind() {
  std::vector<const Storage*> bound(plan_->program().values().size());
  std::vector<int64_t> shifts(bound.size());
  bound_.clear();
  for (const Source& source : sources) {
    Tensor shown = owner(source.is_argument, source.number);
    if (source.is_grad) shown = shown->meta()->grad;
    const int64_t shift =
        shown->offset() * static_cast<int64_t>(itemsize(shown.dtype())) - source.offset;
    const Storage* storage = &shown->storage();
    if (bound[source.value]) {
      // Several tensors show one value: they must do so as they did.
      if (bound[source.value] != storage || shifts[source.value] != shift) return false;
      continue;
    }
    if (!plan_->give(source.value, shown->storage_ref(), shift)) return false;
    bound[source.value] = storage;
    shifts[source.value] = shift;
    bound_.push_back(
        {storage, range_of(*storage, plan_->program().values()[source.value].is_written)});
  }
  return is_apart();
}

// ---- numbers that are not baked in

bool Trace::read_options() {
  std::vector<double> numbers;
  for (const Lift& lift : lifts) {
    numbers.clear();
    const std::span<Scalar> attributes = plan_->attributes(lift.step);
    if (!read_optimizer_options(lift.optimizer, lift.group, numbers) ||
        // With counts on a device there is a place in the list of tensors for each option, too.
        (numbers.size() + 2 != attributes.size() && 2 * numbers.size() + 2 != attributes.size()))
      return false;
    for (size_t i = 0; i < numbers.size(); ++i) attributes[2 + i] = numbers[i];
  }
  return true;
}

void Trace::set_random(RandomStream state) {
  for (const RandomStep& random : randoms) {
    const std::span<Scalar> attributes = plan_->attributes(random.step);
    attributes[random.seed] = state.seed;
    attributes[random.offset] = state.offset + random.counter;
  }
}

// ---- what is left behind

std::vector<Tensor> Trace::make_tensors() {
  std::vector<Tensor> tensors;
  tensors.reserve(made.size());
  for (const Made& each : made) {
    const Placement& place = each.placement;
    Tensor tensor(TensorImpl::create(plan_->memory(each.value), place.dtype, each.sizes,
                                     each.strides, place.offset));
    if (each.base >= 0) {
      const GradMode off(false);
      mark_view(tensor, tensors[static_cast<size_t>(each.base)]);
    }
    if (each.history == Made::History::Leaf) set_requires_grad(tensor, true);
    if (each.history == Made::History::Spent) {
      Ref<SpentEntry> node = Node::create<SpentEntry>(0, 0, std::span(&tensor, 1));
      node->stamp();
      set_history(tensor, std::move(node), 0);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

nb::object Trace::build(size_t& at, const std::vector<Tensor>& tensors) const {
  const Part& part = results[at++];
  switch (part.kind) {
    case Part::Kind::Tensor:
      return nb::steal(wrap(tensors[part.number]));
    case Part::Kind::Argument:
      return nb::steal(wrap(given_[part.number]));
    case Part::Kind::Value:
      return part.object;
    case Part::Kind::Tuple:
    case Part::Kind::Made: {
      nb::object tuple = nb::steal(PyTuple_New(part.number));
      for (uint32_t i = 0; i < part.number; ++i)
        PyTuple_SET_ITEM(tuple.ptr(), i, build(at, tensors).release().ptr());
      if (part.kind == Part::Kind::Tuple) return tuple;
      return part.object(*nb::borrow<nb::tuple>(tuple));
    }
    case Part::Kind::List: {
      nb::list list;
      for (uint32_t i = 0; i < part.number; ++i) list.append(build(at, tensors));
      return list;
    }
    case Part::Kind::Dict: {
      nb::dict dict;
      for (uint32_t i = 0; i < part.number; ++i) dict[part.object[i]] = build(at, tensors);
      return dict;
    }
  }
  return nb::none();
}

// ---- running

// What a run borrows, given back at its end.
class RunScope {
 public:
  RunScope(TracePlan& plan, std::vector<Tensor>& given) : plan_(plan), given_(given) {
    plan_.is_busy = true;
  }
  ~RunScope() {
    plan_.end();
    for (Tensor& each : given_) each = Tensor();
    plan_.is_busy = false;
  }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  TracePlan& plan_;
  std::vector<Tensor>& given_;
};

Trace::Outcome Trace::run(PyObject* args, PyObject* kwargs, nb::object& result) {
  if (plan_->is_busy) return Outcome::Busy;
  if (!is_anywhere && !(Environment() == environment_)) return Outcome::OtherEnvironment;
  const RunScope scope(*plan_, given_);
  if (!match_arguments(args, kwargs)) return Outcome::OtherArguments;
  if (!match_lasting() || (sees_which && gives_gradients())) return Outcome::OtherState;
  if (const int64_t change = watched_.find_change(); change >= 0) return Outcome::OtherState;
  if (!bind()) return Outcome::OtherArguments;
  if (!read_options()) return Outcome::OtherState;
  return execute(result);
}

// The memory of a gradient that is about to be replaced, and that nobody else holds, takes the next one.
void Trace::offer_grads() {
  for (const GradExit& exit : grads) {
    const AutogradMeta* meta = owner(exit.is_argument, exit.number)->meta();
    if (exit.made < 0 || !meta || !meta->grad.defined()) continue;
    const Storage& storage = meta->grad->storage();
    // A graph's own memory, which it holds as well, may have been looked at from Python.
    const bool ours = plan_->memory(made[static_cast<size_t>(exit.made)].value).get() == &storage;
    const auto* object = static_cast<PyObject*>(meta->grad->python_object());
    const bool alone = object ? ours && Py_REFCNT(object) == 1 : meta->grad->count() == 1;
    if (!alone || storage.use_count() != 1u + ours || storage.is_borrowed()) continue;
    if (storage.savers() || storage.has(Storage::kWasOut | Storage::kExposed | Storage::kLent))
      continue;
    plan_->offer(made[static_cast<size_t>(exit.made)].value, meta->grad->storage_ref());
  }
}

void Trace::set_grads(const std::vector<Tensor>& tensors, std::vector<Tensor>& former,
                      bool is_cut_off) {
  for (const GradExit& exit : grads) {
    AutogradMeta& meta = ensure_meta(owner(exit.is_argument, exit.number));
    Tensor made_grad;
    if (exit.made >= 0) {
      const uint32_t value = made[static_cast<size_t>(exit.made)].value;
      if (!is_cut_off || cpu_plan().was_made(value))
        made_grad = tensors[static_cast<size_t>(exit.made)];
      else if (meta.grad.defined() && &meta.grad->storage() != plan_->memory(value).get())
        continue;  // it was not replaced yet, and its memory is its own
    }
    former.push_back(std::move(meta.grad));
    meta.grad = std::move(made_grad);
  }
}

// A call failed, and what was there before has been written: leaves behind what the function would leave, as far as
// the order of the steps tells. All that the plan writes counts as written.
void Trace::leave_midway(RandomStream state) {
  for (TensorImpl* written : plan_->written()) note_write("compiled function", Tensor(written));
  if (!dynamic_cast<Plan*>(plan_.get())) return;
  uint64_t drawn = counters;
  for (const RandomStep& random : randoms)
    if (random.step >= cpu_plan().failed_at()) drawn = std::min(drawn, random.counter);
  if (drawn) default_generator().set_state({state.seed, state.offset + drawn});
  std::vector<Tensor> former;
  set_grads(make_tensors(), former, true);
}

Trace::Outcome Trace::execute(nb::object& result) {
  const RandomStream state = default_generator().state();
  set_random(state);
  offer_grads();
  std::vector<char> found;
  try {
    if (!plan_->is_ready()) return Outcome::Busy;
    if (plan_->run(found) != Plan::kNone) return Outcome::Guard;
  } catch (const nb::python_error&) {
    throw;  // an interrupt
  } catch (...) {
    // The function itself tells it better, if nothing has happened yet.
    if (plan_->failed_early()) return Outcome::Busy;
    leave_midway(state);
    throw;
  }
  if (counters) default_generator().set_state({state.seed, state.offset + counters});
  for (TensorImpl* written : plan_->written()) note_write("compiled function", Tensor(written));
  const std::vector<Tensor> tensors = make_tensors();
  std::vector<Tensor> former;  // whose end may run Python
  set_grads(tensors, former, false);
  size_t at = 0;
  result = build(at, tensors);
  plan_->end();
  return Outcome::Done;
}

int Trace::traverse(visitproc visit, void* arg) {
  Py_VISIT(program_.ptr());
  Py_VISIT(watch_.ptr());
  for (const std::vector<Part>* parts : {&arguments_form, &results})
    for (const Part& part : *parts) Py_VISIT(part.object.ptr());
  for (const Lift& lift : lifts) Py_VISIT(lift.group.ptr());
  for (const Lasting& each : lasting)
    if (void* object = each.tensor->python_object()) Py_VISIT(static_cast<PyObject*>(object));
  return 0;
}

void Trace::clear() {
  std::vector<Part> parts[] = {std::move(arguments_form), std::move(results)};
  std::vector<Lift> groups = std::move(lifts);
  std::vector<Lasting> tensors = std::move(lasting);
  arguments_form.clear();
  results.clear();
  lifts.clear();
  lasting.clear();
}

// ---- Python

template <class T>
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<T>(self)->traverse(visit, arg) : 0;
}

template <class T>
int clear(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<T>(self)->clear();
  return 0;
}

template <class T>
PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse<T>)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear<T>)},
                       {0, nullptr}};

void set_made(Trace& trace, nb::list described) {
  for (nb::handle item : described) {
    const auto [value, dtype, sizes, strides, offset, history, base] =
        nb::cast<std::tuple<uint32_t, DType, IntList, IntList, int64_t, int, int32_t>>(item);
    Made& each = trace.made.emplace_back();
    each.value = value;
    each.sizes = sizes.values;
    each.strides = strides.values;
    each.placement = {dtype, Device{}, offset, {}, {}};
    each.history = static_cast<Made::History>(history);
    each.base = base;
  }
}

void set_tensors(Trace& trace, nb::list arguments, nb::list lasting, nb::list sources,
                 nb::list grads) {
  for (nb::handle item : arguments) {
    trace.arguments.push_back(
        {nb::cast<const Form&>(item[0]), nb::cast<int32_t>(item[1]), nb::cast<int32_t>(item[2])});
  }
  for (nb::handle item : lasting) {
    trace.lasting.push_back({nb::cast<Tensor>(item[0]), nb::cast<const Form&>(item[1])});
  }
  for (nb::handle item : sources) {
    auto [value, is_argument, is_grad, number, offset] =
        nb::cast<std::tuple<uint32_t, bool, bool, uint32_t, int64_t>>(item);
    trace.sources.push_back({value, is_argument, is_grad, number, offset});
  }
  for (nb::handle item : grads) {
    auto [is_argument, number, made] = nb::cast<std::tuple<bool, uint32_t, int32_t>>(item);
    trace.grads.push_back({is_argument, number, made});
  }
}

// Random calls draw from where the generator is when a run begins, as far on as they did.
void find_randoms(Trace& trace, uint64_t seed, uint64_t begin, uint64_t end) {
  const std::vector<Program::Step>& steps = trace.plan().program().steps();
  auto has = [](const Op& op, std::string_view name) {
    return std::ranges::any_of(op.attributes, [&](std::string_view each) { return each == name; });
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    const Op* op = steps[i].call.op();
    if (!op || !has(*op, "seed") || !has(*op, "offset")) continue;
    const std::span<const Scalar> attributes = steps[i].call.attributes();
    if (has(*op, "dropout") && attributes[op->attribute("dropout")].as_double() == 0) continue;
    const RandomStep random{i, op->attribute("seed"), op->attribute("offset"), 0};
    const auto used_seed = static_cast<uint64_t>(attributes[random.seed].as_int());
    const auto offset = static_cast<uint64_t>(attributes[random.offset].as_int());
    if (!steps[i].call.outputs()[0].device.is_cpu()) continue;  // GraphPlan::set_random
    TAPEGRAD_CHECK_AS(ValueError, used_seed == seed && begin <= offset && offset <= end, op->name,
                      " draws from a generator of its own");
    trace.randoms.push_back(random);
    trace.randoms.back().counter = offset - begin;
  }
  TAPEGRAD_CHECK_AS(ValueError, begin <= end, "the generator was seeded");
  trace.counters = end - begin;
}

void set_numbers(Trace& trace, nb::list lifts, uint64_t seed, uint64_t begin, uint64_t end) {
  for (nb::handle item : lifts) {
    auto [step, optimizer, group] = nb::cast<std::tuple<size_t, size_t, nb::object>>(item);
    trace.lifts.push_back({step, optimizer, group});
  }
  find_randoms(trace, seed, begin, end);
}

bool traces_enabled = true;  // in all threads, at the user's wish

// The traces of a function, tried in order; the one that held last is tried first.
nb::object run_traces(nb::list traces, nb::tuple args, nb::dict kwargs, nb::object none_holds,
                      nb::object run_eagerly) {
  if (is_observed() || !traces_enabled) return run_eagerly;
  const Py_ssize_t count = PyList_GET_SIZE(traces.ptr());
  for (Py_ssize_t i = 0; i < count && i < PyList_GET_SIZE(traces.ptr()); ++i) {
    nb::object object = nb::borrow(PyList_GET_ITEM(traces.ptr(), i));
    nb::object result;
    const Trace::Outcome outcome = nb::cast<Trace&>(object).run(args.ptr(), kwargs.ptr(), result);
    if (outcome == Trace::Outcome::Busy) return run_eagerly;
    if (outcome != Trace::Outcome::Done) continue;
    if (i > 0 && PyList_GET_SIZE(traces.ptr()) == count) {
      PyObject* const former = PyList_GET_ITEM(traces.ptr(), 0);
      PyList_SET_ITEM(traces.ptr(), 0, PyList_GET_ITEM(traces.ptr(), i));
      PyList_SET_ITEM(traces.ptr(), i, former);
    }
    return result;
  }
  return none_holds;
}

// Whether any sweep from the tensor fails, because one has been through its history and freed what it needs: no
// leaf is reached but through an entry that has.
bool is_spent(const Tensor& x) {
  std::vector<Node*> waiting{grad_fn(x)};
  std::unordered_set<const Node*> seen;
  while (!waiting.empty()) {
    Node* node = waiting.back();
    waiting.pop_back();
    if (!node || !seen.insert(node).second || node->released()) continue;
    if (&node->kind() == &spent_entry) continue;
    if (node->edges().empty()) return false;
    for (const Edge& edge : node->edges()) waiting.push_back(edge.node.get());
  }
  return true;
}

// A trace inside a backward, or None where the function has to run itself.
nb::object run_in_sweep(Trace& trace, nb::tuple args) {
  nb::object result = nb::none();
  if (is_observed(true)) return result;
  const nb::dict none;
  if (trace.run(args.ptr(), none.ptr(), result) != Trace::Outcome::Done) return nb::none();
  return result;
}

// Calls visit(node) for all entries between tensors and those that they were computed from, until it returns false; false if it did.
template <class Visit>
bool each_entry(const std::vector<Tensor>& tensors, const std::vector<Tensor>& from,
                Visit&& visit) {
  std::vector<Node*> waiting;
  for (const Tensor& tensor : tensors) waiting.push_back(grad_fn(tensor));
  std::unordered_set<const Node*> seen;
  for (const Tensor& tensor : from) seen.insert(grad_fn(tensor));
  while (!waiting.empty()) {
    Node* node = waiting.back();
    waiting.pop_back();
    if (!node || !seen.insert(node).second) continue;
    if (!visit(*node)) return false;
    for (const Edge& edge : node->edges()) waiting.push_back(edge.node.get());
  }
  return true;
}

// Whether the history of tensors has no hooks nor functions of Python's, and ends at these leaves alone.
bool is_plain_graph(const std::vector<Tensor>& tensors, const std::vector<Tensor>& leaves) {
  return each_entry(tensors, leaves, [&](Node& node) {
    if (node.has_hooks() || node.is_placeholder() || node.is_transform_input()) return false;
    if (node.kind().role == EntryKind::Role::Custom) return false;
    for (const SavedValue& value : node.saved_values())
      if (value.packed() || value.coded()) return false;
    if (!node.is_accumulator()) return true;
    const Tensor& leaf = leaf_of(node);
    return std::ranges::any_of(leaves, [&](const Tensor& each) { return each.is_same(leaf); });
  });
}

// The numbers of the memory that is saved in the history of tensors.
std::vector<uintptr_t> saved_memory(const std::vector<Tensor>& tensors) {
  std::vector<uintptr_t> found;
  each_entry(tensors, {}, [&](Node& node) {
    for (Node* each = &node; each; each = each->inner_entry())
      for (const SavedValue& value : each->saved_values())
        value.with_stored([&](const Tensor& saved) {
          found.push_back(reinterpret_cast<uintptr_t>(&saved->storage()));
        });
    return true;
  });
  return found;
}

// (stride, multiple, lead, sizes, strides, part) of an operand, or None for one that is shown as it is.
using CutParts = std::optional<
    std::tuple<int64_t, int64_t, size_t, std::vector<int64_t>, std::vector<int64_t>, int64_t>>;

void add_group(Trace& trace, size_t begin, size_t end, int64_t rows, int64_t length, int64_t tile,
               int64_t together, size_t tile_bytes,
               const std::vector<std::pair<uint32_t, int64_t>>& inner,
               const std::vector<CutParts>& parts) {
  std::vector<Plan::Cut> cuts;
  for (const CutParts& each : parts) {
    Plan::Cut& cut = cuts.emplace_back();
    cut.is_whole = !each;
    if (each)
      std::tie(cut.stride, cut.multiple, cut.lead, cut.sizes, cut.strides, cut.part) = *each;
  }
  trace.cpu_plan().add_group({begin, end, rows, length, tile, together, tile_bytes}, cuts, inner);
}

void bind_watch(Binder& b) {
  auto handle = [](size_t (Watch::*add)(PyObject*)) {
    return [add](Watch& watch, nb::handle object) { return (watch.*add)(object.ptr()); };
  };
  nb::class_<Watch>(b.module(), "_Watch", nb::type_slots(slots<Watch>),
                    "Python objects as they were, to be compared with what they are.")
      .def(nb::init<>())
      .def("__len__", &Watch::size)
      .def("add_items",
           [](Watch& watch, nb::handle dict, nb::handle open) {
    return watch.add_items(dict.ptr(), open.ptr());
  }, "dict"_a, "open"_a.none() = nb::none(),
           "Watches all items of a dict; values of some keys may change.")
      .def("add_item",
           [](Watch& watch, nb::handle dict, nb::handle key) {
    return watch.add_item(dict.ptr(), key.ptr());
  }, "dict"_a, "key"_a, "Watches one item of a dict, or that there is none.")
      .def("add_list", handle(&Watch::add_list), "list"_a, "Watches a list.")
      .def("add_set", handle(&Watch::add_set), "set"_a, "Watches a set.")
      .def("add_cell", handle(&Watch::add_cell), "cell"_a, "Watches a variable of a closure.")
      .def("add_function", handle(&Watch::add_function), "function"_a,
           "Watches code and default arguments of a function.")
      .def("add_type", handle(&Watch::add_type), "type"_a, "Watches a class and its bases.")
      .def("add_instance", handle(&Watch::add_instance), "object"_a,
           "Watches which class an object has, and which dict.")
      .def("settle", [](Watch& watch, nb::handle dict) { watch.settle(dict.ptr()); }, "dict"_a,
           "Watches also what could change in a dict.")
      .def("find_change", &Watch::find_change,
           "The number of the first entry that differs; -1 if none does.");
  nb::class_<Form>(b.module(), "_Form", "What a tensor was at a moment, apart from its elements.")
      .def("__init__", [](Form* self, const Tensor& x) { new (self) Form(x); }, "tensor"_a)
      .def("fits",
           [](const Form& form, const Tensor& x, bool same_storage, bool same_grad) {
    return form.fits(*x.impl(), same_storage, same_grad);
  }, "tensor"_a, "same_storage"_a, "same_grad"_a, "Whether a tensor is like this.")
      .def_prop_ro("refusal",
                   [](const Form& form) {
    return std::string(form.refusal() ? form.refusal() : "");
  }, "Why no trace takes such a tensor, or an empty string.")
      .def("release", &Form::release, "Lets go of the memory.")
      .def_prop_ro("has_grad", &Form::has_grad, "Whether the tensor had a gradient.")
      .def_prop_ro("has_history", &Form::has_history, "Whether an op had made it.")
      .def_prop_ro("is_odd", &Form::is_odd, "Whether it had hooks, a tangent or a kept gradient.");
  nb::class_<Environment>(b.module(), "_Environment", "The modes of this thread.")
      .def(nb::init<>())
      .def("is_same", [](const Environment& a, const Environment& b) { return a == b; }, "other"_a,
           "Whether the modes are the same.");
}

}  // namespace

void bind_trace(Binder& b) {
  bind_watch(b);
  nb::class_<Trace>(b.module(), "_Trace", nb::type_slots(slots<Trace>),
                    "A captured call of a function, made ready to run again.")
      .def(nb::init<nb::object, const std::vector<std::tuple<int, int64_t, std::optional<Tensor>>>&,
                    size_t, nb::object, const Environment&, int>(),
           "program"_a, "homes"_a, "arena_bytes"_a, "watch"_a, "environment"_a, "device"_a = -1)
      .def("add_group", add_group, "begin"_a, "end"_a, "rows"_a, "length"_a, "tile"_a, "together"_a,
           "tile_bytes"_a, "inner"_a, "cuts"_a, "Lets steps run tile by tile.")
      .def("set_structure",
           [](Trace& trace, nb::list arguments, nb::list results) {
    trace.arguments_form = read_parts(arguments);
    trace.results = read_parts(results);
  }, "arguments"_a, "results"_a, "Trees of arguments and results, in preorder.")
      .def("set_tensors", set_tensors, "arguments"_a, "lasting"_a, "sources"_a, "grads"_a,
           "The tensors that it meets, and whose memory values are.")
      .def("set_made", set_made, "made"_a, "The tensors that it leaves behind.")
      .def("set_numbers", set_numbers, "lifts"_a, "seed"_a, "begin"_a, "end"_a,
           "Steps whose attributes are read anew.")
      .def("ignore_gradients", [](Trace& trace) { trace.sees_grads = false; },
           "Lets tensors have a .grad or none: nothing looks at them.")
      .def("watch_offsets", [](Trace& trace) { trace.sees_offsets = true; },
           "Asks of arguments that they begin where they did in their memory.")
      .def("watch_gradients", [](Trace& trace) { trace.sees_which = true; },
           "Asks that no tensor it knows is another's gradient.")
      .def("undo_errors", [](Trace& trace, size_t step) { trace.cpu_plan().undo_errors(step); },
           "step"_a, "Puts back what was written where a step up to this one fails.")
      .def("run_anywhere", [](Trace& trace) { trace.is_anywhere = true; },
           "Lets it run whatever the modes are: they have done their part.")
      .def("settle", &Trace::settle, "All is set.")
      .def("capture", [](Trace& trace, uint64_t seed, uint64_t begin, uint64_t end) {
    trace.graph_plan().set_random(seed, begin, end);
    for (const Lift& lift : trace.lifts) trace.graph_plan().leave_out(lift.step);
    trace.graph_plan().capture();
  }, "seed"_a, "begin"_a, "end"_a, "Captures the graphs of a trace on a CUDA device.");
  b.function("_run_traces", run_traces, "traces"_a, "args"_a, "kwargs"_a, "none_holds"_a,
             "run_eagerly"_a, "Runs the first trace that holds, or returns one of two answers.");
  b.function("_set_traces_enabled", [](bool enabled) { traces_enabled = enabled; }, "enabled"_a,
             "Lets compiled functions replay traces, or run themselves.");
  b.function("_run_in_sweep", run_in_sweep, "trace"_a, "args"_a,
             "What a trace of a backward gives; None where it does not hold.");
  b.function("_sweeps_begun", sweeps_begun, "How many sweeps have begun.");
  b.function("_is_plain_graph", is_plain_graph, "tensors"_a, "leaves"_a,
             "Whether the history of tensors has no hooks and ends at these leaves alone.");
  b.function("_saved_memory", saved_memory, "tensors"_a,
             "The numbers of the memory that is saved in the history of tensors.");
  b.function("_rewind_generator", [](uint64_t counters) {
    Generator& generator = default_generator();
    const RandomStream state = generator.state();
    generator.set_state({state.seed, state.offset - counters});
  }, "counters"_a, "Sets the default generator back by as much as was drawn.");
  b.function("_is_observed", [] { return is_observed(); },
             "Whether something wants to see each op of this thread by itself.");
  b.function("_is_spent", is_spent, "x"_a, "Whether the history of a tensor was swept and freed.");
  b.function("_generator_state", [] {
    const RandomStream state = default_generator().state();
    return std::make_pair(state.seed, state.offset);
  }, "Seed and offset of the default generator.");
  b.function("_cuda_generator_state", [](int device) {
    const RandomStream state =
        default_generator(Device{DeviceType::CUDA, static_cast<uint8_t>(device)}).state();
    return std::make_pair(state.seed, state.offset);
  }, "device"_a, "Seed and offset of the default generator of a CUDA device.");
  b.function("_op_attributes", [](const std::string& name) {
    const Op* op = find_op(name);
    std::vector<std::string> names;
    if (op) names.assign(op->attributes.begin(), op->attributes.end());
    return names;
  }, "name"_a, "The names of an op's attributes.");
  b.function("_rows_of_part", rows_of_part, "rows"_a, "length"_a,
             "How many rows have sums of their own where a matrix is summed over its rows.");
  b.function("_op_overwrites", [](const std::string& name) {
    const Op* op = find_op(name);
    return op && (op->traits & kOverwrites);
  }, "name"_a, "Whether an op may write its first output over its first input.");
}

}  // namespace tapegrad::python
