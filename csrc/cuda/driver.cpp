#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cstdlib>

#include "core/error.h"

namespace tapegrad::cuda {

namespace {

// The library that TAPEGRAD_CUDA_DRIVER names stands in for the driver: tests run kernels on the CPU so.
const char* library_name() {
  const char* chosen = std::getenv("TAPEGRAD_CUDA_DRIVER");
  return chosen && *chosen ? chosen : "libcuda.so.1";
}

std::string describe(const Driver& table, Result result) {
  const char *name = nullptr, *text = nullptr;
  if (table.get_error_name(result, &name) != kSuccess || !name) name = "an unknown error";
  if (table.get_error_text(result, &text) != kSuccess || !text) text = "no description";
  return concat("CUDA error: ", text, " (", name, ")");
}

class Loaded {
 public:
  Loaded() { reason_ = load(); }

  Driver table;
  const std::string& reason() const { return reason_; }

 private:
  std::string load();
  std::string reason_;
};

// Returns why there is nothing to be used, or nothing.
std::string Loaded::load() {
  void* library = dlopen(library_name(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return concat("NVIDIA's driver was not found (", dlerror(),
                  "); install the driver of the GPU, or use device='cpu'");
#define TAPEGRAD_CUDA_LOAD(SYMBOL, NAME, PARAMETERS)                            \
  table.NAME = reinterpret_cast<decltype(table.NAME)>(dlsym(library, #SYMBOL)); \
  if (!table.NAME)                                                              \
    return concat("NVIDIA's driver has no function " #SYMBOL "; update it to CUDA 12 or newer");
  TAPEGRAD_CUDA_FUNCTIONS(TAPEGRAD_CUDA_LOAD)
#undef TAPEGRAD_CUDA_LOAD
  if (const Result result = table.init(0); result != kSuccess)
    return concat("NVIDIA's driver could not be started: ", describe(table, result));
  int count = 0;
  if (const Result result = table.get_device_count(&count); result != kSuccess)
    return concat("the devices could not be counted: ", describe(table, result));
  if (count == 0) return "NVIDIA's driver finds no GPU";
  return {};
}

bool was_used = false, is_child = false;

const Loaded& loaded() {
  static const Loaded& only = *[] {
    was_used = true;
    pthread_atfork(nullptr, nullptr, [] { is_child = was_used; });
    return new Loaded;
  }();
  return only;
}

}  // namespace

const Driver& driver() {
  const Loaded& all = loaded();
  if (is_child || !all.reason().empty()) [[unlikely]] {
    TAPEGRAD_CHECK(!is_child,
                   "cuda: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
                   "multiprocessing, you must use the 'spawn' start method");
    fail("cuda: no CUDA device can be used: ", all.reason());
  }
  return all.table;
}

bool is_available() { return loaded().reason().empty(); }
const std::string& why_unavailable() { return loaded().reason(); }
bool is_initialized() { return was_used; }

void check(Result result, const char* what) {
  if (result != kSuccess) [[unlikely]]
    throw AcceleratorError(concat(what, ": ", describe(loaded().table, result)), result);
}

}  // namespace tapegrad::cuda
