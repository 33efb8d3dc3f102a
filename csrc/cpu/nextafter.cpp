// nextafter for the 16-bit floats, on their bit patterns.

#include "core/registry.h"
namespace tapegrad::cpu {

namespace {

// The neighbour of a in the direction of b. Ordered by sign and magnitude, a step away from zero is
// one more in the magnitude's bits.
template <class H>
H neighbour(H a, H b) {
  float x = a, y = b;
  if (x != x || y != y) return H(x + y);
  if (x == y) return b;
  H result;
  if (x == 0) result.bits = static_cast<uint16_t>(y < 0 ? 0x8001u : 0x0001u);
  else result.bits = static_cast<uint16_t>((y > x) == (x > 0) ? a.bits + 1 : a.bits - 1);
  return result;
}

template <class H>
void run(const OpCall& call) {
  const H *a = call.in(0).data_as<H>(), *b = call.in(1).data_as<H>();
  H* out = call.out().data_as<H>();
  for (int64_t i = 0; i < call.out().numel(); ++i) out[i] = neighbour(a[i], b[i]);
}

void nextafter_half(const OpCall& call) {
  if (call.out().dtype() == DType::Float16) run<Half>(call);
  else run<BFloat16>(call);
}

const KernelList<DeviceType::CPU> kKernels = {
    {"nextafter_half", nextafter_half},
};

}  // namespace

}  // namespace tapegrad::cpu
