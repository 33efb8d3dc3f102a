// Which op a bound function runs, for functions that do not have the name of their op, nor of the entry
// that they record: those need not say so. tapegrad/_ops.py puts the answers together.
#pragma once

#include <initializer_list>

namespace tapegrad::python {

// One of these, as the arguments are. To be called beside the line that binds the function.
void runs(const char* function, std::initializer_list<const char*> ops);

}  // namespace tapegrad::python
