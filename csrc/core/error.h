// Exceptions of the core. Each maps to one Python exception type at the binding layer.
//
// Texts read: operation first, what was expected, what came, what to do next.
#pragma once

#include <exception>
#include <sstream>
#include <string>

namespace tapegrad {

struct Error : std::exception {  // RuntimeError
  explicit Error(std::string text) : text(std::move(text)) {}
  const char* what() const noexcept override { return text.c_str(); }
  std::string text;
  bool names_entry = false;  // whether the text says which tape entry it is about
};
struct IndexError : Error {
  using Error::Error;
};
struct TypeError : Error {
  using Error::Error;
};
struct ValueError : Error {
  using Error::Error;
};
struct NotImplementedError : Error {
  using Error::Error;
};
struct OutOfMemoryError : Error {
  using Error::Error;
};

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class E = Error, class... Parts>
[[noreturn]] [[gnu::cold]] [[gnu::noinline]] void fail(const Parts&... parts) {
  throw E(concat(parts...));
}

}  // namespace tapegrad

// The text is built only when the check fails.
#define TAPEGRAD_CHECK(condition, ...) \
  do {                                 \
    if (!(condition)) [[unlikely]]     \
      ::tapegrad::fail(__VA_ARGS__);   \
  } while (false)

#define TAPEGRAD_CHECK_AS(ErrorType, condition, ...) \
  do {                                               \
    if (!(condition)) [[unlikely]]                   \
      ::tapegrad::fail<ErrorType>(__VA_ARGS__);      \
  } while (false)
