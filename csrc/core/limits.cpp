#include "core/limits.h"

#include <unistd.h>

#include "core/error.h"

namespace tapegrad {

void check_count(const char* op, int64_t count, const char* what, int64_t bytes_each) {
  static const int64_t memory = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
  TAPEGRAD_CHECK_AS(OutOfMemoryError, count <= memory / bytes_each, op, ": a result of ", count,
                    " ", what, " does not fit into the memory of this machine");
}

}  // namespace tapegrad
