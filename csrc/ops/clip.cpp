#include "ops/clip.h"

#include <algorithm>
#include <cmath>
#include <vector>

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
  const GradMode off(false);
  for (const Tensor& x : tensors) check_write(scale_tensors_op.name, x, false);
  std::vector<Tensor> inputs{factor};
  inputs.insert(inputs.end(), tensors.begin(), tensors.end());
  dispatch(scale_tensors_op, inputs, {}, tensors);
  for (const Tensor& x : tensors) note_write(scale_tensors_op.name, x);
  return true;
}

}  // namespace tapegrad
