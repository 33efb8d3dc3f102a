// Pooling and its derivatives.
//
// Note [Pooling is linear once the places are known]
// A maximum copies elements: with the places it found, it is a gather within each plane, whose
// derivative is a scatter that adds, whose derivative is the gather again. An average is linear as it
// stands; it and its transpose are each other's derivative. So double backward needs nothing else.
#include "ops/pooling.h"

#include <optional>
#include <vector>

#include "core/error.h"
#include "graph/record.h"
#include "ops/copy.h"
#include "ops/operand.h"

namespace tapegrad {

namespace {

const std::initializer_list<const char*> kWindowAttributes = {
    "rank",      "kernel*",  "stride*",           "padding*",
    "dilation*", "adaptive", "count_include_pad", "divisor"};
const Op max_pool_op("max_pool", kWindowAttributes);
const Op avg_pool_op("avg_pool", kWindowAttributes);
const Op avg_pool_backward_op("avg_pool_backward", kWindowAttributes);
const Op plane_gather_op("plane_gather", {"rank"});
// The windows are those by which the places were found, and of kernel 0 where that is not known.
const Op plane_scatter_op("plane_scatter",
                          {"rank", "add", "kernel*", "stride*", "padding*", "dilation*",
                           "adaptive"},
                          kAnyOrder);
const Op max_unpool_op("max_unpool", {"rank", "add"});

const EntryKind max_pool_entry(max_pool_op, {"indices"});
const EntryKind max_pool_backward_entry("max_pool_backward", plane_scatter_op, {"indices"});
const EntryKind max_pool_double_entry("max_pool_double", plane_gather_op, {"indices"});
const EntryKind max_unpool_entry(max_unpool_op, {"indices"});
const EntryKind avg_pool_entry(avg_pool_op);
const EntryKind avg_pool_backward_entry(avg_pool_backward_op);

// What the kernels read: three dimensions, those that there are not in front.
struct Windows {
  int64_t rank;
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0},
          dilation[3] = {1, 1, 1};
  bool adaptive = false;
  bool count_include_pad = false;
  int64_t divisor = 0;

  void append_geometry(std::vector<Scalar>& list) const {
    for (const auto& part : {kernel, stride, padding, dilation})
      list.insert(list.end(), part, part + 3);
    list.emplace_back(adaptive);
  }
  std::vector<Scalar> attributes() const {
    std::vector<Scalar> list{rank};
    append_geometry(list);
    list.insert(list.end(), {Scalar(count_include_pad), Scalar(divisor)});
    return list;
  }
};

// ---- running kernels

// The kernels take float32, float64 or int64, in one of two formats: Note [Channels last]. Integers go through
// int64, and half types through float32 where kernels do not take them, outside the tape.
Tensor as_operand(const Tensor& x, MemoryFormat format) {
  const DType compute =
      is_integral(x.dtype()) ? DType::Int64 : kernel_dtype(x.dtype(), x->device());
  if (is_contiguous(*x.impl(), format) && x.dtype() == compute) return x;
  Tensor copy = empty_like_layout(x, compute, format);
  copy_into(copy, x);
  return copy;
}

// The format of results: of batches of planes with their channels last, the results have them last too.
MemoryFormat planes_format(const Tensor& x, int64_t rank) {
  return rank == 2 && x.dim() == 4 ? suggested_format(*x.impl()) : MemoryFormat::Contiguous;
}
// Among pools of volumes, PyTorch keeps that in max_pool3d alone.
MemoryFormat volumes_format(const Tensor& x, int64_t rank) {
  return rank == 3 && x.dim() == 5 ? suggested_format(*x.impl()) : planes_format(x, rank);
}

// Places, of any integer type, are taken as they are.
Tensor run(const Op& op, const Tensor& x, const Tensor& indices, Sizes sizes,
           std::span<const Scalar> attributes, MemoryFormat format) {
  Tensor inputs[] = {as_operand(x, format), Tensor()};
  if (indices.defined()) inputs[1] = contiguous(indices, format);
  Tensor y = empty_in(op.name, sizes, inputs[0].dtype(), inputs[0]->device(), format);
  dispatch(op, std::span<const Tensor>(inputs, indices.defined() ? 2 : 1), attributes,
           std::span<const Tensor>(&y, 1));
  return narrowed(y, x.dtype());
}

DimVector pooled_sizes(const Tensor& x, Sizes spatial) {
  DimVector sizes(x.sizes());
  for (size_t d = 0; d < spatial.size(); ++d) sizes[sizes.size() - spatial.size() + d] = spatial[d];
  return sizes;
}

// ---- maxima: gathers and scatters of planes

Tensor plane_scatter(const Tensor& x, const Tensor& indices, int64_t rank, Sizes sizes,
                     const std::optional<Windows>& windows, MemoryFormat format);

// Saved: the places.
struct PlaneGatherBackward final : VariantEntry {
  PlaneGatherBackward(int64_t rank, DimVector sizes, const EntryKind& kind,
                      std::optional<Windows> windows, MemoryFormat format)
      : VariantEntry(kind), rank(rank), sizes(std::move(sizes)), windows(windows), format(format) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (grads[0].defined())
      grad_inputs[0] = plane_scatter(grads[0], saved(0), rank, sizes, windows, format);
  }
  // For codings: what tells where in its window a place lies, if places are plane by plane.
  SavedReading reading(size_t, const Tensor& places) const override {
    SavedReading result{SavedUse::Exact};
    if (!windows || !places.is_contiguous()) return result;
    for (Sizes shape : {Sizes(sizes), output_sizes(0)})
      for (int64_t d = 0; d < 3; ++d)
        result.windows.push_back(d < 3 - rank ? 1
                                              : shape[shape.size() - static_cast<size_t>(3 - d)]);
    const std::vector<Scalar> attributes = windows->attributes();
    result.windows.insert(result.windows.end(), attributes.begin() + 1, attributes.begin() + 14);
    return result;
  }
  int64_t rank;
  DimVector sizes;
  std::optional<Windows> windows;
  MemoryFormat format;  // of the gradient
};

struct PlaneScatterBackward final : VariantEntry {
  PlaneScatterBackward(int64_t rank, const EntryKind& kind, MemoryFormat format)
      : VariantEntry(kind), rank(rank), format(format) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = plane_gather(grads[0], saved(0), rank, format);
  }
  int64_t rank;
  MemoryFormat format;  // of the gradient
};

// What goes to one place is added up.
Tensor plane_scatter(const Tensor& x, const Tensor& indices, int64_t rank, Sizes sizes,
                     const std::optional<Windows>& windows, MemoryFormat format) {
  std::vector<Scalar> attributes{rank, true};
  windows.value_or(Windows{rank, {0, 0, 0}}).append_geometry(attributes);
  Tensor y = run(plane_scatter_op, x, indices, sizes, attributes, format);
  if (should_record(x))
    record<PlaneScatterBackward>({&x}, y, 1, rank, max_pool_backward_entry, format)
        .save_output(0, indices);
  return y;
}

// PyTorch takes integers in some of these functions.
void check_dtype(const char* op, const Tensor& x, bool accepted) {
  TAPEGRAD_CHECK_AS(NotImplementedError, accepted, op, ": expected a floating dtype, got ",
                    name(x.dtype()), "; call .float() first");
}

std::pair<Tensor, Tensor> run_max(const char* op, const Tensor& x, const Windows& windows,
                                  Sizes spatial, bool wants_indices, MemoryFormat format) {
  const bool recording = should_record(x);
  Tensor operand = as_operand(x, format);
  const DimVector sizes = pooled_sizes(x, spatial);
  int64_t plane = 1;
  for (int64_t d = 1; d <= windows.rank; ++d) plane *= x.size(static_cast<size_t>(x.dim() - d));
  Tensor outputs[2] = {empty_in(op, sizes, operand.dtype(), operand->device(), format)};
  if (recording || wants_indices)
    outputs[1] =
        empty_in(op, sizes, plane > INT32_MAX ? DType::Int64 : DType::Int32, x->device(), format);
  dispatch(max_pool_op, std::span<const Tensor>(&operand, 1), windows.attributes(),
           std::span<const Tensor>(outputs, outputs[1].defined() ? 2 : 1));
  Tensor y = narrowed(outputs[0], x.dtype());
  if (recording)
    record<PlaneGatherBackward>({&x}, y, 1, windows.rank, DimVector(x.sizes()), max_pool_entry,
                                windows, format)
        .save_output(0, outputs[1]);
  if (!wants_indices) return {y, Tensor()};
  return {y, narrowed(outputs[1], DType::Int64)};
}

// ---- averages

Tensor run_avg(const Tensor& x, const Windows& windows, Sizes sizes, MemoryFormat format);

struct AvgPoolBackwardBackward final : Entry<avg_pool_backward_entry> {
  AvgPoolBackwardBackward(Windows windows, DimVector sizes, MemoryFormat format)
      : windows(windows), sizes(std::move(sizes)), format(format) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = run_avg(grads[0], windows, sizes, format);
  }
  Windows windows;
  DimVector sizes;  // of the pooled tensor
  MemoryFormat format;
};

Tensor avg_pool_backward(const Tensor& grad, const Windows& windows, Sizes sizes,
                         MemoryFormat format) {
  Tensor grad_x = run(avg_pool_backward_op, grad, Tensor(), sizes, windows.attributes(), format);
  if (should_record(grad))
    record<AvgPoolBackwardBackward>({&grad}, grad_x, 0, windows, DimVector(grad.sizes()), format);
  return grad_x;
}

struct AvgPoolBackward final : Entry<avg_pool_entry> {
  AvgPoolBackward(Windows windows, DimVector sizes, MemoryFormat format)
      : windows(windows), sizes(std::move(sizes)), format(format) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = avg_pool_backward(grads[0], windows, sizes, format);
  }
  Windows windows;
  DimVector sizes;  // of the input
  MemoryFormat format;
};

Tensor run_avg(const Tensor& x, const Windows& windows, Sizes sizes, MemoryFormat format) {
  Tensor y = run(avg_pool_op, x, Tensor(), sizes, windows.attributes(), format);
  if (should_record(x)) record<AvgPoolBackward>({&x}, y, 0, windows, DimVector(x.sizes()), format);
  return y;
}

// ---- arguments

void fill_in(const char* op, const char* what, Sizes given, int64_t rank, int64_t (&into)[3]) {
  TAPEGRAD_CHECK(given.size() == 1 || given.size() == static_cast<size_t>(rank), op, ": ", what,
                 " must either be a single int, or a tuple of ", rank, " ints, got ",
                 to_string(given));
  for (int64_t d = 0; d < rank; ++d)
    into[3 - rank + d] = given[given.size() == 1 ? 0 : static_cast<size_t>(d)];
}

void check_input(const char* op, const Tensor& x, int64_t rank) {
  TAPEGRAD_CHECK(x.dim() == rank + 1 || x.dim() == rank + 2, op, ": Expected ", rank + 1, "D or ",
                 rank + 2,
                 "D (batch mode) tensor with optional 0 dim batch size for input, but got: ",
                 to_string(x.sizes()));
  for (int64_t d = x.dim() - rank - 1; d < x.dim(); ++d)
    TAPEGRAD_CHECK(x.size(static_cast<size_t>(d)) != 0, op, ": Expected ", rank + 1, "D or ",
                   rank + 2,
                   "D (batch mode) tensor with optional 0 dim batch size for input, and the other "
                   "dimensions non-zero, but got: ",
                   to_string(x.sizes()));
}

Windows windows_of(const char* op, int64_t rank, const PoolWindows& given) {
  Windows windows{rank};
  fill_in(op, "kernel_size", given.kernel, rank, windows.kernel);
  fill_in(op, "stride", given.stride.empty() ? given.kernel : given.stride, rank, windows.stride);
  fill_in(op, "padding", given.padding, rank, windows.padding);
  fill_in(op, "dilation", given.dilation, rank, windows.dilation);
  for (int d = 0; d < 3; ++d) {
    const int64_t kernel = windows.kernel[d], padding = windows.padding[d];
    TAPEGRAD_CHECK(kernel > 0, op, ": kernel size should be greater than zero, but got ", kernel);
    TAPEGRAD_CHECK(windows.stride[d] > 0, op, ": stride should be greater than zero, but got ",
                   windows.stride[d]);
    TAPEGRAD_CHECK(windows.dilation[d] > 0, op, ": dilation should be greater than zero, but got ",
                   windows.dilation[d]);
    TAPEGRAD_CHECK(padding >= 0, op, ": pad must be non-negative, but got pad: ", padding);
    TAPEGRAD_CHECK(kernel <= INT32_MAX && windows.stride[d] <= INT32_MAX && padding <= INT32_MAX &&
                       windows.dilation[d] <= INT32_MAX,
                   op, ": windows larger than 2147483647 are not supported");
    TAPEGRAD_CHECK(padding <= ((kernel - 1) * windows.dilation[d] + 1) / 2, op,
                   ": pad should be at most half of effective kernel size, but got pad=", padding,
                   ", kernel_size=", kernel, " and dilation=", windows.dilation[d]);
  }
  return windows;
}

DimVector output_sizes(const char* op, const Tensor& x, const Windows& windows, bool ceil_mode) {
  DimVector sizes;
  for (int64_t d = 0; d < windows.rank; ++d) {
    const auto k = static_cast<size_t>(3 - windows.rank + d);
    const int64_t in = x.size(static_cast<size_t>(x.dim() - windows.rank + d));
    const int64_t span = (windows.kernel[k] - 1) * windows.dilation[k] + 1,
                  stride = windows.stride[k];
    const int64_t room = in + 2 * windows.padding[k] - span;
    int64_t out = room < 0 && !ceil_mode ? 0 : (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    if (room < 0 && ceil_mode && room + stride - 1 < 0) out = 0;
    // The last window starts inside the input or its left padding.
    if (ceil_mode && (out - 1) * stride >= in + windows.padding[k]) --out;
    sizes.push_back(out);
  }
  for (int64_t size : sizes)
    TAPEGRAD_CHECK(size > 0, op, ": Given input size: ",
                   to_string(x.sizes().subspan(static_cast<size_t>(x.dim() - windows.rank))),
                   ". Calculated output size: ", to_string(sizes), ". Output size is too small");
  return sizes;
}

// Parts of equal size are ordinary windows, for which the kernels are faster.
Windows adaptive_windows(const Tensor& x, Sizes spatial) {
  const auto rank = static_cast<int64_t>(spatial.size());
  Windows windows{rank};
  for (int64_t d = 0; d < rank; ++d) {
    const auto k = static_cast<size_t>(3 - rank + d);
    const int64_t in = x.size(static_cast<size_t>(x.dim() - rank + d));
    const int64_t out = spatial[static_cast<size_t>(d)];
    if (out == 0 || in % out != 0) windows.adaptive = true;
    else windows.kernel[k] = windows.stride[k] = in / out;
  }
  return windows;
}

DimVector adaptive_sizes(const char* op, const Tensor& x, int64_t rank, Sizes given) {
  TAPEGRAD_CHECK(x.dim() == rank + 1 || x.dim() == rank + 2, op, ": Expected ", rank + 1, "D or ",
                 rank + 2, "D tensor, but got ", to_string(x.sizes()));
  TAPEGRAD_CHECK(given.size() == 1 || given.size() == static_cast<size_t>(rank), op,
                 ": output_size must be ", rank, ", got ", given.size());
  DimVector sizes;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t in = x.size(static_cast<size_t>(x.dim() - rank + d));
    const int64_t out = given[given.size() == 1 ? 0 : static_cast<size_t>(d)];
    TAPEGRAD_CHECK(out >= -1, op,
                   ": elements of output_size must be greater than or equal to 0, got ", out);
    TAPEGRAD_CHECK(in > 0, op,
                   ": Expected input to have non-zero size for non-batch dimensions, but input has "
                   "sizes ",
                   to_string(x.sizes()));
    sizes.push_back(out == -1 ? in : out);
  }
  return sizes;
}

}  // namespace

std::pair<Tensor, Tensor> max_pool(const char* op, const Tensor& x, int64_t rank,
                                   const PoolWindows& given, bool indices) {
  const Windows windows = windows_of(op, rank, given);
  check_input(op, x, rank);
  const bool integers = is_integral(x.dtype(), false) && (rank > 1 || indices);
  check_dtype(op, x, is_floating(x.dtype()) || integers);
  return run_max(op, x, windows, output_sizes(op, x, windows, given.ceil_mode), indices,
                 volumes_format(x, rank));
}

Tensor avg_pool(const char* op, const Tensor& x, int64_t rank, const PoolWindows& given,
                bool count_include_pad, std::optional<int64_t> divisor_override) {
  Windows windows = windows_of(op, rank, given);
  check_input(op, x, rank);
  TAPEGRAD_CHECK(!divisor_override || *divisor_override != 0, op, ": divisor must be not zero");
  check_dtype(op, x, is_floating(x.dtype()) || x.dtype() == DType::Int64);
  windows.count_include_pad = count_include_pad;
  windows.divisor = divisor_override.value_or(0);
  return run_avg(x, windows, pooled_sizes(x, output_sizes(op, x, windows, given.ceil_mode)),
                 planes_format(x, rank));
}

std::pair<Tensor, Tensor> adaptive_max_pool(const char* op, const Tensor& x, int64_t rank,
                                            Sizes output_size, bool indices) {
  const DimVector sizes = adaptive_sizes(op, x, rank, output_size);
  check_dtype(op, x, is_floating(x.dtype()));
  return run_max(op, x, adaptive_windows(x, sizes), sizes, indices, planes_format(x, rank));
}

Tensor adaptive_avg_pool(const char* op, const Tensor& x, int64_t rank, Sizes output_size) {
  const DimVector sizes = adaptive_sizes(op, x, rank, output_size);
  check_dtype(op, x, is_floating(x.dtype()));
  return run_avg(x, adaptive_windows(x, sizes), pooled_sizes(x, sizes), planes_format(x, rank));
}

Tensor max_unpool(const char* op, const Tensor& x, const Tensor& indices, Sizes output_size) {
  const auto rank = static_cast<int64_t>(output_size.size());
  TAPEGRAD_CHECK(indices.dtype() == DType::Int64, op,
                 ": elements in indices should be type int64 but got: ", name(indices.dtype()));
  TAPEGRAD_CHECK(same_sizes(x.sizes(), indices.sizes()), op,
                 ": Expected shape of indices to be same as that of the input tensor (",
                 to_string(x.sizes()),
                 ") but got indices tensor with shape: ", to_string(indices.sizes()));
  TAPEGRAD_CHECK(x.dim() == rank + 1 || x.dim() == rank + 2, op, ": Input must be ", rank + 1,
                 "D or ", rank + 2, "D, got ", to_string(x.sizes()));
  check_dtype(op, x, is_floating(x.dtype()));
  const MemoryFormat format = planes_format(x, rank);
  const Tensor places = contiguous(indices, format);
  const Scalar attributes[] = {rank, false};
  Tensor y = run(max_unpool_op, x, places, pooled_sizes(x, output_size), attributes, format);
  if (should_record(x))
    record<PlaneScatterBackward>({&x}, y, 1, rank, max_unpool_entry, format).save_output(0, places);
  return y;
}

Tensor plane_gather(const Tensor& x, const Tensor& indices, int64_t rank, MemoryFormat format) {
  const Scalar attributes[] = {rank};
  Tensor y = run(plane_gather_op, x, indices, indices.sizes(), attributes, format);
  if (should_record(x))
    record<PlaneGatherBackward>({&x}, y, 1, rank, DimVector(x.sizes()), max_pool_double_entry,
                                std::nullopt, format)
        .save_output(0, indices);
  return y;
}

}  // namespace tapegrad
