#include "python/tensor_object.h"

#include <nanobind/nanobind.h>
#include <structmember.h>

#include <new>

#include "core/error.h"
#include "cuda/driver.h"
#include "graph/record.h"
#include "python/collector.h"
#include "python/number_slots.h"
#include "python/sparse.h"
#include "python/tensor_properties.h"

namespace tapegrad::python {

PyTypeObject* tensor_type = nullptr;

namespace {

// Python objects of plain tensors are reused: making one is then a pointer pop.
constexpr int kFreeLimit = 256;
TensorObject* free_objects[kFreeLimit];
int free_count = 0;

TensorObject* allocate_object(PyTypeObject* type) {
  if (type != tensor_type) return reinterpret_cast<TensorObject*>(type->tp_alloc(type, 0));
  if (free_count > 0) {
    TensorObject* object = free_objects[--free_count];
    PyObject_Init(reinterpret_cast<PyObject*>(object), type);
    return object;
  }
  return PyObject_GC_New(TensorObject, type);
}

void free_object(TensorObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == tensor_type && free_count < kFreeLimit) free_objects[free_count++] = object;
  else type->tp_free(object);
  Py_DECREF(type);
}

void deallocate(PyObject* self) {
  auto* object = reinterpret_cast<TensorObject*>(self);
  if (PyObject_GC_IsTracked(self)) PyObject_GC_UnTrack(self);
  if (object->weak_references) PyObject_ClearWeakRefs(self);
  Py_CLEAR(object->dict);
  if (object->impl) std::exchange(object->impl, nullptr)->destroy();
  free_object(object);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  auto* object = reinterpret_cast<TensorObject*>(self);
  Py_VISIT(object->dict);
  return object->impl ? traverse_tensor(object->impl, visit, arg) : 0;
}

int clear(PyObject* self) {
  auto* object = reinterpret_cast<TensorObject*>(self);
  Py_CLEAR(object->dict);
  if (object->impl) clear_tensor(object->impl);
  return 0;
}

// A tensor joins the cycle collector when it first gets an attribute of its own.
int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
  int result = PyObject_GenericSetAttr(self, name, value);
  if (!reinterpret_cast<TensorObject*>(self)->dict) return result;
  track_leaf(tensor_of(self));
  if (value) track_referents(value);
  return result;
}

// Tensor(...) and subclasses: the Python layer knows the legacy forms of the constructor.
PyObject* construct(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* module = PyImport_ImportModule("tapegrad._tensor");
  if (!module) return nullptr;
  PyObject* function = PyObject_GetAttrString(module, "construct");
  Py_DECREF(module);
  if (!function) return nullptr;
  PyObject* all = PyTuple_New(PyTuple_GET_SIZE(args) + 1);
  PyTuple_SET_ITEM(all, 0, Py_NewRef(reinterpret_cast<PyObject*>(type)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    PyTuple_SET_ITEM(all, i + 1, Py_NewRef(PyTuple_GET_ITEM(args, i)));
  PyObject* result = PyObject_Call(function, all, kwargs);
  Py_DECREF(all);
  Py_DECREF(function);
  return result;
}

int initialise(PyObject*, PyObject*, PyObject*) { return 0; }  // all is done in construct()

PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(TensorObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

}  // namespace

PyObject* wrap_as(PyTypeObject* type, Tensor tensor) {
  TensorObject* object = allocate_object(type);
  if (!object) return nullptr;
  TensorImpl* impl = tensor.detach_reference();
  object->impl = impl;
  object->dict = nullptr;
  object->weak_references = nullptr;
  // Every reference the C++ side holds is a reference to the object from now on.
  Py_SET_REFCNT(reinterpret_cast<PyObject*>(object), static_cast<Py_ssize_t>(impl->count()));
  impl->set_python_object(object);
  const AutogradMeta* meta = impl->meta();
  if (meta && !meta->is_leaf && meta->node->is_collected()) [[unlikely]]
    track(tensor_of(reinterpret_cast<PyObject*>(object)));
  return reinterpret_cast<PyObject*>(object);
}

PyObject* wrap(Tensor tensor) {
  if (!tensor.defined()) return Py_NewRef(Py_None);
  // Our reference is the new reference.
  if (void* object = tensor->python_object()) {
    (void)tensor.detach_reference();
    return static_cast<PyObject*>(object);
  }
  return wrap_as(tensor_type, std::move(tensor));
}

PyObject* out_of_memory_error() {
  static PyObject* type =
      PyErr_NewExceptionWithDoc("tapegrad.OutOfMemoryError", "Memory ran out, or a budget of it.",
                                PyExc_RuntimeError, nullptr);
  return type;
}

PyObject* accelerator_error() {
  static PyObject* type = PyErr_NewExceptionWithDoc(
      "tapegrad.AcceleratorError", "A call of a GPU's driver failed; error_code is its number.",
      PyExc_RuntimeError, nullptr);
  return type;
}

PyObject* linear_algebra_error() {
  static PyObject* type = PyErr_NewExceptionWithDoc(
      "tapegrad.linalg.LinAlgError",
      "A matrix is singular, is not positive-definite, or its decomposition did not converge.",
      PyExc_RuntimeError, nullptr);
  return type;
}

namespace {

void set_accelerator_error(const cuda::AcceleratorError& error) {
  PyObject* raised = PyObject_CallFunction(accelerator_error(), "s", error.what());
  PyObject* code = raised ? PyLong_FromLong(error.code) : nullptr;
  if (code && PyObject_SetAttrString(raised, "error_code", code) == 0)
    PyErr_SetObject(accelerator_error(), raised);
  Py_XDECREF(code);
  Py_XDECREF(raised);
}

}  // namespace

void set_python_error() noexcept {
  try {
    throw;
  } catch (nanobind::python_error& error) {
    error.restore();
  } catch (const IndexError& error) {
    PyErr_SetString(PyExc_IndexError, error.what());
  } catch (const TypeError& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  } catch (const ValueError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const NotImplementedError& error) {
    PyErr_SetString(PyExc_NotImplementedError, error.what());
  } catch (const OutOfMemoryError& error) {
    PyErr_SetString(out_of_memory_error(), error.what());
  } catch (const cuda::AcceleratorError& error) {
    set_accelerator_error(error);
  } catch (const LinAlgError& error) {
    PyErr_SetString(linear_algebra_error(), error.what());
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, "out of memory outside the memory of tensors");
  } catch (const std::length_error&) {
    PyErr_SetString(PyExc_MemoryError, "more elements are asked for than memory can hold");
  } catch (const std::bad_cast&) {
    PyErr_SetString(PyExc_TypeError, "an argument, or what a callback returned, has a wrong type");
  } catch (const Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    // The texts of the C++ runtime's own exceptions tell a user nothing.
    PyErr_SetString(PyExc_RuntimeError,
                    "internal error: an exception of the C++ runtime was not expected here; please "
                    "report the call that raised it");
  }
}

PyTypeObject* make_tensor_type() {
  std::vector<PyType_Slot> slots = {
      {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(clear)},
      {Py_tp_setattro, reinterpret_cast<void*>(set_attribute)},
      {Py_tp_new, reinterpret_cast<void*>(construct)},
      {Py_tp_init, reinterpret_cast<void*>(initialise)},
      {Py_tp_members, members},
      {Py_tp_getset, tensor_properties()},
      {Py_tp_doc, const_cast<char*>("A multi-dimensional array of one dtype, with a history.")},
  };
  add_number_slots(slots);
  slots.push_back({0, nullptr});
  PyType_Spec spec = {"tapegrad.Tensor", sizeof(TensorObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots.data()};
  tensor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  python_hooks.retain = [](void* object) { Py_INCREF(static_cast<PyObject*>(object)); };
  python_hooks.release = [](void* object) { Py_DECREF(static_cast<PyObject*>(object)); };
  return tensor_type;
}

// As a class of the interpreter it is like that of tensors, but what there is reused and tracked late is here left to it.
PyTypeObject* make_sparse_type(PyGetSetDef* properties) {
  PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(clear)},
      {Py_tp_members, members},
      {Py_tp_getset, properties},
      {0, nullptr},
  };
  PyType_Spec spec = {"tapegrad._C._SparseBase", sizeof(TensorObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                          Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      slots};
  return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

}  // namespace tapegrad::python
