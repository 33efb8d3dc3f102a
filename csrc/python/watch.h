// Watch: Python objects as they were at a moment, and whether they still are.
//
// Note [What a watch compares]
// A trace holds for the Python state that it was captured with: everything that the function may read, as far as
// tapegrad/compiler/_walk.py can follow it. Each dict, list, cell, function, class and instance on the way is one entry
// here: what it held, by identity. Numbers, strings and tuples of them may be other objects of the same value. An
// object that is held is watched by an entry of its own, so comparing is flat: no entry looks deeper than itself,
// and no Python code of anybody's runs. A dict of the version that it had when it was compared last is as it was.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

namespace tapegrad::python {

// Whether two objects are the same, or equal ones of the same plain type.
bool is_same_value(PyObject* a, PyObject* b);

class Watch {
 public:
  Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { clear(); }

  // Each returns the number of the entry. `open` are keys whose values may change.
  size_t add_items(PyObject* dict, PyObject* open);
  size_t add_item(PyObject* dict, PyObject* key);
  size_t add_list(PyObject* list);
  size_t add_set(PyObject* set);
  size_t add_cell(PyObject* cell);
  size_t add_function(PyObject* function);
  size_t add_type(PyObject* type);
  size_t add_instance(PyObject* object);
  // What may change in a dict must not from now on.
  void settle(PyObject* dict);
  // The number of the first entry that is not as it was, or -1.
  int64_t find_change();
  size_t size() const { return entries_.size(); }
  // The lists and dicts among what is watched, by address.
  std::vector<PyObject*> containers() const;

  int traverse(visitproc visit, void* arg) const;
  void clear() noexcept;

 private:
  enum class Kind : uint8_t {
    Items,
    OrderedItems,
    Item,
    List,
    Set,
    Cell,
    Function,
    Type,
    Instance
  };
  struct Entry {
    Kind kind;
    PyObject* object;
    uint32_t first, count;  // of what it held
    unsigned version = 0;   // of a class
    uint64_t seen = 0;      // the version of a dict that was as it is to be
  };

  size_t add(Kind kind, PyObject* object);
  void hold(PyObject* value);  // null where there is nothing, or anything
  bool is_unchanged(Entry& entry) const;
  bool has_items(Entry& entry) const;
  bool has_ordered_items(const Entry& entry) const;
  bool has_members(const Entry& entry) const;

  std::vector<Entry> entries_;
  std::vector<PyObject*> held_;
  size_t start_ = 0;  // what changed last is likely to have changed again
};

}  // namespace tapegrad::python
