// What is being captured now: asked by all who may do what a capture does not allow.
//
// Note [Captured work]
// While a CUDA graph is captured (cuda/graph.h), what is put into a stream is written down and does not run. The host
// cannot wait for it, memory that it uses must stay where it is for as long as the graph lives, and calls of the
// driver that might wait for streams behind its back are refused, in all threads. One graph is captured at a time.
// - What an op cannot do is refused before the driver hears of it, with the op and the line of the program: the capture
//   stays whole, and the program may catch the error and go on, or leave the capture by it.
// - What the back end does for itself (asking for memory, loading kernels, asking whether events have passed) has a
//   RelaxedCapture around it, or waits until the capture is over.
// - Streams that wait for one that is captured are captured as well, from then on until they are joined to it. Asking the
//   driver tells; it is only asked while there is a capture.
#pragma once

#include <string>

#include "cuda/driver.h"

namespace tapegrad::cuda {

// As in CUstreamCaptureMode: whose calls of the driver are refused meanwhile.
enum class CaptureMode : int { Global = 0, ThreadLocal = 1, Relaxed = 2 };

// Whether some thread captures a graph. Under Note [The GIL guards handles], like all here.
inline bool capture_underway = false;
inline int capturing_device = -1;
// Whether streams have been ordered in it: from then on kernels wait for all that came before, see
// Note [Kernels start early].
inline bool capture_has_joins = false;
// Whether captured kernels may start early at all.
inline bool starts_early_in_graphs = true;

namespace detail {
bool asks_whether_capturing(int device, StreamHandle stream) noexcept;
}

// Whether what is put into a stream is captured. The default stream cannot be.
inline bool is_capturing(int device, StreamHandle stream) noexcept {
  return capture_underway && stream && detail::asks_whether_capturing(device, stream);
}
// The same of the thread's current stream.
bool is_capturing(int device) noexcept;

// Calls of the driver that a capture refuses are allowed to this thread while it lives.
class RelaxedCapture {
 public:
  RelaxedCapture() {
    if (capture_underway) [[unlikely]]
      exchange();
  }
  ~RelaxedCapture() {
    if (is_relaxed_) [[unlikely]]
      driver().exchange_capture_mode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void exchange();

  bool is_relaxed_ = false;
  int mode_ = static_cast<int>(CaptureMode::Relaxed);
};

// Throws RuntimeError "op: problem while a CUDA graph is captured, at file.py:12, in step; remedy".
[[noreturn]] void fail_in_capture(const std::string& op, const char* problem, const char* remedy);

}  // namespace tapegrad::cuda
