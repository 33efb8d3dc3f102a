// A recurrent layer in one direction, as one op.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace tapegrad {

// x (steps, features): the inputs of all steps, packed; `counts` are the sequences at each step of
// time, never increasing. w_ih (gates * hidden, features), w_hh (gates * hidden, hidden). state: h0 and,
// of an LSTM, c0, each (sequences, hidden). bias may be undefined; state_bias, of a GRU only, is added
// to the hidden state's product. Returns the outputs (steps, hidden) and the last states.
std::vector<Tensor> recurrent(const std::string& kind, const Tensor& x, const Tensor& w_ih,
                              const Tensor& w_hh, const std::vector<Tensor>& state,
                              const Tensor& bias, const Tensor& state_bias, Sizes counts,
                              bool reverse);

}  // namespace tapegrad
