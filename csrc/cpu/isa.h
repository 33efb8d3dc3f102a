// Kernel files are compiled once per instruction set, each time into the namespace TAPEGRAD_ISA, and
// the best one this machine has is chosen when first asked for.
//
//   TAPEGRAD_ISA_TABLE(PointwiseTable, pointwise_table)   in a header, namespace tapegrad::cpu
//   const PointwiseTable pointwise_table = {...};          in the kernel file, namespace TAPEGRAD_ISA
//   best_pointwise_table()                                 in the caller
//
// The environment variable TAPEGRAD_CPU (v2, v3, v4) asks for a lower one, for tests.
#pragma once

namespace tapegrad::cpu {

enum class Isa { V2, V3, V4 };

Isa isa();
const char* isa_name();

}  // namespace tapegrad::cpu

#if defined(__x86_64__)
#define TAPEGRAD_ISA_TABLE(Type, NAME) \
  namespace v2 {                       \
  extern const Type NAME;              \
  }                                    \
  namespace v3 {                       \
  extern const Type NAME;              \
  }                                    \
  namespace v4 {                       \
  extern const Type NAME;              \
  }                                    \
  inline const Type& best_##NAME() {   \
    switch (isa()) {                   \
      case Isa::V4:                    \
        return v4::NAME;               \
      case Isa::V3:                    \
        return v3::NAME;               \
      default:                         \
        return v2::NAME;               \
    }                                  \
  }
#else
#define TAPEGRAD_ISA_TABLE(Type, NAME) \
  namespace base {                     \
  extern const Type NAME;              \
  }                                    \
  inline const Type& best_##NAME() { return base::NAME; }
#endif
