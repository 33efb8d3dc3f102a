#include "python/watch.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "python/binding.h"
#include "python/interpreter.h"

namespace tapegrad::python {

namespace {

bool is_plain_equal(PyObject* a, PyObject* b) {
  if (PyFloat_CheckExact(a)) {
    const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (PyTuple_Check(a)) {  // of one type, and without attributes: named tuples, sizes
    if (!PyTuple_CheckExact(a) && Py_TYPE(a)->tp_dictoffset != 0) return false;
    if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i)
      if (!is_same_value(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
    return true;
  }
  if (PySlice_Check(a)) {
    const auto *x = reinterpret_cast<PySliceObject*>(a), *y = reinterpret_cast<PySliceObject*>(b);
    return is_same_value(x->start, y->start) && is_same_value(x->stop, y->stop) &&
           is_same_value(x->step, y->step);
  }
  if (!PyLong_CheckExact(a) && !PyUnicode_CheckExact(a) && !PyBytes_CheckExact(a)) return false;
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

// What a set has, in its own order, whatever a subclass says.
nb::object members_of(PyObject* set) {
  nb::object members = nb::steal(PySet_Type.tp_iter(set));
  if (members.is_valid()) members = nb::steal(PySequence_List(members.ptr()));
  if (!members.is_valid()) throw nb::python_error();
  return members;
}

PyObject* dict_of(PyObject* object) {
  PyObject* dict = PyObject_GenericGetDict(object, nullptr);
  if (!dict) PyErr_Clear();
  return dict;
}

}  // namespace

bool is_same_value(PyObject* a, PyObject* b) {
  if (a == b) return true;
  return a && b && Py_TYPE(a) == Py_TYPE(b) && is_plain_equal(a, b);
}

// ---- making

size_t Watch::add(Kind kind, PyObject* object) {
  Py_INCREF(object);
  entries_.push_back({kind, object, static_cast<uint32_t>(held_.size()), 0});
  return entries_.size() - 1;
}

void Watch::hold(PyObject* value) {
  Py_XINCREF(value);
  held_.push_back(value);
  ++entries_.back().count;
}

size_t Watch::add_items(PyObject* dict, PyObject* open) {
  TAPEGRAD_CHECK_AS(TypeError, PyDict_Check(dict), "watch: expected a dict");
  const bool is_ordered = PyODict_Check(dict) && PyDict_GET_SIZE(dict) > 1;
  const size_t number = add(is_ordered ? Kind::OrderedItems : Kind::Items, dict);
  auto hold_item = [&](PyObject* key, PyObject* value) {
    const int is_open = open == Py_None ? 0 : PySequence_Contains(open, key);
    if (is_open < 0) throw nb::python_error();
    hold(key);
    hold(is_open ? nullptr : value);
  };
  if (is_ordered) {
    nb::object keys = nb::steal(PySequence_List(dict));
    if (!keys.is_valid()) throw nb::python_error();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.ptr()); ++i) {
      PyObject* key = PyList_GET_ITEM(keys.ptr(), i);
      hold_item(key, PyDict_GetItemWithError(dict, key));
    }
    return number;
  }
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) hold_item(key, value);
  return number;
}

size_t Watch::add_item(PyObject* dict, PyObject* key) {
  TAPEGRAD_CHECK_AS(TypeError, PyDict_Check(dict), "watch: expected a dict");
  const size_t number = add(Kind::Item, dict);
  hold(key);
  hold(PyDict_GetItemWithError(dict, key));
  if (PyErr_Occurred()) throw nb::python_error();
  return number;
}

size_t Watch::add_list(PyObject* list) {
  TAPEGRAD_CHECK_AS(TypeError, PyList_Check(list), "watch: expected a list");
  const size_t number = add(Kind::List, list);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) hold(PyList_GET_ITEM(list, i));
  return number;
}

size_t Watch::add_set(PyObject* set) {
  TAPEGRAD_CHECK_AS(TypeError, PyAnySet_Check(set), "watch: expected a set");
  nb::object members = members_of(set);
  const size_t number = add(Kind::Set, set);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(members.ptr()); ++i)
    hold(PyList_GET_ITEM(members.ptr(), i));
  return number;
}

size_t Watch::add_cell(PyObject* cell) {
  TAPEGRAD_CHECK_AS(TypeError, PyCell_Check(cell), "watch: expected a cell");
  const size_t number = add(Kind::Cell, cell);
  hold(PyCell_GET(cell));
  return number;
}

size_t Watch::add_function(PyObject* function) {
  TAPEGRAD_CHECK_AS(TypeError, PyFunction_Check(function), "watch: expected a function");
  const size_t number = add(Kind::Function, function);
  hold(PyFunction_GET_CODE(function));
  hold(PyFunction_GET_DEFAULTS(function));
  hold(PyFunction_GET_KW_DEFAULTS(function));
  return number;
}

size_t Watch::add_type(PyObject* type) {
  TAPEGRAD_CHECK_AS(TypeError, PyType_Check(type), "watch: expected a class");
  const unsigned version = assigned_type_version(reinterpret_cast<PyTypeObject*>(type));
  TAPEGRAD_CHECK_AS(ValueError, version != 0, "watch: a class without a version");
  const size_t number = add(Kind::Type, type);
  entries_.back().version = version;
  return number;
}

size_t Watch::add_instance(PyObject* object) {
  const size_t number = add(Kind::Instance, object);
  hold(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  PyObject* dict = dict_of(object);
  hold(dict);
  Py_XDECREF(dict);
  return number;
}

void Watch::settle(PyObject* dict) {
  for (Entry& entry : entries_) {
    if (entry.object != dict || (entry.kind != Kind::Items && entry.kind != Kind::OrderedItems))
      continue;
    entry.seen = 0;
    for (uint32_t i = entry.first; i < entry.first + entry.count; i += 2)
      if (!held_[i + 1]) {
        held_[i + 1] = PyDict_GetItemWithError(dict, held_[i]);
        Py_XINCREF(held_[i + 1]);
      }
  }
}

// ---- comparing

bool Watch::has_items(Entry& entry) const {
  const uint64_t version = dict_version(entry.object);
  if (version != 0 && version == entry.seen) return true;
  if (PyDict_GET_SIZE(entry.object) * 2 != entry.count) return false;
  PyObject* const* held = held_.data() + entry.first;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(entry.object, &at, &key, &value); held += 2) {
    if (key != held[0] && !is_same_value(key, held[0])) return false;
    if (value != held[1] && held[1] && !is_same_value(value, held[1])) return false;
  }
  entry.seen = version;
  return true;
}

bool Watch::has_ordered_items(const Entry& entry) const {
  if (PyDict_GET_SIZE(entry.object) * 2 != entry.count) return false;
  nb::object keys = nb::steal(PySequence_List(entry.object));
  if (!keys.is_valid()) throw nb::python_error();
  for (uint32_t i = 0; i < entry.count; i += 2) {
    PyObject* key = PyList_GET_ITEM(keys.ptr(), i / 2);
    PyObject* expected = held_[entry.first + i + 1];
    if (!is_same_value(key, held_[entry.first + i])) return false;
    if (expected && !is_same_value(PyDict_GetItemWithError(entry.object, key), expected))
      return false;
  }
  return true;
}

bool Watch::has_members(const Entry& entry) const {
  if (PySet_GET_SIZE(entry.object) != static_cast<Py_ssize_t>(entry.count)) return false;
  if (entry.count == 0) return true;
  // In order, which a loop over the set sees, and by type, too: 1, 1.0 and True are one member.
  nb::object members = members_of(entry.object);
  for (uint32_t i = 0; i < entry.count; ++i)
    if (!is_same_value(PyList_GET_ITEM(members.ptr(), i), held_[entry.first + i])) return false;
  return true;
}

bool Watch::is_unchanged(Entry& entry) const {
  PyObject* const* held = held_.data() + entry.first;
  PyObject* object = entry.object;
  switch (entry.kind) {
    case Kind::Items:
      return has_items(entry);
    case Kind::OrderedItems:
      return has_ordered_items(entry);
    case Kind::Set:
      return has_members(entry);
    case Kind::Item: {
      PyObject* value = PyDict_GetItemWithError(object, held[0]);
      if (!value && PyErr_Occurred()) throw nb::python_error();
      return is_same_value(value, held[1]);
    }
    case Kind::List:
      if (PyList_GET_SIZE(object) != static_cast<Py_ssize_t>(entry.count)) return false;
      for (uint32_t i = 0; i < entry.count; ++i)
        if (!is_same_value(PyList_GET_ITEM(object, i), held[i])) return false;
      return true;
    case Kind::Cell:
      return is_same_value(PyCell_GET(object), held[0]);
    case Kind::Function:
      return PyFunction_GET_CODE(object) == held[0] && PyFunction_GET_DEFAULTS(object) == held[1] &&
             PyFunction_GET_KW_DEFAULTS(object) == held[2];
    case Kind::Type:
      return type_version(reinterpret_cast<PyTypeObject*>(object)) == entry.version;
    case Kind::Instance: {
      if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != held[0]) return false;
      PyObject* dict = dict_of(object);
      const bool is_same = dict == held[1];
      Py_XDECREF(dict);
      return is_same;
    }
  }
  return false;
}

int64_t Watch::find_change() {
  const size_t count = entries_.size();
  for (size_t i = 0; i < count; ++i) {
    size_t at = start_ + i;
    if (at >= count) at -= count;
    if (!is_unchanged(entries_[at])) {
      start_ = at;
      return static_cast<int64_t>(at);
    }
  }
  return -1;
}

std::vector<PyObject*> Watch::containers() const {
  std::vector<PyObject*> found;
  for (const Entry& entry : entries_)
    if (PyList_Check(entry.object) || PyDict_Check(entry.object)) found.push_back(entry.object);
  std::ranges::sort(found);
  return found;
}

// ---- the collector

int Watch::traverse(visitproc visit, void* arg) const {
  for (const Entry& entry : entries_) Py_VISIT(entry.object);
  for (PyObject* held : held_) Py_VISIT(held);
  return 0;
}

void Watch::clear() noexcept {
  std::vector<Entry> entries;
  std::vector<PyObject*> held;
  entries.swap(entries_);
  held.swap(held_);
  for (const Entry& entry : entries) Py_DECREF(entry.object);
  for (PyObject* each : held) Py_XDECREF(each);
}

}  // namespace tapegrad::python
