// The tape seen from outside: which entries there are, and what each of them is and keeps. What
// tapegrad/tape is built on.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/allocator.h"
#include "engine/stepped_sweep.h"
#include "graph/accumulate.h"
#include "graph/budget.h"
#include "graph/coding.h"
#include "graph/record.h"
#include "graph/tape_memory.h"
#include "intercept/batch.h"
#include "intercept/profile.h"
#include "python/binding.h"
#include "python/collector.h"
#include "python/node_object.h"

namespace tapegrad::python {

namespace {

using Nodes = std::vector<Node*>;

// In tape order, as Python's objects.
nb::list to_list(Nodes nodes) {
  std::sort(nodes.begin(), nodes.end(),
            [](const Node* a, const Node* b) { return a->sequence() < b->sequence(); });
  nb::list list;
  for (Node* node : nodes) list.append(nb::steal(wrap_node(node)));
  return list;
}

Nodes to_nodes(const nb::list& objects) {
  Nodes nodes;
  for (nb::handle object : objects) {
    nodes.push_back(node_from(object.ptr()));
    TAPEGRAD_CHECK_AS(TypeError, nodes.back(), "tape: expected entries of the tape, got ",
                      Py_TYPE(object.ptr())->tp_name);
  }
  return nodes;
}

// All entries that gradients of the tensors flow through.
nb::list tape_of(const std::vector<Tensor>& tensors) {
  std::unordered_set<Node*> seen;
  Nodes waiting, found;
  std::vector<Ref<Node>> roots;  // a leaf's accumulating entry may be made just for this
  auto visit = [&](Node* node) {
    if (node && seen.insert(node).second) waiting.push_back(node);
  };
  for (const Tensor& tensor : tensors) {
    roots.push_back(real_edge(tensor).node);
    visit(roots.back().get());
  }
  while (!waiting.empty()) {
    Node* node = waiting.back();
    waiting.pop_back();
    found.push_back(node);
    for (const Edge& edge : node->edges()) visit(edge.node.get());
  }
  return to_list(std::move(found));
}

// All live entries whose sequence number lies in [first, last).
nb::list tape_live(uint64_t first, uint64_t last) {
  Nodes found;
  for (Node* node : live_nodes())
    if (node->count() > 0 && node->sequence() >= first && node->sequence() < last &&
        node->sequence() > 0)
      found.push_back(node);
  return to_list(std::move(found));
}

void mark_saved(Node& node, const std::unordered_set<const Storage*>& storages, bool overwritten) {
  for (SavedValue& value : node.saved_values()) {
    bool shows = false;
    value.with_tensor(
        [&](const Tensor& x) { shows = storages.contains(&Batches::owner(x->storage())); });
    if (shows) value.set_overwritten(overwritten);
  }
  if (Node* inner = node.inner_entry()) mark_saved(*inner, storages, overwritten);
}

// A replay has written to the memory of these tensors. What entries in [first, last) saved there has its
// new value then, unless the replay failed; what others saved there is lost.
void tape_overwritten(uint64_t first, uint64_t last, const std::vector<Tensor>& written,
                      bool failed) {
  std::unordered_set<const Storage*> storages;
  for (const Tensor& tensor : written) storages.insert(&Batches::owner(tensor->storage()));
  for (Node* node : live_nodes())
    if (node->count() > 0)
      mark_saved(*node, storages, failed || node->sequence() < first || node->sequence() >= last);
}

constexpr const char* kRoles[] = {"value", "input", "output"};

const char* state_of(const Storage& storage) {
  if (storage.has(Storage::kLeaf)) return "leaf";
  return storage.has(Storage::kEvicted) ? "evicted" : "held";
}

// The inputs whose gradients are computed from a saved value; none for all of them.
nb::object inputs_of(const SavedName& saved) {
  if (saved.inputs == 0xff) return nb::none();
  nb::list inputs;
  for (int i = 0; i < 8; ++i)
    if (saved.inputs >> i & 1) inputs.append(i);
  return nb::tuple(inputs);
}

// One string for each device, whatever the number of entries.
nb::object device_name(Device device) {
  static PyObject* names[kDevicePlaces] = {};
  PyObject*& found = names[place_of(device)];
  if (!found) found = PyUnicode_InternFromString(to_string(device).c_str());
  return nb::borrow(found);
}

// (name, inputs, role, state, shape, dtype, bytes, storage, bytes of the storage, device) of each saved value.
void describe_saved(Node& node, nb::list& result) {
  std::span<SavedValue> values = node.saved_values();
  for (size_t i = 0; i < values.size(); ++i) {
    const SavedValue& value = values[i];
    std::string name = node.saved_name(i);
    nb::object inputs = inputs_of(node.kind().saved_at(node.saved_place(i)));
    const char* role = value.is_number() ? "number" : kRoles[static_cast<int>(value.history())];
    if (value.packed()) {
      result.append(nb::make_tuple(name, inputs, role, "packed", nb::none(), nb::none(), 0, 0, 0,
                                   nb::none()));
    } else if (!value.defined()) {
      if (node.released())
        result.append(nb::make_tuple(name, inputs, role, "dropped", nb::none(), nb::none(), 0, 0, 0,
                                     nb::none()));
      continue;
    }
    value.with_tensor([&](const Tensor& x) {
      const Storage& storage = x->storage();
      result.append(nb::make_tuple(
          name, inputs, role, state_of(storage), IntList{DimVector(x.sizes())}, x.dtype(),
          static_cast<size_t>(x.numel()) * itemsize(x.dtype()),
          reinterpret_cast<uintptr_t>(&storage), storage.nbytes(), device_name(storage.device())));
    });
    const Coded* coded = value.coded();
    for (size_t part = 0; coded && part < coded->payload->parts.size(); ++part) {
      const Storage& storage = coded->payload->parts[part]->storage();
      const std::string part_name = name + " (" + tapegrad::name(coded->payload->codec) + ")";
      result.append(nb::make_tuple(part_name, inputs, role, state_of(storage),
                                   IntList{coded->sizes}, coded->payload->dtype, storage.nbytes(),
                                   reinterpret_cast<uintptr_t>(&storage), storage.nbytes(),
                                   device_name(storage.device())));
    }
  }
  if (Node* inner = node.inner_entry()) describe_saved(*inner, result);
}

nb::tuple describe(Node& node, const std::unordered_map<const Node*, int64_t>& places) {
  nb::list edges, outputs, saved;
  for (const Edge& edge : node.edges()) {
    auto found = places.find(edge.node.get());
    edges.append(nb::make_tuple(edge.node ? found == places.end() ? -2 : found->second : -1,
                                edge.output_number));
  }
  for (size_t i = 0; i < node.output_count(); ++i)
    outputs.append(nb::make_tuple(IntList{DimVector(node.output_sizes(i))}, node.output_dtype(i),
                                  device_name(node.output_device(i))));
  describe_saved(node, saved);
  nb::object leaf = nb::none();
  if (node.is_accumulator()) leaf = nb::steal(wrap(leaf_of(node)));
  return nb::make_tuple(node.name(), node.function(), node.sequence(), node.line(), edges, outputs,
                        saved, leaf, node.released());
}

nb::list tape_describe(const nb::list& objects) {
  Nodes nodes = to_nodes(objects);
  std::unordered_map<const Node*, int64_t> places;
  for (size_t i = 0; i < nodes.size(); ++i) places.emplace(nodes[i], static_cast<int64_t>(i));
  nb::list result;
  for (Node* node : nodes) result.append(describe(*node, places));
  return result;
}

// ---- a sweep that Python steps through: tapegrad/tape/sweeping.py

using MaybeTensors = std::vector<std::optional<Tensor>>;

nb::list to_objects(std::span<const Tensor> tensors) {
  nb::list list;
  for (const Tensor& tensor : tensors)
    list.append(tensor.defined() ? nb::steal(wrap(tensor)) : nb::none());
  return list;
}

Node& entry_from(nb::handle object) {
  Node* node = node_from(object.ptr());
  TAPEGRAD_CHECK_AS(TypeError, node, "tape: expected an entry of the tape, got ",
                    Py_TYPE(object.ptr())->tp_name);
  return *node;
}

// The next entry and the gradients of its outputs, or None.
nb::object next_entry(SteppedSweep& sweep) {
  Node* node = sweep.next();
  if (!node) return nb::none();
  return nb::make_tuple(nb::steal(wrap_node(node)), to_objects(sweep.grads()));
}

nb::list run_next_entry(SteppedSweep& sweep, const MaybeTensors& grads) {
  Gradients buffers = sweep.grads();
  TAPEGRAD_CHECK(grads.size() == buffers.size(), "tape: the entry has ", buffers.size(),
                 " outputs, but ", grads.size(), " gradients were given");
  for (size_t i = 0; i < grads.size(); ++i) buffers[i] = grads[i].value_or(Tensor());
  return to_objects(sweep.run());
}

void send_on(SteppedSweep& sweep, const MaybeTensors& grads) {
  std::vector<Tensor> tensors;
  for (const std::optional<Tensor>& grad : grads) tensors.push_back(grad.value_or(Tensor()));
  sweep.send(std::move(tensors));
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  return traverse_sweep(self, *nb::inst_ptr<SteppedSweep>(self), visit, arg);
}

PyType_Slot sweep_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {0, nullptr}};

void bind_stepped_sweep(Binder& b) {
  nb::class_<SteppedSweep>(b.module(), "_SteppedSweep", nb::type_slots(sweep_slots),
                           "A reverse sweep, one entry at a time; the graph stays.")
      .def(nb::init<std::vector<Tensor>, const std::vector<Tensor>&>(), "roots"_a, "grads"_a)
      .def("next", next_entry,
           "Goes on to the next entry: (entry, gradients of its outputs), or None at the end.")
      .def("run", run_next_entry, "grads"_a,
           "The gradients that the entry makes of those of its outputs.")
      .def("send", send_on, "grads"_a, "Sends gradients on to the entries of its inputs.")
      .def("waiting",
           [](SteppedSweep& sweep) {
    nb::list list;
    for (Node* node : sweep.waiting()) list.append(nb::steal(wrap_node(node)));
    return list;
  }, "The entries for which gradients have arrived, the next to run first.")
      .def("adjoint",
           [](SteppedSweep& sweep, nb::handle node, size_t number) {
    Tensor grad = sweep.adjoint(entry_from(node), number);
    return grad.defined() ? std::optional<Tensor>(grad) : std::nullopt;
  }, "node"_a, "output_number"_a, "What has arrived for an output of an entry, or None.")
      .def("set_adjoint",
           [](SteppedSweep& sweep, nb::handle node, size_t number, std::optional<Tensor> grad) {
    sweep.set_adjoint(entry_from(node), number, grad.value_or(Tensor()));
  }, "node"_a, "output_number"_a, "grad"_a.none(),
           "Replaces what has arrived for an output of an entry that is still to run.");
}

// (device, bytes that are saved there, the most at a time), where there are any or have been.
nb::list saved_bytes_by_device() {
  nb::list result;
  for (int place = 0; place < kDevicePlaces; ++place) {
    const Device device = device_at(place);
    const int64_t peak = Budget::peak(device);
    if (peak > 0) result.append(nb::make_tuple(device_name(device), saved_bytes[place].live, peak));
  }
  return result;
}

nb::dict budget_stats() {
  const Budget::Stats& stats = Budget::stats();
  nb::dict result;
  result["evictions"] = stats.evictions;
  result["recomputed"] = stats.recomputed;
  result["recompute_seconds"] = static_cast<double>(stats.recompute_time) * 1e-9;
  result["evicted"] = Budget::evicted_count();
  return result;
}

// What an out-of-memory error adds: the largest entries on that device, found by tapegrad.tape.
std::string explain(Device device) {
  if (!Py_IsInitialized() || !PyGILState_Check()) return {};
  try {
    nb::object module = nb::module_::import_("tapegrad.tape.errors");
    return nb::cast<std::string>(module.attr("largest_entries")(to_string(device)));
  } catch (...) {
    PyErr_Clear();
    return {};  // the error itself is what matters
  }
}

nb::list entry_kinds() {
  nb::list result;
  for (const EntryKind* kind : all_entry_kinds()) {
    nb::list saved;
    for (const SavedName& each : kind->saved)
      saved.append(nb::make_tuple(each.name, inputs_of(each)));
    nb::object op = kind->op ? nb::cast(kind->op->name) : nb::none();
    result.append(
        nb::make_tuple(kind->name, kind->function, name(kind->role), op, nb::tuple(saved)));
  }
  return result;
}

}  // namespace

void bind_tape(Binder& b) {
  explain_memory = explain;
  b.function("_tape_of", tape_of, "tensors"_a, "The entries behind tensors, in tape order.");
  b.function("_tape_live", tape_live, "first"_a, "last"_a,
             "The live entries with a sequence number in [first, last), in tape order.");
  b.function(
      "_tape_describe", tape_describe, "nodes"_a,
      "(name, op, sequence, line, edges, outputs, saved values, leaf, released) of each entry. "
      "An edge is (place in the list or -1, output number), -2 for an entry that is not in "
      "the list.");
  b.function(
      "_entry_kinds", entry_kinds,
      "(name, function, role, op or None, saved values) of every kind of entry that the "
      "library records. A saved value is (name, the inputs whose gradients are computed from "
      "it), None for all inputs.");
  b.function("_function_of_class", EntryKind::function_of_class, "name"_a,
             "What the tape calls a custom function, by the name of its class.");
  b.function("_tape_overwritten", tape_overwritten, "first"_a, "last"_a, "written"_a, "failed"_a,
             "Marks what entries saved of memory that a replay has written.");
  bind_stepped_sweep(b);
  b.function("_budget_start", Budget::start, "limit"_a, "strict"_a,
             "Keeps the tape under a number of bytes from now on; returns what ends it.");
  b.function("_budget_stop",
             [](int64_t number) {
    Budget::Outcome outcome = Budget::stop(number);
    return std::tuple(outcome.peak, outcome.shortfall, outcome.obstacles,
                      to_string(outcome.device));
  }, "number"_a,
             "Ends a budget; returns the most bytes saved at a time on a device, by how many the "
             "limit was passed there, what was irreducible then, and the device.");
  b.function("_saved_bytes", saved_bytes_by_device,
             "(device, bytes that saved values show there, the most at a time) of each device.");
  b.function("_budget_stats", budget_stats, "What the budget did since it began.");
  b.function("_storage_uses", [](uintptr_t id) {
    return reinterpret_cast<const Storage*>(id)->use_count();
  }, "storage"_a, "How many hold the memory with this number (_storage_id); the caller must.");
  b.function("_storage_is_evicted", [](uintptr_t id) {
    return reinterpret_cast<const Storage*>(id)->has(Storage::kEvicted);
  }, "storage"_a, "Whether a budget has evicted the memory with this number, likewise.");
  b.function("_is_charged", [](const Tensor& x) {
    return x->storage().savers() == 0 && !x->storage().has(Storage::kLeaf);
  }, "tensor"_a, "Whether the tape will be charged for a tensor's memory when it saves it.");
  b.function("_is_unguarded", [](const Tensor& x) { return x->storage().is_unguarded(); },
             "tensor"_a, "Whether a tensor's memory may be written unseen, by NumPy for one.");
  b.function("_next_sequence", [] { return next_sequence; },
             "The sequence number of the next entry.");
}

}  // namespace tapegrad::python
