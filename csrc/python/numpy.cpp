#include "python/numpy.h"

#include <nanobind/ndarray.h>

#include <memory>
#include <vector>

#include "core/error.h"
#include "core/loan.h"
#include "core/op.h"
#include "graph/record.h"
#include "intercept/capture.h"
#include "ops/copy.h"
#include "ops/view.h"
#include "python/text.h"

namespace tapegrad::python {

namespace {

// A buffer view that is given back on every path.
class BufferView {
 public:
  BufferView(PyObject* object, int flags) {
    if (PyObject_GetBuffer(object, &view_, flags) != 0) throw nb::python_error();
  }
  ~BufferView() { PyBuffer_Release(&view_); }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;
  const Py_buffer& get() const { return view_; }

 private:
  Py_buffer view_;
};

// numpy.<name>, if NumPy has been imported.
PyObject* find_numpy_type(const char* name) {
  nb::handle modules(PyImport_GetModuleDict());
  PyObject* numpy = PyDict_GetItemString(modules.ptr(), "numpy");
  if (!numpy) return nullptr;
  PyObject* type = PyObject_GetAttrString(numpy, name);
  if (!type) PyErr_Clear();
  return type;
}

bool is_instance_of_numpy(PyObject* object, PyObject*& cached_type, const char* name) {
  if (!cached_type) cached_type = find_numpy_type(name);
  return cached_type && PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(cached_type));
}

[[noreturn]] void fail_dtype(const char* op, PyObject* array) {
  nb::object type = nb::handle(array).attr("dtype").attr("type");
  fail<TypeError>(op, ": can't convert np.ndarray of type numpy.", str_of(type.attr("__name__")),
                  ". The only supported types are: float64, float32, float16, int64, int32, int16, "
                  "int8, uint64, uint32, uint16, uint8, bool, complex64, and complex128.");
}

void warn(const char* text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw nb::python_error();
}

void release_object(void* object) { Py_DECREF(static_cast<PyObject*>(object)); }

void check_aligned(const char* op, const void* data, DType dtype) {
  // Vectorised loops rely on it.
  TAPEGRAD_CHECK_AS(ValueError,
                    reinterpret_cast<uintptr_t>(data) % itemsize(real_dtype(dtype)) == 0, op,
                    ": the memory is not aligned to the element size, ",
                    itemsize(real_dtype(dtype)), " bytes; copy it first");
}

// Strides in elements of an array's view, checked to be ones a tensor can have.
DimVector element_strides(const char* op, const Py_buffer& view) {
  DimVector strides;
  for (int d = 0; d < view.ndim; ++d) {
    // Where there is nothing to step over, NumPy's strides may be anything, and are kept if they can.
    int64_t stride = view.strides[d];
    if (view.shape[d] < 2 && (stride < 0 || stride % view.itemsize != 0)) stride = view.itemsize;
    TAPEGRAD_CHECK_AS(
        ValueError, stride >= 0, op,
        ": At least one stride in the given numpy array is negative, and tensors with "
        "negative strides are not currently supported; copy it with array.copy()");
    TAPEGRAD_CHECK_AS(ValueError, stride % view.itemsize == 0, op,
                      ": given numpy array strides are not a multiple of the element byte size; "
                      "copy it with array.copy()");
    strides.push_back(stride / view.itemsize);
  }
  return strides;
}

nb::dlpack::dtype exported_dtype(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  auto bits = static_cast<uint8_t>(itemsize(dtype) * 8);
  auto code = is_complex(dtype)      ? Code::Complex
              : is_floating(dtype)   ? Code::Float
              : dtype == DType::Bool ? Code::Bool
              : is_signed(dtype)     ? Code::Int
                                     : Code::UInt;
  return {static_cast<uint8_t>(code), bits, 1};
}

// tensor.__array__(dtype, copy), what numpy.asarray(tensor) calls.
nb::object to_array(const Tensor& self, nb::object dtype, std::optional<bool> copy) {
  nb::object array = numpy_of(self, false);
  if (!dtype.is_none()) {
    nb::object wanted = nb::module_::import_("numpy").attr("dtype")(dtype);
    if (!array.attr("dtype").equal(wanted)) {
      TAPEGRAD_CHECK_AS(ValueError, copy.value_or(true),
                        "__array__: unable to avoid a copy: the tensor is ", name(self.dtype()),
                        " and another dtype was asked for");
      return array.attr("astype")(wanted);
    }
  }
  return copy.value_or(false) ? nb::object(array.attr("copy")()) : array;
}

}  // namespace

bool is_numpy_array(PyObject* object) {
  static PyObject* type = nullptr;
  return is_instance_of_numpy(object, type, "ndarray");
}

bool is_numpy_scalar(PyObject* object) {
  static PyObject* type = nullptr;
  return is_instance_of_numpy(object, type, "generic");
}

bool is_numpy_complex(PyObject* object) {
  static PyObject* type = nullptr;
  return is_instance_of_numpy(object, type, "complexfloating");
}

std::optional<DType> dtype_of_kind(std::string_view kind) {
  constexpr std::pair<const char*, DType> kKinds[] = {
      {"f8", DType::Float64},   {"f4", DType::Float32},     {"f2", DType::Float16},
      {"i8", DType::Int64},     {"i4", DType::Int32},       {"i2", DType::Int16},
      {"i1", DType::Int8},      {"u1", DType::UInt8},       {"b1", DType::Bool},
      {"c8", DType::Complex64}, {"c16", DType::Complex128}, {"u2", DType::UInt16},
      {"u4", DType::UInt32},    {"u8", DType::UInt64},
  };
  for (auto [name, found] : kKinds)
    if (kind == name) return found;
  return std::nullopt;
}

DType numpy_dtype(const char* op, PyObject* array) {
  nb::object dtype = nb::handle(array).attr("dtype");
  std::string text = str_of(dtype.attr("str"));  // "<f4"
  TAPEGRAD_CHECK_AS(
      ValueError, text[0] != '>' || text.size() < 2, op,
      ": given numpy array has byte order different from the native byte order; "
      "Conversion between byte orders is currently not supported; use array.astype(array.dtype.newbyteorder('='))");
  if (const auto found = dtype_of_kind(std::string_view(text).substr(1))) return *found;
  fail_dtype(op, array);
}

Tensor tensor_from_numpy(const char* op, PyObject* array, ReadOnly read_only) {
  DType dtype = numpy_dtype(op, array);
  BufferView buffer(array, PyBUF_STRIDED_RO);
  const Py_buffer& view = buffer.get();
  DimVector sizes;
  for (int d = 0; d < view.ndim; ++d) sizes.push_back(view.shape[d]);
  DimVector strides = element_strides(op, view);
  TAPEGRAD_CHECK_AS(ValueError, sizes.size() <= kMaxRank, op, ": too many dimensions, ",
                    sizes.size());
  check_aligned(op, view.buf, dtype);
  if (view.readonly && read_only == ReadOnly::Warn)
    warn("The given NumPy array is not writable, and tensors do not support being read-only. "
         "Writing to this tensor will write to the supposedly non-writable array. You may want to "
         "copy the array before converting it to a tensor.");
  int64_t reach = 1;
  for (size_t d = 0; d < sizes.size(); ++d) reach += (sizes[d] - 1) * strides[d];
  if (checked_numel(op, sizes) == 0) reach = 0;
  auto nbytes = static_cast<size_t>(reach) * itemsize(dtype);
  Ref<Storage> storage = Storage::borrow(view.buf, nbytes, Py_NewRef(array), release_object);
  Tensor shared(TensorImpl::create(std::move(storage), dtype, sizes, strides, 0));
  note_borrowed(shared);
  return shared;
}

Tensor tensor_from_buffer(const char* op, PyObject* object, DType dtype, int64_t count,
                          int64_t offset) {
  TAPEGRAD_CHECK_AS(ValueError, PyObject_CheckBuffer(object), op,
                    ": object does not implement Python buffer protocol");
  auto view = std::make_unique<BufferView>(object, PyBUF_SIMPLE);
  auto item = static_cast<int64_t>(itemsize(dtype)), length = static_cast<int64_t>(view->get().len);
  TAPEGRAD_CHECK_AS(ValueError, length > 0 && count != 0, op, ": both buffer length (", length,
                    ") and count (", count, ") must not be 0");
  TAPEGRAD_CHECK_AS(ValueError, offset >= 0 && offset < length, op, ": offset (", offset,
                    " bytes) must be non-negative and no greater than buffer length (", length,
                    " bytes) minus 1");
  int64_t left = length - offset;
  TAPEGRAD_CHECK_AS(ValueError, count > 0 || left % item == 0, op, ": buffer length (", left,
                    " bytes) after offset (", offset,
                    " bytes) must be a multiple of element size (", item, ")");
  if (count < 0) count = left / item;
  TAPEGRAD_CHECK_AS(ValueError, count <= left / item, op, ": requested buffer length (", count,
                    " * ", item, " bytes) after offset (", offset,
                    " bytes) must not be greater than actual buffer length (", length, " bytes)");
  if (view->get().readonly)
    warn("The given buffer is not writable, and tensors do not support being read-only. Writing to "
         "this tensor will write to the supposedly non-writable buffer. You may want to copy the "
         "buffer before converting it to a tensor.");
  char* data = static_cast<char*>(view->get().buf) + offset;
  check_aligned(op, data, dtype);
  // The view is held as long as the tensor lives: a bytearray cannot be resized meanwhile.
  Ref<Storage> storage = Storage::borrow(data, static_cast<size_t>(count * item), view.release(),
                                         [](void* held) { delete static_cast<BufferView*>(held); });
  Tensor shared(TensorImpl::create(std::move(storage), dtype, DimVector{count}, DimVector{1}, 0));
  note_borrowed(shared);
  return shared;
}

nb::object numpy_of(const Tensor& tensor, bool force) {
  const bool is_cuda = tensor->device().type == DeviceType::CUDA;
  TAPEGRAD_CHECK_AS(TypeError, force || !is_cuda, "numpy: can't convert ",
                    to_string(tensor->device()),
                    " device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
                    "memory first.");
  TAPEGRAD_CHECK(force || !grad_enabled || !requires_grad(tensor),
                 "numpy: Can't call numpy() on Tensor that requires grad. Use "
                 "tensor.detach().numpy() instead.");
  TAPEGRAD_CHECK_AS(TypeError, tensor.dtype() != DType::BFloat16,
                    "numpy: NumPy has no bfloat16; call .float() first");
  TAPEGRAD_CHECK_AS(TypeError, !is_float8(tensor.dtype()), "numpy: NumPy has no ",
                    name(tensor.dtype()),
                    "; call .float() first, or .view(torch.uint8) for its bits");
  if (is_cuda) return numpy_of(to_device(tensor, Device{}), true);
  size_t rank = tensor.sizes().size();
  std::vector<size_t> shape(tensor.sizes().begin(), tensor.sizes().end());
  note_shared(tensor);
  // The array holds on to the bytes, not to the tensor, which may be given others.
  auto loan = std::make_unique<Loan>(tensor->storage_ref());
  void* data = tensor->address();
  nb::capsule owner(loan.get(), [](void* held) noexcept { delete static_cast<Loan*>(held); });
  (void)loan.release();
  nb::ndarray<nb::numpy> array(data, rank, shape.data(), owner, tensor.strides().data(),
                               exported_dtype(tensor.dtype()));
  return nb::cast(array);
}

void bind_numpy(Binder& b) {
  b.function("from_numpy",
             [](nb::handle ndarray) {
    TAPEGRAD_CHECK_AS(TypeError, is_numpy_array(ndarray.ptr()),
                      "from_numpy: expected np.ndarray (got ", Py_TYPE(ndarray.ptr())->tp_name,
                      ")");
    return tensor_from_numpy("from_numpy", ndarray.ptr(), ReadOnly::Warn);
  }, "ndarray"_a, nb::sig("def from_numpy(ndarray: typing.Any) -> Tensor"),
             R"(A tensor over the memory of a NumPy array: a write to one is seen in the other.

Args:
    ndarray: the array, with non-negative strides and native byte order.

Example:
    >>> import numpy
    >>> array = numpy.array([1, 2, 3])
    >>> x = torch.from_numpy(array)
    >>> array[0] = 10
    >>> x
    tensor([10,  2,  3])
)");
  b.function("frombuffer",
             [](nb::handle buffer, DType dtype, int64_t count, int64_t offset, bool requires_grad) {
    Tensor x = tensor_from_buffer("frombuffer", buffer.ptr(), dtype, count, offset);
    if (requires_grad) set_requires_grad(x, true);
    return x;
  }, "buffer"_a, nb::kw_only(), "dtype"_a, "count"_a = -1, "offset"_a = 0,
             "requires_grad"_a = false,
             R"(A one-dimensional tensor over the memory of an object with a buffer.

Args:
    buffer: bytearray, memoryview, array.array, mmap, ...
    dtype: the type of the elements.
    count: how many elements to take; negative takes all.
    offset: how many bytes to skip at the beginning.
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.frombuffer(bytearray([1, 0, 2, 0]), dtype=torch.int16)
    tensor([1, 2], dtype=torch.int16)
)");
  b.method("numpy", [](const Tensor& self, bool force) { return numpy_of(self, force); },
           nb::kw_only(), "force"_a = false,
           R"(A NumPy array over the tensor's memory: a write to one is seen in the other.

Args:
    force: detach first, so that a tensor that requires grad is accepted too.

Example:
    >>> torch.tensor([1, 2]).numpy().sum().item()
    3
)");
  b.method("__array__", to_array, "dtype"_a.none() = nb::none(), nb::kw_only(),
           "copy"_a.none() = nb::none(), "What numpy.asarray(tensor) calls.");
  b.method("__array_wrap__",
           [](const Tensor&, nb::handle array, nb::handle, bool) {
    return tensor_from_numpy("__array_wrap__", array.ptr(), ReadOnly::Allow);
  }, "array"_a, "context"_a.none() = nb::none(), "return_scalar"_a = false,
           nb::sig("def __array_wrap__(self, array: typing.Any, context: typing.Any = None, "
                   "return_scalar: bool = False) -> Tensor"),
           "Makes the result of numpy.sin(tensor) and its like a tensor.");
  // With it, results of NumPy's functions on arrays and tensors go through __array_wrap__.
  nb::setattr(b.tensor_type(), "__array_priority__", nb::int_(1000));
}

}  // namespace tapegrad::python
