// The library is the one of the scipy-openblas32 wheel: 32-bit integers, every symbol prefixed with
// "scipy_", so that it cannot collide with another BLAS in the process (it is loaded with local
// visibility besides).

#include "cpu/blas.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

#include "core/error.h"

namespace tapegrad::cpu {
namespace {

constexpr const char* kSoname = "libscipy_openblas.so";
constexpr const char* kPrefix = "scipy_";
constexpr const char* kThreadVariable = "OPENBLAS_NUM_THREADS";

std::mutex mutex;
std::string library_path = kSoname;  // guarded by the mutex
void* library = nullptr;             // guarded by the mutex; never closed

// OpenBLAS starts one thread per core while it loads unless the environment says otherwise; they
// would take memory and, after each call, spin on cores that our own pool uses.
void* open_with_one_thread(const char* path) {
  const bool is_ours = std::getenv(kThreadVariable) == nullptr;
  if (is_ours) setenv(kThreadVariable, "1", 1);
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (is_ours) unsetenv(kThreadVariable);
  return handle;
}

void* find(void* handle, const std::string& symbol) {
  return dlsym(handle, (kPrefix + symbol).c_str());
}

template <class Signature>
Signature* find_function(void* handle, const std::string& symbol) {
  return reinterpret_cast<Signature*>(find(handle, symbol));
}

void* load() {
  const std::lock_guard lock(mutex);
  if (library) return library;
  void* handle = open_with_one_thread(library_path.c_str());
  TAPEGRAD_CHECK(handle, "linear algebra: cannot load OpenBLAS: ", dlerror(),
                 "; install it with: pip install scipy-openblas32");
  // For the case that the variable was set to something else.
  if (auto* set_threads = find_function<void(int)>(handle, "openblas_set_num_threads")) {
    set_threads(1);
  }
  return library = handle;
}

}  // namespace

void set_blas_library(const std::string& path) {
  const std::lock_guard lock(mutex);
  TAPEGRAD_CHECK(!library, "set_blas_library: expected to be called before the first use, got \"",
                 path, "\" after \"", library_path, "\" was loaded");
  library_path = path;
}

void* lapack_routine(const std::string& name) {
  void* routine = find(load(), name + "_");
  TAPEGRAD_CHECK(routine, name, ": the loaded OpenBLAS has no such routine; ",
                 "update it with: pip install --upgrade scipy-openblas32");
  return routine;
}

std::string blas_description() {
  void* handle = load();
  auto* get_config = find_function<const char*()>(handle, "openblas_get_config");
  return get_config ? get_config() : "OpenBLAS";
}

}  // namespace tapegrad::cpu
