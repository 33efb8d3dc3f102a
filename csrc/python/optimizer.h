// Numbers of optimizers, for captured steps.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

namespace tapegrad::python {

// The options of a parameter group as the native step of an optimizer reads them; false where they are not all
// plain numbers.
bool read_optimizer_options(size_t which, nanobind::handle group, std::vector<double>& numbers);

}  // namespace tapegrad::python
