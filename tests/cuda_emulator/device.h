// CUDA's words for a C++ compiler: included before a kernel text, which then runs on the CPU.
//
// NVRTC knows no standard header, and neither does this one: a name that a text uses without having
// it from here would be missing on a GPU, too. What CUDA lacks is not offered.
#pragma once

#include "interface.h"

#define TAPEGRAD_EMULATED 1
// Of functions that are not the kernel's: what they access is not checked (device_checks.h).
#define TAPEGRAD_EMULATOR_OWN __attribute__((no_sanitize("thread")))

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
// One copy is enough, as blocks run one after another. Thread-local storage, because it is the one
// kind of which the emulator knows where a module's variables lie, to poison them for each block.
#define __shared__ static thread_local

using size_t = decltype(sizeof(0));
using ptrdiff_t = decltype(static_cast<char*>(nullptr) - static_cast<char*>(nullptr));

extern "C" {
void* memcpy(void* to, const void* from, size_t nbytes) noexcept;
void* memset(void* data, int value, size_t nbytes) noexcept;
int printf(const char* format, ...);
}

namespace tapegrad_emulator {

static Context context;

template <class T>
struct Bare {
  using type = T;
};
template <class T>
struct Bare<const T&> {
  using type = T;
};

constexpr unsigned align(unsigned offset, unsigned alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

// The next parameter in a launch's buffer, where CUDA's rule puts it: at its natural alignment.
template <class T>
T take_parameter(const unsigned char* buffer, unsigned& offset) {
  using Value = const typename Bare<T>::type;
  offset = align(offset, alignof(Value));
  Value& value = *reinterpret_cast<Value*>(buffer + offset);
  offset += sizeof(Value);
  return value;
}

template <class... T>
struct Call {
  // Called with braces, which evaluate the parameters from left to right.
  Call(void (*kernel)(T...), T... values) { kernel(values...); }
};

template <unsigned count>
struct Layout {
  Parameter parameters[count ? count : 1] = {};
  unsigned nbytes = 0;
};

template <class... T>
constexpr Layout<sizeof...(T)> lay_out() {
  Layout<sizeof...(T)> layout;
  unsigned i = 0;
  ((layout.parameters[i] = {align(layout.nbytes, alignof(typename Bare<T>::type)),
                            sizeof(typename Bare<T>::type)},
    layout.nbytes = layout.parameters[i].offset + layout.parameters[i].nbytes, ++i),
   ...);
  return layout;
}

template <auto kernel>
struct Entry;
template <class... T, void (*kernel)(T...)>
struct Entry<kernel> {
  static constexpr auto layout = lay_out<T...>();
  static void run(const unsigned char* buffer) {
    unsigned offset = 0;
    Call<T...>{kernel, take_parameter<T>(buffer, offset)...};
  }
  static constexpr Kernel value{run, layout.parameters, sizeof...(T), layout.nbytes};
};

}  // namespace tapegrad_emulator

#define TAPEGRAD_EMULATOR_EXPORT extern "C" __attribute__((visibility("default"), used))

TAPEGRAD_EMULATOR_EXPORT inline tapegrad_emulator::Context* tapegrad_emulator_context() {
  return &tapegrad_emulator::context;
}

// What the emulator finds a kernel by.
#define TAPEGRAD_EMULATOR_ENTRY(NAME)                                                 \
  TAPEGRAD_EMULATOR_EXPORT const tapegrad_emulator::Kernel* tapegrad_entry_##NAME() { \
    return &tapegrad_emulator::Entry<&NAME>::value;                                   \
  }

// By reference: a copy of the arguments for every thread would take longer than most kernels.
#define TAPEGRAD_KERNEL(NAME, ...) TAPEGRAD_EMULATOR_KERNEL(NAME, __VA_ARGS__)
#define TAPEGRAD_EMULATOR_KERNEL(NAME, ...)           \
  extern "C" void NAME(const __VA_ARGS__& arguments); \
  TAPEGRAD_EMULATOR_ENTRY(NAME)                       \
  extern "C" void NAME(const __VA_ARGS__& arguments)

#define TAPEGRAD_SHARED_BYTES(NAME) unsigned char* const NAME = tapegrad_emulator::context.shared

static const tapegrad_emulator::Index& threadIdx = tapegrad_emulator::context.thread;
static const tapegrad_emulator::Index& blockIdx = tapegrad_emulator::context.block;
static const tapegrad_emulator::Index& blockDim = tapegrad_emulator::context.block_size;
static const tapegrad_emulator::Index& gridDim = tapegrad_emulator::context.grid_size;
constexpr int warpSize = 32;

#include "device_checks.h"
#include "device_math.h"
#include "device_sync.h"
#include "device_vector.h"
