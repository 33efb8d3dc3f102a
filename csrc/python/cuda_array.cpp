// Version 3 of the interface: a stream may be named that has work on the memory. Whoever takes the memory waits
// for it.
#include "python/cuda_array.h"

#include "core/error.h"
#include "core/op.h"
#include "cuda/context.h"
#include "cuda/foreign.h"
#include "cuda/stream.h"
#include "graph/record.h"
#include "intercept/capture.h"
#include "python/numpy.h"
#include "python/text.h"

namespace tapegrad::python {

namespace {

constexpr const char* kAttribute = "__cuda_array_interface__";

void release_object(void* object) { Py_DECREF(static_cast<PyObject*>(object)); }

// "<f4"; bytes have no order.
std::string typestr_of(DType dtype) {
  if (dtype == DType::BFloat16) return "<V2";  // as ml_dtypes calls it
  const char kind = is_floating(dtype)      ? 'f'
                    : dtype == DType::Bool  ? 'b'
                    : dtype == DType::UInt8 ? 'u'
                                            : 'i';
  const size_t size = itemsize(dtype);
  return concat(size == 1 ? "|" : "<", kind, size);
}

nb::tuple tuple_of(Sizes numbers, int64_t factor) {
  nb::list result;
  for (int64_t number : numbers) result.append(number * factor);
  return nb::tuple(result);
}

nb::object describe(const Tensor& x) {
  const Device device = x->device();
  TAPEGRAD_CHECK(!requires_grad(x), kAttribute,
                 ": Can't get __cuda_array_interface__ on Variable that requires grad. If "
                 "gradients aren't required, use var.detach() to get Variable that doesn't require "
                 "grad.");
  note_shared(x);
  x->storage().expose();
  const auto item = static_cast<int64_t>(itemsize(x.dtype()));
  const auto address = x.numel() > 0 ? reinterpret_cast<uintptr_t>(x->address()) : uintptr_t{0};
  nb::dict result;
  result["typestr"] = typestr_of(x.dtype());
  result["shape"] = tuple_of(x.sizes(), 1);
  result["strides"] = x.is_contiguous() ? nb::none() : nb::object(tuple_of(x.strides(), item));
  result["data"] = nb::make_tuple(address, false);  // not read-only
  result["version"] = 3;
  result["stream"] = cuda::number_of_stream(cuda::current_stream(device.index));
  return result;
}

// ---- import

nb::object field(const nb::dict& description, const char* name) {
  return description.contains(name) ? nb::object(description[name]) : nb::none();
}

[[noreturn]] void fail_field(const char* op, const char* name, const char* expected) {
  fail<TypeError>(op, ": the array's ", kAttribute, " has no usable '", name, "'; expected ",
                  expected);
}

DimVector numbers_of(const char* op, const nb::object& list, const char* name) {
  DimVector result;
  if (!int_list_from_object(list.ptr(), &result)) fail_field(op, name, "a tuple of ints");
  return result;
}

DType dtype_of_array(const char* op, const nb::dict& description) {
  const nb::object typestr = field(description, "typestr");
  if (!PyUnicode_Check(typestr.ptr())) fail_field(op, "typestr", "a text such as '<f4'");
  const std::string text = str_of(typestr);
  if (text == "<V2") return DType::BFloat16;
  TAPEGRAD_CHECK_AS(ValueError, text.size() > 1 && text[0] != '>', op,
                    ": expected elements in the byte order of the GPU, got '", text, "'");
  if (const auto found = dtype_of_kind(std::string_view(text).substr(1))) {
    check_device_dtype(op, *found, Device{DeviceType::CUDA, 0});
    return *found;
  }
  fail<TypeError>(op, ": there is no dtype for elements of type '", text, "'");
}

struct Data {
  char* address;
  bool is_read_only;
};

Data data_of(const char* op, const nb::dict& description) {
  const nb::object pair = field(description, "data");
  if (!PyTuple_Check(pair.ptr()) || PyTuple_GET_SIZE(pair.ptr()) != 2)
    fail_field(op, "data", "a 2-tuple of (int, bool)");
  const nb::object address = pair[0];
  if (!PyLong_Check(address.ptr()) && !address.is_none())
    fail_field(op, "data", "a 2-tuple of (int, bool)");
  void* pointer = address.is_none() ? nullptr : PyLong_AsVoidPtr(address.ptr());
  if (PyErr_Occurred()) throw nb::python_error();
  return {static_cast<char*>(pointer), nb::cast<bool>(nb::bool_(pair[1]))};
}

// In elements.
DimVector strides_of(const char* op, const nb::dict& description, Sizes sizes, DType dtype) {
  const nb::object bytes = field(description, "strides");
  if (bytes.is_none()) return contiguous_strides(sizes);
  DimVector strides = numbers_of(op, bytes, "strides");
  const auto item = static_cast<int64_t>(itemsize(dtype));
  if (strides.size() != sizes.size()) fail_field(op, "strides", "as many numbers as in its shape");
  for (size_t d = 0; d < strides.size(); ++d) {
    if (sizes[d] < 2) strides[d] = std::max<int64_t>(strides[d] / item, 0);  // nothing to step over
    else {
      TAPEGRAD_CHECK_AS(ValueError, strides[d] >= 0, op,
                        ": negative strides are not supported; copy the array first");
      TAPEGRAD_CHECK_AS(ValueError, strides[d] % item == 0, op,
                        ": given array strides not a multiple of the element byte size; copy the "
                        "array first");
      strides[d] /= item;
    }
  }
  return strides;
}

// What is on the array's stream comes before what is put into ours.
void wait_for_array(const char* op, const nb::dict& description, int device) {
  const nb::object stream = field(description, "stream");
  if (stream.is_none()) return;
  if (!PyLong_Check(stream.ptr())) fail_field(op, "stream", "an int or None");
  const auto number = nb::cast<int64_t>(stream);
  cuda::order_streams(device, cuda::stream_of_number(op, number), cuda::current_stream(device));
}

size_t reach_of(Sizes sizes, Sizes strides, int64_t numel, DType dtype) {
  int64_t reach = numel > 0;
  for (size_t d = 0; d < sizes.size() && numel > 0; ++d) reach += (sizes[d] - 1) * strides[d];
  return static_cast<size_t>(reach) * itemsize(dtype);
}

}  // namespace

bool has_cuda_array(PyObject* object) {
  return !PyTuple_CheckExact(object) && PyObject_HasAttrString(object, kAttribute) == 1;
}

Tensor tensor_from_cuda_array(const char* op, PyObject* object, CudaArrayUse use) {
  const nb::object attribute = nb::handle(object).attr(kAttribute);
  if (!PyDict_Check(attribute.ptr()))
    fail<TypeError>(op, ": expected ", kAttribute, " to be a dict, got ",
                    Py_TYPE(attribute.ptr())->tp_name);
  const auto description = nb::borrow<nb::dict>(attribute);
  TAPEGRAD_CHECK_AS(ValueError, field(description, "mask").is_none(), op,
                    ": masked arrays are not supported; fill the masked elements first");
  const DimVector sizes = numbers_of(op, field(description, "shape"), "shape");
  TAPEGRAD_CHECK_AS(ValueError, sizes.size() <= kMaxRank, op, ": too many dimensions, ",
                    sizes.size());
  const DType dtype = dtype_of_array(op, description);
  const int64_t numel = checked_numel(op, sizes);
  const DimVector strides = strides_of(op, description, sizes, dtype);
  const Data data = data_of(op, description);
  TAPEGRAD_CHECK_AS(TypeError, !data.is_read_only || use == CudaArrayUse::Copy, op,
                    ": the read only flag is not supported, should always be False; copy the array "
                    "with torch.tensor()");
  TAPEGRAD_CHECK_AS(ValueError, reinterpret_cast<uintptr_t>(data.address) % itemsize(dtype) == 0,
                    op, ": the memory is not aligned to the element size; copy the array first");
  // The producer may have changed the context of the thread: Note [The context of a thread].
  cuda::set_device(cuda::current_device());
  const int device = numel > 0 ? cuda::device_of_address(op, data.address) : cuda::current_device();
  wait_for_array(op, description, device);
  Ref<Storage> storage = cuda::borrow(device, data.address, reach_of(sizes, strides, numel, dtype),
                                      Py_NewRef(object), release_object);
  Tensor shared(TensorImpl::create(std::move(storage), dtype, sizes, strides, 0));
  note_borrowed(shared);
  return shared;
}

PyObject* get_cuda_array_interface(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const Tensor& x = tensor_of(self);
    if (x->device().type != DeviceType::CUDA) {
      PyErr_Format(PyExc_AttributeError,
                   "Can't get __cuda_array_interface__ on non-CUDA tensor on '%s'. If CUDA data is "
                   "required use tensor.cuda() to copy tensor to device memory.",
                   to_string(x->device()).c_str());
      return nullptr;
    }
    return describe(x).release().ptr();
  });
}

}  // namespace tapegrad::python
