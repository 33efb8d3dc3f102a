#include "ops/clip.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/op.h"
#include "graph/forward.h"
#include "graph/grad_mode.h"
#include "graph/write_log.h"
#include "intercept/batch.h"
#include "ops/copy.h"
#include "spec/clip.h"

namespace tapegrad {

namespace {

const Op total_norm_op("total_norm", {"kind"}, kUnrecorded);
const Op scale_tensors_op("scale_tensors", {}, kUnrecorded);
const Op unscale_op("unscale", {}, kUnrecorded);
const Op update_scale_op("update_scale", {"growth_factor", "backoff_factor", "growth_interval"},
                         kUnrecorded);

bool are_plain(std::span<const Tensor> tensors) {
  if (tensors.empty() || is_vmap_running() || forward_levels) return false;
  const DType dtype = tensors[0].dtype();
  if (dtype != DType::Float32 && dtype != DType::Float64) return false;
  return std::all_of(tensors.begin(), tensors.end(), [&](const Tensor& x) {
    return x.dtype() == dtype && !x->storage().is_batched() && x.is_contiguous() &&
           x->device() == tensors[0]->device();
  });
}

// Whether no two of them share memory: each must be multiplied once.
bool are_disjoint(std::span<const Tensor> tensors) {
  std::vector<std::pair<const char*, const char*>> ranges;
  ranges.reserve(tensors.size());
  for (const Tensor& x : tensors) {
    auto* begin = static_cast<const char*>(x->address());
    ranges.emplace_back(begin, begin + x.numel() * static_cast<int64_t>(itemsize(x.dtype())));
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) return false;
  return true;
}

}  // namespace

std::optional<Tensor> total_norm(std::span<const Tensor> tensors, double p) {
  if (!are_plain(tensors) || (p != 1 && p != 2 && p != INFINITY)) return std::nullopt;
  // The maximum of no elements is left to the composed functions, which raise the right error.
  const bool empty =
      std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return x.numel() == 0; });
  if (empty && p == INFINITY) return std::nullopt;
  const TotalNorm kind = p == 1 ? TotalNorm::One : p == 2 ? TotalNorm::Two : TotalNorm::Infinity;
  Tensor result = empty_like(tensors[0], {}, tensors[0].dtype());
  const Scalar attributes[] = {static_cast<int64_t>(kind)};
  dispatch(total_norm_op, tensors, attributes, std::span<const Tensor>(&result, 1));
  return result;
}

bool scale_tensors(std::span<const Tensor> tensors, const Tensor& factor) {
  const bool number =
      factor.numel() == 1 && (factor.dtype() == DType::Float32 || factor.dtype() == DType::Float64);
  if (!number || !are_plain(tensors) || !are_disjoint(tensors)) return false;
  if (factor->device() != tensors[0]->device()) return false;  // the kernel reads it where it lies
  const GradMode off(false);
  for (const Tensor& x : tensors) check_write(scale_tensors_op.name, x, false);
  std::vector<Tensor> inputs{factor};
  inputs.insert(inputs.end(), tensors.begin(), tensors.end());
  dispatch(scale_tensors_op, inputs, {}, tensors);
  for (const Tensor& x : tensors) note_write(scale_tensors_op.name, x);
  return true;
}

// ---- scaled losses

namespace {

// As PyTorch calls them: the functions are a part of its private interface that programs use.
constexpr const char* kUnscale = "_amp_foreach_non_finite_check_and_unscale_";
constexpr const char* kUpdate = "_amp_update_scale_";

// A 0-d tensor on the CPU is no number to these kernels, which read and write where it lies.
void check_number(const char* op, const char* what, const Tensor& x, DType dtype, Device device) {
  TAPEGRAD_CHECK(x.numel() == 1, op, ": ", what, " must be a 1-element tensor, got shape ",
                 to_string(x.sizes()));
  TAPEGRAD_CHECK(x.dtype() == dtype, op, ": ", what, " must be a tensor of ", name(dtype), ", got ",
                 name(x.dtype()));
  TAPEGRAD_CHECK(x->device() == device, op, ": ", what, " must be on ", to_string(device), ", got ",
                 to_string(x->device()), "; move it with .to()");
}

void run_unscale(std::span<const Tensor> tensors, const Tensor& found_inf, const Tensor& factor) {
  std::vector<Tensor> inputs{factor, found_inf}, outputs{found_inf};
  inputs.insert(inputs.end(), tensors.begin(), tensors.end());
  outputs.insert(outputs.end(), tensors.begin(), tensors.end());
  dispatch(unscale_op, inputs, {}, outputs);
}

// What fills its memory is unscaled where it lies, the rest in a copy.
void unscale_in_copies(std::span<const Tensor> tensors, const Tensor& found_inf,
                       const Tensor& factor) {
  std::vector<Tensor> dense, strided, copies;
  for (const Tensor& x : tensors) {
    if (is_dense(*x.impl())) {
      dense.push_back(x);
      continue;
    }
    strided.push_back(x);
    copies.push_back(clone(x, MemoryFormat::Contiguous));
    dense.push_back(copies.back());
  }
  // One that shares memory with another is multiplied as often as it is given.
  if (are_disjoint(dense)) run_unscale(dense, found_inf, factor);
  else
    for (const Tensor& x : dense) run_unscale({&x, 1}, found_inf, factor);
  for (size_t i = 0; i < strided.size(); ++i) copy_into(strided[i], copies[i]);
}

}  // namespace

void unscale_tensors(std::span<const Tensor> tensors, const Tensor& found_inf,
                     const Tensor& factor) {
  const Device device = tensors.empty() ? factor->device() : tensors[0]->device();
  check_number(kUnscale, "inv_scale", factor, DType::Float32, device);
  check_number(kUnscale, "found_inf", found_inf, DType::Float32, device);
  if (tensors.empty()) return;
  for (const Tensor& x : tensors) {
    if (!is_floating(x.dtype())) fail_unsupported_dtype(kUnscale, x.dtype());
    TAPEGRAD_CHECK(x.dtype() == tensors[0].dtype() && x->device() == device, kUnscale,
                   ": expected tensors of one dtype on one device, got ", name(x.dtype()), " on ",
                   to_string(x->device()), " beside ", name(tensors[0].dtype()), " on ",
                   to_string(device));
    TAPEGRAD_CHECK(!x->storage().is_batched(), kUnscale, ": not inside of vmap");
  }
  const GradMode off(false);
  for (const Tensor& x : tensors) check_inplace(kUnscale, x, false);
  unscale_in_copies(tensors, found_inf, factor);
  for (const Tensor& x : tensors) note_write(kUnscale, x);
  note_write(kUnscale, found_inf);
}

void update_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& found_inf,
                  double growth_factor, double backoff_factor, int64_t growth_interval) {
  const Device device = scale->device();
  check_number(kUpdate, "current_scale", scale, DType::Float32, device);
  check_number(kUpdate, "growth_tracker", growth_tracker, DType::Int32, device);
  check_number(kUpdate, "found_inf", found_inf, DType::Float32, device);
  dispatch(update_scale_op, {scale, growth_tracker, found_inf},
           {growth_factor, backoff_factor, growth_interval}, {scale, growth_tracker});
  note_write(kUpdate, scale);
  note_write(kUpdate, growth_tracker);
}

}  // namespace tapegrad
