// See Note [A refused call gets a second look].
#include "python/second_look.h"

#include <string_view>
#include <vector>

#include "python/sparse.h"

namespace tapegrad::python {

namespace {

PyObject* native_module = nullptr;
// __torch_function__ of classes that want none, and whether this thread does not ask any class.
PyObject* disabled_function = nullptr;
thread_local bool asks_nobody = false;

// ---- NumPy's names

const char* own_name(PyObject* keyword) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"axis", "dim"}, {"keepdims", "keepdim"}, {"x", "input"},
      {"a", "input"},  {"x1", "input"},         {"x2", "other"}};
  for (auto [numpy, own] : kNames)
    if (PyUnicode_CompareWithASCIIString(keyword, numpy) == 0) return own;
  return nullptr;
}

// The keywords with our names, or null without an error if none is NumPy's.
PyObject* with_own_names(PyObject* keywords) {
  if (!keywords) return nullptr;
  nb::object renamed;
  const Py_ssize_t count = PyTuple_GET_SIZE(keywords);
  for (Py_ssize_t i = 0; i < count; ++i) {
    const char* own = own_name(PyTuple_GET_ITEM(keywords, i));
    if (!own) continue;
    if (!renamed) {
      renamed = nb::steal(PyTuple_New(count));
      for (Py_ssize_t k = 0; k < count; ++k)
        PyTuple_SET_ITEM(renamed.ptr(), k, Py_NewRef(PyTuple_GET_ITEM(keywords, k)));
    }
    PyObject* name = PyUnicode_InternFromString(own);
    Py_DECREF(PyTuple_GET_ITEM(renamed.ptr(), i));
    PyTuple_SET_ITEM(renamed.ptr(), i, name);
  }
  return renamed.release().ptr();
}

// ---- objects that compute by themselves

// What may hold such objects, as far as PyTorch looks into it.
void collect(PyObject* object, nb::list& found) {
  if (computes_itself(object)) found.append(nb::handle(object));
  if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object)) return;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
    if (PyObject* item = PySequence_Fast_GET_ITEM(object, i); computes_itself(item))
      found.append(nb::handle(item));
}

// Calls the function through the classes of these objects.
PyObject* ask(PyObject* function, const nb::list& objects, PyObject* const* args, Py_ssize_t count,
              PyObject* keywords) {
  nb::list given;
  given.append(nb::handle(function));
  given.append(objects);
  for (Py_ssize_t i = 0; i < count; ++i) given.append(nb::handle(args[i]));
  nb::dict named;
  for (Py_ssize_t i = 0; keywords && i < PyTuple_GET_SIZE(keywords); ++i)
    named[nb::handle(PyTuple_GET_ITEM(keywords, i))] = nb::handle(args[count + i]);
  const nb::object handle =
      nb::module_::import_("tapegrad.overrides").attr("handle_torch_function");
  return PyObject_Call(handle.ptr(), nb::tuple(given).ptr(), named.ptr());
}

// The error that is set, put back unless the second look says more.
class FirstError {
 public:
  FirstError() { PyErr_Fetch(&type_, &value_, &trace_); }
  ~FirstError() {
    Py_XDECREF(type_);
    Py_XDECREF(value_);
    Py_XDECREF(trace_);
  }
  FirstError(const FirstError&) = delete;
  FirstError& operator=(const FirstError&) = delete;

  // What it says; null without an error if it cannot say it.
  PyObject* message() {
    PyErr_NormalizeException(&type_, &value_, &trace_);
    PyObject* text = value_ ? PyObject_Str(value_) : nullptr;
    if (text && !PyUnicode_AsUTF8(text)) Py_CLEAR(text);
    if (!text) PyErr_Clear();
    return text;
  }

  PyObject* put_back() {
    PyErr_Restore(std::exchange(type_, nullptr), std::exchange(value_, nullptr),
                  std::exchange(trace_, nullptr));
    return nullptr;
  }

 private:
  PyObject *type_ = nullptr, *value_ = nullptr, *trace_ = nullptr;
};

// The error that is set in the words of PyTorch's, where the binding lists all forms of the call, and with what to do
// about an array of NumPy's. Returns null with an error set. See tapegrad/_call_errors.py.
PyObject* told(PyObject* function, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  FirstError first;
  const nb::object message = nb::steal(first.message());
  if (!message) return first.put_back();
  const std::string_view text = PyUnicode_AsUTF8(message.ptr());
  if (text.find("incompatible function arguments") == text.npos && !text.ends_with("numpy.ndarray"))
    return first.put_back();
  nb::list given;
  for (Py_ssize_t i = 0; i < count; ++i) given.append(nb::handle(args[i]));
  nb::dict named;
  for (Py_ssize_t i = 0; keywords && i < PyTuple_GET_SIZE(keywords); ++i)
    named[nb::handle(PyTuple_GET_ITEM(keywords, i))] = nb::handle(args[count + i]);
  const nb::object explain = nb::module_::import_("tapegrad._call_errors").attr("explain");
  const nb::object words = explain(nb::handle(function), message, nb::tuple(given), named);
  PyErr_SetObject(PyExc_TypeError, words.ptr());
  return nullptr;
}

}  // namespace

bool computes_itself(PyObject* object) noexcept {
  if (asks_nobody || PyLong_Check(object) || PyFloat_Check(object) || PyUnicode_Check(object) ||
      object == Py_None || is_any_tensor(object) || PyType_Check(object))
    return false;
  PyObject* method =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__torch_function__");
  if (!method) PyErr_Clear();
  Py_XDECREF(method);
  return method && method != disabled_function && method != Py_None;
}

PyObject* second_look(PyObject* function, PyObject* const* args, Py_ssize_t count,
                      PyObject* keywords) noexcept {
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) return nullptr;
  FirstError first;
  return guarded([&]() -> PyObject* {
    nb::list objects;
    const Py_ssize_t all = count + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
    for (Py_ssize_t i = 0; i < all; ++i) collect(args[i], objects);
    if (objects.size()) return ask(function, objects, args, count, keywords);
    const nb::object renamed = nb::steal(with_own_names(keywords));
    if (renamed) {
      PyObject* result =
          PyObject_Vectorcall(function, args, static_cast<size_t>(count), renamed.ptr());
      if (result || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
      PyErr_Clear();
    }
    first.put_back();
    return told(function, args, count, keywords);
  });
}

PyObject* second_look(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t count,
                      PyObject* keywords) noexcept {
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) return nullptr;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* owner = self ? reinterpret_cast<PyObject*>(tensor_type) : native_module;
  PyObject* function = PyObject_GetAttrString(owner, name);
  PyErr_Clear();
  PyErr_Restore(type, value, trace);
  if (!function) return nullptr;
  std::vector<PyObject*> given;
  if (self) given.push_back(self);
  given.insert(given.end(), args, args + count + (keywords ? PyTuple_GET_SIZE(keywords) : 0));
  PyObject* result = second_look(function, given.data(), count + (self ? 1 : 0), keywords);
  Py_DECREF(function);
  return result;
}

PyObject* let_compute(const char* method, PyObject* tensor, PyObject* object) noexcept {
  PyObject* result = guarded([&] {
    const nb::object function = nb::handle(reinterpret_cast<PyObject*>(tensor_type)).attr(method);
    nb::list objects;
    objects.append(nb::handle(object));
    PyObject* args[] = {tensor, object};
    return ask(function.ptr(), objects, args, 2, nullptr);
  });
  if (result || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
  PyErr_Clear();
  return Py_NewRef(Py_NotImplemented);
}

void bind_second_look(Binder& b) {
  native_module = b.module().ptr();
  b.function("_disabled_torch_function_impl",
             [](nb::handle func, nb::handle, nb::tuple args, nb::handle kwargs) {
    const bool before = std::exchange(asks_nobody, true);
    PyObject* result =
        PyObject_Call(func.ptr(), args.ptr(), kwargs.is_none() ? nullptr : kwargs.ptr());
    asks_nobody = before;
    if (!result) throw nb::python_error();
    return nb::steal(result);
  }, "func"_a, "types"_a, "args"_a = nb::tuple(), "kwargs"_a.none() = nb::none(),
             "The __torch_function__ of a class that wants none: calls the function as it is.");
  disabled_function = b.module().attr("_disabled_torch_function_impl").ptr();
  b.function("_computes_itself", [](nb::handle object) { return computes_itself(object.ptr()); },
             "object"_a.none(), "Whether an object of another class has a __torch_function__.");
  b.function("_ask_nobody", [](bool value) { return std::exchange(asks_nobody, value); }, "value"_a,
             "Sets whether no __torch_function__ is called on this thread; returns what was set.");
  b.function("_log_api_usage_once", [](const char*) {}, "event"_a,
             "Does nothing: nobody counts which functions are used.");
}

}  // namespace tapegrad::python
