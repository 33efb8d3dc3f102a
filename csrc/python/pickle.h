// Pickling and deep copies.
#pragma once

#include "python/binding.h"

namespace tapegrad::python {

void bind_pickle(Binder& b);

}  // namespace tapegrad::python
