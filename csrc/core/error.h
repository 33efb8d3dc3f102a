// Exceptions of the core. Each maps to one Python exception type at the binding layer.
//
// Texts read: operation first, what was expected, what came, what to do next.
//
// Note [No streams in the library]
// A toolchain may link the C++ runtime into the module, and NumPy's, SciPy's or another library's
// copy is then a second one in the process. Streams and locales keep state that the two would share
// by halves, and the first message crashes. So nothing in csrc/ uses them (scripts/check_includes.py),
// texts are put together here, and the module exports nothing but its entry point
// (csrc/exports.map), so that no other copy's symbols can take the place of its own.
#pragma once

#include <concepts>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>

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
struct LinAlgError : Error {  // torch.linalg.LinAlgError
  using Error::Error;
};

// The parts of a text. Numbers read as printf's %d and %g write them in the C locale.
void append(std::string& text, long long number);
void append(std::string& text, unsigned long long number);
void append(std::string& text, double number);
inline void append(std::string& text, char part) { text += part; }
inline void append(std::string& text, std::string_view part) { text += part; }

template <std::integral Integer>
void append(std::string& text, Integer number) {
  if constexpr (std::is_signed_v<Integer>) append(text, static_cast<long long>(number));
  else append(text, static_cast<unsigned long long>(number));
}

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  (append(text, parts), ...);
  return text;
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
