#include "graph/cost.h"

#include <cmath>

namespace tapegrad {

namespace {

constexpr double kPerCall = 1000;
constexpr double kPerByte = 0.04;
constexpr double kPerProduct = 0.02;
constexpr double kPerRandomByte = 0.3;

double nbytes(const TensorImpl& x) {
  return static_cast<double>(x.numel()) * static_cast<double>(itemsize(x.dtype()));
}

// How many products a contraction adds up: the elements of the output times the length of a sum, which
// for a product of matrices is the square root of |a| |b| / |out|.
double products(const OpCall& call) {
  if (call.inputs.size() < 2) return 0;
  const auto a = static_cast<double>(call.in(0).numel());
  const auto b = static_cast<double>(call.in(1).numel());
  return std::sqrt(a * b * static_cast<double>(call.out().numel()));
}

}  // namespace

int64_t estimated_cost(const OpCall& call) {
  double bytes = 0, written = 0;
  for (const TensorImpl* input : call.inputs) bytes += nbytes(*input);
  for (const TensorImpl* output : call.outputs) written += nbytes(*output);
  double cost = kPerCall + kPerByte * (bytes + written);
  if (call.op.traits & kContracts) cost += kPerProduct * products(call);
  if (call.op.traits & kRandom) cost += kPerRandomByte * written;
  return static_cast<int64_t>(cost);
}

}  // namespace tapegrad
