// Calls for a part of what their op works on.
//
// Note [Calls of tiles]
// A plan runs some ops for some rows at a time (intercept/plan.h). To a kernel whose result depends on which rows they
// are it tells the number of the first one, in an attribute behind those that the op has names for: random ops are told
// the first element, which is a whole number of what they draw together; sums over rows the first row, counted from
// where the part begins.
#pragma once

#include "core/op.h"

namespace tapegrad::cpu {

inline bool is_tile(const OpCall& call) {
  return call.attributes.size() > call.op.attributes.size();
}
// Zero for a whole call.
inline int64_t first_of_tile(const OpCall& call) {
  return is_tile(call) ? call.attributes.back().as_int() : 0;
}

}  // namespace tapegrad::cpu
