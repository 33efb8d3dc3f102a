#include "api/json.h"

#include <charconv>

#include "core/error.h"

namespace tapegrad::api {

namespace {

constexpr int kDeepest = 32;

}  // namespace

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  Json whole() {
    Json value = read(0);
    skip_space();
    if (at_ != text_.size()) refuse();
    return value;
  }

 private:
  [[noreturn]] void refuse() const {
    fail<ValueError>("expected JSON, got something else at byte ", at_);
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string::npos)
      ++at_;
  }
  char peek() {
    skip_space();
    if (at_ >= text_.size()) refuse();
    return text_[at_];
  }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) refuse();
  }
  bool take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Json read(int depth) {
    if (depth > kDeepest) refuse();
    Json value;
    const char first = peek();
    if (first == '{') read_object(value, depth);
    else if (first == '[') read_list(value, depth);
    else if (first == '"') {
      value.kind_ = Json::Kind::String;
      value.string_ = read_string();
    } else if (take_word("null")) {
      value.kind_ = Json::Kind::Null;
    } else if (take_word("true") || take_word("false")) {
      value.kind_ = Json::Kind::Bool;
      value.bool_ = text_[at_ - 2] == 'u';
    } else {
      read_number(value);
    }
    return value;
  }

  void read_object(Json& value, int depth) {
    value.kind_ = Json::Kind::Object;
    expect('{');
    if (take('}')) return;
    do {
      if (peek() != '"') refuse();
      std::string key = read_string();
      expect(':');
      value.object_.emplace_back(std::move(key), read(depth + 1));
    } while (take(','));
    expect('}');
  }

  void read_list(Json& value, int depth) {
    value.kind_ = Json::Kind::List;
    expect('[');
    if (take(']')) return;
    do value.list_.push_back(read(depth + 1));
    while (take(','));
    expect(']');
  }

  void read_number(Json& value) {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           std::string_view("+-0123456789.eE").find(text_[at_]) != std::string::npos)
      ++at_;
    const std::string_view digits = text_.substr(begin, at_ - begin);
    const char *first = digits.data(), *last = first + digits.size();
    const bool is_whole = digits.find_first_of(".eE") == std::string::npos;
    std::from_chars_result result{};
    if (is_whole) {
      value.kind_ = Json::Kind::Int;
      result = std::from_chars(first, last, value.int_);
    } else {
      value.kind_ = Json::Kind::Float;
      result = std::from_chars(first, last, value.float_);
    }
    if (digits.empty() || result.ec != std::errc() || result.ptr != last) refuse();
  }

  unsigned read_code() {
    unsigned code = 0;
    if (at_ + 4 > text_.size()) refuse();
    const char* first = text_.data() + at_;
    if (std::from_chars(first, first + 4, code, 16).ptr != first + 4) refuse();
    at_ += 4;
    return code;
  }

  static void append_code(std::string& text, unsigned code) {
    auto put = [&](unsigned bits) { text += static_cast<char>(bits); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
      put(0xC0 | code >> 6);
    } else {
      if (code < 0x10000) {
        put(0xE0 | code >> 12);
      } else {
        put(0xF0 | code >> 18);
        put(0x80 | (code >> 12 & 0x3F));
      }
      put(0x80 | (code >> 6 & 0x3F));
    }
    put(0x80 | (code & 0x3F));
  }

  std::string read_string() {
    std::string text;
    ++at_;
    while (true) {
      if (at_ >= text_.size()) refuse();
      const char c = text_[at_++];
      if (c == '"') return text;
      if (c != '\\') {
        text += c;
        continue;
      }
      if (at_ >= text_.size()) refuse();
      read_escape(text);
    }
  }

  void read_escape(std::string& text) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const char c = text_[at_++];
    if (c != 'u') {
      const size_t known = kNames.find(c);
      if (known == std::string::npos) refuse();
      text += kMeanings[known];
      return;
    }
    unsigned code = read_code();
    if (code >= 0xD800 && code < 0xDC00 && take_word("\\u"))
      code = 0x10000 + ((code - 0xD800) << 10) + (read_code() - 0xDC00);
    append_code(text, code);
  }

  std::string_view text_;
  size_t at_ = 0;
};

Json Json::parse(std::string_view text) { return JsonReader(text).whole(); }

void Json::expect(Kind kind, const char* what) const {
  TAPEGRAD_CHECK_AS(ValueError, kind_ == kind, "expected ", what, ", got something else");
}
bool Json::boolean() const {
  expect(Kind::Bool, "true or false");
  return bool_;
}
int64_t Json::integer() const {
  expect(Kind::Int, "a whole number");
  return int_;
}
double Json::number() const {
  if (kind_ == Kind::Int) return static_cast<double>(int_);
  expect(Kind::Float, "a number");
  return float_;
}
const std::string& Json::string() const {
  expect(Kind::String, "a text");
  return string_;
}
const std::vector<Json>& Json::list() const {
  expect(Kind::List, "a list");
  return list_;
}
const std::vector<std::pair<std::string, Json>>& Json::object() const {
  expect(Kind::Object, "an object");
  return object_;
}
const Json& Json::at(size_t i) const {
  TAPEGRAD_CHECK_AS(ValueError, i < list().size(), "expected more than ", i, " elements of a list");
  return list_[i];
}
const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : object())
    if (name == key) return &value;
  return nullptr;
}
const Json& Json::at(std::string_view key) const {
  const Json* found = find(key);
  TAPEGRAD_CHECK_AS(ValueError, found, "expected '", key, "', got none");
  return *found;
}

}  // namespace tapegrad::api
