// Tensors and Python numbers: item, tolist, bool(), int(), float(), operator.index(). Arrays,
// DLPack and pickling have files of their own.
#include "python/exchange.h"

#include "core/error.h"
#include "core/limits.h"
#include "core/op.h"
#include "graph/grad_mode.h"
#include "graph/record.h"
#include "intercept/capture.h"
#include "ops/copy.h"
#include "python/binding.h"
#include "python/dlpack.h"
#include "python/numpy.h"
#include "python/pickle.h"
#include "python/python_types.h"

namespace tapegrad::python {

namespace {

PyObject* to_number(Scalar value) {
  switch (value.kind()) {
    case Scalar::Kind::Bool:
      return PyBool_FromLong(value.as_bool());
    case Scalar::Kind::Int:
      return PyLong_FromLongLong(value.as_int());
    case Scalar::Kind::Float:
      return PyFloat_FromDouble(value.as_double());
  }
  return nullptr;
}

// An element of a tensor, on the host.
PyObject* element_number(const char* op, const char* element, DType dtype) {
  if (dtype == DType::UInt64)
    return PyLong_FromUnsignedLongLong(*reinterpret_cast<const uint64_t*>(element));
  if (!is_complex(dtype)) return to_number(read_element(op, element, dtype));
  return visit_complex(op, dtype, [&](auto type) {
    const Complex<double> z(*reinterpret_cast<const decltype(type)*>(element));
    return PyComplex_FromDoubles(z.real, z.imag);
  });
}

// Nested lists, from dimension d on.
PyObject* to_list(const Tensor& x, size_t d, const char* data) {
  if (d == static_cast<size_t>(x.dim())) return element_number("tolist", data, x.dtype());
  int64_t size = x.size(d), step = x.stride(d) * static_cast<int64_t>(itemsize(x.dtype()));
  PyObject* list = PyList_New(size);
  if (!list) return nullptr;
  for (int64_t i = 0; i < size; ++i) {
    PyObject* item = to_list(x, d + 1, data + i * step);
    if (!item) {
      Py_DECREF(list);
      return nullptr;
    }
    PyList_SET_ITEM(list, i, item);
  }
  return list;
}

// A tensor without elements can still become any number of empty lists.
void check_list_count(Sizes sizes) {
  int64_t lists = 1;
  for (size_t d = 0; d + 1 < sizes.size() && sizes[d] != 0; ++d)
    if (__builtin_mul_overflow(lists, sizes[d], &lists)) lists = INT64_MAX;
  check_count("tolist", lists, "lists", sizeof(PyListObject));
}

PyObject* item(const Tensor& x) {
  TAPEGRAD_CHECK(x.numel() == 1, "item: a Tensor with ", x.numel(),
                 " elements cannot be converted to Scalar");
  return element_number("item", read_on_host<char>(x).get(), x.dtype());
}

// The number that a complex one is where a real one is wanted.
Scalar real_value(Complex<double> z) {
  TAPEGRAD_CHECK(z.imag == 0,
                 "value cannot be converted to type double without overflow: it is complex; ",
                 "use .real or complex()");
  return z.real;
}

// The same with the error of int() and float().
Scalar only_element(const Tensor& x) {
  TAPEGRAD_CHECK_AS(ValueError, x.numel() == 1,
                    "only one element tensors can be converted to Python scalars, got shape ",
                    to_string(x.sizes()));
  return element_of(x);
}

nb::object as_complex(const Tensor& self) {
  TAPEGRAD_CHECK_AS(ValueError, self.numel() == 1,
                    "only one element tensors can be converted to Python scalars, got shape ",
                    to_string(self.sizes()));
  const nb::object value = nb::steal(item(self));
  return nb::module_::import_("builtins").attr("complex")(value);
}

// untyped_storage(): the bytes under a tensor.
class UntypedStorage {
 public:
  explicit UntypedStorage(Ref<Storage> storage) : storage_(std::move(storage)) {}
  size_t nbytes() const { return storage_->nbytes(); }
  Device device() const { return storage_->device(); }
  uintptr_t data_ptr() const {
    note_shared(bytes());
    storage_->expose();
    return reinterpret_cast<uintptr_t>(storage_->data());
  }
  uintptr_t address() const {
    TAPEGRAD_CHECK(device().type != DeviceType::CUDA, "storage: the host cannot read bytes on '",
                   to_string(device()), "'; copy them with .cpu() first");
    note_shared(bytes());
    storage_->use();
    return reinterpret_cast<uintptr_t>(storage_->data());
  }
  // All bytes as a tensor; those that make no whole element are left out.
  Tensor elements(DType dtype) const {
    const int64_t sizes[] = {static_cast<int64_t>(nbytes() / itemsize(dtype))}, strides[] = {1};
    return Tensor(TensorImpl::create(storage_, dtype, sizes, strides, 0));
  }
  Tensor bytes() const { return elements(DType::UInt8); }
  UntypedStorage on(Device target, bool non_blocking) const {
    const GradMode off(false);
    return UntypedStorage(to_device(bytes(), target, non_blocking)->storage_ref());
  }
  friend bool operator==(const UntypedStorage& a, const UntypedStorage& b) {
    return a.storage_.get() == b.storage_.get();
  }

 private:
  Ref<Storage> storage_;
};

void bind_storage(Binder& b) {
  nb::class_<UntypedStorage>(b.module(), "UntypedStorage", "The bytes under a tensor.")
      .def(nb::new_([](nb::args args, nb::kwargs kwargs) {
    return nb::module_::import_("tapegrad.storage").attr("_new_untyped")(*args, **kwargs);
  }))
      .def("nbytes", &UntypedStorage::nbytes, "How many bytes there are.")
      .def("size", &UntypedStorage::nbytes, "How many bytes there are.")
      .def("__len__", &UntypedStorage::nbytes)
      .def("data_ptr", &UntypedStorage::data_ptr, "The address of the first byte.")
      .def("_address", &UntypedStorage::address,
           "The same, to read the bytes at once, or to write them for the first time.")
      .def("_elements", &UntypedStorage::elements, "dtype"_a,
           "All bytes as the elements of a tensor over them.")
      .def("_is_same",
           [](const UntypedStorage& self, const UntypedStorage& other) { return self == other; },
           "other"_a, "Whether another object stands for the same bytes.")
      .def_prop_ro("device",
                   [](const UntypedStorage& self) {
    return nb::borrow(device_object(self.device()));
  }, nb::sig("def device(self) -> typing.Any"), "Where the bytes are.")
      .def_prop_ro("is_cuda",
                   [](const UntypedStorage& self) {
    return self.device().type == DeviceType::CUDA;
  }, "Whether the bytes are on a GPU.")
      .def("cpu", [](const UntypedStorage& self) { return self.on(Device{}, false); },
           "The bytes in memory of the CPU: these, or a copy.")
      .def("cuda",
           [](const UntypedStorage& self, nb::object device, bool non_blocking) {
    return self.on(device_of(device.is_none() ? nb::object(nb::str("cuda")) : device),
                   non_blocking);
  }, "device"_a.none() = nb::none(), "non_blocking"_a = false,
           "The bytes on a GPU, the current one if none is given: these, or a copy.")
      .def("to", [](const UntypedStorage& self, nb::handle device, bool non_blocking) {
    return self.on(device_of(device), non_blocking);
  }, "device"_a, "non_blocking"_a = false, "The bytes on a device: these, or a copy.");
  b.method("untyped_storage", [](const Tensor& self) {
    return UntypedStorage(self->storage_ref());
  }, "The bytes under the tensor, which its views share.");
  b.method("data_ptr", [](const Tensor& self) {
    note_shared(self);
    self->storage().expose();
    if (self.numel() == 0 || self->device().is_meta()) return uintptr_t{0};
    return reinterpret_cast<uintptr_t>(self->address());
  }, "The address of the first element; 0 where there is no memory.");
}

}  // namespace

bool is_number_tensor(PyObject* object) {
  return is_tensor(object) && tensor_of(object).dim() == 0 && !requires_grad(tensor_of(object));
}

bool number_of_tensor(PyObject* object, Scalar* number) {
  if (!is_number_tensor(object) || is_complex(tensor_of(object).dtype())) return false;
  *number = element_of(tensor_of(object));
  return true;
}

Scalar element_of(const Tensor& tensor) {
  if (tensor.dtype() == DType::UInt64) {
    const uint64_t number = *read_on_host<uint64_t>(tensor);
    TAPEGRAD_CHECK(number <= uint64_t{INT64_MAX}, "item: value cannot be converted to type int64 ",
                   "without overflow: ", number);
    return Scalar(number);
  }
  if (is_complex(tensor.dtype()))
    return visit_complex("item", tensor.dtype(), [&](auto type) {
      return real_value(Complex<double>(*read_on_host<decltype(type)>(tensor)));
    });
  return read_element("item", read_on_host<char>(tensor).get(), tensor.dtype());
}

PyObject* tensor_item(PyObject* self) {
  return guarded([&] { return item(tensor_of(self)); });
}

int tensor_bool(PyObject* self) {
  try {
    const Tensor& x = tensor_of(self);
    TAPEGRAD_CHECK(x.numel() != 0, "bool: Boolean value of Tensor with no values is ambiguous");
    TAPEGRAD_CHECK(x.numel() == 1,
                   "bool: Boolean value of Tensor with more than one value is ambiguous; use "
                   ".any() or .all()");
    if (is_limited(x.dtype())) {
      const nb::object value = nb::steal(item(x));
      return PyObject_IsTrue(value.ptr());
    }
    return element_of(x).as_bool();
  } catch (...) {
    set_python_error();
    return -1;
  }
}

// The only element of a uint64 tensor, which may be too large for others; null for other tensors.
static PyObject* unsigned_number(const Tensor& x) {
  return x.dtype() == DType::UInt64 && x.numel() == 1 ? item(x) : nullptr;
}

PyObject* tensor_int(PyObject* self) {
  return guarded([&]() -> PyObject* {
    if (PyObject* number = unsigned_number(tensor_of(self))) return number;
    Scalar value = only_element(tensor_of(self));
    // Python's own conversion refuses infinities and NaN and is exact beyond 64 bits.
    if (value.is_float()) return PyLong_FromDouble(value.as_double());
    return PyLong_FromLongLong(value.as_int());
  });
}

PyObject* tensor_float(PyObject* self) {
  return guarded([&] {
    if (PyObject* number = unsigned_number(tensor_of(self))) {
      const nb::object held = nb::steal(number);
      return PyFloat_FromDouble(PyLong_AsDouble(held.ptr()));
    }
    return PyFloat_FromDouble(only_element(tensor_of(self)).as_double());
  });
}

PyObject* tensor_index(PyObject* self) {
  return guarded([&] {
    const Tensor& x = tensor_of(self);
    TAPEGRAD_CHECK_AS(TypeError, x.numel() == 1 && is_integral(x.dtype()),
                      "only integer tensors of a single element can be converted to an index");
    if (PyObject* number = unsigned_number(x)) return number;
    return PyLong_FromLongLong(element_of(x).as_int());
  });
}

void bind_exchange(Binder& b) {
  b.method("item", [](const Tensor& self) { return nb::steal(item(self)); },
           nb::sig("def item(self) -> typing.Any"),
           R"(The only element, as a Python number.

Example:
    >>> torch.tensor([2.5]).item()
    2.5
)");
  b.method("tolist", [](const Tensor& self) {
    check_list_count(self.sizes());
    const auto elements = read_on_host<char>(self);
    PyObject* list = to_list(elements.tensor(), 0, elements.get());
    if (!list) throw nb::python_error();
    return nb::steal(list);
  }, R"(Nested lists of Python numbers; a number for a tensor without dimensions.

Example:
    >>> torch.tensor([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
)");
  b.method("__complex__", as_complex, nb::sig("def __complex__(self) -> complex"),
           "The only element, as a complex number.");
  bind_storage(b);
  bind_numpy(b);
  bind_dlpack(b);
  bind_pickle(b);
}

}  // namespace tapegrad::python
