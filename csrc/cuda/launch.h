// Kernels: found by what they are, compiled when first used, launched with one struct of arguments.
//
// Note [One struct for a launch]
// A kernel takes its arguments as one struct by value, which the text of the kernel declares as this back end
// fills it: fields in the same order, each aligned to its own size. The driver copies it when the
// kernel is launched.
//
// Note [Kernels start early]
// From compute capability 9.0 on a kernel may be started while the one before it on its stream is still running, and
// waits for its end by itself (griddepcontrol.wait, the first statement of each kernel: wait_for_earlier_work()
// in prelude.cuh). That spares the driver a fifth of the work of a launch, and the device a gap between kernels.
// A kernel that has waited can rely on all that came before: the one in front of it has waited as well.
// Copies, events and kernels of libraries are in order as ever. In a captured graph (cuda/graph.h) kernels do so as well,
// as long as there is one stream in it: a kernel behind two others must wait for both.
#pragma once

#include <cstring>
#include <string>
#include <unordered_map>

#include "core/device.h"
#include "core/dtype.h"
#include "core/error.h"
#include "cuda/context.h"
#include "cuda/driver.h"
#include "cuda/stream.h"

namespace tapegrad::cuda {

// Whether the kernels of a device start early, see Note [Kernels start early]: known when the first is loaded.
inline bool starts_early[kMostDevices] = {};

// Set by the binding layer: compiles what a description says for a device, and returns the image.
inline std::string (*compile_kernel)(const std::string& description, int device) = nullptr;

// A kernel of a device. Compiles and loads it, if nobody has done so before.
FunctionHandle load_kernel(const std::string& description, int device);
// What a kernel was loaded by; "kernel" for one that is not known.
const std::string& kernel_description(FunctionHandle kernel);

// Called before and after a kernel is launched, where a profile wants to know which (cuda/profile.h).
inline void (*launch_watch)(FunctionHandle kernel, bool begins) = nullptr;

// The kernels of a family, by a number that says which one: what is looked up at each call.
class KernelCache {
 public:
  template <class Describe>
  FunctionHandle find(int device, uint64_t key, Describe&& describe) {
    OfDevice& known = of_device_[device];
    if (known.last && known.last_key == key) [[likely]]
      return known.last;
    auto found = known.kernels.find(key);
    if (found == known.kernels.end()) [[unlikely]]
      found = known.kernels.emplace(key, load_kernel(describe(), device)).first;
    known.last_key = key;
    known.last = found->second;
    return known.last;
  }

 private:
  struct OfDevice {
    uint64_t last_key = 0;  // mostly that of the next call
    FunctionHandle last = nullptr;
    std::unordered_map<uint64_t, FunctionHandle> kernels;
  };
  OfDevice of_device_[kMostDevices];
};

// The arguments of a launch, put in one by one.
class Arguments {
 public:
  template <class T>
  void put(const T& value) {
    void* place = reserve(sizeof(T), alignof(T));
    std::memcpy(place, &value, sizeof(T));
  }
  // A value that is known by its bytes.
  void put_bytes(const void* value, size_t nbytes) {
    std::memcpy(reserve(nbytes, nbytes), value, nbytes);
  }

  void* data() { return bytes_; }
  size_t size() const { return (size_ + alignment_ - 1) / alignment_ * alignment_; }

 private:
  static constexpr size_t kMost = 4096;  // what the driver takes

  void* reserve(size_t nbytes, size_t alignment) {
    size_ = (size_ + alignment - 1) / alignment * alignment;
    if (alignment > alignment_) alignment_ = alignment;
    TAPEGRAD_CHECK(size_ + nbytes <= kMost,
                   "internal error: the arguments of a launch are too long");
    void* place = bytes_ + size_;
    size_ += nbytes;
    return place;
  }

  alignas(16) char bytes_[kMost];
  size_t size_ = 0;
  size_t alignment_ = 1;
};

// On the current stream of the device.
void launch(FunctionHandle function, int device, int64_t blocks, int threads, void* arguments,
            size_t nbytes, int shared_bytes = 0);

inline void launch(FunctionHandle function, int device, int64_t blocks, int threads,
                   Arguments& arguments, int shared_bytes = 0) {
  launch(function, device, blocks, threads, arguments.data(), arguments.size(), shared_bytes);
}
template <class Struct>
void launch_with(FunctionHandle function, int device, int64_t blocks, int threads, Struct arguments,
                 int shared_bytes = 0) {
  launch(function, device, blocks, threads, &arguments, sizeof arguments, shared_bytes);
}

// What texts of kernels call a dtype.
const char* kernel_type(DType dtype);

}  // namespace tapegrad::cuda
