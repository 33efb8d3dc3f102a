// What fresh memory holds, where somebody wants to know that nobody reads it.
#pragma once

namespace tapegrad {

// TAPEGRAD_FILL_FRESH=0xff and the like: the byte that memory of all devices is filled with before it is handed
// out, so that a kernel that reads what nobody wrote gives another result under another byte; -1 where it is
// not set.
int fresh_byte();

}  // namespace tapegrad
