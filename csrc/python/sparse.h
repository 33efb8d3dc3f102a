// Sparse tensors in Python. See Note [A sparse tensor has no bytes] in core/sparse.h.
//
// Note [A sparse tensor is no Tensor in C++]
// The class of sparse tensors has the layout of Tensor in memory and does not derive from it, though isinstance() says
// so, by the class's __class__. So is_tensor() is false of one, and everything that wants a Tensor
// fails before it has done anything, at no cost. What is written by hand for speed comes to failed() from there,
// nanobind's functions are rerouted, and both end in a function of tapegrad/sparse
// that has the rule for the op or refuses it by its name. What the engine passes on in any layout is an AnyTensor.
#pragma once

#include <vector>

#include "python/binding.h"

namespace tapegrad::python {

extern PyTypeObject* sparse_type;

inline bool is_sparse_tensor(PyObject* object) {
  return sparse_type && PyObject_TypeCheck(object, sparse_type);
}
inline bool is_any_tensor(PyObject* object) {
  return is_tensor(object) || is_sparse_tensor(object);
}

// To be called in a catch block of a function of Python's: calls the rule for sparse tensors where there is one among the
// arguments, else sets the Python error of the exception being handled.
PyObject* failed(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t count,
                 PyObject* keywords) noexcept;

// The base class of sparse tensors (tensor_object.cpp).
PyTypeObject* make_sparse_type(PyGetSetDef* properties);
// Gives a handle of a sparse tensor its Python object, which it must have from the beginning.
Tensor with_sparse_object(const Tensor& handle);
// Another tensor over the same memory or parts.
Tensor any_alias(const Tensor& x);

void bind_sparse(Binder& b);
// Has nanobind's functions and methods look at their arguments; to be called when all are defined.
void reroute_all(nb::handle module);

// Arguments in any layout.
struct AnyTensor : Tensor {};
struct AnyTensors {
  std::vector<Tensor> values;
};
// With None among them, which is undefined.
struct AnyOptionalTensors {
  std::vector<Tensor> values;
};

// Reads a list or a tuple; false if there is something else in it.
bool tensors_from_object(PyObject* object, bool may_be_none, std::vector<Tensor>& values);

}  // namespace tapegrad::python

namespace nanobind::detail {

template <>
struct type_caster<tapegrad::python::AnyTensor> {
  NB_TYPE_CASTER(tapegrad::python::AnyTensor, const_name("Tensor"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    if (!tapegrad::python::is_any_tensor(source.ptr())) return false;
    value = {tapegrad::python::tensor_of(source.ptr())};
    return true;
  }
  static handle from_cpp(tapegrad::python::AnyTensor tensor, rv_policy, cleanup_list*) noexcept {
    return tapegrad::python::wrap(std::move(tensor));
  }
};

template <>
struct type_caster<tapegrad::python::AnyTensors> {
  NB_TYPE_CASTER(tapegrad::python::AnyTensors, const_name("Sequence[Tensor]"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    return tapegrad::python::tensors_from_object(source.ptr(), false, value.values);
  }
};

template <>
struct type_caster<tapegrad::python::AnyOptionalTensors> {
  NB_TYPE_CASTER(tapegrad::python::AnyOptionalTensors, const_name("Sequence[Tensor | None]"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    return tapegrad::python::tensors_from_object(source.ptr(), true, value.values);
  }
};

}  // namespace nanobind::detail
