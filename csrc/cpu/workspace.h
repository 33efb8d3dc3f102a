// What drivers of kernels for float32 and float64 share: the choice of the type, and memory.
#pragma once

#include <cstdint>

#include "core/allocator.h"
#include "core/dtype.h"

namespace tapegrad::cpu {

// Calls run(float()) or run(double()).
template <class Run>
void with_float_type(DType dtype, Run&& run) {
  if (dtype == DType::Float32) run(float());
  else run(double());
}

// Memory for a while. To be made where the lock on handles is held.
template <class T>
class Workspace {
 public:
  explicit Workspace(int64_t elements)
      : bytes_(elements * sizeof(T)), data_(static_cast<T*>(allocate(bytes_))) {}
  ~Workspace() { deallocate(data_, bytes_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  T* get() const { return data_; }

 private:
  size_t bytes_;
  T* data_;
};

}  // namespace tapegrad::cpu
