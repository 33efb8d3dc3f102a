// Functions that make tensors. They do not go through nanobind: see arguments.h.
#include "ops/create.h"

#include <cmath>

#include "core/call.h"
#include "core/error.h"
#include "graph/record.h"
#include "intercept/capture.h"
#include "ops/complex_composed.h"
#include "ops/copy.h"
#include "ops/promotion.h"
#include "ops/view.h"
#include "python/arguments.h"
#include "python/create_docs.h"
#include "python/cuda_array.h"
#include "python/dlpack.h"
#include "python/exchange.h"
#include "python/from_data.h"
#include "python/function_ops.h"
#include "python/numpy.h"
#include "python/out.h"

namespace tapegrad::python {

namespace {

std::optional<DType> given_dtype(const ParsedArguments& a, int i) {
  return a.has(i) ? std::optional(a.dtype(i, DType::Float32)) : std::nullopt;
}

// Where asarray(), as_tensor() and tensor() put something.
Device given_device(const ParsedArguments& a, int i, const Tensor& result, bool stays) {
  if (a.has(i)) return device_of(a.object(i));
  return stays ? result->device() : default_device;
}

// Data that came from a GPU is not fetched from there unless somebody asks for it, or has chosen a default.
bool stays_where_it_is(const Tensor& data) {
  return !data->device().is_cpu() && default_device.is_cpu();
}

// ---- zeros, ones, empty, full

const Signature kZeros{"zeros", 0, true, {"size", "out", TAPEGRAD_CREATION_OPTIONS}};
const Signature kOnes{"ones", 0, true, {"size", "out", TAPEGRAD_CREATION_OPTIONS}};
const Signature kEmpty{
    "empty", 0, true, {"size", "out", TAPEGRAD_CREATION_OPTIONS, "memory_format"}};
const Signature kFull{"full", 2, false, {"size", "fill_value", "out", TAPEGRAD_CREATION_OPTIONS}};

template <int kValue>
Tensor constant(const ParsedArguments& a) {
  DimVector sizes = a.sizes();
  CreationOptions options(a, 2, default_dtype());
  Tensor out = creation_target(a, 1, sizes, options, a.has(2));
  fill_into(out, kValue);
  return options.finish(std::move(out));
}

Tensor make_empty(const ParsedArguments& a) {
  DimVector sizes = a.sizes();
  CreationOptions options(a, 2, default_dtype());
  Tensor out = creation_target(a, 1, sizes, options, a.has(2));
  if (a.has(7)) {
    TAPEGRAD_CHECK(!a.has(1), "empty: 'memory_format' argument is incompatible with 'out' tensor "
                              "argument; resize_(size, memory_format=) changes a tensor");
    MemoryFormat format = memory_format_of("empty", a.object(7));
    TAPEGRAD_CHECK(format != MemoryFormat::Preserve,
                   "empty: preserve_format has nothing to preserve here; use contiguous_format or "
                   "channels_last");
    out->set_geometry(sizes, format_strides("empty", sizes, format), out->offset());
  }
  return options.finish(std::move(out));
}

// A single element is made as scalar_tensor() makes it.
void check_fill(const char* op, Scalar value, const Tensor& out) {
  (out.numel() == 1 ? check_element_fits : check_fits)(op, value, out.dtype());
}

// The number that full() and the like write.
Scalar fill_number(const ParsedArguments& a, DType dtype) {
  Scalar number;
  if (dtype == DType::UInt64 && a.has(1) && element_from_object(a.object(1), dtype, &number))
    return number;
  return a.scalar(1);
}

// The value of full() and the like if it is complex.
std::optional<Complex<double>> complex_fill(const ParsedArguments& a) {
  Complex<double> number;
  if (!a.has(1) || is_tensor(a.object(1)) || !complex_from_object(a.object(1), &number))
    return std::nullopt;
  return number;
}

Tensor filled(const CreationOptions& options, Tensor out, Complex<double> value,
              const char* function) {
  TAPEGRAD_CHECK(is_complex(out.dtype()) || value.imag == 0, function,
                 ": value cannot be converted to type ", name(out.dtype()),
                 " without overflow: it is complex");
  const Tensor number = wrapped_complex(value);
  note_constant(number);
  copy_into(out, number);
  return options.finish(std::move(out));
}

Tensor make_full(const ParsedArguments& a) {
  DimVector sizes = a.int_tuple(0);
  if (const auto number = complex_fill(a)) {
    const CreationOptions options(a, 3, complex_dtype(default_dtype()));
    return filled(options, creation_target(a, 2, sizes, options, a.has(3)), *number, "full");
  }
  Scalar value = fill_number(a, a.has(3) ? a.dtype(3, DType::Float32) : DType::Float32);
  CreationOptions options(a, 3, value.dtype());
  Tensor out = creation_target(a, 2, sizes, options, a.has(3));
  check_fill("full", value, out);
  fill_into(out, value);
  return options.finish(std::move(out));
}

// ---- *_like

const Signature kZerosLike{
    "zeros_like", 1, false, {"input", TAPEGRAD_CREATION_OPTIONS, "memory_format"}};
const Signature kOnesLike{
    "ones_like", 1, false, {"input", TAPEGRAD_CREATION_OPTIONS, "memory_format"}};
const Signature kEmptyLike{
    "empty_like", 1, false, {"input", TAPEGRAD_CREATION_OPTIONS, "memory_format"}};
const Signature kFullLike{
    "full_like", 2, false, {"input", "fill_value", TAPEGRAD_CREATION_OPTIONS, "memory_format"}};

Tensor make_empty_like(const ParsedArguments& a) {
  CreationOptions options(a, 1, a.tensor(0));
  return options.finish(creation_like(a, a.tensor(0), 6, options));
}

template <int kValue>
Tensor constant_like(const ParsedArguments& a) {
  CreationOptions options(a, 1, a.tensor(0));
  Tensor out = creation_like(a, a.tensor(0), 6, options);
  fill_into(out, kValue);
  return options.finish(std::move(out));
}

Tensor full_like(const ParsedArguments& a) {
  CreationOptions options(a, 2, a.tensor(0));
  if (const auto number = complex_fill(a))
    return filled(options, creation_like(a, a.tensor(0), 7, options), *number, "full_like");
  Scalar value = fill_number(a, options.dtype);
  check_fits("full_like", value, options.dtype);
  Tensor out = creation_like(a, a.tensor(0), 7, options);
  fill_into(out, value);
  return options.finish(std::move(out));
}

// ---- new_*: methods that take dtype from self

const Signature kNewZeros{"new_zeros", 0, true, {"size", TAPEGRAD_CREATION_OPTIONS}};
const Signature kNewOnes{"new_ones", 0, true, {"size", TAPEGRAD_CREATION_OPTIONS}};
const Signature kNewEmpty{"new_empty", 0, true, {"size", TAPEGRAD_CREATION_OPTIONS}};
const Signature kNewFull{"new_full", 2, false, {"size", "fill_value", TAPEGRAD_CREATION_OPTIONS}};
const Signature kNewEmptyStrided{
    "new_empty_strided", 2, false, {"size", "stride", TAPEGRAD_CREATION_OPTIONS}};
const Signature kNewTensor{"new_tensor", 1, false, {"data", TAPEGRAD_CREATION_OPTIONS}};

template <int kValue>
Tensor new_constant(const ParsedArguments& a) {
  CreationOptions options(a, 1, a.self());
  Tensor out = empty(a.function(), a.sizes(), options.dtype, options.device);
  fill_into(out, kValue);
  return options.finish(std::move(out));
}

Tensor new_empty(const ParsedArguments& a) {
  CreationOptions options(a, 1, a.self());
  return options.finish(empty(a.function(), a.sizes(), options.dtype, options.device));
}

Tensor new_full(const ParsedArguments& a) {
  CreationOptions options(a, 2, a.self());
  if (const auto number = complex_fill(a))
    return filled(options, empty(a.function(), a.int_tuple(0), options.dtype, options.device),
                  *number, "new_full");
  Scalar value = fill_number(a, options.dtype);
  Tensor out = empty(a.function(), a.int_tuple(0), options.dtype, options.device);
  check_fill("new_full", value, out);
  fill_into(out, value);
  return options.finish(std::move(out));
}

// ---- explicit strides

const Signature kEmptyStrided{
    "empty_strided", 2, false, {"size", "stride", TAPEGRAD_CREATION_OPTIONS}};

Tensor strided(const ParsedArguments& a, const CreationOptions& options) {
  DimVector sizes = a.int_tuple(0), strides = a.int_tuple(1);
  TAPEGRAD_CHECK(sizes.size() == strides.size(), a.function(), ": dimensionality of sizes (",
                 sizes.size(), ") must match dimensionality of strides (", strides.size(), ")");
  int64_t numel = checked_numel(a.function(), sizes);
  // Checked in wide arithmetic, then allocated in one piece.
  __int128 reach = numel > 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    TAPEGRAD_CHECK(strides[d] >= 0, a.function(), ": strides must not be negative, got ",
                   to_string(strides));
    if (numel > 0) reach += static_cast<__int128>(sizes[d] - 1) * strides[d];
  }
  TAPEGRAD_CHECK(reach < (__int128{1} << 58), a.function(),
                 ": storage size overflowed with sizes=", to_string(sizes),
                 " and strides=", to_string(strides));
  Tensor out =
      empty(a.function(), DimVector{static_cast<int64_t>(reach)}, options.dtype, options.device);
  out->set_geometry(sizes, strides, 0);
  return options.finish(std::move(out));
}

Tensor empty_strided(const ParsedArguments& a) { return strided(a, {a, 2, default_dtype()}); }
Tensor new_empty_strided(const ParsedArguments& a) { return strided(a, {a, 2, a.self()}); }

// ---- from data

const Signature kTensor{"tensor", 1, false, {"data", TAPEGRAD_CREATION_OPTIONS}};
const Signature kAsTensor{"as_tensor", 3, false, {"data", "dtype", "device"}};
const Signature kAsArray{"asarray", 1, false, {"obj", "dtype", "device", "copy", "requires_grad"}};
const Signature kScalarTensor{"scalar_tensor", 1, false, {"s", TAPEGRAD_CREATION_OPTIONS}};

void warn_copy_construct(const char* function) {
  std::string text =
      concat("To copy construct from a tensor, it is recommended to use "
             "sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), "
             "rather than ",
             function, "(sourceTensor).");
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw nb::python_error();
}

Tensor copy_of_data(const ParsedArguments& a, const char* spelling, std::optional<DType> dtype) {
  PyObject* data = a.object(0);
  if (!data) a.fail_missing(0);
  if (is_tensor(data)) warn_copy_construct(spelling);
  return tensor_from_data(a.function(), data, dtype);
}

Tensor make_tensor(const ParsedArguments& a) {
  // The default dtype is only a placeholder here: the true one is known after reading.
  const CreationOptions options(a, 1, default_dtype());
  Tensor out = copy_of_data(a, "torch.tensor", given_dtype(a, 1));
  const Device device = given_device(a, 3, out, stays_where_it_is(out));
  if (device != out->device()) out = to_device(out, device);
  return options.finish(std::move(out));
}

Tensor new_tensor(const ParsedArguments& a) {
  const CreationOptions options(a, 1, a.self());
  Tensor out = copy_of_data(a, "tensor.new_tensor", a.dtype(1, a.self().dtype()));
  return options.finish(to_device(out, options.device));
}

Tensor as_tensor(const ParsedArguments& a) {
  if (!a.object(0)) a.fail_missing(0);
  Tensor result = tensor_over_data("as_tensor", a.object(0), given_dtype(a, 1));
  const bool stays = is_tensor(a.object(0)) || stays_where_it_is(result);
  return to_device(result, given_device(a, 2, result, stays));
}

// What asarray(obj) shares memory with, or an undefined tensor when it must read elements.
Tensor shared_source(PyObject* object, std::optional<DType> dtype) {
  if (is_tensor(object)) return tensor_of(object);
  if (is_numpy_array(object)) return tensor_from_numpy("asarray", object, ReadOnly::Warn);
  if (is_numpy_scalar(object)) return {};
  if (has_dlpack(object)) return tensor_from_dlpack("asarray", object, {}, {});
  if (has_cuda_array(object)) return tensor_from_cuda_array("asarray", object, CudaArrayUse::Share);
  if (PyObject_CheckBuffer(object))
    return tensor_from_buffer("asarray", object, dtype.value_or(default_dtype()), -1, 0);
  return {};
}

Tensor as_array(const ParsedArguments& a) {
  PyObject* object = a.object(0);
  if (!object) a.fail_missing(0);
  std::optional<DType> dtype = given_dtype(a, 1);
  bool must_copy = a.flag(3), must_share = a.has(3) && !must_copy;
  Tensor source = shared_source(object, dtype);
  TAPEGRAD_CHECK_AS(ValueError, source.defined() || !must_share,
                    "asarray: can't alias arbitrary sequence into a tensor");
  Tensor result;
  if (!source.defined()) {
    result = tensor_from_data("asarray", object, dtype);
  } else if (dtype && *dtype != source.dtype()) {
    TAPEGRAD_CHECK_AS(ValueError, !must_share, "asarray: can't alias tensor with dtype ",
                      name(source.dtype()), " into dtype ", name(*dtype));
    result = cast(source, *dtype);
  } else {
    result = must_copy ? clone(source) : source;
  }
  const bool stays = is_tensor(object) || stays_where_it_is(result);
  const Device device = given_device(a, 2, result, stays);
  TAPEGRAD_CHECK_AS(ValueError, !must_share || device == result->device(),
                    "asarray: can't alias tensor from device '", to_string(result->device()),
                    "' to '", to_string(device), "'");
  result = to_device(result, device);
  if (!a.has(4)) return result;
  if (requires_grad(result) && !a.flag(4)) return detach(result);
  if (a.flag(4)) set_requires_grad(result, true);
  return result;
}

Tensor make_scalar_tensor(const ParsedArguments& a) {
  CreationOptions options(a, 1, default_dtype());
  Complex<double> number;
  if (a.has(0) && !is_tensor(a.object(0)) && complex_from_object(a.object(0), &number))
    return filled(options, empty(a.function(), {}, options.dtype, options.device), number,
                  "scalar_tensor");
  Scalar value = a.scalar(0);
  check_element_fits("scalar_tensor", value, options.dtype);
  return options.finish(scalar_tensor(value, options.dtype, options.device));
}

// ---- ranges

const Signature kArange{
    "arange", 3, false, {"start", "end", "step", "out", TAPEGRAD_CREATION_OPTIONS}};
const Signature kRange{
    "range", 3, false, {"start", "end", "step", "out", TAPEGRAD_CREATION_OPTIONS}};
const Signature kLinspace{
    "linspace", 3, false, {"start", "end", "steps", "out", TAPEGRAD_CREATION_OPTIONS}};
const Signature kLogspace{
    "logspace", 4, false, {"start", "end", "steps", "base", "out", TAPEGRAD_CREATION_OPTIONS}};
const Signature kEye{"eye", 2, false, {"n", "m", "out", TAPEGRAD_CREATION_OPTIONS}};

// Computed in out's dtype, then copied.
Tensor into_given_out(const ParsedArguments& a, int out, const CreationOptions& options,
                      Tensor result) {
  return options.finish(into_creation_out(a.function(), std::move(result), a.optional_tensor(out)));
}

// The same for a row of numbers: it fills an out= of any shape that has as many elements.
Tensor row_into_given_out(const ParsedArguments& a, int out, const CreationOptions& options,
                          Tensor result) {
  if (a.has(out) && a.tensor(out).numel() == result.numel())
    result = view(result, a.tensor(out).sizes());
  return into_given_out(a, out, options, std::move(result));
}

DType result_dtype(const ParsedArguments& a, int out, const CreationOptions& options) {
  if (!a.has(out)) return options.dtype;
  const Tensor& target = a.tensor(out);
  TAPEGRAD_CHECK(!a.has(out + 1) || options.dtype == target.dtype(), a.function(), ": dtype ",
                 name(options.dtype), " does not match dtype of out parameter (",
                 name(target.dtype()), ")");
  return target.dtype();
}

void warn_arange_resizes(const Tensor& out, int64_t count) {
  if (out.numel() == 0 || out.numel() == count) return;
  std::string text =
      concat("The number of elements in the out tensor of shape ", to_string(out.sizes()), " is ",
             out.numel(), " which does not match the computed number of elements ", count,
             ". Note that this may occur as a result of rounding error. The out tensor will be "
             "resized to a tensor of shape (",
             count, ",).");
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw nb::python_error();
}

// Whether a number, or a tensor of one, is complex.
bool is_complex_number(const ParsedArguments& a, int i) {
  PyObject* object = a.object(i);
  if (object && is_tensor(object))
    return is_complex(tensor_of(object).dtype()) && tensor_of(object).dim() == 0;
  Complex<double> number;
  return object && complex_from_object(object, &number);
}

// A number of any kind, or that of a tensor.
Complex<double> complex_number(const ParsedArguments& a, int i) {
  if (!is_complex_number(a, i)) return {a.scalar(i).as_double(), 0};
  nb::object object = nb::borrow(a.object(i));
  if (is_tensor(object.ptr())) object = object.attr("item")();
  Complex<double> number;
  complex_from_object(object.ptr(), &number);
  return number;
}

// arange(end), arange(start, end), arange(start, end, step), by position or name.
Tensor make_arange(const ParsedArguments& a) {
  Scalar start(int64_t{0}), step(int64_t{1});
  bool only_end = !a.object(1);
  Complex<double> number;
  for (int i = 0; i < 3; ++i)
    TAPEGRAD_CHECK(
        !a.object(i) || !complex_from_object(a.object(i), &number),
        "arange: value cannot be converted to type double without overflow: it is complex");
  Scalar end = a.scalar(only_end ? 0 : 1);
  if (!only_end && a.object(0)) start = a.scalar(0);
  if (a.object(2)) step = a.scalar(2);
  bool floating = start.is_float() || end.is_float() || step.is_float();
  CreationOptions options(a, 4, floating ? default_dtype() : DType::Int64);
  DType dtype = result_dtype(a, 3, options);
  if (dtype == DType::Bool) fail_unsupported_dtype("arange", dtype);
  Tensor result = arange(start, end, step, dtype, options.result_device(a, 3));
  if (a.has(3)) warn_arange_resizes(a.tensor(3), result.numel());
  return row_into_given_out(a, 3, options, std::move(result));
}

// PyTorch's deprecated range(), which includes its end.
Tensor make_range(const ParsedArguments& a) {
  if (PyErr_WarnEx(PyExc_UserWarning,
                   "torch.range is deprecated because its behavior is inconsistent with Python's "
                   "range builtin. Instead, use torch.arange, which produces values in "
                   "[start, end).",
                   1) < 0)
    throw nb::python_error();
  double start = a.real(0, 0), end = a.scalar(1).as_double(), step = a.real(2, 1);
  CreationOptions options(a, 4, default_dtype());
  DType dtype = result_dtype(a, 3, options);
  if (dtype == DType::Bool) fail_unsupported_dtype("range", dtype);
  TAPEGRAD_CHECK(step != 0, "range: step must be nonzero");
  TAPEGRAD_CHECK(std::isfinite(start) && std::isfinite(end), "range: unsupported range: ", start,
                 " -> ", end);
  TAPEGRAD_CHECK(step > 0 ? end >= start : end <= start,
                 "range: upper bound and lower bound inconsistent with step sign");
  if (dtype == DType::Int64) {
    start = std::trunc(start), end = std::trunc(end), step = std::trunc(step);
    TAPEGRAD_CHECK(step != 0, "range: step must be nonzero, and is 0 as int64");
  }
  double count = std::floor((end - start) / step) + 1;
  TAPEGRAD_CHECK(count > 0 && count < 0x1p58, "range: unsupported range: ", start, " -> ", end);
  Tensor result =
      steps_from(start, step, static_cast<int64_t>(count), dtype, options.result_device(a, 3));
  return row_into_given_out(a, 3, options, std::move(result));
}

// The dtype of a row between two numbers of which one is complex, or whose dtype is; nothing for real ones.
std::optional<DType> complex_row_dtype(const ParsedArguments& a, int out) {
  const bool given = is_complex_number(a, 0) || is_complex_number(a, 1);
  CreationOptions options(a, out + 1, given ? complex_dtype(default_dtype()) : default_dtype());
  const DType dtype = result_dtype(a, out, options);
  TAPEGRAD_CHECK(!given || is_complex(dtype), "torch.", a.function(), "(): inferred dtype ",
                 name(complex_dtype(default_dtype())), " can't be safely cast to passed dtype ",
                 name(dtype));
  return is_complex(dtype) ? std::optional(dtype) : std::nullopt;
}

Tensor make_complex_row(const ParsedArguments& a, int out, DType dtype) {
  const Complex<double> start = complex_number(a, 0), end = complex_number(a, 1);
  CreationOptions options(a, out + 1, dtype);
  const Device device = options.result_device(a, out);
  Tensor row = out == 3
                   ? complex_linspace(start, end, a.integer(2), dtype, device)
                   : complex_logspace(start, end, a.integer(2), a.real(3, 10.0), dtype, device);
  return row_into_given_out(a, out, options, std::move(row));
}

// The ends of a row may be tensors that require a gradient: PyTorch reads them, and records nothing.
double end_of_row(const ParsedArguments& a, int i) {
  if (!a.object(i) || !is_tensor(a.object(i)) || a.tensor(i).dim() != 0)
    return a.scalar(i).as_double();
  return element_of(a.tensor(i)).as_double();
}

Tensor make_linspace(const ParsedArguments& a) {
  if (const auto dtype = complex_row_dtype(a, 3)) return make_complex_row(a, 3, *dtype);
  double start = end_of_row(a, 0), end = end_of_row(a, 1);
  CreationOptions options(a, 4, default_dtype());
  DType dtype = result_dtype(a, 3, options);
  return row_into_given_out(a, 3, options,
                            linspace(start, end, a.integer(2), dtype, options.result_device(a, 3)));
}

Tensor make_logspace(const ParsedArguments& a) {
  if (const auto dtype = complex_row_dtype(a, 4)) return make_complex_row(a, 4, *dtype);
  double start = end_of_row(a, 0), end = end_of_row(a, 1);
  CreationOptions options(a, 5, default_dtype());
  DType dtype = result_dtype(a, 4, options);
  Tensor result =
      logspace(start, end, a.integer(2), a.real(3, 10.0), dtype, options.result_device(a, 4));
  return row_into_given_out(a, 4, options, std::move(result));
}

Tensor make_eye(const ParsedArguments& a) {
  int64_t rows = a.integer(0), columns = a.has(1) ? a.integer(1) : rows;
  CreationOptions options(a, 3, default_dtype());
  return into_given_out(
      a, 2, options, eye(rows, columns, result_dtype(a, 2, options), options.result_device(a, 2)));
}

}  // namespace

void bind_create(Binder& b) {
  runs("range", {"arange"});
  runs("logspace", {"linspace"});
  define_function<kZeros, constant<0>>(b, kZerosDoc);
  define_function<kOnes, constant<1>>(b, kOnesDoc);
  define_function<kEmpty, make_empty>(b, kEmptyDoc);
  define_function<kFull, make_full>(b, kFullDoc);
  define_function<kZerosLike, constant_like<0>>(b, kZerosLikeDoc);
  define_function<kOnesLike, constant_like<1>>(b, kOnesLikeDoc);
  define_function<kEmptyLike, make_empty_like>(b, kEmptyLikeDoc);
  define_function<kFullLike, full_like>(b, kFullLikeDoc);
  define_method<kNewZeros, new_constant<0>>(b, kNewZerosDoc);
  define_method<kNewOnes, new_constant<1>>(b, kNewOnesDoc);
  define_method<kNewEmpty, new_empty>(b, kNewEmptyDoc);
  define_method<kNewFull, new_full>(b, kNewFullDoc);
  define_method<kNewEmptyStrided, new_empty_strided>(b, kNewEmptyStridedDoc);
  define_method<kNewTensor, new_tensor>(b, kNewTensorDoc);
  define_function<kEmptyStrided, empty_strided>(b, kEmptyStridedDoc);
  define_function<kTensor, make_tensor>(b, kTensorDoc);
  define_function<kAsTensor, as_tensor>(b, kAsTensorDoc);
  define_function<kAsArray, as_array>(b, kAsArrayDoc);
  define_function<kScalarTensor, make_scalar_tensor>(b, kScalarTensorDoc);
  define_function<kArange, make_arange>(b, kArangeDoc);
  define_function<kRange, make_range>(b, kRangeDoc);
  define_function<kLinspace, make_linspace>(b, kLinspaceDoc);
  define_function<kLogspace, make_logspace>(b, kLogspaceDoc);
  define_function<kEye, make_eye>(b, kEyeDoc);
}

}  // namespace tapegrad::python
