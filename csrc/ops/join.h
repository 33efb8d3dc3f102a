// Putting tensors together, repeating them, and moving their elements about.
#pragma once

#include <optional>
#include <span>

#include "core/tensor.h"

namespace tapegrad {

Tensor cat(std::span<const Tensor> tensors, int64_t dim);
Tensor stack(std::span<const Tensor> tensors, int64_t dim);

Tensor repeat(const Tensor& x, Sizes repeats);
Tensor tile(const Tensor& x, Sizes repeats);  // as repeat, missing leading repeats are ones
// Every element, or slice of `dim`, `repeats` times in place; without dim, of the flattened tensor.
Tensor repeat_interleave(const Tensor& x, int64_t repeats, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size);
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size);
// The indices that select them: i, repeats[i] times.
Tensor repeat_interleave_indices(const Tensor& repeats, std::optional<int64_t> output_size);

Tensor flip(const Tensor& x, Sizes dims);
// Without dims the flattened tensor is rolled.
Tensor roll(const Tensor& x, Sizes shifts, Sizes dims);

Tensor tril(const Tensor& x, int64_t diagonal);
Tensor triu(const Tensor& x, int64_t diagonal);
void tril_(const Tensor& self, int64_t diagonal);
void triu_(const Tensor& self, int64_t diagonal);
// A vector on the diagonal of a matrix, or the diagonal of a matrix as a vector.
Tensor diag(const Tensor& x, int64_t diagonal);

}  // namespace tapegrad
