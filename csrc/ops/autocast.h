// What a function with a CastRule does first (graph/autocast.h):
//
//   if (autocast_devices) [[unlikely]]
//     return run_cast(mm_rule, [](const Tensor& a, const Tensor& b) { return mm(a, b); }, a, b);
//
// Casts are recorded, so gradients arrive in the dtype of what was cast.
//
// Note [Casts that are kept]
// A parameter that several functions of a block read is cast once: the casts of leaves that require grad are
// kept until the outermost block is left. One that is kept is taken only where a new one would be the same:
// not after the leaf was written, not one made with recording off where it is on, and not where somebody looks
// at the cast itself: vmap, forward mode, a transform, a selective checkpoint. A program that listens takes those
// made since it does, and lets them go at its end: gradients are added up in the dtype of the cast, so that a trace
// with more casts than the function would have other bits.
//
// Note [Casts that are made together]
// A model casts the same parameters in every step. On a device each cast is a launch, which for small models is what
// takes the time. So the leaves whose casts a block kept are remembered, under the first two of them, without being held;
// and when a later block casts one of these two, all of them are cast by one call. A function that asks for one of
// these casts finds it made, if its leaf has not been written since, and records its entry, so that nothing else
// can be told apart. A block inside of a sweep (a checkpoint that runs again) casts what it needs, one by one.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/tensor.h"
#include "graph/autocast.h"

namespace tapegrad {

// Replaces the operands by what autocast makes of them; undefined ones stay. Autocast is in force.
void cast_operands(const CastRule& rule, std::span<Tensor> operands);

// The dtype of a function whose rule is Cast::Total: what the caller gave, or what autocast sets.
std::optional<DType> total_dtype(const CastRule& rule, const Tensor& x, std::optional<DType> dtype);

// Calls the function with cast operands, and autocast lifted.
template <class Function, class... Operands>
auto run_cast(const CastRule& rule, Function&& function, const Operands&... given) {
  static_assert((std::is_same_v<Operands, Tensor> && ...));
  std::array<Tensor, sizeof...(Operands)> operands{given...};
  cast_operands(rule, operands);
  const WithoutAutocast lifted;
  return std::apply(function, operands);
}

// The same for a function of a list.
template <class Function>
auto run_cast_list(const CastRule& rule, Function&& function, std::span<const Tensor> given) {
  std::vector<Tensor> operands(given.begin(), given.end());
  cast_operands(rule, operands);
  const WithoutAutocast lifted;
  return function(operands);
}

// Drops the casts that this thread has kept.
void clear_kept_casts() noexcept;
// Drops those that were made while a program listened.
void drop_captured_casts() noexcept;

}  // namespace tapegrad
