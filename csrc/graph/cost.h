// What a call costs, as far as a budget must know.
//
// Costs are estimated from the op's traits and the sizes of its operands, not measured: two runs of a
// program then evict the same values, whatever else the machine does meanwhile. Only their
// ratios matter; the unit is about a nanosecond of one core.
#pragma once

#include <cstdint>

#include "core/op.h"

namespace tapegrad {

int64_t estimated_cost(const OpCall& call);

}  // namespace tapegrad
