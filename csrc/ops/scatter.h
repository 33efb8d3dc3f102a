// Gather and scatter: every element of an index tensor names a place along one dimension.
#pragma once

#include <optional>
#include <string_view>

#include "core/tensor.h"

namespace tapegrad {

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);

enum class ScatterReduce { None, Sum, Product, Mean, Maximum, Minimum };
// "sum", "prod", "mean", "amax", "amin"; RuntimeError for others.
ScatterReduce scatter_reduce_named(std::string_view name);
// The older spelling of scatter(reduce=): "add", "multiply".
ScatterReduce scatter_operation_named(std::string_view name);

// `source` has at least the index's shape, or is 0-d and scattered everywhere.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
void scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source);
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
void scatter_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source);
// Without include_self what was at a scattered place does not count.
Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                      ScatterReduce reduce, bool include_self);
void scatter_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                     ScatterReduce reduce, bool include_self);

// gather with broadcasting and negative indices; without dim on the flattened tensors.
Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<int64_t> dim);

}  // namespace tapegrad
