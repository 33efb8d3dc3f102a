#pragma once

#include <string>
#include <utility>

#include "python/binding.h"

namespace tapegrad::python {

// Starts noting the Python line of each tape entry. Frames of files below `own_folder` are skipped.
void install_source_lines(const std::string& own_folder);

// Whether lines are read from the interpreter's structures (interpreter.h) or by the public calls.
bool reads_frames_directly();
// (code, offset) of the running line or None, as it is taken for entries and by the public calls.
std::pair<nb::object, nb::object> running_line_both_ways();

}  // namespace tapegrad::python
