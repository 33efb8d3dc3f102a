// Copying between any two layouts and dtypes of a device.
#pragma once

#include "core/op.h"

namespace tapegrad::cuda {

// The kernel of the op: for others that need a copy on their way. The op of the call is not looked at.
void copy(const OpCall& call);

}  // namespace tapegrad::cuda
