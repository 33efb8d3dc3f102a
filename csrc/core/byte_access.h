// Note [Who may look at bytes]
// Kernels. What the library looks at outside of them goes through read_on_host() (intercept/capture.h), so that a
// program that listens knows of it; what it writes from the host into fresh memory through fill_on_host(), and
// addresses that are only given away or compared are asked for by that name. Builds with TAPEGRAD_CHECKED, which
// sanitized ones are, make sure: there TensorImpl::data() fails outside of kernels.
#pragma once

#ifdef TAPEGRAD_CHECKED
#include <atomic>
#endif

namespace tapegrad {

#ifdef TAPEGRAD_CHECKED
// How many kernels run, on any thread: their loops may be spread over several.
inline std::atomic<int> running_kernels = 0;
struct KernelScope {
  KernelScope() { ++running_kernels; }
  ~KernelScope() { --running_kernels; }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;
};
void check_in_kernel();
#else
struct KernelScope {
  KernelScope() {}  // so that it counts as used
};
inline void check_in_kernel() {}
#endif

}  // namespace tapegrad
