// Methods that every tensor has: geometry, copies, casts.
#include "core/call.h"
#include "core/error.h"
#include "core/torch_names.h"
#include "graph/record.h"
#include "graph/write_log.h"
#include "intercept/capture.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/view.h"
#include "python/binding.h"
#include "python/python_types.h"
#include "python/text.h"

namespace tapegrad::python {

namespace {

nb::object size(const Tensor& self, std::optional<int64_t> dim) {
  if (!dim) return nb::steal(make_size(self.sizes()));
  TAPEGRAD_CHECK_AS(IndexError, self.dim() > 0, "size: Dimension specified as ", *dim,
                    " but tensor has no dimensions");
  return nb::int_(self.size(wrap_dim("size", *dim, self.dim())));
}

nb::object stride(const Tensor& self, std::optional<int64_t> dim) {
  if (!dim) return nb::cast(IntList{DimVector(self.strides())});
  TAPEGRAD_CHECK_AS(IndexError, self.dim() > 0, "stride: Dimension specified as ", *dim,
                    " but tensor has no dimensions");
  return nb::int_(self.stride(wrap_dim("stride", *dim, self.dim())));
}

// For casts that somebody asks for, as opposed to those of gradients.
Tensor asked_cast(const Tensor& self, DType dtype, MemoryFormat format = MemoryFormat::Preserve) {
  warn_if_discarding(self.dtype(), dtype);
  return cast(self, dtype, format);
}

// to(dtype), to(device), to(device, dtype), to(other): all of its forms.
Tensor to(const Tensor& self, const nb::args& args, const nb::kwargs& kwargs) {
  DType dtype = self.dtype();
  Device device = self->device();
  bool copy = false, non_blocking = false;
  MemoryFormat format = MemoryFormat::Preserve;
  auto take = [&](nb::handle value) {
    DType given;
    if (dtype_from_object(value.ptr(), &given)) dtype = given;
    else if (is_tensor(value.ptr())) {
      dtype = tensor_of(value.ptr()).dtype();
      device = tensor_of(value.ptr())->device();
    } else if (!value.is_none()) {
      device = device_of(value);
    }
  };
  size_t position = 0;
  if (args.size() > 4) fail<TypeError>("to() takes at most 4 arguments, got ", args.size());
  for (nb::handle arg : args) {
    if (PyBool_Check(arg.ptr())) (++position == 2 ? copy : non_blocking) |= arg.ptr() == Py_True;
    else take(arg);
  }
  for (auto [key, value] : kwargs) {
    std::string name = utf8(key);
    if (name == "copy") {
      TAPEGRAD_CHECK_AS(TypeError, PyBool_Check(value.ptr()),
                        "to(): expected copy to be a bool, got ", repr_of(value));
      copy = value.is(Py_True);
    } else if (name == "dtype" || name == "device" || name == "other") {
      if (!value.is_none()) take(value);
    } else if (name == "memory_format") {
      format = memory_format_of("to", value);
    } else if (name == "non_blocking") {
      non_blocking = value.is(Py_True);
    } else {
      fail<TypeError>("to() got an unexpected keyword argument '", name, "'");
    }
  }
  if (device != self->device())
    return asked_cast(to_device(self, device, non_blocking, format), dtype, format);
  return copy && dtype == self.dtype() ? clone(self, format) : asked_cast(self, dtype, format);
}

// The format that a question is about: contiguous, unless another is named.
MemoryFormat ordered_format(const char* op, nb::handle memory_format) {
  MemoryFormat format = memory_format_of(op, memory_format);
  return format == MemoryFormat::Preserve ? MemoryFormat::Contiguous : format;
}

// Of functions to which no format means contiguous, and preserve_format something else.
// Asked for the sizes that it has, and for no format, a tensor keeps its strides.
bool stays_as_it_is(const Tensor& self, Sizes sizes, nb::handle memory_format) {
  return memory_format.is_none() && same_sizes(self.sizes(), sizes) &&
         !(requires_grad(self) && grad_enabled);
}

MemoryFormat given_format(const char* op, nb::handle memory_format) {
  return memory_format.is_none() ? MemoryFormat::Contiguous : memory_format_of(op, memory_format);
}

Tensor contiguous_in(const Tensor& self, nb::handle memory_format) {
  MemoryFormat format = ordered_format("contiguous", memory_format);
  if (is_contiguous(*self.impl(), format)) return self;
  TAPEGRAD_CHECK(memory_format.is_none() ||
                     memory_format_of("contiguous", memory_format) != MemoryFormat::Preserve,
                 "contiguous: preserve memory format is unsupported by the contiguous operator; "
                 "use contiguous_format or channels_last");
  return contiguous(self, format);
}

void bind_geometry(Binder& b) {
  b.method("size", size, "dim"_a.none() = nb::none(), "The sizes, or the size of one dimension.");
  b.method("stride", stride, "dim"_a.none() = nb::none(),
           "The strides in elements, or the stride of one dimension.");
  b.method("dim", [](const Tensor& self) { return self.dim(); }, "The number of dimensions.");
  b.method("ndimension", [](const Tensor& self) { return self.dim(); },
           "The number of dimensions.");
  b.both("numel", [](const Tensor& x) { return x.numel(); }, "The number of elements.");
  b.method("nelement", [](const Tensor& self) { return self.numel(); }, "The number of elements.");
  b.method("is_contiguous",
           [](const Tensor& self, nb::handle memory_format) {
    return is_contiguous(*self.impl(), ordered_format("is_contiguous", memory_format));
  }, nb::kw_only(), "memory_format"_a.none() = nb::none(),
           "Whether elements lie in order without gaps.");
  b.method("storage_offset", [](const Tensor& self) { return self->offset(); },
           "Where in its storage the first element lies.");
  b.method("element_size", [](const Tensor& self) { return itemsize(self.dtype()); },
           "Bytes per element.");
  b.both("is_floating_point", [](const Tensor& x) { return is_floating(x.dtype()); },
         "Whether the dtype is a floating one.");
  b.both("is_complex", [](const Tensor& x) { return is_complex(x.dtype()); },
         "Whether the dtype is a complex one.");
  b.both("is_signed", [](const Tensor& x) { return is_signed(x.dtype()); },
         "Whether the dtype has a sign.");
  b.both("is_same_size", [](const Tensor& x, const Tensor& other) {
    return same_sizes(x.sizes(), other.sizes());
  }, "other"_a, "Whether both have the same shape.");
  b.method("get_device", [](const Tensor& self) {
    return self->device().type == DeviceType::CUDA ? int{self->device().index} : -1;
  }, "The number of the CUDA device; -1 elsewhere.");
  b.method("is_set_to", [](const Tensor& self, const Tensor& tensor) {
    return shows_same(self, tensor);
  }, "tensor"_a, "Whether both show the same memory in the same way.");
}

void bind_copies(Binder& b) {
  b.both("clone", [](const Tensor& x, nb::handle memory_format) {
    return clone(x, memory_format_of("clone", memory_format));
  }, nb::kw_only(), "memory_format"_a.none() = nb::none(), "A copy.");
  b.method("contiguous", contiguous_in, nb::kw_only(), "memory_format"_a.none() = nb::none(),
           "This tensor if it is contiguous, else a copy.");
  b.method("copy_", [](Tensor self, const Tensor& other, bool non_blocking) {
    warn_if_discarding(other.dtype(), self.dtype());
    copy_(self, other, non_blocking);
    return self;
  }, "other"_a, "non_blocking"_a = false, "Copies the elements of other, broadcast and converted.");
  b.method("fill_", [](Tensor self, Scalar value) {
    fill_(self, value);
    return self;
  }, "value"_a, "Writes one value everywhere.");
  b.method("fill_", [](Tensor self, ComplexArgument value) {
    TAPEGRAD_CHECK(is_complex(self.dtype()) || value.number.imag == 0,
                   "fill_: value cannot be converted to type ", name(self.dtype()),
                   " without overflow: it is complex");
    const Tensor number = wrapped_complex(value.number);
    note_constant(number);
    fill_(self, number);
    return self;
  }, "value"_a, "Writes one value everywhere.");
  b.method("fill_", [](Tensor self, const Tensor& value) {
    fill_(self, value);
    return self;
  }, "value"_a, "Writes one value everywhere.");
  b.method("zero_", [](Tensor self) {
    zero_(self);
    return self;
  }, "Writes zeros.");
  b.method("resize_",
           [](Tensor self, const nb::args& args, nb::handle memory_format) {
    const DimVector size = int_list_from_args("resize_", args);
    if (!stays_as_it_is(self, size, memory_format))
      resize_(self, size, given_format("resize_", memory_format));
    return self;
  }, "size"_a, "memory_format"_a.none() = nb::none(),
           "Changes the shape; new elements are undefined.");
  b.method("resize_as_",
           [](Tensor self, const Tensor& the_template, nb::handle memory_format) {
    const MemoryFormat format = given_format("resize_as_", memory_format);
    if (stays_as_it_is(self, the_template.sizes(), memory_format)) return self;
    resize_(self, the_template.sizes(),
            format == MemoryFormat::Preserve ? suggested_format(*the_template.impl()) : format);
    return self;
  }, "the_template"_a, nb::kw_only(), "memory_format"_a.none() = nb::none(),
           "Changes the shape to that of another tensor; new elements are undefined.");
  b.method("set_", [](Tensor self, const Tensor& source) {
    TAPEGRAD_CHECK(self.dtype() == source.dtype(), "set_: expected a source of dtype ",
                   name(self.dtype()), ", got ", name(source.dtype()));
    set_memory(*self.impl(), source->storage_ref(), source.dtype());
    self->set_geometry(source.sizes(), source.strides(), source->offset());
    return self;
  }, "source"_a, "Makes this tensor show the memory of source.");
  b.method("cpu", [](const Tensor& self, nb::handle memory_format) {
    return to_device(self, Device{}, false, memory_format_of("cpu", memory_format));
  }, "memory_format"_a.none() = nb::none(), "This tensor on the CPU.");
  b.method("cuda",
           [](const Tensor& self, nb::handle device, bool non_blocking, nb::handle memory_format) {
    return to_device(self, device.is_none() ? device_of(nb::str("cuda")) : device_of(device),
                     non_blocking, memory_format_of("cuda", memory_format));
  }, "device"_a.none() = nb::none(), "non_blocking"_a = false,
           "memory_format"_a.none() = nb::none(),
           "This tensor on a CUDA device: the current one, unless another is named.");
}

void bind_formats(Binder& b) {
  b.function("_in_format_of", in_format_of, "input"_a, "other"_a,
             "A fresh result in the memory format that `other` has, if it has the same rank.");
  b.function("_in_usual_order",
             [](const Tensor& x) {
    return x.is_contiguous() ? x : rearranged(x, contiguous_strides(x.sizes()));
  }, "input"_a,
             "The tensor if it is contiguous, else a copy whose gradient lies as the input does.");
  b.function("_is_channels_last", [](const Tensor& x) {
    return suggested_format(*x.impl()) != MemoryFormat::Contiguous;
  }, "input"_a, "Whether results computed from the tensor shall have their channels last.");
}

std::string tensor_type_name(DType dtype, Device device) {
  return std::string(device.type == DeviceType::CUDA ? "torch.cuda." : "torch.") +
         type_name(dtype) + "Tensor";
}

// The name of a tensor type that is given as such or by its class.
std::string given_type_name(nb::handle type) {
  if (PyType_Check(type.ptr()))
    return nb::cast<std::string>(type.attr("__module__")) + "." +
           nb::cast<std::string>(type.attr("__name__"));
  return PyUnicode_Check(type.ptr()) ? utf8(type) : "";
}

nb::object type(const Tensor& self, nb::handle dtype, bool non_blocking, nb::handle memory_format) {
  if (dtype.is_none()) return nb::cast(tensor_type_name(self.dtype(), self->device()));
  const MemoryFormat format = memory_format_of("type", memory_format);
  DType wanted;
  if (dtype_from_object(dtype.ptr(), &wanted)) return nb::cast(asked_cast(self, wanted, format));
  // The class of all tensors stands for the default type.
  if (dtype.ptr() == reinterpret_cast<PyObject*>(tensor_type))
    return nb::cast(
        asked_cast(to_device(self, Device{}, non_blocking, format), default_dtype(), format));
  const std::string given = given_type_name(dtype);
  for (int i = 0; i < kDTypeCount; ++i)
    for (Device device : {Device{}, Device{DeviceType::CUDA, 0}})
      if (const auto each = static_cast<DType>(i); given == tensor_type_name(each, device))
        return nb::cast(asked_cast(to_device(self, device, non_blocking, format), each, format));
  fail<ValueError>("type: invalid type: ", repr_of(dtype), "; expected a dtype or a name such as ",
                   "'torch.FloatTensor'");
}

void bind_casts(Binder& b) {
  b.method("to", to,
           "Another dtype or device: to(dtype), to(device), to(device, dtype), to(other).");
  b.method("type_as", [](const Tensor& self, const Tensor& other) {
    return asked_cast(self, other.dtype());
  }, "other"_a, "The dtype of `other`.");
  b.method(
      "type", type, "dtype"_a.none() = nb::none(), "non_blocking"_a = false, nb::kw_only(),
      "memory_format"_a.none() = nb::none(),
      "Another dtype, given as such or by the name of a tensor type; that name if none is given.");
  auto named = [&](const char* method, DType dtype) {
    b.method(method, [=](const Tensor& self, nb::handle memory_format) {
      return asked_cast(self, dtype, memory_format_of(method, memory_format));
    }, nb::kw_only(), "memory_format"_a.none() = nb::none(), "Casts the tensor.");
  };
  named("float", DType::Float32);
  named("double", DType::Float64);
  named("half", DType::Float16);
  named("bfloat16", DType::BFloat16);
  named("int", DType::Int32);
  named("long", DType::Int64);
  named("short", DType::Int16);
  named("char", DType::Int8);
  named("byte", DType::UInt8);
  named("bool", DType::Bool);
  named("cfloat", DType::Complex64);
  named("cdouble", DType::Complex128);
}

}  // namespace

void warn_if_discarding(DType from, DType to) {
  if (!is_complex(from) || is_complex(to) || to == DType::Bool) return;
  if (PyErr_WarnEx(PyExc_UserWarning, "Casting complex values to real discards the imaginary part",
                   1) < 0)
    throw nb::python_error();
}

void bind_tensor(Binder& b) {
  bind_geometry(b);
  bind_copies(b);
  bind_casts(b);
  bind_formats(b);
  b.function("_make_subclass",
             [](nb::handle type, const Tensor& data, bool require_grad) {
    Tensor fresh = detach(data);
    if (require_grad) set_requires_grad(fresh, true);
    return nb::steal(wrap_as(reinterpret_cast<PyTypeObject*>(type.ptr()), std::move(fresh)));
  }, "cls"_a, "data"_a, "require_grad"_a = false,
             "A tensor of a subclass over the memory of data.");
  b.method("as_subclass", [](const Tensor& self, nb::handle cls) {
    auto* type = reinterpret_cast<PyTypeObject*>(cls.ptr());
    TAPEGRAD_CHECK_AS(TypeError, PyType_Check(cls.ptr()) && PyType_IsSubtype(type, tensor_type),
                      "as_subclass: expected a subclass of Tensor, got ", repr_of(cls));
    return nb::steal(wrap_as(type, view(self, self.sizes())));
  }, "cls"_a, "A view of all elements of a subclass, differentiable as any view is.");
}

}  // namespace tapegrad::python
