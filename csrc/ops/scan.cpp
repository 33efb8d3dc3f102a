// Scans and their derivatives.
//
// Note [The recurrence behind scan gradients]
// The derivative of a running product is itself a scan: with P the products before each element,
//   grad_x[k] = P[k] * S[k],   S[k] = g[k] + x[k + 1] * S[k + 1],
// a linear recurrence from the end to the front. It divides by nothing, so zeros need no case of
// their own, and its own derivative is again a recurrence, in the other direction. The same op
// serves logcumsumexp, with factors exp(y[k] - y[k + 1]), which never exceed one.
#include "ops/scan.h"

#include "core/error.h"
#include "graph/record.h"
#include "graph/write_log.h"
#include "ops/autocast.h"
#include "ops/complex.h"
#include "ops/complex_composed.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/inplace.h"
#include "ops/join.h"
#include "ops/pointwise.h"
#include "ops/scatter.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const Op cumsum_op("cumsum", {"dim", "reverse"}, kComplex);
const Op cumprod_op("cumprod", {"dim", "reverse"});
const Op logcumsumexp_op("logcumsumexp", {"dim", "reverse"});
const Op cummax_op("cummax", {"dim", "reverse"});
const Op cummin_op("cummin", {"dim", "reverse"});
const Op recurrence_op("recurrence", {"dim", "reverse"});

const EntryKind cumsum_entry(cumsum_op);
const EntryKind cumprod_entry(cumprod_op, {"self", "result"});
const EntryKind logcumsumexp_entry(logcumsumexp_op, {"self", "result"});
const EntryKind cummax_entry(cummax_op, {"indices"});
const EntryKind cummin_entry(cummin_op, {"indices"});
const EntryKind recurrence_entry(recurrence_op, {"factors", {"result", {0}}});

const CastRule cumsum_rule("cumsum", Cast::None, Cast::Total);
const CastRule cumprod_rule("cumprod", Cast::None, Cast::Total);

// A scan's dimension and direction.
struct ScanAxis {
  int64_t dim;
  bool reverse;
  ScanAxis reversed() const { return {dim, !reverse}; }
};

Tensor directed_cumsum(const Tensor& x, ScanAxis axis);
Tensor directed_cumprod(const Tensor& x, ScanAxis axis);
Tensor recurrence(const Tensor& a, const Tensor& b, ScanAxis axis);

// The element before each one, `first` before the first.
Tensor previous(const Tensor& x, ScanAxis axis, double first) {
  const int64_t length = x.size(axis.dim);
  if (length == 0) return x;
  DimVector edge_sizes(x.sizes());
  edge_sizes[axis.dim] = 1;
  Tensor edge = full(edge_sizes, first, x.dtype(), x->device());
  Tensor rest = narrow(x, axis.dim, axis.reverse ? 1 : 0, length - 1);
  Tensor forward[] = {edge, rest}, backward[] = {rest, edge};
  return cat(axis.reverse ? backward : forward, axis.dim);
}

struct CumsumBackward final : Entry<cumsum_entry> {
  explicit CumsumBackward(ScanAxis axis) : axis(axis) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = directed_cumsum(grads[0], axis.reversed());
  }
  ScanAxis axis;
};

// See Note [The recurrence behind scan gradients].
struct CumprodBackward final : Entry<cumprod_entry> {
  explicit CumprodBackward(ScanAxis axis) : axis(axis) {}
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor x = saved(0), y = saved(1);
    Tensor next = previous(x, axis.reversed(), 0);
    grad_inputs[0] = previous(y, axis, 1) * recurrence(next, grads[0], axis.reversed());
  }
  ScanAxis axis;
};

struct RecurrenceBackward final : Entry<recurrence_entry> {
  explicit RecurrenceBackward(ScanAxis axis) : axis(axis) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor a = saved(0), y = saved(1);
    Tensor grad_b = recurrence(previous(a, axis.reversed(), 0), grads[0], axis.reversed());
    if (needs(0)) grad_inputs[0] = grad_b * previous(y, axis, 0);
    if (needs(1)) grad_inputs[1] = grad_b;
  }
  ScanAxis axis;
};

struct LogcumsumexpBackward final : Entry<logcumsumexp_entry> {
  explicit LogcumsumexpBackward(ScanAxis axis) : axis(axis) {}
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor x = saved(0), y = saved(1);
    // Up to the first finite x, y is -inf: these elements have no weight. Differences of
    // infinities are kept out of both branches, so that no NaN enters a derivative.
    Tensor nothing = isneginf(y);
    // Thousands of factors are multiplied, and their roundings with them: in a wider dtype.
    const DType wide = itemsize(x.dtype()) < 4 ? DType::Float32 : DType::Float64;
    Tensor own = cast(where(nothing, 0.0, y), wide);
    // Nothing follows the last element: its factor is exp(-huge), which is 0 for any y.
    const double huge = wide == DType::Float64 ? 1e300 : 1e38;
    Tensor next = where(nothing, 0.0, previous(cast(y, wide), axis.reversed(), huge));
    Tensor factors = where(nothing, 0.0, exp(own - next));
    Tensor sums = recurrence(factors, cast(grads[0], wide), axis.reversed());
    grad_inputs[0] = cast(exp(cast(x, wide) - own) * sums, x.dtype());
  }
  ScanAxis axis;
};

// Each gradient goes to the element its result was taken from.
struct CumExtremeBackward final : VariantEntry {
  CumExtremeBackward(ScanAxis axis, const EntryKind& kind) : VariantEntry(kind), axis(axis) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (!grads[0].defined()) return;
    Tensor zero = zeros(grads[0].sizes(), grads[0].dtype(), grads[0]->device());
    grad_inputs[0] = scatter_add(zero, axis.dim, saved(0), grads[0]);
  }
  ScanAxis axis;
};

Tensor run(const Op& op, std::initializer_list<Tensor> inputs, ScanAxis axis) {
  const Tensor& first = *inputs.begin();
  if (is_complex(first.dtype()) && (op.traits & kComplex)) {  // part by part
    const Tensor parts = real_alias(empty_like(first));
    dispatch(op, {real_alias(first)}, {Scalar(axis.dim), Scalar(axis.reverse)}, {parts});
    return complex_alias(parts);
  }
  Tensor y = empty_like(first);
  dispatch(op, inputs, {Scalar(axis.dim), Scalar(axis.reverse)}, {y});
  return y;
}

Tensor directed_cumsum(const Tensor& input, ScanAxis axis) {
  Tensor x = contiguous(input);
  Tensor y = run(cumsum_op, {x}, axis);
  if (should_record(x)) record<CumsumBackward>({&x}, y, 0, axis);
  return y;
}

// Complex numbers have no kernel: each turn multiplies what the one before has, twice as far back.
Tensor complex_cumprod(const Tensor& x, ScanAxis axis) {
  Tensor y = axis.reverse ? flip(x, DimVector{axis.dim}) : x;
  const int64_t length = x.size(axis.dim);
  for (int64_t reach = 1; reach < length; reach *= 2) {
    const Tensor parts[] = {
        narrow(y, axis.dim, 0, reach),
        narrow(y, axis.dim, reach, length - reach) * narrow(y, axis.dim, 0, length - reach)};
    y = cat(parts, axis.dim);
  }
  if (axis.reverse) return flip(y, DimVector{axis.dim});
  return y.is_same(x) ? clone(x) : y;
}

Tensor directed_cumprod(const Tensor& input, ScanAxis axis) {
  if (is_complex(input.dtype())) return complex_cumprod(input, axis);
  Tensor x = contiguous(input);
  Tensor y = run(cumprod_op, {x}, axis);
  if (should_record(x)) {
    auto& node = record<CumprodBackward>({&x}, y, 2, axis);
    node.save_input(0, x);
    node.save_output(1, y);
  }
  return y;
}

// y[t] = b[t] + a[t] * y[t - 1]
Tensor recurrence(const Tensor& factors, const Tensor& terms, ScanAxis axis) {
  Tensor a = contiguous(factors), b = contiguous(terms);
  Tensor y = run(recurrence_op, {a, b}, axis);
  if (should_record(a, b)) {
    auto& node = record<RecurrenceBackward>({&a, &b}, y, 2, axis);
    node.save_input(0, a);
    node.save_output(1, y);
  }
  return y;
}

// Integers run in 64 bits.
Tensor as_total(const Tensor& x, std::optional<DType> dtype) {
  if (dtype) return cast(x, *dtype);
  return is_integral(x.dtype()) ? cast(x, DType::Int64) : x;
}

// The kernels know int64 only; a narrower integer asked for wraps afterwards.
template <class Scan>
Tensor total(const char* op, const Tensor& input, int64_t dim, std::optional<DType> dtype,
             Scan scan) {
  dim = wrap_dim(op, dim, input.dim());
  Tensor x = as_total(input, dtype);
  const DType result = x.dtype();
  if (is_integral(result)) x = cast(x, DType::Int64);
  if (x.dim() == 0) return clone(cast(x, result));
  return cast(scan(x, ScanAxis{dim, false}), result);
}

// Runs a scan of a floating tensor's own dtype in its place.
void scan_inplace(const char* op, const Op& kernel, const Tensor& self, ScanAxis axis) {
  Tensor y = run(kernel, {contiguous(detach(self))}, axis);
  copy_into(self, y);
  note_write(op, self);
}

// Whether the in-place form can be recorded as one entry; else it computes aside and copies.
bool runs_in_place(const Tensor& self, std::optional<DType> dtype) {
  return is_floating(self.dtype()) && self.dim() > 0 &&
         dtype.value_or(self.dtype()) == self.dtype();
}

std::pair<Tensor, Tensor> extremes(const Op& op, const Tensor& input, int64_t dim,
                                   const EntryKind& kind) {
  const ScanAxis axis{wrap_dim(op.name, dim, input.dim()), false};
  const DType result = input.dtype();
  if (is_bare(result)) fail_unsupported_dtype(op.name, result);
  Tensor x = contiguous(is_integral(result) ? cast(input, DType::Int64) : input);
  Tensor values = empty_like(x);
  Tensor indices = empty_like(x, x.sizes(), DType::Int64);
  dispatch(op, {x}, {Scalar(axis.dim), Scalar(false)}, {values, indices});
  if (should_record(x))
    record<CumExtremeBackward>({&x}, values, 1, axis, kind).save_input(0, indices);
  return {cast(values, result), indices};
}

}  // namespace

Tensor cumsum(const Tensor& x, int64_t dim, std::optional<DType> dtype) {
  if (autocast_devices) [[unlikely]]
    dtype = total_dtype(cumsum_rule, x, dtype);
  return total("cumsum", x, dim, dtype, directed_cumsum);
}

Tensor cumprod(const Tensor& x, int64_t dim, std::optional<DType> dtype) {
  if (autocast_devices) [[unlikely]]
    dtype = total_dtype(cumprod_rule, x, dtype);
  return total("cumprod", x, dim, dtype, directed_cumprod);
}

void cumsum_(const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  const WithoutAutocast lifted;
  if (!runs_in_place(self, dtype)) return copy_(self, cumsum(self, dim, dtype));
  const ScanAxis axis{wrap_dim("cumsum_", dim, self.dim()), false};
  bool recording = should_record(self);
  check_inplace("cumsum_", self, recording);
  scan_inplace("cumsum_", cumsum_op, self, axis);
  if (recording) record_inplace<CumsumBackward>(self, {}, 0, axis);
}

void cumprod_(const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  const WithoutAutocast lifted;
  if (!runs_in_place(self, dtype)) return copy_(self, cumprod(self, dim, dtype));
  const ScanAxis axis{wrap_dim("cumprod_", dim, self.dim()), false};
  bool recording = should_record(self);
  check_inplace("cumprod_", self, recording);
  // The derivative needs what self held.
  Tensor before = recording ? clone_with_history(self) : Tensor();
  scan_inplace("cumprod_", cumprod_op, self, axis);
  if (!recording) return;
  auto& node = record_inplace<CumprodBackward>(self, {}, 2, axis);
  node.save_input(0, before);
  node.save_output(1, self);
}

Tensor logcumsumexp(const Tensor& input, int64_t dim) {
  const ScanAxis axis{wrap_dim("logcumsumexp", dim, input.dim()), false};
  if (is_complex(input.dtype())) return complex_logcumsumexp(input, axis.dim);
  TAPEGRAD_CHECK_AS(NotImplementedError, is_floating(input.dtype()),
                    "logcumsumexp: expected a floating dtype, got ", name(input.dtype()),
                    "; call .float() first");
  if (input.dim() == 0) return clone(input);
  Tensor x = contiguous(input);
  Tensor y = run(logcumsumexp_op, {x}, axis);
  if (should_record(x)) {
    auto& node = record<LogcumsumexpBackward>({&x}, y, 2, axis);
    node.save_input(0, x);
    node.save_output(1, y);
  }
  return y;
}

std::pair<Tensor, Tensor> cummax(const Tensor& x, int64_t dim) {
  return extremes(cummax_op, x, dim, cummax_entry);
}
std::pair<Tensor, Tensor> cummin(const Tensor& x, int64_t dim) {
  return extremes(cummin_op, x, dim, cummin_entry);
}

Tensor exclusive_cumprod(const Tensor& x, int64_t dim, bool reverse) {
  const ScanAxis axis{wrap_dim("cumprod", dim, x.dim()), reverse};
  if (x.dim() == 0) return ones({}, x.dtype(), x->device());
  return previous(directed_cumprod(x, axis), axis, 1);
}

}  // namespace tapegrad
