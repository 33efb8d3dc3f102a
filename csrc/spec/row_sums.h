// Sums over the rows of a matrix, as derivatives of weights and biases are.
//
// Note [Sums over rows]
// The rows are cut into parts, whose sums are taken row by row, from zero; then the parts are added up in order.
// Where the parts begin follows from the sizes alone, so that neither the number of threads nor the order in which
// parts are done shows in the result. A plan that runs a call for some rows at a time (intercept/plan.h) gives it
// the line of a part to add to, and adds up the parts by the op add_parts.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tapegrad {

// How many rows of so many elements have sums of their own: about 64, or fewer where there are few. The sums of a
// part take a line, so that they are little beside the rows.
inline int64_t rows_of_part(int64_t rows, int64_t length) {
  constexpr int64_t kTogether = 16384, kRows = 64, kLeastParts = 8;
  const int64_t unit = std::max<int64_t>(1, kTogether / std::max<int64_t>(1, length));
  const int64_t units = std::min((kRows + unit - 1) / unit, rows / (kLeastParts * unit));
  return unit * std::max<int64_t>(1, units);
}

}  // namespace tapegrad
