#include "python/tensor_properties.h"

#include "core/error.h"
#include "graph/hooks.h"
#include "graph/record.h"
#include "graph/write_log.h"
#include "ops/complex.h"
#include "ops/copy.h"
#include "ops/view.h"
#include "python/binding.h"
#include "python/cuda_array.h"
#include "python/node_object.h"
#include "python/python_types.h"
#include "python/sparse.h"
#include "python/warn.h"

namespace tapegrad::python {

namespace {

PyObject* get_shape(PyObject* self, void*) { return make_size(tensor_of(self).sizes()); }
PyObject* get_dtype(PyObject* self, void*) {
  return Py_NewRef(dtype_object(tensor_of(self).dtype()).ptr());
}
PyObject* get_device(PyObject* self, void*) {
  return guarded([&] { return Py_NewRef(device_object(impl_of(self)->device())); });
}
template <DeviceType kType>
PyObject* get_is_on(PyObject* self, void*) {
  return PyBool_FromLong(impl_of(self)->device().type == kType);
}
PyObject* get_layout(PyObject*, void*) { return Py_NewRef(python_types.strided); }
PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLongLong(tensor_of(self).dim()); }

PyObject* get_requires_grad(PyObject* self, void*) {
  return PyBool_FromLong(requires_grad(tensor_of(self)));
}
int put_requires_grad(PyObject* self, PyObject* value, void*) {
  if (!value || !PyBool_Check(value)) {
    PyErr_SetString(PyExc_RuntimeError, "requires_grad must be a bool");
    return -1;
  }
  return guarded([&] {
    TAPEGRAD_CHECK(value == Py_False || is_leaf(tensor_of(self)),
                   "requires_grad: you can only change requires_grad flags of leaf variables");
    set_requires_grad(tensor_of(self), value == Py_True);
    return Py_None;
  })
             ? 0
             : -1;
}

PyObject* get_grad(PyObject* self, void*) {
  const AutogradMeta* meta = impl_of(self)->meta();
  if (meta && !meta->is_leaf && !meta->retains_grad && !meta->grad.defined() &&
      PyErr_WarnEx(
          PyExc_UserWarning,
          "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its "
          ".grad attribute won't be populated during autograd.backward(). If you want it "
          "to be, use .retain_grad() on the non-leaf Tensor.",
          1) < 0)
    return nullptr;
  return wrap(meta ? meta->grad : Tensor());
}
void assign_grad(const Tensor& x, PyObject* value) {
  if (!value || value == Py_None) {
    if (x->meta()) ensure_meta(x).grad = Tensor();
    return;
  }
  TAPEGRAD_CHECK_AS(TypeError, is_any_tensor(value),
                    "assigned grad expected to be a Tensor or None but got grad of type ",
                    Py_TYPE(value)->tp_name);
  const Tensor& grad = tensor_of(value);
  TAPEGRAD_CHECK(!grad.is_same(x), "assigned grad: can't assign Variable as its own grad");
  TAPEGRAD_CHECK(grad.dtype() == x.dtype(),
                 "assigned grad: has data of a different type: expected ", name(x.dtype()),
                 ", got ", name(grad.dtype()));
  TAPEGRAD_CHECK(grad->device() == x->device(),
                 "assigned grad: has data located on a different device: expected ",
                 to_string(x->device()), ", got ", to_string(grad->device()));
  TAPEGRAD_CHECK(same_sizes(grad.sizes(), x.sizes()),
                 "assigned grad: has data of a different size: expected ", to_string(x.sizes()),
                 ", got ", to_string(grad.sizes()));
  ensure_meta(x).grad = grad;
}
int put_grad(PyObject* self, PyObject* value, void*) {
  return guarded([&] {
    assign_grad(tensor_of(self), value);
    return Py_None;
  })
             ? 0
             : -1;
}

PyObject* get_grad_fn(PyObject* self, void*) {
  return guarded([&] { return wrap_node(grad_fn(tensor_of(self))); });
}
PyObject* get_is_leaf(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(is_leaf(tensor_of(self))); });
}
PyObject* get_retains_grad(PyObject* self, void*) {
  const AutogradMeta* meta = impl_of(self)->meta();
  return PyBool_FromLong(meta && meta->retains_grad);
}
PyObject* get_version(PyObject* self, void*) {
  if (impl_of(self)->storage().is_inference()) {
    PyErr_SetString(PyExc_RuntimeError, "_version: Inference tensors do not track version counter");
    return nullptr;
  }
  return PyLong_FromUnsignedLong(impl_of(self)->storage().version());
}
PyObject* get_address(PyObject* self, void*) { return PyLong_FromVoidPtr(impl_of(self)); }
PyObject* get_base(PyObject* self, void*) {
  const AutogradMeta* meta = impl_of(self)->meta();
  return wrap(meta && meta->extra ? meta->extra->base : Tensor());
}

PyObject* get_output_number(PyObject* self, void*) {
  const AutogradMeta* meta = impl_of(self)->meta();
  return PyLong_FromUnsignedLong(meta && !meta->is_leaf ? meta->output_number : 0);
}

PyObject* get_data(PyObject* self, void*) {
  return guarded([&] {
    Tensor data = detach(tensor_of(self));
    data->set_data_alias(true);
    return wrap(std::move(data));
  });
}
// x.data = y: x keeps its identity and takes y's memory.
int put_data(PyObject* self, PyObject* value, void*) {
  return guarded([&]() -> PyObject* {
    TAPEGRAD_CHECK_AS(TypeError, value && is_tensor(value),
                      "data: Variable data has to be a tensor, but got ",
                      value ? Py_TYPE(value)->tp_name : "nothing");
    const Tensor& source = tensor_of(value);
    TAPEGRAD_CHECK(!requires_grad(tensor_of(self)) || has_gradient(source.dtype()),
                   "data: data set to a tensor that requires gradients must be of a floating point "
                   "or complex dtype, got ",
                   name(source.dtype()));
    TensorImpl* impl = impl_of(self);
    set_memory(*impl, source->storage_ref(), source.dtype());
    impl->set_geometry(source.sizes(), source.strides(), source->offset());
    return Py_None;
  })
             ? 0
             : -1;
}

PyObject* get_transposed(PyObject* self, void*) {
  return guarded([&] {
    const Tensor& x = tensor_of(self);
    if (static bool warned = false; x.dim() != 2 && x.dim() != 0 && !std::exchange(warned, true))
      warn_user(
          "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is "
          "deprecated and it will throw an error in a future release. Consider `x.mT` to transpose "
          "batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the "
          "dimensions of a tensor.");
    DimVector dims;
    for (int64_t d = x.dim() - 1; d >= 0; --d) dims.push_back(d);
    return wrap(permute(x, dims));
  });
}
PyObject* get_matrix_transposed(PyObject* self, void*) {
  return guarded([&] {
    const Tensor& x = tensor_of(self);
    if (x.dim() == 0) return wrap(permute(x, {}));
    TAPEGRAD_CHECK(x.dim() >= 2,
                   "tensor.mT is only supported on matrices or batches of matrices. Got ", x.dim(),
                   "-D tensor.");
    return wrap(matrix_transpose(x));
  });
}
// x.H and x.mH: the transpose of a matrix, or of each of a batch, with its elements conjugated.
PyObject* get_adjoint(PyObject* self, void* of_matrix) {
  return guarded([&] {
    const Tensor& x = tensor_of(self);
    const bool fits = x.dim() == 0 || (of_matrix ? x.dim() == 2 : x.dim() >= 2);
    TAPEGRAD_CHECK(fits, of_matrix ? "tensor.H" : "tensor.mH", " is only supported on matrices",
                   of_matrix ? " (2-D tensors)" : " or batches of matrices", ". Got ", x.dim(),
                   "-D tensor.");
    return wrap(conj(x.dim() ? matrix_transpose(x) : x));
  });
}

template <Tensor (*kPart)(const Tensor&)>
PyObject* get_part(PyObject* self, void*) {
  return guarded([&] { return wrap(kPart(tensor_of(self))); });
}
// x.real = y writes y there.
template <Tensor (*kPart)(const Tensor&)>
int put_part(PyObject* self, PyObject* value, void*) {
  return guarded([&] {
    TAPEGRAD_CHECK_AS(TypeError, value, "real and imag cannot be deleted");
    const Tensor number = is_tensor(value) ? tensor_of(value) : number_operand(value);
    TAPEGRAD_CHECK_AS(TypeError, number.defined(),
                      "real, imag: expected a Tensor or a number, got ", Py_TYPE(value)->tp_name);
    copy_(kPart(tensor_of(self)), number);
    return Py_None;
  })
             ? 0
             : -1;
}

PyObject* get_false(PyObject*, void*) { return Py_NewRef(Py_False); }
PyObject* get_itemsize(PyObject* self, void*) {
  return PyLong_FromSize_t(itemsize(tensor_of(self).dtype()));
}
PyObject* get_nbytes(PyObject* self, void*) {
  const Tensor& x = tensor_of(self);
  return PyLong_FromSize_t(static_cast<size_t>(x.numel()) * itemsize(x.dtype()));
}

char properties_tag;  // tells H from mH

PyGetSetDef properties[] = {
    {"shape", get_shape, nullptr, "The sizes, as a Size.", nullptr},
    {"dtype", get_dtype, nullptr, "The element type.", nullptr},
    {"device", get_device, nullptr, "Where the memory lies.", nullptr},
    {"layout", get_layout, nullptr, "Always strided: sparse tensors are of a class of their own.",
     nullptr},
    {"ndim", get_ndim, nullptr, "The number of dimensions.", nullptr},
    {"requires_grad", get_requires_grad, put_requires_grad, "Whether gradients are wanted.",
     nullptr},
    {"grad", get_grad, put_grad, "The accumulated gradient, or None.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "The tape entry that made this tensor, or None.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, "Whether no recorded op made this tensor.", nullptr},
    {"retains_grad", get_retains_grad, nullptr, "Whether retain_grad() was called.", nullptr},
    {"_version", get_version, nullptr, "How often the memory was written in place.", nullptr},
    {"_cdata", get_address, nullptr, "A number that says which tensor it is, in C++.", nullptr},
    {"_base", get_base, nullptr, "The tensor this one is a view of, or None.", nullptr},
    {"data", get_data, put_data, "The same memory without history.", nullptr},
    {"output_nr", get_output_number, nullptr, "Which output of its grad_fn the tensor is.",
     nullptr},
    {"T", get_transposed, nullptr, "All dimensions reversed.", nullptr},
    {"mT", get_matrix_transposed, nullptr, "The last two dimensions swapped.", nullptr},
    {"H", get_adjoint, nullptr, "The conjugate transpose of a matrix.", &properties_tag},
    {"mH", get_adjoint, nullptr, "The conjugate transpose of the last two dimensions.", nullptr},
    {"real", get_part<real>, put_part<real>, "The real parts, over the same memory.", nullptr},
    {"imag", get_part<imag>, put_part<imag>, "The imaginary parts, over the same memory.", nullptr},
    {"is_cpu", get_is_on<DeviceType::CPU>, nullptr, "Whether the memory is the CPU's.", nullptr},
    {"is_cuda", get_is_on<DeviceType::CUDA>, nullptr, "Whether the memory is on a GPU.", nullptr},
    {"is_sparse", get_false, nullptr, "Whether the layout is torch.sparse_coo.", nullptr},
    {"is_nested", get_false, nullptr, "Always False; a NestedTensor says True.", nullptr},
    {"is_quantized", get_false, nullptr, "Always False.", nullptr},
    {"is_mkldnn", get_false, nullptr, "Always False.", nullptr},
    // Devices that there are none of.
    {"is_ipu", get_false, nullptr, "Always False.", nullptr},
    {"is_maia", get_false, nullptr, "Always False.", nullptr},
    {"is_mps", get_false, nullptr, "Always False.", nullptr},
    {"is_mtia", get_false, nullptr, "Always False.", nullptr},
    {"is_vulkan", get_false, nullptr, "Always False.", nullptr},
    {"is_xla", get_false, nullptr, "Always False.", nullptr},
    {"is_xpu", get_false, nullptr, "Always False.", nullptr},
    {"is_meta", get_is_on<DeviceType::Meta>, nullptr,
     "Whether there is no memory: a tensor on the meta device has a shape alone.", nullptr},
    // Without it, pickle finds no place for attributes.
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {"__cuda_array_interface__", get_cuda_array_interface, nullptr,
     "The memory on a GPU, described for other libraries.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes per element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace

PyGetSetDef* tensor_properties() { return properties; }

}  // namespace tapegrad::python
