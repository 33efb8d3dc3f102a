// Texts of Python objects for messages: they never fail for want of a valid encoding.
#pragma once

#include <string>

#include "python/binding.h"

namespace tapegrad::python {

// A str as UTF-8; what UTF-8 cannot hold (lone surrogates) is written as an escape.
std::string utf8(nb::handle text);

inline std::string repr_of(nb::handle object) { return utf8(nb::repr(object)); }
inline std::string str_of(nb::handle object) { return utf8(nb::str(object)); }

}  // namespace tapegrad::python
