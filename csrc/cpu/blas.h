// OpenBLAS, loaded when first needed, so that importing stays fast. Matrix products do not need it
// (gemm.cpp has its own kernels): it is here for LAPACK.
#pragma once

#include <string>

namespace tapegrad::cpu {

// Where to find the library. Without a path, the loader's own search finds it by name. Throws
// Error when the library has been loaded already.
void set_blas_library(const std::string& path);

// A LAPACK routine by its Fortran name without prefix and underscore ("dpotrf"). Loads the library
// on the first call, from any thread; it computes on the calling thread. Throws Error,
// naming what to install, when the library is missing, and when it lacks the routine.
void* lapack_routine(const std::string& name);

// lapack_routine with its type: lapack_function<void(const char*, const int*, ...)>("dpotrf").
template <class Signature>
Signature* lapack_function(const std::string& name) {
  return reinterpret_cast<Signature*>(lapack_routine(name));
}

// What the library says about itself: version, build options, the core type it chose. Loads it.
std::string blas_description();

}  // namespace tapegrad::cpu
