#pragma once

#include <string>

namespace tapegrad::python {

// Starts noting the Python line of each tape entry. Frames of files below `own_folder` are skipped.
void install_source_lines(const std::string& own_folder);

}  // namespace tapegrad::python
