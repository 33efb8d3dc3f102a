// Capture: a program listens to what happens on a thread.
#pragma once

#include "core/op.h"

namespace tapegrad {

class Program;  // intercept/program.h
// The program that listens on this thread, or null.
inline thread_local Program* capturing = nullptr;
// How many programs listen, on any thread: they must know what other threads do meanwhile.
inline Reasons captures{Interceptor::Capture};

// Makes a program listen, or none, for a while.
class CaptureScope {
 public:
  explicit CaptureScope(Program* program);
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  Program* outer_;
};

// `host` shows the same elements on the CPU.
void capture_read(const Tensor& x, const Tensor& host);
void capture_constant(const Tensor& x);
void capture_shared(const Tensor& x, bool is_seen);

// A contiguous copy on the CPU of what lies on another device; waits for it.
Tensor copy_to_host(const Tensor& x);

// Elements on the host: a tensor's own, or a copy of those on another device, in order.
template <class T>
class HostElements {
 public:
  // The tensor outlives this.
  explicit HostElements(const Tensor& x) : source_(&x) {
    if (!x->device().is_cpu()) [[unlikely]]
      copy_ = copy_to_host(x);
    data_ = static_cast<const T*>(tensor()->address());
  }
  const Tensor& tensor() const { return copy_.defined() ? copy_ : *source_; }
  const T* get() const { return data_; }  // while this lives
  const T& operator*() const { return *data_; }
  const T& operator[](int64_t i) const { return data_[i]; }

 private:
  const Tensor* source_;
  Tensor copy_;
  const T* data_;
};

// What happens besides calls: Note [What a captured program must see] in intercept/program.h.
// Elements go to the host, to Python or for a shape: the one way there.
template <class T>
HostElements<T> read_on_host(const Tensor& x) {
  HostElements<T> elements(x);
  if (captures) [[unlikely]]
    capture_read(x, elements.tensor());
  return elements;
}
// Fresh memory, to be filled with what comes from the host. note_constant() when that is done.
template <class T>
T* fill_on_host(const Tensor& x) {
  return static_cast<T*>(x->address());
}
inline void note_constant(const Tensor& x) {
  if (captures) [[unlikely]]
    capture_constant(x);
}
// The address of the bytes becomes known outside.
inline void note_shared(const Tensor& x) {
  if (captures) [[unlikely]]
    capture_shared(x, true);
}
// The bytes are somebody else's, as those of an array.
inline void note_borrowed(const Tensor& x) {
  if (captures) [[unlikely]]
    capture_shared(x, false);
}

}  // namespace tapegrad
