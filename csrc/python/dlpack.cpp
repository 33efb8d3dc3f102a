// DLPack both ways, with capsules of both kinds: "dltensor", and "dltensor_versioned", which came
// with version 1.0.
//
// Ownership. A capsule owns its managed tensor until a consumer renames it to "used_...": from then
// on the consumer calls the deleter. Our managed tensor holds a reference to the storage; a deleter
// may be called from any thread, so it takes Python's lock.
//
// Order. The consumer of memory on a GPU names the stream it will use, and what this thread's current stream was
// given before comes first there. The other way round we name our current stream. Nobody says when a stream is
// done with what it was lent: see Note [Memory of others on a device] for memory that comes in, and
// note_consumer() for memory that goes out.
#include "python/dlpack.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/loan.h"
#include "core/op.h"
#include "cuda/allocator.h"
#include "cuda/context.h"
#include "cuda/foreign.h"
#include "cuda/stream.h"
#include "graph/record.h"
#include "intercept/capture.h"
#include "ops/copy.h"
#include "ops/view.h"
#include "python/callback.h"
#include "python/text.h"

namespace tapegrad::python {

namespace {

// ---- the protocol's structures, laid out as the DLPack specification says

// Where memory lies: the CPU's, a GPU's, the CPU's and page-locked, and that of both.
enum DlDevice : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E4m3fn = 10,
  kFloat8E4m3fnuz = 11,
  kFloat8E5m2 = 12,
  kFloat8E5m2fnuz = 13,
  kFloat8E8m0fnu = 14,
};
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
  if (dtype == DType::Float8_e4m3fn) return kFloat8E4m3fn;
  if (dtype == DType::Float8_e4m3fnuz) return kFloat8E4m3fnuz;
  if (dtype == DType::Float8_e5m2) return kFloat8E5m2;
  if (dtype == DType::Float8_e5m2fnuz) return kFloat8E5m2fnuz;
  if (dtype == DType::Float8_e8m0fnu) return kFloat8E8m0fnu;
  if (is_complex(dtype)) return kComplex;
  if (is_floating(dtype)) return kFloat;
  if (dtype == DType::Bool) return kBool;
  return is_signed(dtype) ? kInt : kUInt;
}

using Place = std::pair<int32_t, int32_t>;  // device type and number

Place dlpack_device(const Tensor& x) {
  const Device device = x->device();
  TAPEGRAD_CHECK_AS(ValueError, !device.is_meta(),
                    "__dlpack_device__: Unknown device type meta for Dlpack; a tensor there has no "
                    "memory");
  return device.is_cpu() ? Place(kCpu, 0) : Place(kCuda, device.index);
}

template <class M>
nb::object export_tensor(const Tensor& x, bool copied) {
  auto exported = std::make_unique<Exported<M>>(x->storage_ref());
  exported->sizes = x.sizes();
  exported->strides = x.strides();
  M& managed = exported->managed;
  note_shared(x);
  const auto [device_type, device_id] = dlpack_device(x);
  managed.tensor = {x.numel() == 0 ? nullptr : x->address(),
                    device_type,
                    device_id,
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

void raise_buffer_error(const std::string& text) {
  PyErr_SetString(PyExc_BufferError, text.c_str());
  throw nb::python_error();
}

// stream= as a number; -1 where nobody has to wait.
int64_t stream_number(nb::handle stream, bool is_cuda) {
  TAPEGRAD_CHECK_AS(TypeError, stream.is_none() || PyLong_Check(stream.ptr()),
                    "__dlpack__: expected stream to be an int or None, got ",
                    Py_TYPE(stream.ptr())->tp_name);
  int overflow = 0;
  const int64_t number =
      stream.is_none() ? (is_cuda ? 1 : -1) : PyLong_AsLongLongAndOverflow(stream.ptr(), &overflow);
  TAPEGRAD_CHECK_AS(ValueError, is_cuda || (number == -1 && !overflow),
                    "__dlpack__: stream should be None on the CPU");
  TAPEGRAD_CHECK_AS(ValueError, !overflow, "__dlpack__: the stream does not fit into 64 bits");
  return number;
}

// The consumer uses the memory on a stream, behind what is on the current one. If that is the default stream, which
// is never destroyed, the memory is not used again before it is done; a handle may be gone by then.
void note_consumer(const Tensor& x, int64_t stream) {
  if (stream == -1) return;
  const int device = x->device().index;
  const cuda::StreamHandle consumer = cuda::stream_of_number("__dlpack__", stream);
  cuda::order_streams(device, cuda::current_stream(device), consumer);
  if (!consumer) cuda::record_stream(x->storage(), consumer);
}

Device device_of_place(const char* op, Place place) {
  if (place.first == kCpu || place.first == kCudaHost) return {};
  TAPEGRAD_CHECK(
      place.first == kCuda || place.first == kCudaManaged, op,
      ": expected memory of the CPU or of a CUDA device (DLPack device types 1, 2, 3 and "
      "13), got device type ",
      place.first);
  cuda::check_device(place.second);
  return {DeviceType::CUDA, static_cast<uint8_t>(place.second)};
}

using Version = std::pair<int64_t, int64_t>;

nb::object to_dlpack(const Tensor& self, nb::handle stream, std::optional<Version> max_version,
                     std::optional<Place> dl_device, std::optional<bool> copy) {
  if (requires_grad(self))
    raise_buffer_error(
        "__dlpack__: can't export tensors that require gradient, use tensor.detach()");
  if (self->device().is_meta()) self->storage().use();  // which refuses
  const Place own = dlpack_device(self);
  const Place wanted = dl_device.value_or(own);
  const int64_t consumer = stream_number(stream, own.first == kCuda || wanted.first == kCuda);
  const bool must_move = wanted != own;
  if (must_move && !copy.value_or(true))
    raise_buffer_error(concat("__dlpack__: the tensor is on '", to_string(self->device()),
                              "'; another dl_device needs a copy, which copy=False refuses"));
  if (must_move && wanted.first != kCpu && wanted.first != kCuda)
    raise_buffer_error(concat("__dlpack__: expected dl_device to be (1, 0), the CPU, or (2, i), a "
                              "CUDA device, got (",
                              wanted.first, ", ", wanted.second, ")"));
  GradMode off(false);
  const bool copied = must_move || copy.value_or(false);
  const Tensor x = must_move ? to_device(self, device_of_place("__dlpack__", wanted))
                   : copied  ? clone(self)
                             : self;
  if (x->device().type == DeviceType::CUDA) note_consumer(x, consumer);
  bool versioned = max_version && max_version->first >= 1;
  return versioned ? export_tensor<ManagedVersioned>(x, copied) : export_tensor<Managed>(x, copied);
}

// ---- import

DType imported_dtype(const char* op, const DlTensor& source) {
  for (int i = 0; i < kDTypeCount; ++i) {
    auto dtype = static_cast<DType>(i);
    if (source.lanes == 1 && source.code == type_code(dtype) && source.bits == itemsize(dtype) * 8)
      return dtype;
  }
  fail<TypeError>(op, ": no dtype for DLPack type code ", int{source.code}, " with ",
                  int{source.bits}, " bits and ", source.lanes, " lanes");
}

template <class M>
void delete_managed(void* owner) {
  auto* managed = static_cast<M*>(owner);
  if (managed->deleter) managed->deleter(managed);
}

// Where the elements of a source are, all of it checked.
struct Geometry {
  DType dtype;
  Device device;
  Sizes sizes;
  DimVector strides;
  size_t nbytes;
  char* data;
};

Geometry geometry_of(const char* op, const DlTensor& source) {
  const Device device = device_of_place(op, {source.device_type, source.device_id});
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
  if (!device.is_cpu() && numel > 0)
    cuda::check_foreign(op, device.index, data,
                        source.device_type == kCudaManaged ? cuda::ForeignKind::Managed
                                                           : cuda::ForeignKind::Device);
  return {dtype, device, sizes, strides, static_cast<size_t>(reach) * itemsize(dtype), data};
}

// Checks everything before ownership moves, so that a refused capsule is still its own.
template <class M>
Tensor import_tensor(const char* op, PyObject* capsule) {
  auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, M::kName));
  if constexpr (std::is_same_v<M, ManagedVersioned>)
    TAPEGRAD_CHECK(managed->major == 1, op, ": expected DLPack version 1, got ", managed->major,
                   ".", managed->minor);
  const Geometry found = geometry_of(op, managed->tensor);
  PyCapsule_SetName(capsule, M::kUsedName);
  Ref<Storage> storage =
      found.device.is_cpu()
          ? Storage::borrow(found.data, found.nbytes, managed, delete_managed<M>)
          : cuda::borrow(found.device.index, found.data, found.nbytes, managed, delete_managed<M>);
  Tensor shared(TensorImpl::create(std::move(storage), found.dtype, found.sizes, found.strides, 0));
  note_borrowed(shared);
  return shared;
}

// Where a producer says that its memory is; the CPU's if it says nothing.
Place place_of(nb::handle source) {
  if (!nb::hasattr(source, "__dlpack_device__")) return {kCpu, 0};
  const nb::object found = source.attr("__dlpack_device__")();
  return {nb::cast<int32_t>(nb::int_(found[0])), nb::cast<int32_t>(nb::int_(found[1]))};
}

// Asks the producer for a capsule, and to put its memory behind our current stream: first for a versioned one, which
// old producers do not know.
nb::object request_capsule(const char* op, nb::handle source, Place place) {
  nb::dict options;
  if (const Device device = device_of_place(op, place); !device.is_cpu()) {
    const int64_t stream = cuda::number_of_stream(cuda::current_stream(device.index));
    options["stream"] = stream;
  }
  nb::object method = source.attr("__dlpack__");
  nb::dict versioned;
  versioned.update(options);
  versioned["max_version"] = nb::make_tuple(1, 0);
  try {
    return method(**versioned);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return method(**options);
}

Tensor tensor_of_capsule(const char* op, PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, ManagedVersioned::kName))
    return import_tensor<ManagedVersioned>(op, capsule);
  if (PyCapsule_IsValid(capsule, Managed::kName)) return import_tensor<Managed>(op, capsule);
  fail(op, ": received an invalid capsule; a DLPack capsule can be consumed only once");
}

}  // namespace

bool has_dlpack(PyObject* object) {
  return PyCapsule_CheckExact(object) || nb::hasattr(nb::handle(object), "__dlpack__");
}

Tensor tensor_from_dlpack(const char* op, nb::handle source, std::optional<Device> device,
                          std::optional<bool> copy) {
  TAPEGRAD_CHECK(has_dlpack(source.ptr()), op,
                 ": expected an object with __dlpack__ or a DLPack capsule, got ",
                 Py_TYPE(source.ptr())->tp_name);
  Tensor x;
  if (PyCapsule_CheckExact(source.ptr())) {
    x = tensor_of_capsule(op, source.ptr());
  } else {
    const nb::object capsule = request_capsule(op, source, place_of(source));
    x = tensor_of_capsule(op, capsule.ptr());
  }
  // The producer may have changed the context of the thread: Note [The context of a thread].
  if (x->device().type == DeviceType::CUDA) cuda::set_device(cuda::current_device());
  const GradMode off(false);
  if (device && *device != x->device()) {
    TAPEGRAD_CHECK_AS(ValueError, copy.value_or(true), op, ": cannot move memory from '",
                      to_string(x->device()), "' to '", to_string(*device),
                      "' without copying; set copy=None or copy=True");
    return to_device(x, *device);
  }
  return copy.value_or(false) ? clone(x) : x;
}

void bind_dlpack(Binder& b) {
  b.method("__dlpack__", to_dlpack, nb::kw_only(), "stream"_a.none() = nb::none(),
           "max_version"_a.none() = nb::none(), "dl_device"_a.none() = nb::none(),
           "copy"_a.none() = nb::none(), "A capsule by which another library takes the memory.");
  b.method("__dlpack_device__", dlpack_device,
           "Where the memory lies: (1, 0) is the CPU, (2, i) the CUDA device i.");
  b.function("to_dlpack",
             [](const Tensor& tensor) {
    const nb::int_ no_stream(-1);
    return to_dlpack(detach(tensor), no_stream, std::nullopt, std::nullopt, std::nullopt);
  }, "tensor"_a, nb::sig("def to_dlpack(tensor: Tensor) -> typing.Any"),
             R"(A DLPack capsule over a tensor's memory, for one consumer.

Args:
    tensor: the tensor.

No stream is made to wait: on a GPU the consumer uses the stream that is current here.

Example:
    >>> torch.from_dlpack(torch.to_dlpack(torch.arange(3)))
    tensor([0, 1, 2])
)");
  b.function("from_dlpack",
             [](nb::handle ext_tensor, nb::handle device, std::optional<bool> copy) {
    const auto where = device.is_none() ? std::nullopt : std::optional(device_of(device));
    return tensor_from_dlpack("from_dlpack", ext_tensor, where, copy);
  }, "ext_tensor"_a, nb::kw_only(), "device"_a.none() = nb::none(), "copy"_a.none() = nb::none(),
             nb::sig("def from_dlpack(ext_tensor: typing.Any, *, device: typing.Any = None, "
                     "copy: bool | None = None) -> Tensor"),
             R"(A tensor over the memory of another library's array.

Args:
    ext_tensor: an object with ``__dlpack__``, or a DLPack capsule, which is consumed.
    device: where the result is to be; from another device it is copied.
    copy: True copies the memory, False refuses to; otherwise it is shared where it can be.

Memory that its owner calls read-only is shared as well: do not write to it. On a GPU the current
stream waits for what the producer has queued, and the producer gets its memory back when the
streams that used it are done.

Example:
    >>> import numpy
    >>> torch.from_dlpack(numpy.arange(3.0))
    tensor([0., 1., 2.], dtype=torch.float64)
)");
}

}  // namespace tapegrad::python
