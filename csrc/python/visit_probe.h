#pragma once

#include <Python.h>

namespace tapegrad::python {

// Finds the visit function by which the collector of cycles takes references off the counts of what it
// visits, by trying. Call it once, when the module is loaded: it collects young objects three times.
void find_subtracting_visit();

// The function found, or null.
visitproc subtracting_visit();

}  // namespace tapegrad::python
