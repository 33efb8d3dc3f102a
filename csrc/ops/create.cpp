#include "ops/create.h"

#include <cmath>

#include "core/error.h"
#include "core/op.h"
#include "ops/copy.h"

namespace tapegrad {

const Op fill_op("fill", {"value"}, kAnyRank | kComplex | kBare);

namespace {

const Op arange_op("arange", {"start", "step"}, kNoDerivative);
const Op linspace_op("linspace", {"start", "end", "base"}, kNoDerivative);
const Op eye_op("eye", {}, kNoDerivative | kComplex);

// Number of elements of arange, checked.
int64_t arange_count(Scalar start, Scalar end, Scalar step, DType dtype) {
  double first = start.as_double(), last = end.as_double(), by = step.as_double();
  TAPEGRAD_CHECK(std::isfinite(first) && std::isfinite(last), "arange: unsupported range: ", first,
                 " -> ", last);
  TAPEGRAD_CHECK(by != 0 && !std::isnan(by), "arange: step must be nonzero");
  TAPEGRAD_CHECK((by > 0 && last >= first) || (by < 0 && last <= first),
                 "arange: upper bound and lower bound inconsistent with step sign");
  bool integers = !start.is_float() && !end.is_float() && !step.is_float();
  // int64 cuts the fractions off bounds and step before it counts; other integers count with them.
  if ((integers && is_integral(dtype)) || dtype == DType::Int64) {
    TAPEGRAD_CHECK_AS(ValueError, step.as_int() != 0, "arange: step must be nonzero, got ", by,
                      ", which is 0 as int64");
    auto distance = static_cast<__int128>(end.as_int()) - start.as_int();
    auto stride = static_cast<__int128>(step.as_int());
    return static_cast<int64_t>((distance + stride - (stride > 0 ? 1 : -1)) / stride);
  }
  double count = std::ceil((last - first) / by);
  TAPEGRAD_CHECK(count >= 0 && count < 0x1p58, "arange: invalid size, possible overflow");
  return static_cast<int64_t>(count);
}

}  // namespace

void fill_into(const Tensor& out, Scalar value) { dispatch(fill_op, {}, {value}, {out}); }

Tensor full(Sizes sizes, Scalar value, DType dtype, Device device) {
  Tensor out = empty("full", sizes, dtype, device);
  fill_into(out, value);
  return out;
}

Tensor scalar_tensor(Scalar value, DType dtype, Device device) {
  return full({}, value, dtype, device);
}

Tensor empty_like_layout(const Tensor& x, DType dtype, MemoryFormat format) {
  return empty_like_layout(x, dtype, format, x->device());
}

Tensor empty_like_layout(const Tensor& x, DType dtype, MemoryFormat format, Device device) {
  check_device_dtype("to", dtype, device);
  Tensor out(TensorImpl::empty(dtype, x.sizes(), x.numel(), device));
  if (format == MemoryFormat::Preserve && same_sizes(x.strides(), out.strides())) return out;
  DimVector strides = format == MemoryFormat::Preserve
                          ? strides_like(*x.impl())
                          : format_strides("memory_format", x.sizes(), format);
  out->set_geometry(x.sizes(), strides, 0);
  return out;
}

Tensor zeros_like(const Tensor& x) {
  Tensor out = empty_like_layout(x, x.dtype());
  fill_into(out, 0);
  return out;
}

Tensor arange(Scalar start, Scalar end, Scalar step, DType dtype, Device device) {
  return steps_from(start, step, arange_count(start, end, step, dtype), dtype, device);
}

Tensor steps_from(Scalar start, Scalar step, int64_t count, DType dtype, Device device) {
  Tensor out = empty("arange", DimVector{count}, dtype, device);
  dispatch(arange_op, {}, {start, step}, {out});
  return out;
}

Tensor linspace(double start, double end, int64_t steps, DType dtype, Device device) {
  if (dtype == DType::Bool && steps > 1) fail_unsupported_dtype("linspace", dtype);
  TAPEGRAD_CHECK(steps >= 0, "linspace: number of steps must be non-negative, got ", steps);
  Tensor out = empty("linspace", DimVector{steps}, dtype, device);
  dispatch(linspace_op, {}, {start, end, 0.0}, {out});
  return out;
}

Tensor logspace(double start, double end, int64_t steps, double base, DType dtype, Device device) {
  if (dtype == DType::Bool && steps > 1) fail_unsupported_dtype("logspace", dtype);
  TAPEGRAD_CHECK(steps >= 0, "logspace: number of steps must be non-negative, got ", steps);
  Tensor out = empty("logspace", DimVector{steps}, dtype, device);
  dispatch(linspace_op, {}, {start, end, base}, {out});
  return out;
}

Tensor eye(int64_t rows, int64_t columns, DType dtype, Device device) {
  TAPEGRAD_CHECK(rows >= 0, "eye: n must be greater or equal to 0, got ", rows);
  TAPEGRAD_CHECK(columns >= 0, "eye: m must be greater or equal to 0, got ", columns);
  if (is_float8(dtype)) return cast(eye(rows, columns, DType::Float32, device), dtype);
  Tensor out = empty("eye", DimVector{rows, columns}, dtype, device);
  dispatch(eye_op, {}, {}, {out});
  return out;
}

}  // namespace tapegrad
