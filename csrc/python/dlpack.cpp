// DLPack both ways, with capsules of both kinds: "dltensor", and "dltensor_versioned", which came
// with version 1.0.
//
// Ownership. A capsule owns its managed tensor until a consumer renames it to "used_...": from then
// on the consumer calls the deleter. Our managed tensor holds a reference to the storage; a deleter
// may be called from any thread, so it takes Python's lock.
#include "python/dlpack.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/loan.h"
#include "core/op.h"
#include "graph/record.h"
#include "intercept/capture.h"
#include "ops/copy.h"
#include "python/callback.h"
#include "python/text.h"

namespace tapegrad::python {

namespace {

// ---- the protocol's structures, laid out as the DLPack specification says

constexpr int32_t kDeviceCpu = 1;
enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };
constexpr uint64_t kFlagReadOnly = 1;
constexpr uint64_t kFlagCopied = 2;

struct DlTensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

struct Managed {
  static constexpr const char* kName = "dltensor";
  static constexpr const char* kUsedName = "used_dltensor";
  DlTensor tensor;
  void* context;
  void (*deleter)(Managed*);
};

struct ManagedVersioned {
  static constexpr const char* kName = "dltensor_versioned";
  static constexpr const char* kUsedName = "used_dltensor_versioned";
  uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  DlTensor tensor;
};

// ---- export

// What stays alive for the consumer.
template <class M>
struct Exported {
  explicit Exported(Ref<Storage> storage) : loan(std::move(storage)) {}

  M managed{};
  Loan loan;
  DimVector sizes, strides;
};

template <class M>
void delete_exported(M* managed) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE state = take_lock_anywhere();
  delete static_cast<Exported<M>*>(managed->context);
  PyGILState_Release(state);
}

// A capsule that nobody consumed still owns its tensor.
template <class M>
void destroy_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, M::kName)) return;
  auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, M::kName));
  if (managed->deleter) managed->deleter(managed);
}

uint8_t type_code(DType dtype) {
  if (dtype == DType::BFloat16) return kBfloat;
  if (is_floating(dtype)) return kFloat;
  if (dtype == DType::Bool) return kBool;
  return dtype == DType::UInt8 ? kUInt : kInt;
}

template <class M>
nb::object export_tensor(const Tensor& x, bool copied) {
  auto exported = std::make_unique<Exported<M>>(x->storage_ref());
  exported->sizes = x.sizes();
  exported->strides = x.strides();
  M& managed = exported->managed;
  note_shared(x);
  managed.tensor = {x->address(),
                    kDeviceCpu,
                    0,
                    static_cast<int32_t>(x.dim()),
                    type_code(x.dtype()),
                    static_cast<uint8_t>(itemsize(x.dtype()) * 8),
                    1,
                    exported->sizes.data(),
                    exported->strides.data(),
                    0};
  managed.context = exported.get();
  managed.deleter = delete_exported<M>;
  if constexpr (std::is_same_v<M, ManagedVersioned>) {
    managed.major = 1;
    managed.minor = 0;
    managed.flags = copied ? kFlagCopied : 0;
  }
  PyObject* capsule = PyCapsule_New(&managed, M::kName, destroy_capsule<M>);
  if (!capsule) throw nb::python_error();
  (void)exported.release();
  return nb::steal(capsule);
}

void raise_buffer_error(const char* text) {
  PyErr_SetString(PyExc_BufferError, text);
  throw nb::python_error();
}

using Version = std::pair<int64_t, int64_t>;

nb::object to_dlpack(const Tensor& self, nb::handle stream, std::optional<Version> max_version,
                     std::optional<Version> dl_device, std::optional<bool> copy) {
  if (requires_grad(self))
    raise_buffer_error(
        "__dlpack__: can't export tensors that require gradient, use tensor.detach()");
  TAPEGRAD_CHECK_AS(TypeError, stream.is_none() || PyLong_Check(stream.ptr()),
                    "__dlpack__: expected stream to be an int or None, got ",
                    Py_TYPE(stream.ptr())->tp_name);
  int overflow = 0;
  bool no_stream = stream.is_none() || PyLong_AsLongLongAndOverflow(stream.ptr(), &overflow) == -1;
  TAPEGRAD_CHECK_AS(ValueError, no_stream && !overflow,
                    "__dlpack__: stream should be None on the CPU");
  if (dl_device && *dl_device != Version(kDeviceCpu, 0))
    raise_buffer_error("__dlpack__: the tensor is on the CPU, and so must be dl_device: (1, 0)");
  GradMode off(false);
  bool copied = copy.value_or(false);
  Tensor x = copied ? clone(self) : self;
  bool versioned = max_version && max_version->first >= 1;
  return versioned ? export_tensor<ManagedVersioned>(x, copied) : export_tensor<Managed>(x, copied);
}

// ---- import

DType imported_dtype(const char* op, const DlTensor& source) {
  for (int i = 0; i < kDTypeCount; ++i) {
    auto dtype = static_cast<DType>(i);
    if (source.lanes == 1 && !is_complex(dtype) && source.code == type_code(dtype) &&
        source.bits == itemsize(dtype) * 8)
      return dtype;
  }
  if (source.code == kComplex) fail_unsupported_dtype(op, DType::Complex64);
  fail<TypeError>(op, ": no dtype for DLPack type code ", int{source.code}, " with ",
                  int{source.bits}, " bits and ", source.lanes, " lanes");
}

template <class M>
void delete_managed(void* owner) {
  auto* managed = static_cast<M*>(owner);
  if (managed->deleter) managed->deleter(managed);
}

// Checks everything before ownership moves, so that a refused capsule is still its own.
template <class M>
Tensor import_tensor(const char* op, PyObject* capsule) {
  auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, M::kName));
  if constexpr (std::is_same_v<M, ManagedVersioned>)
    TAPEGRAD_CHECK(managed->major == 1, op, ": expected DLPack version 1, got ", managed->major,
                   ".", managed->minor);
  const DlTensor& source = managed->tensor;
  TAPEGRAD_CHECK(source.device_type == kDeviceCpu, op,
                 ": expected memory on the CPU (DLPack device type 1), got device type ",
                 source.device_type);
  TAPEGRAD_CHECK(source.ndim >= 0 && source.ndim <= kMaxRank, op, ": ", source.ndim,
                 " dimensions are not supported");
  DType dtype = imported_dtype(op, source);
  Sizes sizes(source.shape, static_cast<size_t>(source.ndim));
  int64_t numel = checked_numel(op, sizes), reach = numel > 0;
  DimVector strides = contiguous_strides(sizes);
  if (source.strides) std::copy_n(source.strides, sizes.size(), strides.begin());
  for (size_t d = 0; d < sizes.size(); ++d) {
    TAPEGRAD_CHECK_AS(ValueError, strides[d] >= 0 || sizes[d] <= 1, op,
                      ": negative strides are not supported; copy the array first");
    strides[d] = std::max<int64_t>(strides[d], 0);
    if (numel > 0) reach += (sizes[d] - 1) * strides[d];
  }
  char* data = static_cast<char*>(source.data) + source.byte_offset;
  TAPEGRAD_CHECK_AS(ValueError, reinterpret_cast<uintptr_t>(data) % itemsize(dtype) == 0, op,
                    ": the memory is not aligned to the element size; copy the array first");
  PyCapsule_SetName(capsule, M::kUsedName);
  Ref<Storage> storage = Storage::borrow(data, static_cast<size_t>(reach) * itemsize(dtype),
                                         managed, delete_managed<M>);
  Tensor shared(TensorImpl::create(std::move(storage), dtype, sizes, strides, 0));
  note_borrowed(shared);
  return shared;
}

// Asks the producer for a capsule: first for a versioned one, which old producers do not know.
nb::object request_capsule(nb::handle source) {
  nb::object method = source.attr("__dlpack__");
  try {
    return method("max_version"_a = nb::make_tuple(1, 0));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return method();
}

}  // namespace

bool has_dlpack(PyObject* object) {
  return PyCapsule_CheckExact(object) || nb::hasattr(nb::handle(object), "__dlpack__");
}

Tensor tensor_from_dlpack(const char* op, nb::handle source, std::optional<bool> copy) {
  TAPEGRAD_CHECK(has_dlpack(source.ptr()), op,
                 ": expected an object with __dlpack__ or a DLPack capsule, got ",
                 Py_TYPE(source.ptr())->tp_name);
  nb::object capsule =
      PyCapsule_CheckExact(source.ptr()) ? nb::borrow(source) : request_capsule(source);
  Tensor x;
  if (PyCapsule_IsValid(capsule.ptr(), ManagedVersioned::kName))
    x = import_tensor<ManagedVersioned>(op, capsule.ptr());
  else if (PyCapsule_IsValid(capsule.ptr(), Managed::kName))
    x = import_tensor<Managed>(op, capsule.ptr());
  else fail(op, ": received an invalid capsule; a DLPack capsule can be consumed only once");
  return copy.value_or(false) ? clone(x) : x;
}

void bind_dlpack(Binder& b) {
  b.method("__dlpack__", to_dlpack, nb::kw_only(), "stream"_a.none() = nb::none(),
           "max_version"_a.none() = nb::none(), "dl_device"_a.none() = nb::none(),
           "copy"_a.none() = nb::none(), "A capsule by which another library takes the memory.");
  b.method("__dlpack_device__", [](const Tensor&) { return Version(kDeviceCpu, 0); },
           "Where the memory lies: (1, 0), the CPU.");
  b.function("from_dlpack",
             [](nb::handle ext_tensor, nb::handle device, std::optional<bool> copy) {
    TAPEGRAD_CHECK(device.is_none() || device_of(device).is_cpu(),
                   "from_dlpack: expected device 'cpu', got '", str_of(device), "'");
    return tensor_from_dlpack("from_dlpack", ext_tensor, copy);
  }, "ext_tensor"_a, nb::kw_only(), "device"_a.none() = nb::none(), "copy"_a.none() = nb::none(),
             nb::sig("def from_dlpack(ext_tensor: typing.Any, *, device: typing.Any = None, "
                     "copy: bool | None = None) -> Tensor"),
             R"(A tensor over the memory of another library's array.

Args:
    ext_tensor: an object with ``__dlpack__``, or a DLPack capsule, which is consumed.
    device: the device the result must be on.
    copy: True copies the memory; otherwise it is shared.

Example:
    >>> import numpy
    >>> torch.from_dlpack(numpy.arange(3.0))
    tensor([0., 1., 2.], dtype=torch.float64)
)");
}

}  // namespace tapegrad::python
