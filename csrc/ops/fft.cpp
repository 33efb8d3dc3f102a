// Fourier transforms, their derivatives, and the arguments of torch.fft.
//
// Note [Transforms and their adjoints]
// A transform is linear, and what its derivative computes is its adjoint: Note [Gradients of complex functions] in
// ops/complex.h. That of a complex transform is the one in the other direction with the same scale. Let R take real
// numbers to half a spectrum, and D multiply the elements with two that stand for two. Numbers come back from half
// a spectrum by the adjoint of D R, up to the scale, because the missing elements are conjugates. So with `twice`, which
// is D, fft_r2c and fft_c2r are each other's adjoints, and without it they are, too: gradients of any order are the
// same two kernels.
#include "ops/fft.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/op.h"
#include "graph/record.h"
#include "ops/autocast.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/join.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const Op c2c_op("fft_c2c", {"forward", "scale", "dims*"}, kLeadingDims | kComplex);
const Op r2c_op("fft_r2c", {"forward", "twice", "scale", "dims*"}, kLeadingDims | kComplex);
const Op c2r_op("fft_c2r", {"forward", "twice", "scale", "dims*"}, kLeadingDims | kComplex);

using Role = EntryKind::Role;
const EntryKind c2c_entry("fft_c2c", &c2c_op, Role::Derivative, {}, "FftC2CBackward0");
const EntryKind r2c_entry("fft_r2c", &r2c_op, Role::Derivative, {}, "FftR2CBackward0");
const EntryKind c2r_entry("fft_c2r", &c2r_op, Role::Derivative, {}, "FftC2RBackward0");

// See Note [Transforms and their adjoints].
struct Transform {
  DimVector dims;
  double scale;
  bool forward, twice = false;
};

struct C2CBackward final : Entry<c2c_entry> {
  explicit C2CBackward(Transform transform) : transform(std::move(transform)) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = fft_c2c(grads[0], transform.dims, transform.scale, !transform.forward);
  }
  Transform transform;
};

struct R2CBackward final : Entry<r2c_entry> {
  R2CBackward(Transform transform, int64_t length)
      : transform(std::move(transform)), length(length) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = fft_c2r(grads[0], transform.dims, length, transform.scale, !transform.forward,
                             transform.twice);
  }
  Transform transform;
  int64_t length;
};

struct C2RBackward final : Entry<c2r_entry> {
  explicit C2RBackward(Transform transform) : transform(std::move(transform)) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] =
        fft_r2c(grads[0], transform.dims, transform.scale, !transform.forward, transform.twice);
  }
  Transform transform;
};

// ---- where results lie: as PyTorch's, dimensions that are transformed are innermost in memory
//
// Dimensions in the order of memory, the widest first. Sorted by the same functions as in PyTorch, because of equal
// strides.

struct ByStride {
  Sizes strides;
  bool operator()(int64_t a, int64_t b) const { return strides[a] > strides[b]; }
};

DimVector sorted_dims(Sizes dims, Sizes strides, bool last_stays) {
  DimVector sorted(dims);
  std::sort(sorted.begin(), sorted.end() - last_stays, ByStride{strides});
  return sorted;
}

DimVector order_of(Sizes strides, Sizes transformed) {
  DimVector order;
  for (size_t d = 0; d < strides.size(); ++d) order.push_back(static_cast<int64_t>(d));
  int64_t* rest = std::partition(order.begin(), order.end(), [&](int64_t d) {
    return std::find(transformed.begin(), transformed.end(), d) == transformed.end();
  });
  std::sort(order.begin(), rest, ByStride{strides});
  std::copy(transformed.begin(), transformed.end(), rest);
  return order;
}

DimVector strides_in_order(Sizes sizes, const DimVector& order) {
  DimVector strides(sizes.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0; step *= std::max<int64_t>(sizes[order[i]], 1))
    strides[order[i]] = step;
  return strides;
}

// Strides of what a first transform along some dimensions makes of x.
DimVector strides_after(const Tensor& x, Sizes sizes, Sizes dims) {
  return dims.empty() ? DimVector(x.strides())
                      : strides_in_order(sizes, order_of(x.strides(), dims));
}

Tensor empty_in_order(const char* op, Sizes sizes, const DimVector& order, DType dtype,
                      Device device) {
  DimVector stored_sizes;
  for (int64_t d : order) stored_sizes.push_back(sizes[d]);
  Tensor stored = empty(op, stored_sizes, dtype, device);
  if (std::is_sorted(order.begin(), order.end())) return stored;
  return alias(stored, sizes, strides_in_order(sizes, order), 0);
}

// Dimensions are counted from the end, so that a batch may stand in front.
void append_dims(std::vector<Scalar>& attributes, const Tensor& x, Sizes dims) {
  for (int64_t dim : dims) attributes.emplace_back(dim - x.dim());
}

}  // namespace

Tensor fft_c2c(const Tensor& x, Sizes dims, double scale, bool forward) {
  const DimVector order = order_of(x.strides(), sorted_dims(dims, x.strides(), false));
  Tensor result =
      empty_in_order("fft_c2c", x.sizes(), order, complex_dtype(x.dtype()), x->device());
  std::vector<Scalar> attributes{forward, scale};
  append_dims(attributes, x, dims);
  const Tensor inputs[] = {x}, outputs[] = {result};
  dispatch(c2c_op, inputs, attributes, outputs);
  if (should_record(x)) record<C2CBackward>({&x}, result, 0, Transform{dims, scale, forward});
  return result;
}

Tensor fft_r2c(const Tensor& x, Sizes dims, double scale, bool forward, bool twice) {
  const int64_t length = x.size(dims.back());
  DimVector sizes(x.sizes());
  sizes[dims.back()] = length / 2 + 1;
  const Sizes others = dims.first(dims.size() - 1);
  DimVector order = order_of(x.strides(), sorted_dims(dims, x.strides(), true));
  if (!forward && !others.empty()) {  // which PyTorch makes of two transforms
    const DimVector strides = strides_after(x, sizes, dims.last(1));
    order = order_of(strides, sorted_dims(others, strides, false));
  }
  Tensor result = empty_in_order("fft_r2c", sizes, order, complex_dtype(x.dtype()), x->device());
  std::vector<Scalar> attributes{forward, twice, scale};
  append_dims(attributes, x, dims);
  const Tensor inputs[] = {x}, outputs[] = {result};
  dispatch(r2c_op, inputs, attributes, outputs);
  if (should_record(x))
    record<R2CBackward>({&x}, result, 0, Transform{dims, scale, forward, twice}, length);
  return result;
}

Tensor fft_c2r(const Tensor& x, Sizes dims, int64_t length, double scale, bool forward,
               bool twice) {
  DimVector sizes(x.sizes());
  sizes[dims.back()] = length;
  const Sizes others = dims.first(dims.size() - 1);
  const DimVector strides = strides_after(x, x.sizes(), sorted_dims(others, x.strides(), false));
  const DimVector order = order_of(strides, dims.last(1));
  Tensor result = empty_in_order("fft_c2r", sizes, order, real_dtype(x.dtype()), x->device());
  std::vector<Scalar> attributes{forward, twice, scale};
  append_dims(attributes, x, dims);
  const Tensor inputs[] = {x}, outputs[] = {result};
  dispatch(c2r_op, inputs, attributes, outputs);
  if (should_record(x))
    record<C2RBackward>({&x}, result, 0, Transform{dims, scale, forward, twice});
  return result;
}

// ---- arguments

FftFunction::FftFunction(const char* name, Spectrum spectrum, bool forward, Cast cpu)
    : name(name),
      spectrum(spectrum),
      forward(forward),
      full_name(std::string("_fft_") + name),
      cast_rule(full_name.c_str() + 1, cpu, Cast::None) {}

namespace {

// What one call transforms: dimensions, and the length of each as the signal has it in time.
struct Plan {
  DimVector dims, lengths;
};

Tensor promoted(const FftFunction& function, const Tensor& x) {
  const char* name = function.name;
  const DType dtype = is_integral(x.dtype()) ? default_dtype() : x.dtype();
  if (is_reduced_float(dtype))
    fail(name, ": Unsupported dtype ", dtype == DType::Float16 ? "Half" : "BFloat16",
         "; call .float() first");
  if (function.spectrum == Spectrum::ToHalf)
    TAPEGRAD_CHECK(!is_complex(dtype), name, ": expects a real input tensor, but got ",
                   tapegrad::name(dtype));
  return cast(x, function.spectrum == Spectrum::FromHalf ? complex_dtype(dtype) : dtype);
}

double scale_of(const FftFunction& function, const Norm& norm, Sizes lengths) {
  const std::string mode = norm.value_or("backward");
  TAPEGRAD_CHECK(mode == "forward" || mode == "backward" || mode == "ortho", function.name,
                 ": Invalid normalization mode: \"", mode,
                 "\"; expected \"forward\", \"backward\" or \"ortho\"");
  double elements = 1;
  for (int64_t length : lengths) elements *= static_cast<double>(length);
  if (mode == "ortho") return 1 / std::sqrt(elements);
  return (mode == "forward") == function.forward ? 1 / elements : 1;
}

void check_length(const FftFunction& function, int64_t length) {
  TAPEGRAD_CHECK(length >= 1, function.name, ": Invalid number of data points (", length,
                 ") specified; expected at least 1");
}

// The first elements of a dimension, with zeros behind them if there are too few.
Tensor resized(const Tensor& x, int64_t dim, int64_t size) {
  const int64_t given = x.size(dim);
  if (given == size) return x;
  if (given > size) return narrow(x, dim, 0, size);
  DimVector missing(x.sizes());
  missing[dim] = size - given;
  const Tensor parts[] = {x, zeros(missing, x.dtype(), x->device())};
  return in_format_of(cat(parts, dim), x);
}

Tensor run(const FftFunction& function, Tensor x, const Plan& plan, const Norm& norm) {
  for (int64_t length : plan.lengths) check_length(function, length);
  const double scale = scale_of(function, norm, plan.lengths);
  const bool from_half = function.spectrum == Spectrum::FromHalf;
  for (size_t i = 0; i < plan.dims.size(); ++i) {
    const bool is_half = from_half && i + 1 == plan.dims.size();
    x = resized(x, plan.dims[i], is_half ? plan.lengths[i] / 2 + 1 : plan.lengths[i]);
  }
  if (from_half)
    return fft_c2r(x, plan.dims, plan.lengths[plan.dims.size() - 1], scale, function.forward);
  if (function.spectrum == Spectrum::ToHalf) return fft_r2c(x, plan.dims, scale, function.forward);
  return fft_c2c(x, plan.dims, scale, function.forward);
}

// The length in time of what a dimension holds, where the caller does not say it.
int64_t natural_length(const FftFunction& function, const Tensor& x, int64_t dim, bool is_last) {
  const int64_t size = x.size(dim);
  return function.spectrum == Spectrum::FromHalf && is_last ? 2 * (size - 1) : size;
}

int64_t checked_dim(const FftFunction& function, const Tensor& x, int64_t dim) {
  TAPEGRAD_CHECK_AS(IndexError, x.dim() > 0, function.name, ": Dimension specified as ", dim,
                    " but tensor has no dimensions");
  return wrap_dim(function.name, dim, x.dim());
}

DimVector chosen_dims(const FftFunction& function, const Tensor& x, std::optional<Sizes> sizes,
                      std::optional<Sizes> dims) {
  DimVector chosen;
  if (dims) {
    uint64_t seen = 0;
    for (int64_t dim : *dims) {
      const int64_t wrapped = checked_dim(function, x, dim);
      TAPEGRAD_CHECK(!(seen >> wrapped & 1), function.name, ": FFT dims must be unique, but dim ",
                     wrapped, " appears more than once");
      seen |= uint64_t{1} << wrapped;
      chosen.push_back(wrapped);
    }
    TAPEGRAD_CHECK(!sizes || sizes->size() == dims->size(), function.name,
                   ": When given, dim and shape arguments must have the same length, got ",
                   dims->size(), " and ", sizes ? sizes->size() : 0);
    return chosen;
  }
  const int64_t rank = x.dim(), count = sizes ? static_cast<int64_t>(sizes->size()) : rank;
  TAPEGRAD_CHECK(count <= rank, function.name, ": Got shape with ", count,
                 " values but input tensor only has ", rank, " dimensions.");
  for (int64_t dim = rank - count; dim < rank; ++dim) chosen.push_back(dim);
  return chosen;
}

}  // namespace

Tensor fft_along(const FftFunction& function, const Tensor& input, std::optional<int64_t> n,
                 int64_t dim, const Norm& norm) {
  if (autocast_devices) [[unlikely]]
    return run_cast(function.cast_rule,
                    [&](const Tensor& x) { return fft_along(function, x, n, dim, norm); }, input);
  const Tensor x = promoted(function, input);
  const int64_t d = checked_dim(function, x, dim);
  return run(function, x, {{d}, {n ? *n : natural_length(function, x, d, true)}}, norm);
}

Tensor fft_over(const FftFunction& function, const Tensor& input, std::optional<Sizes> sizes,
                std::optional<Sizes> dims, const Norm& norm) {
  if (autocast_devices) [[unlikely]]
    return run_cast(function.cast_rule, [&](const Tensor& x) {
      return fft_over(function, x, sizes, dims, norm);
    }, input);
  Tensor x = promoted(function, input);
  // Elements that share a place: PyTorch's cast to complex numbers parts them, and that is how results lie.
  const Sizes strides = x.strides();
  const bool is_cast = function.spectrum == Spectrum::Full && !is_complex(x.dtype());
  if (is_cast && std::find(strides.begin(), strides.end(), 0) != strides.end()) x = contiguous(x);
  Plan plan{chosen_dims(function, x, sizes, dims), {}};
  const size_t count = plan.dims.size();
  if (count == 0) {
    TAPEGRAD_CHECK(function.spectrum == Spectrum::Full, function.name,
                   ": must transform at least one axis");
    scale_of(function, norm, {});
    return clone(cast(x, complex_dtype(x.dtype())));
  }
  for (size_t i = 0; i < count; ++i) {
    const int64_t given = sizes ? (*sizes)[i] : -1;
    plan.lengths.push_back(given == -1 ? natural_length(function, x, plan.dims[i], i + 1 == count)
                                       : given);
  }
  return run(function, x, plan, norm);
}

}  // namespace tapegrad
