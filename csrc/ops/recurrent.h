// A recurrent layer in one direction, as one op.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace tapegrad {

// x_gates (steps, gates * hidden): the product with the input, of all steps, packed; `counts` are the
// sequences at each step of time, never increasing. w_hh (gates * hidden, hidden). state: h0 and, of
// an LSTM, c0, each (sequences, hidden). bias, of a GRU only, is added to the hidden state's product
// and may be undefined. Returns the outputs (steps, hidden) and the last states.
std::vector<Tensor> recurrent(const std::string& kind, const Tensor& x_gates, const Tensor& w_hh,
                              const std::vector<Tensor>& state, const Tensor& bias, Sizes counts,
                              bool reverse);

}  // namespace tapegrad
