// The copy that other kernels are made of.
#pragma once

#include "core/op.h"

namespace tapegrad::cpu {

void copy(const OpCall& call);

}  // namespace tapegrad::cpu
