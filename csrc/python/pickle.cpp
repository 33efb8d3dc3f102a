// Pickling and deep copies.
//
// A tensor is pickled as the bytes of its elements with dtype, sizes, strides (a dense memory order
// is kept), requires_grad, class, attributes, and the device where it is not the CPU. Tensors that share
// memory are stored one by one and no longer share it when they are loaded.
#include "python/pickle.h"

#include <cstring>

#include "core/error.h"
#include "core/op.h"
#include "cuda/context.h"
#include "graph/record.h"
#include "intercept/capture.h"
#include "ops/copy.h"
#include "ops/view.h"
#include "python/python_types.h"
#include "python/text.h"

namespace tapegrad::python {

namespace {

Tensor dense_copy(const Tensor& x) {
  GradMode off(false);
  return clone(x);
}

void check_tensor(const char* method, nb::handle self) {
  TAPEGRAD_CHECK_AS(TypeError, is_tensor(self.ptr()), method, ": expected a Tensor, got ",
                    Py_TYPE(self.ptr())->tp_name);
}

PyObject* attributes_of(PyObject* self) { return reinterpret_cast<TensorObject*>(self)->dict; }

// The device that a tensor was pickled on, refused with a remedy where there is none.
Device pickled_device(PyObject* object) {
  const std::string text = str_of(nb::handle(object));
  if (text.starts_with("cuda:")) {
    const int count = cuda::device_count();
    TAPEGRAD_CHECK(count > 0,
                   "_rebuild_tensor: Attempting to deserialize object on a CUDA device but "
                   "torch.cuda.is_available() is False. If you are running on a CPU-only machine, "
                   "please use torch.save and torch.load with map_location=torch.device('cpu') to "
                   "map your storages to the CPU.");
    nb::object number = nb::steal(PyLong_FromString(text.c_str() + 5, nullptr, 10));
    if (!number.is_valid()) throw nb::python_error();
    TAPEGRAD_CHECK(PyObject_RichCompareBool(number.ptr(), nb::int_(count).ptr(), Py_LT) == 1,
                   "_rebuild_tensor: Attempting to deserialize object on CUDA device ",
                   text.substr(5), " but torch.cuda.device_count() is ", count,
                   ". Please use torch.save and torch.load with map_location to map your storages "
                   "to an existing device.");
  }
  return device_of(nb::handle(object));
}

// _rebuild_tensor(class, bytes, dtype, sizes, strides, requires_grad[, device]). A plain C function, because
// pickle stores those by name.
PyObject* rebuild_tensor(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&] {
    TAPEGRAD_CHECK_AS(TypeError, count == 6 || count == 7,
                      "_rebuild_tensor: expected 6 or 7 arguments, got ", count);
    const Device device = count == 7 ? pickled_device(args[6]) : Device{};
    nb::handle type(args[0]), data(args[1]);
    DType dtype;
    DimVector sizes, strides;
    bool valid = PyType_Check(type.ptr()) && PyBytes_Check(data.ptr()) &&
                 PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(args[0]), tensor_type) &&
                 dtype_from_object(args[2], &dtype) && int_list_from_object(args[3], &sizes) &&
                 int_list_from_object(args[4], &strides) && sizes.size() == strides.size();
    TAPEGRAD_CHECK_AS(ValueError, valid, "_rebuild_tensor: the pickled tensor is damaged");
    Tensor x = empty("_rebuild_tensor", sizes, dtype, Device{});
    auto nbytes = static_cast<size_t>(x.numel()) * itemsize(dtype);
    TAPEGRAD_CHECK_AS(ValueError, static_cast<size_t>(PyBytes_GET_SIZE(data.ptr())) == nbytes,
                      "_rebuild_tensor: expected ", nbytes, " bytes of data, got ",
                      PyBytes_GET_SIZE(data.ptr()));
    std::memcpy(fill_on_host<char>(x), PyBytes_AS_STRING(data.ptr()), nbytes);
    // Strides come from outside: no element may lie beyond the bytes.
    int64_t reach = x.numel() > 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      bool steps = sizes[d] > 1 && x.numel() > 0;
      bool sound = strides[d] >= 0 && (!steps || strides[d] <= x.numel());
      TAPEGRAD_CHECK_AS(ValueError, sound,
                        "_rebuild_tensor: the pickled tensor is damaged: stride ", strides[d]);
      if (steps) reach += (sizes[d] - 1) * strides[d];
    }
    TAPEGRAD_CHECK_AS(ValueError, reach <= x.numel(),
                      "_rebuild_tensor: the pickled tensor is damaged: its strides reach beyond "
                      "its data");
    x->set_geometry(sizes, strides, 0);
    note_constant(x);
    if (!device.is_cpu()) x = to_device(x, device);
    if (PyObject_IsTrue(args[5]) == 1) set_requires_grad(x, true);
    return wrap_as(reinterpret_cast<PyTypeObject*>(args[0]), std::move(x));
  });
}

PyMethodDef rebuild_functions[] = {
    {"_rebuild_tensor", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(rebuild_tensor)),
     METH_FASTCALL, "Makes a tensor from what __reduce_ex__ stored."},
    {nullptr, nullptr, 0, nullptr},
};

nb::object reduce(nb::handle self, nb::handle rebuild) {
  check_tensor("__reduce_ex__", self);
  const Tensor& x = tensor_of(self.ptr());
  Tensor dense = dense_copy(x);
  if (x->device().type == DeviceType::CUDA) {
    const GradMode off(false);
    dense = to_device(dense, Device{});  // in the same order of memory
  }
  nb::bytes data(read_on_host<char>(dense).get(),
                 static_cast<size_t>(dense.numel()) * itemsize(dense.dtype()));
  nb::list arguments;
  arguments.append(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(self.ptr()))));
  arguments.append(data);
  arguments.append(dense.dtype());
  arguments.append(IntList{DimVector(dense.sizes())});
  arguments.append(IntList{DimVector(dense.strides())});
  arguments.append(requires_grad(x) && is_leaf(x));
  if (!x->device().is_cpu()) arguments.append(to_string(x->device()));
  PyObject* attributes = attributes_of(self.ptr());
  if (!attributes || PyDict_GET_SIZE(attributes) == 0)
    return nb::make_tuple(rebuild, nb::tuple(arguments));
  return nb::make_tuple(rebuild, nb::tuple(arguments), nb::handle(attributes));
}

// Another tensor over the same memory, a leaf of its own.
nb::object shallow_copy(nb::handle self) {
  check_tensor("__copy__", self);
  const Tensor& x = tensor_of(self.ptr());
  Tensor copy = detach(x);
  if (requires_grad(x)) set_requires_grad(copy, true);
  nb::object result = nb::steal(wrap_as(Py_TYPE(self.ptr()), copy));
  if (PyObject* attributes = attributes_of(self.ptr()))
    for (auto [name, value] : nb::borrow<nb::dict>(attributes)) nb::setattr(result, name, value);
  return result;
}

// A copy of a tensor over a copy of all its memory, which tensors that shared memory share again.
// The memo keeps both sides: an address names a storage only while that storage lives.
Tensor copy_with_memory(const Tensor& x, const nb::dict& memo) {
  if (x->storage().is_batched()) return dense_copy(x);
  const nb::str key("torch");
  if (!memo.contains(key)) memo[key] = nb::dict();
  nb::dict copies = nb::cast<nb::dict>(memo[key]);
  nb::object address = nb::steal(PyLong_FromVoidPtr(&x->storage()));
  if (!copies.contains(address)) {
    const int64_t sizes[] = {static_cast<int64_t>(x->storage().nbytes())}, strides[] = {1};
    Tensor bytes(TensorImpl::create(x->storage_ref(), DType::UInt8, sizes, strides, 0));
    copies[address] = nb::make_tuple(bytes, dense_copy(bytes));
  }
  const Tensor copied = nb::cast<Tensor>(copies[address][1]);
  return Tensor(
      TensorImpl::create(copied->storage_ref(), x.dtype(), x.sizes(), x.strides(), x->offset()));
}

nb::object deepcopy(nb::handle self, nb::dict memo) {
  check_tensor("__deepcopy__", self);
  nb::object key = nb::steal(PyLong_FromVoidPtr(self.ptr()));
  if (memo.contains(key)) return memo[key];
  const Tensor& x = tensor_of(self.ptr());
  TAPEGRAD_CHECK(is_leaf(x),
                 "deepcopy: Only Tensors created explicitly by the user (graph leaves) support the "
                 "deepcopy protocol at the moment; use .detach().clone() for the values alone");
  Tensor copy = copy_with_memory(x, memo);
  if (requires_grad(x)) set_requires_grad(copy, true);
  nb::object result = nb::steal(wrap_as(Py_TYPE(self.ptr()), copy));
  memo[key] = result;
  nb::module_ copy_module = nb::module_::import_("copy");
  if (x->meta() && x->meta()->grad.defined())
    ensure_meta(copy).grad =
        nb::cast<Tensor>(copy_module.attr("deepcopy")(nb::cast(x->meta()->grad), memo));
  if (PyObject* attributes = attributes_of(self.ptr()))
    for (auto [name, value] : nb::borrow<nb::dict>(attributes))
      nb::setattr(result, name, copy_module.attr("deepcopy")(value, memo));
  return result;
}

}  // namespace

void bind_pickle(Binder& b) {
  if (PyModule_AddFunctions(b.module().ptr(), rebuild_functions) != 0) throw nb::python_error();
  nb::object rebuild = b.module().attr("_rebuild_tensor");
  // Held by the module for as long as the method exists.
  nb::handle held = rebuild;
  b.method("__reduce_ex__", [held](nb::handle self, int) { return reduce(self, held); },
           "protocol"_a, nb::sig("def __reduce_ex__(self, protocol: int, /) -> tuple"),
           "What pickle stores.");
  b.method("__copy__", shallow_copy, nb::sig("def __copy__(self) -> Tensor"),
           "What copy.copy() calls: a tensor that shares the memory.");
  b.method("__deepcopy__", deepcopy, "memo"_a,
           nb::sig("def __deepcopy__(self, memo: dict) -> Tensor"), "What copy.deepcopy() calls.");
}

}  // namespace tapegrad::python
