#include "cuda/capturing.h"

#include "core/error.h"
#include "core/source.h"
#include "cuda/context.h"
#include "cuda/stream.h"

namespace tapegrad::cuda {

namespace detail {

bool asks_whether_capturing(int device, StreamHandle stream) noexcept {
  try {
    const DeviceGuard guard(device);
    int status = 0;  // CU_STREAM_CAPTURE_STATUS_NONE
    return driver().is_stream_capturing(stream, &status) == kSuccess && status != 0;
  } catch (...) {  // the process ends, or was forked
    return false;
  }
}

}  // namespace detail

bool is_capturing(int device) noexcept {
  return capture_underway && is_capturing(device, current_stream(device));
}

void RelaxedCapture::exchange() {
  is_relaxed_ = driver().exchange_capture_mode(&mode_) == kSuccess;
}

void fail_in_capture(const std::string& op, const char* problem, const char* remedy) {
  const SourceLine line = SourceLine::here();
  const std::string place = line.known() ? concat(", at ", line.text()) : "";
  fail(op, ": ", problem, " while a CUDA graph is captured", place, "; ", remedy);
}

}  // namespace tapegrad::cuda
