// How a derivative reads a value that the tape saved: which codings of the value it can bear.
//
// Of the pointwise ops this is read off the text of their derivatives at compile time, by the same kind
// of scan that decides what they save (spec/pointwise.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "spec/pointwise.h"

namespace tapegrad {

enum class SavedUse : uint8_t {
  Smooth,  // a small error of the value is a small error of the gradient
  Ratio,  // divides by it, takes its logarithm or its sign: the error must be small beside the value
  Exact,    // compares it with another value, or is statistics that much hangs on
  Test,     // only asks on which side of a limit the value lies
  Unknown,  // a function written in Python
};

namespace detail {

// Whether the text is where(c, p, q) with the word in c alone.
constexpr bool is_choice_by(std::string_view text, std::string_view word) {
  constexpr std::string_view kWhere = "where(";
  if (!text.starts_with(kWhere) || group_end(text, kWhere.size() - 1) != text.size()) return false;
  int depth = 0;
  for (size_t at = kWhere.size(); at < text.size(); ++at) {
    if (text[at] == '(') ++depth;
    if (text[at] == ')') --depth;
    if (text[at] == ',' && depth == 0)
      return mentions(text.substr(0, at), word) && !mentions(text.substr(at), word);
  }
  return false;
}

// What follows at `at`: a group in parentheses, a number, a name, or a call.
constexpr std::string_view factor_at(std::string_view text, size_t at) {
  while (at < text.size() && text[at] == ' ') ++at;
  size_t end = at;
  while (end < text.size() && (is_word(text[end]) || text[end] == '.')) ++end;
  if (end < text.size() && text[end] == '(') end = group_end(text, end);
  return text.substr(at, end - at);
}

constexpr bool divides_by(std::string_view text, std::string_view word) {
  for (size_t at = text.find('/'); at != std::string_view::npos; at = text.find('/', at + 1))
    if (mentions(factor_at(text, at + 1), word)) return true;
  return false;
}

// Whether the word stands among the arguments of a function that magnifies small errors.
constexpr bool is_magnified(std::string_view text, std::string_view word) {
  for (std::string_view name :
       {"log", "log1p", "rsqrt", "pow", "digamma", "polygamma", "sign", "floor_divide", "div_trunc",
        "zeta", "gamma_density", "bessel_y0", "bessel_y1", "modified_bessel_k0",
        "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1"})
    for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
      const size_t open = at + name.size();
      const bool starts = at == 0 || !is_word(text[at - 1]);
      if (starts && open < text.size() && text[open] == '(' &&
          mentions(text.substr(open, group_end(text, open) - open), word))
        return true;
    }
  return false;
}

constexpr bool is_comparison(char c) { return c == '<' || c == '>' || c == '=' || c == '!'; }

constexpr bool is_operand(std::string_view word) {
  return word == "a" || word == "b" || word == "c" || word == "y";
}

struct Comparisons {
  bool any = false;
  bool of_operands = false;  // one operand with another, rather than with a number
};

constexpr Comparisons comparisons(std::string_view text) {
  Comparisons found;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!is_comparison(text[at])) continue;
    size_t begin = at, end = at;
    while (end < text.size() && is_comparison(text[end])) ++end;
    while (begin > 0 && text[begin - 1] == ' ') --begin;
    size_t left = begin;
    while (left > 0 && is_word(text[left - 1])) --left;
    found.any = true;
    if (is_operand(text.substr(left, begin - left)) && is_operand(factor_at(text, end)))
      found.of_operands = true;
    at = end;
  }
  return found;
}

}  // namespace detail

// How a derivative of that text reads the operand.
constexpr SavedUse use_in(std::string_view text, std::string_view word, int arity) {
  if (!mentions(text, word)) return SavedUse::Smooth;
  if (arity == 1 && detail::is_choice_by(text, word)) return SavedUse::Test;
  const detail::Comparisons compares = detail::comparisons(text);
  if (compares.of_operands) return SavedUse::Exact;
  if (compares.any || detail::divides_by(text, word) || detail::is_magnified(text, word))
    return SavedUse::Ratio;
  return SavedUse::Smooth;
}

}  // namespace tapegrad
