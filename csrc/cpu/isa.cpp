#include "cpu/isa.h"

#include <cstdlib>
#include <string_view>

namespace tapegrad::cpu {

namespace {

Isa detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  Isa best = Isa::V2;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2"))
    best = Isa::V3;
  if (best == Isa::V3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512cd"))
    best = Isa::V4;
  if (const char* wanted = std::getenv("TAPEGRAD_CPU")) {
    std::string_view text = wanted;
    Isa limit = text == "v2" ? Isa::V2 : text == "v3" ? Isa::V3 : Isa::V4;
    if (limit < best) best = limit;
  }
  return best;
#else
  return Isa::V2;
#endif
}

}  // namespace

Isa isa() {
  static const Isa best = detect();
  return best;
}

const char* isa_name() {
#if defined(__x86_64__)
  constexpr const char* kNames[] = {"x86-64-v2", "x86-64-v3 (AVX2)", "x86-64-v4 (AVX-512)"};
  return kNames[static_cast<int>(isa())];
#else
  return "generic";
#endif
}

}  // namespace tapegrad::cpu
