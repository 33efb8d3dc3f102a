// The Python line that is running now, taken in nanoseconds and turned into text only when asked.
// The binding layer sets the hooks; without them every line is unknown.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace tapegrad {

struct SourceHooks {
  // Returns a counted code object and the instruction offset, or null.
  void* (*capture)(int32_t* offset) = nullptr;
  void* (*retain)(void* code) = nullptr;
  void (*release)(void* code) noexcept = nullptr;
  std::string (*resolve)(void* code, int32_t offset) = nullptr;  // "file.py:12, in train"
};
inline SourceHooks source_hooks;

class SourceLine {
 public:
  SourceLine() = default;
  static SourceLine here() {
    SourceLine line;
    if (source_hooks.capture) line.code_ = source_hooks.capture(&line.offset_);
    return line;
  }
  SourceLine(SourceLine&& other) noexcept
      : code_(std::exchange(other.code_, nullptr)), offset_(other.offset_) {}
  SourceLine& operator=(SourceLine&& other) noexcept {
    std::swap(code_, other.code_);
    offset_ = other.offset_;
    return *this;
  }
  ~SourceLine() {
    if (code_) source_hooks.release(code_);
  }

  SourceLine copy() const {
    SourceLine line;
    if (code_) line.code_ = source_hooks.retain(code_);
    line.offset_ = offset_;
    return line;
  }
  // Gives the counted code object and the offset away.
  std::pair<void*, int32_t> detach() { return {std::exchange(code_, nullptr), offset_}; }
  bool known() const { return code_ != nullptr; }

  std::string text() const {
    return code_ ? source_hooks.resolve(code_, offset_) : std::string("unknown line");
  }

 private:
  void* code_ = nullptr;
  int32_t offset_ = 0;
};

}  // namespace tapegrad
