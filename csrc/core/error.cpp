#include "core/error.h"

#include <charconv>

namespace tapegrad {
namespace {

constexpr int kDigits = 6;  // what %g shows

template <class Number, class... Format>
void append_number(std::string& text, Number number, Format... format) {
  char buffer[32];
  text.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, number, format...).ptr);
}

}  // namespace

void append(std::string& text, long long number) { append_number(text, number); }
void append(std::string& text, unsigned long long number) { append_number(text, number); }
void append(std::string& text, double number) {
  append_number(text, number, std::chars_format::general, kDigits);
}

}  // namespace tapegrad
