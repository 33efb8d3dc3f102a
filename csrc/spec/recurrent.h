// What the recurrent ops and their kernels agree on.
#pragma once

#include <cstdint>

namespace tapegrad {

enum class Cell { Tanh, Relu, Lstm, Gru };

// How many gates the weights have, and how many numbers per unit a step remembers beside its output.
constexpr int64_t gates_of(Cell cell) { return cell == Cell::Lstm ? 4 : cell == Cell::Gru ? 3 : 1; }
constexpr int64_t memory_of(Cell cell) {
  return cell == Cell::Lstm ? 5 : cell == Cell::Gru ? 4 : 0;
}

}  // namespace tapegrad
