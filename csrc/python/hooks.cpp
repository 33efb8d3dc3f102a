// Hooks on tensors and entries, hooks on what the tape saves, and errors that name their entry.
#include "graph/hooks.h"
#include "graph/packing.h"

#include "core/error.h"
#include "engine/anomaly.h"
#include "engine/events.h"
#include "engine/sweep.h"
#include "graph/accumulate.h"
#include "graph/record.h"
#include "graph/write_log.h"
#include "intercept/batch.h"
#include "ops/copy.h"
#include "python/binding.h"
#include "python/callback.h"
#include "python/collector.h"
#include "python/node_object.h"
#include "python/sparse.h"
#include "python/text.h"

namespace tapegrad::python {

namespace {

// ---- calling

// The hooks as they are now: one may remove itself while it runs.
nb::list hooks_of(void* dict) {
  nb::handle hooks(static_cast<PyObject*>(dict));
  return nb::steal<nb::list>(PyMapping_Values(hooks.ptr()));
}

nb::object to_python(const Tensor& tensor) { return nb::steal(wrap(tensor)); }

nb::tuple to_tuple(Gradients grads) {
  nb::list list;
  for (const Tensor& grad : grads) list.append(to_python(grad));
  return nb::tuple(list);
}

std::string name_of(nb::handle function) {
  if (nb::hasattr(function, "__qualname__")) return str_of(function.attr("__qualname__"));
  return str_of(nb::type_name(function.type()));
}

Tensor replacement(nb::handle hook, nb::handle result, const Tensor& grad) {
  TAPEGRAD_CHECK_AS(TypeError, is_any_tensor(result.ptr()), "hook '", name_of(hook),
                    "': expected it to return a Tensor or None, got ",
                    Py_TYPE(result.ptr())->tp_name);
  Tensor replaced = tensor_of(result.ptr());
  TAPEGRAD_CHECK(!grad.defined() || same_sizes(replaced.sizes(), grad.sizes()), "hook '",
                 name_of(hook), "': has changed the size of value from ",
                 grad.defined() ? to_string(grad.sizes()) : "", " to ",
                 to_string(replaced.sizes()));
  TAPEGRAD_CHECK(!grad.defined() || replaced.dtype() == grad.dtype(), "hook '", name_of(hook),
                 "': has changed the type of value");
  return replaced;
}

Tensor call(void* dict, const Tensor& grad) {
  Tensor current = grad;
  for (nb::handle hook : hooks_of(dict)) {
    nb::object result = call_back(hook, to_python(current));
    if (!result.is_none()) current = replacement(hook, result, current);
  }
  return current;
}

void notify(void* dict, const Tensor& tensor) {
  for (nb::handle hook : hooks_of(dict)) {
    nb::object result = call_back(hook, to_python(tensor));
    TAPEGRAD_CHECK(result.is_none(), "hook '", name_of(hook),
                   "': post accumulate grad hooks should return None");
  }
}

// A tuple with a Tensor or None for each gradient; a single one may come bare.
void replace_all(nb::handle hook, nb::object result, Gradients grads) {
  if (result.is_none()) return;
  if (!nb::isinstance<nb::tuple>(result)) result = nb::make_tuple(result);
  TAPEGRAD_CHECK(nb::len(result) == grads.size(), "hook '", name_of(hook), "': expected ",
                 grads.size(), " values, got ", nb::len(result));
  size_t i = 0;
  for (nb::handle item : nb::borrow<nb::tuple>(result)) {
    grads[i] = item.is_none() ? Tensor() : replacement(hook, item, grads[i]);
    ++i;
  }
}

void before(void* dict, Gradients grads) {
  for (nb::handle hook : hooks_of(dict)) replace_all(hook, call_back(hook, to_tuple(grads)), grads);
}

void after(void* dict, Gradients grad_inputs, Gradients grads) {
  for (nb::handle hook : hooks_of(dict))
    replace_all(hook, call_back(hook, to_tuple(grad_inputs), to_tuple(grads)), grad_inputs);
}

// ---- registering

nb::object new_hooks() { return nb::module_::import_("collections").attr("OrderedDict")(); }

nb::object get_or_make(HookList& list) {
  if (!list) list = HookList(new_hooks().ptr());
  return nb::borrow(nb::handle(static_cast<PyObject*>(list.object())));
}

nb::object tensor_hooks(const Tensor& self) {
  Node* node = grad_fn(self);
  track_leaf(self);
  if (!node) return get_or_make(ensure_extras(self).hooks);
  node->set_collected();
  uint32_t number = self->meta()->output_number;
  std::vector<NodeHooks::OfOutput>& all = ensure_hooks(*node).tensor_hooks;
  for (NodeHooks::OfOutput& of : all)
    if (of.output_number == number) return get_or_make(of.hooks);
  all.push_back({number, HookList()});
  return get_or_make(all.back().hooks);
}

nb::object accumulate_hooks(const Tensor& self) {
  TAPEGRAD_CHECK(is_leaf(self),
                 "register_post_accumulate_grad_hook: post accumulate grad hooks cannot be "
                 "registered on non-leaf tensors");
  track_leaf(self);
  return get_or_make(ensure_extras(self).accumulate_hooks);
}

nb::object node_hooks(nb::handle object, bool run_before) {
  Node* node = node_from(object.ptr());
  TAPEGRAD_CHECK_AS(TypeError, node, "register_hook: expected a Node");
  node->set_collected();
  NodeHooks& hooks = ensure_hooks(*node);
  return get_or_make(run_before ? hooks.before : hooks.after);
}

// ---- saved values

struct PackHooks {
  nb::object pack, unpack;
  bool packed_before;  // whether hooks were in force outside the block
};
// Freed only with the thread's interpreter state, hence by hand.
thread_local std::vector<PackHooks>* pack_hooks = nullptr;
thread_local std::string* hooks_disabled = nullptr;

void* pack(const Tensor& tensor, Node* history, uint32_t number) {
  const PackHooks hooks = pack_hooks->back();
  uint32_t version = tensor->storage().version();
  nb::object packed = call_back(hooks.pack, to_python(tensor));
  TAPEGRAD_CHECK(tensor->storage().version() == version,
                 "saved_tensors_hooks: A saved tensor pack hook is modifying its input in place; "
                 "tensors provided as input to a pack hook can not be modified by in-place "
                 "operations; use a .clone() there");
  return nb::make_tuple(hooks.unpack, packed, nb::steal(wrap_node(history)), number)
      .release()
      .ptr();
}

Node* history_of(void* object, uint32_t* number) {
  nb::handle packed(static_cast<PyObject*>(object));
  *number = nb::cast<uint32_t>(packed[3]);
  return node_from(nb::object(packed[2]).ptr());
}

Tensor unpack(void* object) {
  nb::handle pair(static_cast<PyObject*>(object));
  nb::object value = call_back(nb::object(pair[0]), nb::object(pair[1]));
  TAPEGRAD_CHECK_AS(TypeError, is_tensor(value.ptr()),
                    "saved_tensors_hooks: Output of saved tensor unpack_hook expected to be a "
                    "Tensor but got result of type ",
                    Py_TYPE(value.ptr())->tp_name);
  return tensor_of(value.ptr());
}

void release_packed(void* object) noexcept { Py_DECREF(static_cast<PyObject*>(object)); }

void push_saved_hooks(nb::object pack_hook, nb::object unpack_hook) {
  TAPEGRAD_CHECK(!hooks_disabled, *hooks_disabled);
  if (!pack_hooks) pack_hooks = new std::vector<PackHooks>();
  pack_hooks->push_back({std::move(pack_hook), std::move(unpack_hook), packing});
  packing = true;
}

void pop_saved_hooks() {
  TAPEGRAD_CHECK(pack_hooks && !pack_hooks->empty(),
                 "saved_tensors_hooks: there are no hooks to remove");
  packing = pack_hooks->back().packed_before;
  pack_hooks->pop_back();
}

// Suspends the hooks of this thread, or restores them; returns whether they were in force.
bool set_packing(bool on) {
  const bool any = pack_hooks && !pack_hooks->empty();
  return std::exchange(packing, on && any);
}

// The message with which hooks are refused from now on, or None; returns the one before.
std::optional<std::string> disable_saved_hooks(std::optional<std::string> message) {
  TAPEGRAD_CHECK(!message || !packing, *message);
  std::optional<std::string> previous;
  if (hooks_disabled) previous = *hooks_disabled;
  delete std::exchange(hooks_disabled, message ? new std::string(*message) : nullptr);
  return previous;
}

PyObject* before_write_hook = nullptr;

void set_before_write(nb::object hook) {
  Py_XSETREF(before_write_hook, hook.is_none() ? nullptr : hook.inc_ref().ptr());
  before_write = nullptr;
  if (before_write_hook)
    before_write = [](const Tensor& self) { call_back(before_write_hook, to_python(self)); };
}

// ---- errors

// ", module blocks.0" where it is known; finding out must not fail.
std::string module_of(const Node& node) {
  try {
    nb::object errors = nb::module_::import_("tapegrad.tape.errors");
    nb::object object = nb::steal(wrap_node(const_cast<Node*>(&node)));
    auto name = nb::cast<std::string>(errors.attr("module_of")(object));
    return name.empty() ? name : ", module " + name;
  } catch (...) {
    PyErr_Clear();
    return {};
  }
}

// Adds to the exception in flight which entry it came from.
void annotate(const Node& node) {
  auto text = [&] {
    return concat("while running ", node.name(), ", recorded at ", node.line(), module_of(node));
  };
  try {
    throw;
  } catch (Error& error) {
    if (!error.names_entry && error.text.find("recorded at") == std::string::npos &&
        error.text.find("saved by") == std::string::npos)
      error.text += " (" + text() + ")";
    error.names_entry = true;
  } catch (nb::python_error& error) {
    nb::handle value = error.value();
    if (!value.is_valid() || nb::hasattr(value, "__notes__")) return;
    // What add_note() does, which Python 3.10 does not have.
    nb::list notes;
    notes.append(text());
    value.attr("__notes__") = notes;
  } catch (...) {
  }
}

}  // namespace

void bind_hooks(Binder& b) {
  b.function("_packing_op", [] { return packing_for ? packing_for->function() : std::string(); },
             "What the tape calls the op whose value a pack hook is given; empty outside of one.");
  HookList::calls = {
      [](void* dict) { Py_INCREF(static_cast<PyObject*>(dict)); },
      [](void* dict) noexcept { Py_DECREF(static_cast<PyObject*>(dict)); },
      call,
      notify,
      before,
      after,
  };
  saved_hooks = {pack, unpack, history_of, release_packed};
  annotate_error = annotate;
  track_tensor = track;
  warn_user = [](const std::string& text) {
    if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw nb::python_error();
  };
  holds_objects = holds_python_objects;
  b.function("_tensor_hooks", [](const AnyTensor& x) { return tensor_hooks(x); }, "tensor"_a,
             "The dict of a tensor's gradient hooks.");
  b.function("_accumulate_hooks", [](const AnyTensor& x) { return accumulate_hooks(x); },
             "tensor"_a, "The dict of a leaf's hooks that run after its gradient has arrived.");
  b.function("_node_hooks", node_hooks, "node"_a, "before"_a, "The dict of an entry's hooks.");
  b.function("_track_referents", [](nb::handle object) { track_referents(object.ptr()); },
             "object"_a, "Makes the collector of cycles track the tensors an object refers to.");
  b.function("_push_saved_hooks", push_saved_hooks, "pack"_a, "unpack"_a,
             "Packs what the tape saves from now on.");
  b.function("_pop_saved_hooks", pop_saved_hooks, "Ends the innermost packing.");
  b.function("_set_packing", set_packing, "on"_a,
             "Lifts the hooks on saved values, or ends that; returns whether they were in force.");
  b.function("_disable_saved_hooks", disable_saved_hooks, "message"_a.none(),
             "Refuses hooks with a message from now on, or not with None.");
  b.function("_set_before_write", set_before_write, "hook"_a.none(),
             "Calls a function with each tensor that is about to be written in place.");
  b.function("_increment_version", [](const Tensor& x) { note_write("increment_version", x); },
             "tensor"_a, "Declares the tensor written to.");
  b.function("_current_sweep", current_sweep, "The number of the backward that runs this hook.");
  b.function(
      "_call_after_sweeps",
      [](nb::callable function) {
    call_after_sweeps([kept = std::move(function)] { call_back(kept); });
  }, "function"_a,
      "Calls a function when the outermost backward of this thread is over, unless it fails.");
  b.function("_want_early_leaves", [](bool wanted) {
    wanted ? ++early_leaves : --early_leaves;
  }, "wanted"_a, "Lets leaves get their gradients as soon as they can, or ends one such wish.");
  b.function("_will_reach", [](const std::vector<nb::object>& objects) {
    std::vector<Node*> nodes;
    for (nb::handle object : objects) nodes.push_back(node_from(object.ptr()));
    return will_reach(nodes);
  }, "nodes"_a, "Which of the entries the backward that runs this hook will come to.");
  b.function("_storage_id", [](const AnyTensor& x) {
    return reinterpret_cast<uintptr_t>(&x->storage());
  }, "tensor"_a, "A number that tensors over the same memory share.");
  b.function("_memory_id", [](const Tensor& x) {
    return reinterpret_cast<uintptr_t>(&Batches::owner(x->storage()));
  }, "tensor"_a, "The same, also for what a vmap showed of the memory.");
  b.function("_set_anomaly", set_anomaly, "enabled"_a, "check_nan"_a,
             "Turns anomaly detection on or off.");
  b.function("_anomaly", [] { return std::pair(anomaly.enabled, anomaly.check_nan); },
             "(enabled, check_nan) of anomaly detection.");
  b.function("_set_data_writes_are_errors", [](bool on) {
    return std::exchange(data_writes_are_errors, on);
  }, "on"_a, "Whether a write through .data to a saved value raises; returns how it was.");
  b.function("_set_inference", [](bool on) {
    uint16_t& flags = storage_context.flags;
    bool before = flags & Storage::kInference;
    flags = static_cast<uint16_t>(on ? flags | Storage::kInference : flags & ~Storage::kInference);
    return before;
  }, "on"_a, "Turns inference mode on or off on this thread; returns how it was.");
  b.function("_is_inference", [] { return bool(storage_context.flags & Storage::kInference); },
             "Whether this thread is in inference mode.");
  b.method("is_inference", [](const Tensor& self) { return self->storage().is_inference(); },
           "Whether the tensor was made in inference mode.");
}

}  // namespace tapegrad::python
