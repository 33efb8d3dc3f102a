// Requests for more objects than there can be, and loops outside kernels that may take long.
#pragma once

#include <cstdint>

namespace tapegrad {

// Refuses a result of `count` objects that this machine's memory cannot hold, before time and memory
// are spent on the first of them. `what` names them in the plural.
void check_count(const char* op, int64_t count, const char* what, int64_t bytes_each);

// Set by the binding layer: throws when a signal handler of Python's raised.
inline void (*check_interrupts)() = nullptr;

}  // namespace tapegrad
